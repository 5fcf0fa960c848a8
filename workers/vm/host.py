"""Switches a virtual testbed on and makes it reachable by ssh.

Generator and receiver run on this host with the usual commands; those that use a data port are in
a folder of the virtual machine.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from netbisect.bisect.model.entities import Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.vm import GUEST_ALIAS, GUEST_SSH_CONFIG, WIRE_PROGRAMS, Vm
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.ssh import escape_tokens
from netbisect.workers.vm import vm

KEY, KNOWN_HOSTS = "id_ed25519", "known_hosts"
_SHIMS = ("pkt-gen", "ifconfig", "pkill")


def furnish(machine: Vm, line_rate_pps: float) -> None:
    """Writes ssh configuration and programs for the current lab file."""
    folder = machine.directory
    quoted = escape_tokens(str(folder))
    _replace(
        folder / GUEST_SSH_CONFIG,
        f"Host *\n  HostName 127.0.0.1\n  Port {machine.ssh_port}\n  User root\n"
        f"  HostKeyAlias {GUEST_ALIAS}\n  IdentitiesOnly yes\n"
        f'  IdentityFile "{quoted}/{KEY}"\n  UserKnownHostsFile "{quoted}/{KNOWN_HOSTS}"\n',
    )
    programs = folder / WIRE_PROGRAMS
    programs.mkdir(exist_ok=True)
    search = os.environ.get("PYTHONPATH", "")
    way = ["env", f"PYTHONPATH={search}"] if search else []
    python = [*way, sys.executable, "-P", "-m", "netbisect.workers.vm.pktgen"]
    for name in _SHIMS:
        words = [*vm.pinned(machine.traffic_cpus), *python, str(folder), f"{line_rate_pps:g}", name]
        _replace(programs / name, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', 0o755)


def _replace(place: Path, text: str, mode: int = 0o644) -> None:
    """Writes a file; a process that reads it now has the old one, whole."""
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.rename(place)


def switch_on(testbed: Testbed) -> bool:
    """Starts the virtual machine if it is off; returns whether it was.

    Raises:
        LabFault: QEMU does not start.
    """
    if testbed.vm is None:
        return False
    try:
        started = vm.start(testbed.vm)
        furnish(testbed.vm, testbed.line_rate_pps)
    except (vm.VmError, OSError) as error:
        why = f"{testbed.name}: {error}"
        raise LabFault(Fault.POWER_SWITCH, why, stage=Stage.DEPLOY) from error
    return started
