"""The table of the lab file for a DUT that is a virtual machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ADDRESS = "vm"
"""What the lab file calls a virtual DUT, and the host's ends of its data ports."""
GUEST_MARK, HOST_MARK = "vm-guest:", "vm-host:"
"""What these addresses begin with once the file is loaded; the machine's folder follows."""
GUEST_SSH_CONFIG, GUEST_ALIAS = "ssh_config", "netbisect-guest"
"""In the machine's folder: how ssh reaches the guest, by this name whichever its port."""
WIRE_PROGRAMS = "bin"
"""There too: the folder of what speaks for the host's ends of the wires."""
_EMULATOR = "tcg"
_ACCELERATORS = ("kvm", _EMULATOR)
_INSTRUCTIONS = "instructions"
_CLOCKS = ("seconds", _INSTRUCTIONS)
SECOND = 20_000_000
"""Instructions of the guest that stand for a second where instructions are counted."""
_CPUS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*\Z")
_LEAST_MEMORY = 128


def _check(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Vm:
    """A DUT that is a guest of QEMU on the host of its worker."""

    directory: Path
    """Disks, keys, sockets and console; made by `netbisect-lab vm prepare`."""
    accelerator: str = "kvm"
    """kvm, or tcg, which emulates the processor."""
    clock: str = "seconds"
    """seconds, or instructions: what rates are counted by."""
    memory: int = 1024
    """MiB."""
    processors: int = 1
    ssh_port: int = 2201
    """Port of 127.0.0.1 that leads to the guest's sshd."""
    cpus: str = ""
    """Processors of the host that QEMU may use, such as 2-3; any when empty."""
    traffic_cpus: str = ""
    """Those that generator and receiver may use."""
    qemu: str = "qemu-system-x86_64"
    """Program, version 7.2 or later."""

    def __post_init__(self) -> None:
        _check(
            self.accelerator in _ACCELERATORS,
            f"accelerator {self.accelerator!r}: expected 'kvm' or 'tcg'",
        )
        _check(self.clock in _CLOCKS, f"clock {self.clock!r}: expected 'seconds' or 'instructions'")
        _check(
            not self.by_instructions or (self.accelerator == _EMULATOR and self.processors == 1),
            "clock 'instructions': expected accelerator 'tcg' and one processor",
        )
        _check(
            self.memory >= _LEAST_MEMORY,
            f"memory {self.memory}: expected MiB, {_LEAST_MEMORY} or more",
        )
        _check(self.processors >= 1, f"processors {self.processors}: expected 1 or more")
        _check(0 < self.ssh_port < 1 << 16, f"ssh_port {self.ssh_port}: expected 1 to 65535")
        for name in ("cpus", "traffic_cpus"):
            text = getattr(self, name)
            _check(
                not text or _CPUS.match(text),
                f"{name} {text!r}: expected processors such as 2-3 or 0,2",
            )

    @property
    def by_instructions(self) -> bool:
        """Whether packets are counted per instruction of the guest, not per second."""
        return self.clock == _INSTRUCTIONS

    @property
    def mark(self) -> str:
        """What reports must say of whatever is measured on it."""
        if self.by_instructions:
            return f"a virtual machine, emulated: its rates are packets in {SECOND:,} instructions"
        if self.accelerator == _EMULATOR:
            return "a virtual machine, emulated: not comparable with anything else"
        return "a virtual machine: not comparable with hardware"
