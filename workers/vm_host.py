"""Brings a virtual testbed to where a visit finds a physical one: on, and reached by ssh.

What a bench does on a generator or a receiver it does on this host, with the same commands. Those
that mean a data port are written into a folder of the virtual machine.
"""

from __future__ import annotations

import os
import shlex
import sys

from netbisect.bisect.faults import Fault
from netbisect.workers import vm
from netbisect.workers.faults import LabFault
from netbisect.workers.lab import Testbed
from netbisect.workers.lab_vm import GUEST_ALIAS, GUEST_SSH_CONFIG, WIRE_PROGRAMS, Vm

KEY, KNOWN_HOSTS = "id_ed25519", "known_hosts"
_SHIMS = ("pkt-gen", "ifconfig", "pkill")


def furnish(machine: Vm, line_rate_pps: float) -> None:
    """Writes what leads to the guest and to the wires, by the lab file as it is now."""
    folder = machine.directory
    (folder / GUEST_SSH_CONFIG).write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {machine.ssh_port}\n  User root\n"
        f"  HostKeyAlias {GUEST_ALIAS}\n  IdentitiesOnly yes\n"
        f'  IdentityFile "{folder / KEY}"\n  UserKnownHostsFile "{folder / KNOWN_HOSTS}"\n'
    )
    programs = folder / WIRE_PROGRAMS
    programs.mkdir(exist_ok=True)
    search = os.environ.get("PYTHONPATH", "")
    way = ["env", f"PYTHONPATH={search}"] if search else []
    python = [*way, sys.executable, "-P", "-m", "netbisect.workers.vm_wire"]
    for name in _SHIMS:
        of = [str(folder), f"{line_rate_pps:g}", machine.clock]
        words = [*vm.traffic_prefix(machine), *python, *of, name]
        place = programs / name
        fresh = programs / f".{name}.new"
        fresh.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        fresh.chmod(0o755)
        fresh.rename(place)  # one that runs has its own


def switch_on(testbed: Testbed) -> bool:
    """Starts a testbed's virtual machine if it has one that is off; whether it did.

    Raises:
        LabFault: it cannot be started.
    """
    if testbed.vm is None:
        return False
    try:
        started = vm.start(testbed.vm)
        furnish(testbed.vm, testbed.line_rate_pps)
    except (vm.VmError, OSError) as error:
        raise LabFault.of(Fault.POWER_SWITCH, f"{testbed.name}: {error}") from error
    return started
