"""Identifies the running kernel, and selects the programs shipped with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netbisect.workers.config.dut import TOOLS, TOOLS_FOLDER
from netbisect.workers.transport.errors import CommandError
from netbisect.workers.transport.ssh import Machine

_BOOTTIME = re.compile(r"sec = ([0-9]{1,12}), usec = ([0-9]{1,6})\b")
_OIDS = ("kern.bootfile", "kern.boottime", "kern.ident", "kern.build_id")


@dataclass(frozen=True, slots=True)
class RunningKernel:
    """Identity of the running kernel."""

    bootfile: str
    """kern.bootfile, such as /boot/kernel/kernel."""
    boottime: float
    """Seconds since the epoch by the machine's clock; changes when the clock is set."""
    version: str
    """uname -v"""
    environment: dict[str, str]
    """kenv(1)"""
    ident: str = ""
    """kern.ident"""
    build_id: str = ""
    """kern.build_id in hex, or "" with old kernels."""

    @property
    def directory(self) -> str:
        """Folder of the running kernel below /boot."""
        return self.bootfile.removeprefix("/boot/").rpartition("/")[0]

    @property
    def root(self) -> str:
        """Device of the root file system, such as ufs:/dev/gpt/BSDRP1, or ""."""
        return self.environment.get("vfs.root.mountfrom", "")


def read_running_kernel(machine: Machine) -> RunningKernel:
    """The running kernel; raises what `Machine.run` raises."""
    # -i: kernels of old do not know all of them.
    out = machine.run(["sysctl", "-ie", *_OIDS], ["uname", "-v"], ["kenv"]).splitlines()
    values = dict(line.split("=", 1) for line in out if line.startswith(_OIDS) and "=" in line)
    rest = [line for line in out if line.partition("=")[0] not in _OIDS]
    boottime = _BOOTTIME.search(values.get("kern.boottime", ""))
    if boottime is None or "kern.bootfile" not in values or not rest:
        raise CommandError(machine.address, "sysctl kern.boottime", 0, "\n".join(out))
    environment = {}
    for line in rest[1:]:
        name, equals, value = line.partition("=")
        if equals:
            environment[name] = value.strip('"')
    return RunningKernel(
        values["kern.bootfile"],
        int(boottime[1]) + int(boottime[2]) / 1e6,
        rest[0],
        environment,
        values.get("kern.ident", ""),
        values.get("kern.build_id", ""),
    )


def use_shipped_tools(machine: Machine) -> None:
    """Makes commands on a DUT use the programs shipped with its kernel.

    Raises what `Machine.run` raises.
    """
    bootfile = machine.run(["sysctl", "-n", "kern.bootfile"]).strip()
    folder = f"{bootfile.rpartition('/')[0]}/{TOOLS_FOLDER}"
    names = machine.ask(["ls", "-1", folder])[0].split()
    machine.programs = {name: f"{folder}/{name}" for name in names if name in TOOLS}
