"""`[testbeds.vm]` of the lab file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from netbisect.workers.config.validation import check, check_choice, check_form

ADDRESS = "vm"
"""Address of a virtual DUT and of its generator and receiver in the lab file."""
GUEST_MARK, HOST_MARK = "vm-guest:", "vm-host:"
"""Prefixes that replace `ADDRESS` when the file is loaded; the machine's folder follows."""
GUEST_SSH_CONFIG, GUEST_ALIAS = "ssh_config", "netbisect-guest"
"""ssh configuration in the machine's folder, and the alias of the guest in it."""
WIRE_PROGRAMS = "bin"
"""Subfolder with the generator and receiver programs."""
_EMULATOR = "tcg"
_ACCELERATORS = ("kvm", _EMULATOR)
_CPUS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*\Z")
_LEAST_MEMORY = 128


@dataclass(frozen=True, slots=True)
class Vm:
    """A DUT that is a QEMU guest on the worker's host."""

    directory: Path
    """Disks, keys, sockets and console; created by `netbisect-lab vm prepare`."""
    accelerator: str = "kvm"
    """kvm, or tcg (emulation)."""
    memory: int = 1024
    """MiB."""
    processors: int = 1
    ssh_port: int = 2201
    """Port of the guest's sshd on 127.0.0.1."""
    cpus: str = ""
    """Host processors for QEMU, such as 2-3; empty: any."""
    traffic_cpus: str = ""
    """Host processors for generator and receiver."""
    qemu: str = "qemu-system-x86_64"
    """Program, version 7.2 or later."""

    def __post_init__(self) -> None:
        check_choice(self, "accelerator", _ACCELERATORS)
        check(
            self.memory >= _LEAST_MEMORY,
            f"memory {self.memory}: expected MiB, {_LEAST_MEMORY} or more",
        )
        check(self.processors >= 1, f"processors {self.processors}: expected 1 or more")
        check(0 < self.ssh_port < 1 << 16, f"ssh_port {self.ssh_port}: expected 1 to 65535")
        for name in ("cpus", "traffic_cpus"):
            check_form(self, name, _CPUS, "processors such as 2-3 or 0,2")

    @property
    def mark(self) -> str:
        """Notice about the machine for reports."""
        if self.accelerator == _EMULATOR:
            return "a virtual machine, emulated: not comparable with anything else"
        return "a virtual machine: not comparable with hardware"
