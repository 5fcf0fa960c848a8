"""`[testbeds.dut]` of the lab file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netbisect.workers.config.validation import (
    HASH,
    IDENT,
    SSH_NAME,
    check,
    check_choice,
    check_form,
)

_ABSOLUTE = re.compile("/")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
_PCI = re.compile(r"pci\d+:\d+:\d+:\d+\Z")
_EVENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,=:+-]*\Z")
TOOLS = ("pfctl", "ipfw", "ifconfig", "netstat")
"""Programs with an interface to the kernel that changes between versions."""
TOOLS_FOLDER = "netbisect-tools"
"""Folder beside a kernel with the programs that are shipped with it."""


@dataclass(frozen=True, slots=True)
class PortSelector:
    """A network interface, by name, MAC or PCI address; drivers may rename interfaces."""

    interface: str = ""
    mac: str = ""
    pci: str = ""
    """As in pciconf(8): `pci0:2:0:0`."""

    def __post_init__(self) -> None:
        keys = [self.interface, self.mac, self.pci]
        check(sum(map(bool, keys)) == 1, "expected one of `interface`, `mac` and `pci`")
        check_form(self, "pci", _PCI, "domain, bus, slot and function, as pci0:2:0:0")
        pairs = "six pairs of lower-case hex digits, as 00:1b:21:c4:95:7a"
        check_form(self, "mac", _MAC, pairs)

    @property
    def text(self) -> str:
        """The decisive key's value."""
        return self.mac or self.pci or self.interface


@dataclass(frozen=True, slots=True)
class NanoBsd:
    """GPT labels of two root partitions on one disk."""

    good: str
    """Label of the known-good partition, such as BSDRP1."""
    test: str
    """Label of the partition for test kernels, such as BSDRP2."""

    def __post_init__(self) -> None:
        for name in ("good", "test"):
            check_form(self, name, IDENT, "a GPT label, such as BSDRP1", optional=False)
        check(self.good != self.test, f"good and test are both {self.good!r}: expected two labels")


@dataclass(frozen=True, slots=True)
class Pxe:
    """A root file system on an NFS server."""

    server: str
    """ssh name of the server; it runs FreeBSD."""
    root: str
    """Absolute path of the DUT's root on the server."""

    def __post_init__(self) -> None:
        check_form(self, "server", SSH_NAME, "an ssh name", optional=False)
        check_form(self, "root", _ABSOLUTE, "an absolute path on the server", optional=False)


BOOT_METHODS = {
    "nextboot": "netbisect.workers.dut.nextboot:NextbootUfs",
    "nextboot-zfs": "netbisect.workers.dut.nextboot:NextbootZfs",
    "bootenv": "netbisect.workers.dut.boot_environment:BootEnvironment",
    "nanobsd": "netbisect.workers.dut.nanobsd:NanoBsdBoot",
    "pxe": "netbisect.workers.dut.pxe:PxeBoot",
}
"""Class by value of `deploy`; docs/boot-methods.md shows how to add one."""


@dataclass(frozen=True, slots=True)
class Dut:
    """The device under test: a FreeBSD router with two data ports."""

    address: str
    """ssh name, on the management network."""
    ingress: PortSelector
    """Port towards the first generator."""
    egress: PortSelector
    """Port towards the first receiver."""
    known_good: str = "kernel"
    """Folder of the known-good kernel below /boot."""
    kept_kernels: int = 2
    """Number of test kernels kept on its disk."""
    userland: str = ""
    """Full hash of the revision of its programs; empty: they fit all kernels."""
    tools: tuple[str, ...] | None = None
    """Programs to ship with kernels they do not fit; None: those of its scenarios."""
    deploy: str = "nextboot"
    """Boot method; a key of `BOOT_METHODS`."""
    nanobsd: NanoBsd | None = None
    pxe: Pxe | None = None
    watchdog: int = 0
    """Seconds until the hardware watchdog resets a hung test kernel; 0: no watchdog."""
    pmc_event: str = ""
    """Event for pmcstat(8); empty: a common one of its processor."""

    def __post_init__(self) -> None:
        check_form(self, "address", SSH_NAME, "an ssh name", optional=False)
        check_form(self, "userland", HASH, "the full hash of a commit")
        check_form(self, "known_good", IDENT, "a folder of /boot, such as kernel", optional=False)
        for name in self.tools or ():
            check(name in TOOLS, f"tools: {name!r}: expected some of {', '.join(TOOLS)}")
        methods = f"one of {', '.join(map(repr, BOOT_METHODS))}"
        check_choice(self, "deploy", BOOT_METHODS, methods)
        for name in ("nanobsd", "pxe"):
            there = getattr(self, name) is not None
            check(
                there == (self.deploy == name),
                f"{name}: expected this table because of deploy = {name!r}"
                if not there
                else f"{name}: expected deploy = {name!r} where this table is",
            )
        check(self.kept_kernels >= 0, f"kept_kernels {self.kept_kernels}: expected 0 or more")
        check(self.watchdog >= 0, f"watchdog {self.watchdog}: expected seconds, or 0 for none")
        check_form(self, "pmc_event", _EVENT, "a name that `pmccontrol -L` lists")
