"""lab.toml: the machines, what is connected to what, and which scenarios run where.

docs/lab.md explains every key. The classes here *are* the schema: a key that is not a field
is refused with its place and what would be right.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TypeVar

from netbisect.bisect.subject import PATCH_MARK
from netbisect.workers import tomlfile
from netbisect.workers.lab_vm import ADDRESS, GUEST_MARK, HOST_MARK, Vm
from netbisect.workers.space import bytes_of
from netbisect.workers.tomlfile import FileError, Scalar

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
_FRAME_BYTES = 24
"""CRC, preamble and gap, which a packet takes on the wire besides."""
_SHORTEST_RUN = 25
_PKT_GEN_PORT = 1234
"""What pkt-gen takes where a range names none."""
_PCI = re.compile(r"pci\d+:\d+:\d+:\d+\Z")
_MOST_LAYOUTS = 99
_HASH = re.compile(r"[0-9a-f]{40}\Z")
_SYSCTL = re.compile(
    r"(?:[\w%-]|\{(?:ingress|egress)\})+(?:\.(?:[\w%-]|\{(?:ingress|egress)\})+)+\Z"
)
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\Z")
FIREWALL_MODULES = ("pf", "pflog", "ipfw", "ipfw_nat", "libalias", "dummynet")
"""Those of all firewalls: kernels are kept for long, and a scenario may be added meanwhile."""
TOOLS = ("pfctl", "ipfw", "ifconfig", "netstat")
"""Programs that speak to the kernel in structures of its own."""
TOOL_MODULES = ("hwpmc", "coretemp", "amdtemp")
"""Profiles and temperatures."""
_EVENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,=:+-]*\Z")
_IDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def _check(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_name(name: str) -> None:
    _check(
        _NAME.match(name),
        f"name {name!r}: expected lower-case letters, digits, '.', '_' or '-', at most 63",
    )


def _check_modules(names: Iterable[str]) -> None:
    for name in names:
        _check(
            _MODULE.match(name), f"modules: {name!r} is no folder of sys/modules, such as if_ovpn"
        )


def _check_space(name: str, text: str) -> None:
    try:
        bytes_of(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def _check_once(kind: str, names: list[str]) -> None:
    for name in names:
        _check(names.count(name) == 1, f"two {kind}s are named {name!r}")


@dataclass(frozen=True, slots=True)
class Ssh:
    """How machines are reached: OpenSSH with your own configuration and keys."""

    config: Path | None = None
    """OpenSSH configuration file; ~/.ssh/config when absent. Relative to lab.toml."""
    connect_timeout: int = 10
    """Seconds until a machine that does not answer counts as down."""
    command_timeout: int = 60
    """Seconds until a simple command on a machine counts as hung."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A fix that is applied to a stretch of the tree that is broken without it."""

    name: str
    """As reports name it; a changed patch takes a new name, for kernels are kept by it."""
    patch: Path
    """As `git diff` writes it. Relative to lab.toml."""
    first: str
    """Full hash of the first commit that it is applied to."""
    last: str
    """Full hash of the last one, on the first-parent line that leads from the first."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check(
            not PATCH_MARK.match(self.name),
            f"name {self.name!r}: expected another one, for patches given by hand are called so",
        )
        for name in ("first", "last"):
            revision = getattr(self, name)
            _check(
                _HASH.match(revision), f"{name} {revision!r}: expected the full hash of a commit"
            )


@dataclass(frozen=True, slots=True)
class Source:
    """The tree under watch."""

    repository: str
    """Anything `git clone` accepts."""
    overlays: tuple[Overlay, ...] = ()
    kernel_configs: Path | None = None
    """Folder with kernel configurations of your own. Relative to lab.toml."""
    review_url: str = "https://reviews.freebsd.org/{review}?download=true"
    """Where the diff of a review is, as Phabricator gives it; `{review}` stands for D5180."""
    revisions: Path | None = None
    """Table of numbers of Subversion, which the master alone reads. Relative to lab.toml."""

    def __post_init__(self) -> None:
        _check(
            self.review_url.startswith(("http://", "https://")) and "{review}" in self.review_url,
            f"review_url {self.review_url!r}: expected http:// or https://, and {{review}} in it",
        )
        _check_once("overlay", [overlay.name for overlay in self.overlays])

    def overlay(self, name: str) -> Overlay:
        """The overlay of that name; `FileError` with the known names otherwise."""
        return _named(self.overlays, name, "overlay")


@dataclass(frozen=True, slots=True)
class Builder:
    """A host that builds kernels."""

    name: str
    arch: str
    directory: Path
    """Clone, objects and finished kernels; tens of gigabytes for a FreeBSD tree."""
    worker: str = ""
    """Name of its Buildbot worker; the builder's own name when absent."""
    make: tuple[str, ...] = ()
    """The make that builds the tree; `make`, or the tree's own make.py when cross-building."""
    cross_bindir: Path | None = None
    """Where clang and ld.lld are on a host that is not FreeBSD; in `--cross-bindir` of make.py."""
    jobs: int = 1
    options: tuple[str, ...] = ()
    """More arguments of make, such as WITHOUT_META_MODE=yes."""
    modules: tuple[str, ...] | None = None
    """Kernel modules to build; all when empty, what the testbeds need when absent."""
    build_timeout: int = 7200
    """Seconds; of each call of make."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check(_IDENT.match(self.arch), f"arch {self.arch!r}: expected a name such as amd64")
        _check_modules(self.modules or ())
        _check(
            self.cross_bindir is None or self.cross_bindir.is_absolute(),
            f"cross_bindir {self.cross_bindir}: expected a path that begins with /",
        )
        _check(self.jobs >= 1, f"jobs {self.jobs}: expected 1 or more")
        _check(self.build_timeout > 0, f"build_timeout {self.build_timeout}: expected seconds > 0")

    @property
    def make_command(self) -> list[str]:
        """The make, with what it needs to know to cross-build."""
        if self.cross_bindir is None:
            return [*(self.make or ("make",))]
        own = self.make or ("tools/build/make.py",)
        return [*own, f"--cross-bindir={self.cross_bindir}"]

    @property
    def kernels(self) -> Path:
        """Folder of its finished kernels, an artefact store."""
        return self.directory / "kernels"

    @property
    def patches(self) -> Path:
        """Folder of the patches that it was given."""
        return self.directory / "patches"


@dataclass(frozen=True, slots=True)
class Port:
    """A network interface: by name or, since drivers rename them, by MAC or PCI address."""

    interface: str = ""
    mac: str = ""
    pci: str = ""
    """As pciconf(8) writes it: `pci0:2:0:0`."""

    def __post_init__(self) -> None:
        _check(self.interface or self.mac or self.pci, "expected `interface`, `mac` or `pci`")
        _check(
            not self.pci or _PCI.match(self.pci),
            f"pci {self.pci!r}: expected domain, bus, slot and function, as pci0:2:0:0",
        )
        _check(
            not self.mac or _MAC.match(self.mac),
            f"mac {self.mac!r}: expected six pairs of lower-case hex digits, as 00:1b:21:c4:95:7a",
        )


@dataclass(frozen=True, slots=True)
class NanoBsd:
    """Two root partitions on one disk with GPT, by their labels."""

    good: str
    """Label of the partition to come back to, such as BSDRP1."""
    test: str
    """Label of the one that test kernels are written to, such as BSDRP2."""

    def __post_init__(self) -> None:
        for name in ("good", "test"):
            _check(
                _IDENT.match(getattr(self, name)),
                f"{name} {getattr(self, name)!r}: expected a GPT label, such as BSDRP1",
            )
        _check(self.good != self.test, f"good and test are both {self.good!r}: expected two labels")


@dataclass(frozen=True, slots=True)
class Pxe:
    """A root file system on an NFS server."""

    server: str
    """Name for ssh; FreeBSD."""
    root: str
    """Absolute path of the DUT's root there."""

    def __post_init__(self) -> None:
        _check(
            self.root.startswith("/"),
            f"root {self.root!r}: expected an absolute path on the server",
        )


_WAYS = ("nextboot", "nanobsd", "pxe")


@dataclass(frozen=True, slots=True)
class Dut:
    """The device under test: a FreeBSD router with two data ports."""

    address: str
    """Name for ssh; on the management network."""
    ingress: Port
    """Port that faces the generator."""
    egress: Port
    """Port that faces the receiver."""
    known_good: str = "kernel"
    """Directory below /boot of the kernel to come back to."""
    kept_kernels: int = 2
    """Test kernels left on its disk."""
    userland: str = ""
    """Full hash of the revision that its programs are of; they fit all kernels when absent."""
    tools: tuple[str, ...] | None = None
    """Programs that travel with kernels they do not fit; those of its scenarios when absent."""
    deploy: str = "nextboot"
    """How a kernel is booted once: nextboot, nanobsd or pxe."""
    nanobsd: NanoBsd | None = None
    pxe: Pxe | None = None
    watchdog: int = 0
    """Seconds after which the hardware's watchdog resets a test kernel that hangs; 0: unused."""
    pmc_event: str = ""
    """What pmcstat(8) samples by; empty: a common one that its processor knows."""

    def __post_init__(self) -> None:
        _check(
            not self.userland or _HASH.match(self.userland),
            f"userland {self.userland!r}: expected the full hash of a commit",
        )
        for name in self.tools or ():
            _check(name in TOOLS, f"tools: {name!r}: expected some of {', '.join(TOOLS)}")
        _check(
            self.deploy in _WAYS,
            f"deploy {self.deploy!r}: expected {', '.join(map(repr, _WAYS[:-1]))} or {_WAYS[-1]!r}",
        )
        for name in _WAYS[1:]:
            there = getattr(self, name) is not None
            _check(
                there == (self.deploy == name),
                f"{name}: expected this table because of deploy = {name!r}"
                if not there
                else f"{name}: expected deploy = {name!r} where this table is",
            )
        _check(self.watchdog >= 0, f"watchdog {self.watchdog}: expected seconds, or 0 for none")
        _check(
            not self.pmc_event or _EVENT.match(self.pmc_event),
            f"pmc_event {self.pmc_event!r}: expected a name that `pmccontrol -L` lists",
        )


@dataclass(frozen=True, slots=True)
class TrafficHost:
    """A host with a netmap port: generator or receiver."""

    address: str
    port: Port


@dataclass(frozen=True, slots=True)
class Power:
    """How to switch the DUT off and on when it no longer answers."""

    cycle: tuple[str, ...]
    """Command run on the worker, such as ipmitool."""
    timeout: int = 60


@dataclass(frozen=True, slots=True)
class Console:
    """Where the DUT's console can be read."""

    command: tuple[str, ...]
    """Command run on the worker that prints the console until it is stopped."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What to wait for, in seconds."""

    boot_timeout: float = 600.0
    """From the order to reboot until the machine must answer."""
    poll: float = 2.0
    """Between two looks whether it answers."""
    settle: float = 5.0
    """Between the receiver's readiness and the generator's start: opening a port bounces links."""
    link_wait: int = 2
    """What pkt-gen itself waits after it opened its port (-w)."""
    run: float = 30.0
    """Seconds of traffic per run; at least 15 of them must remain after trimming."""
    run_timeout: float = 180.0
    pause: float = 30.0
    """Before a run that was no sample is made again: heat passes, and so does other load."""

    def __post_init__(self) -> None:
        for name in ("boot_timeout", "poll", "run_timeout"):
            _check(getattr(self, name) > 0, f"{name}: expected seconds > 0")
        for name in ("settle", "link_wait", "pause"):
            _check(getattr(self, name) >= 0, f"{name}: expected 0 seconds or more")
        _check(
            self.run >= _SHORTEST_RUN,
            f"run {self.run:g}: expected {_SHORTEST_RUN} seconds or more: "
            "ten are trimmed, and 15 must remain",
        )


@dataclass(frozen=True, slots=True)
class Testbed:
    """A DUT with its generator and receiver."""

    name: str
    arch: str
    kernel_config: str
    line_rate_pps: int
    """Packets of 60 bytes without CRC per second that the generator must offer; of longer
    packets it must offer as many fewer as fit on the wire."""
    scenarios: tuple[str, ...]
    dut: Dut
    generator: TrafficHost
    receiver: TrafficHost
    description: str = ""
    """Hardware in words, for reports."""
    drivers: tuple[str, ...] = ()
    """Drivers of its data ports: commits that touch them are likelier culprits."""
    modules: tuple[str, ...] = ()
    """Kernel modules that its DUT loads besides those of firewalls and drivers."""
    worker: str = ""
    """Name of the Buildbot worker that drives it; the testbed's own name when absent."""
    owner: str = ""
    """Mail address of whoever looks after it."""
    group: str = ""
    """Name that testbeds of one make and configuration share, and with it their searches."""
    run_noise_percent: float = 0.0
    """Scatter between runs within one boot; where there is any, a boot may make several runs."""
    layouts: int = 0
    """How many further layouts of a revision a search may ask for, linked with its code at other
    addresses."""
    power: Power | None = None
    console: Console | None = None
    vm: Vm | None = None
    """Its DUT is a virtual machine; power and console are then that machine's."""
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        _check_name(self.name)
        self._check_vm()
        _check(
            _IDENT.match(self.kernel_config),
            f"kernel_config {self.kernel_config!r}: expected the name of a file in sys/ARCH/conf",
        )
        _check(
            self.line_rate_pps > 0, f"line_rate_pps {self.line_rate_pps}: expected packets/s > 0"
        )
        _check(self.scenarios, "scenarios: expected at least one")
        _check(
            not self.group or _NAME.match(self.group),
            f"group {self.group!r}: expected lower-case letters, digits, '.', '_' or '-'",
        )
        _check_modules(self.modules)
        _check(
            0 <= self.run_noise_percent < 50,  # noqa: PLR2004 - half the packets are no noise
            f"run_noise_percent {self.run_noise_percent:g}: expected 0 or more, less than 50",
        )
        _check(
            0 <= self.layouts <= _MOST_LAYOUTS,
            f"layouts {self.layouts}: expected 0 to {_MOST_LAYOUTS}",
        )

    def _check_vm(self) -> None:
        """A virtual DUT and both ends of its wires belong together."""
        ends = {
            "dut": self.dut.address,
            "generator": self.generator.address,
            "receiver": self.receiver.address,
        }
        for name, address in ends.items():
            virtual = address == ADDRESS or address.startswith((GUEST_MARK, HOST_MARK))
            _check(
                virtual == (self.vm is not None),
                f"{name}.address {address!r}: expected the table `vm` with address 'vm', and "
                "neither without the other",
            )
        if self.vm is None:
            return
        _check(self.arch == "amd64", f"arch {self.arch!r}: expected amd64 for a virtual machine")
        for name, traffic, wanted in (
            ("generator", self.generator, "ingress"),
            ("receiver", self.receiver, "egress"),
        ):
            _check(
                traffic.port.interface == wanted,
                f"{name}.port: expected {{ interface = {wanted!r} }} for a virtual machine",
            )

    def line_rate(self, size: int) -> float:
        """Packets of `size` bytes without CRC per second that the generator can offer."""
        return self.line_rate_pps * (60 + _FRAME_BYTES) / (size + _FRAME_BYTES)

    def offered_rate(self, traffic: Traffic) -> float:
        """Packets per second that the generator must offer."""
        line_rate = self.line_rate(traffic.size)
        return min(line_rate, traffic.rate) if traffic.rate else line_rate


def _check_alike(one: Testbed, other: Testbed) -> None:
    """What must be the same of all testbeds of a group, so that each can measure for the others."""
    for name, of in _ALIKE.items():
        mine, its = of(one), of(other)
        _check(
            mine == its,
            f"testbeds {one.name!r} and {other.name!r} of group {one.group!r} differ in {name}: "
            f"{mine!r} and {its!r}; expected the same of all testbeds of a group",
        )


_ALIKE: dict[str, Callable[[Testbed], object]] = {
    "arch": lambda one: one.arch,
    "kernel_config": lambda one: one.kernel_config,
    "line_rate_pps": lambda one: one.line_rate_pps,
    "scenarios": lambda one: sorted(one.scenarios),
    "drivers": lambda one: sorted(one.drivers),
    "modules": lambda one: sorted(one.modules),
    "dut.userland": lambda one: one.dut.userland,
    "dut.tools": lambda one: None if one.dut.tools is None else sorted(one.dut.tools),
    "timing.run": lambda one: one.timing.run,
}
"""By key of the lab file: what is held against each other."""


def worker_of(host: Builder | Testbed) -> str:
    """Name of the Buildbot worker of a builder or a testbed."""
    return host.worker or host.name


@dataclass(frozen=True, slots=True)
class Lab:
    """A whole lab file."""

    source: Source
    builders: tuple[Builder, ...]
    testbeds: tuple[Testbed, ...]
    ssh: Ssh = field(default_factory=Ssh)
    kernels: Path = Path("kernels")
    """Where a host that drives testbeds keeps the kernels it was sent."""
    kernel_space: str = "20 GB"
    """Disk that the finished kernels of each host may take."""
    scenario_directories: tuple[Path, ...] = ()
    """Folders with scenario files of your own, before those that ship."""

    def __post_init__(self) -> None:
        _check_space("kernel_space", self.kernel_space)
        _check(self.builders, "builders: expected at least one")
        _check(self.testbeds, "testbeds: expected at least one")
        for kind, items in (("builder", self.builders), ("testbed", self.testbeds)):
            _check_once(kind, [item.name for item in items])
        arches = {builder.arch for builder in self.builders}
        for testbed in self.testbeds:
            _check(
                testbed.arch in arches,
                f"testbed {testbed.name!r}: no builder has arch {testbed.arch!r}; "
                f"there is {', '.join(sorted(arches))}",
            )
            for mate in self.mates(testbed):
                _check_alike(testbed, mate)

    def mates(self, testbed: Testbed) -> tuple[Testbed, ...]:
        """The other testbeds of its group, in the order of the file."""
        return tuple(
            one
            for one in self.testbeds
            if testbed.group and one.group == testbed.group and one is not testbed
        )

    def modules(self, builder: Builder) -> tuple[str, ...]:
        """The modules that a builder builds, by folder of sys/modules; all of them when empty."""
        if builder.modules is not None:
            return builder.modules
        beds = [testbed for testbed in self.testbeds if testbed.arch == builder.arch]
        own = [name for bed in beds for name in (*bed.drivers, *bed.modules)]
        return tuple(dict.fromkeys([*FIREWALL_MODULES, *TOOL_MODULES, *own]))

    @property
    def by_worker(self) -> dict[str, list[Builder | Testbed]]:
        """The builders and testbeds of each Buildbot worker, by its name, in the file's order."""
        found: dict[str, list[Builder | Testbed]] = {}
        hosts: list[Builder | Testbed] = [*self.builders, *self.testbeds]
        for host in hosts:
            found.setdefault(worker_of(host), []).append(host)
        return found

    @property
    def kernel_bytes(self) -> int:
        """`kernel_space` in bytes."""
        return bytes_of(self.kernel_space)

    def testbed(self, name: str) -> Testbed:
        """The testbed of that name; `FileError` with the known names otherwise."""
        return _named(self.testbeds, name, "testbed")

    def builder(self, name: str) -> Builder:
        """The builder of that name; `FileError` with the known names otherwise."""
        return _named(self.builders, name, "builder")


_N = TypeVar("_N", Testbed, Builder, Overlay)


def _named(items: Iterable[_N], name: str, kind: str) -> _N:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items) or "none"
    raise FileError(f"there is no {kind} {name!r} in the lab file; there is {known}")


# --------------------------------------------------------------------------------- scenarios


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the generator sends."""

    family: str
    """inet4 or inet6."""
    source: str
    """pkt-gen range: address:port-address:port."""
    destination: str
    size: int = 60
    """Bytes without CRC."""
    flows: int = 0
    """How many flows the two ranges must make; 0 when nobody counted."""
    rate: int = 0
    """Packets per second to send; 0 for as many as the wire takes."""
    checksums: bool = True
    """Let the generator fill in UDP checksums (pkt-gen -U)."""

    def __post_init__(self) -> None:
        _check(
            self.family in ("inet4", "inet6"),
            f"family {self.family!r}: expected 'inet4' or 'inet6'",
        )
        _check(46 <= self.size <= 1518, f"size {self.size}: expected 46 to 1518 bytes")  # noqa: PLR2004 - Ethernet's
        _check(self.rate >= 0, f"rate {self.rate}: expected packets/s, or 0 for all the wire takes")
        made = 1
        for name in ("source", "destination"):
            made *= _check_range(name, getattr(self, name), self.family)
        _check(
            self.flows in (0, made),
            f"flows {self.flows}: the ranges of source and destination make {made}",
        )


def _check_range(name: str, text: str, family: str) -> int:
    """How many pairs of address and port the range has."""
    version = 4 if family == "inet4" else 6
    pattern = (
        r"(?P<a>[0-9.]+):(?P<p>\d+)-(?P<b>[0-9.]+)(:(?P<q>\d+))?\Z"
        if version == 4  # noqa: PLR2004
        else r"\[(?P<a>[0-9a-f:]+)\](:(?P<p>\d+))?-\[(?P<b>[0-9a-f:]+)\](:(?P<q>\d+))?\Z"
    )
    match = re.match(pattern, text)
    example = (
        "198.18.10.1:2001-198.18.10.20"
        if version == 4  # noqa: PLR2004
        else "[2001:2::1]-[2001:2::14]"
    )
    _check(match, f"{name} {text!r}: expected a range such as {example}")
    assert match is not None
    ends = []
    for group in ("a", "b"):
        try:
            address = ipaddress.ip_address(match[group])
            _check(address.version == version, "")
        except ValueError:
            raise ValueError(f"{name}: {match[group]!r} is no {family} address") from None
        ends.append(int(address))
    _check(ends[0] <= ends[1], f"{name} {text!r}: expected the lower address first")
    # pkt-gen takes the first port, or 1234, where the second is left out.
    first = int(match["p"] or _PKT_GEN_PORT)
    last = int(match["q"] or first)
    _check(first <= last, f"{name} {text!r}: expected the lower port first")
    return (ends[1] - ends[0] + 1) * (last - first + 1)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Rules, sysctls and traffic: one way of using the router."""

    name: str
    title: str
    traffic: Traffic
    firewall: str = ""
    """pf, ipfw, or nothing."""
    rules: tuple[str, ...] = ()
    """Lines of pf.conf, or arguments of `ipfw add`."""
    sysctls: dict[str, Scalar] = field(default_factory=dict)
    """Set before a run, and checked; in names, `{ingress}` and `{egress}` stand for the router's
    ports as sysctl(8) writes them: `dev.{ingress}.fc` for dev.igb.2.fc."""
    optional: dict[str, Scalar] = field(default_factory=dict)
    """The same, but only where the system knows the name: names come and go with versions."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        for key in (*self.sysctls, *self.optional):
            _check(
                _SYSCTL.match(key),
                f"sysctl {key!r}: expected a name such as net.inet.ip.redirect or "
                "dev.{ingress}.fc",
            )
        twice = ", ".join(sorted(self.sysctls.keys() & self.optional.keys()))
        _check(not twice, f"{twice}: expected in sysctls or in optional, not in both")
        _check(
            self.firewall in ("", "pf", "ipfw"),
            f"firewall {self.firewall!r}: expected 'pf', 'ipfw' or none",
        )
        _check(bool(self.firewall) == bool(self.rules), "firewall and rules go together")

    def at(self, ports: Mapping[str, str]) -> Scenario:
        """The scenario for ports of these names in sysctls: `{"ingress": "igb.2", ...}`."""

        def named(values: dict[str, Scalar]) -> dict[str, Scalar]:
            return {key.format_map(ports): value for key, value in values.items()}

        return replace(self, sysctls=named(self.sysctls), optional=named(self.optional))

    @property
    def names_ports(self) -> bool:
        """Whether a sysctl depends on what the router's ports are called."""
        return any("{" in key for key in (*self.sysctls, *self.optional))


def shipped_scenarios() -> Path:
    """The folder of the scenario files that come with netbisect."""
    return Path(str(resources.files("netbisect.workers"))) / "scenarios"


def load_scenario(name: str, folders: Sequence[Path] = ()) -> Scenario:
    """The scenario of that name, from `folders` first, then from those that ship.

    Raises:
        FileError: there is none, or its file is wrong.
    """
    places = [*folders, shipped_scenarios()]
    for folder in places:
        path = folder / f"{name}.toml"
        if path.is_file():
            scenario = tomlfile.load(path, Scenario)
            if scenario.name != name:
                raise FileError(f"{path}: name: expected {name!r}, the name of the file")
            return scenario
    known = sorted({path.stem for folder in places for path in folder.glob("*.toml")})
    raise FileError(f"there is no scenario {name!r}; there is {', '.join(known)}")


def _housed(testbed: Testbed, path: Path) -> Testbed:
    """The testbed with what follows from its virtual machine."""
    if testbed.vm is None:
        return testbed
    folder = path.resolve().parent / testbed.vm.directory.expanduser()
    guest, host = f"{GUEST_MARK}{folder}", f"{HOST_MARK}{folder}"
    mark = testbed.vm.mark
    cycle = (sys.executable, "-P", "-m", "netbisect.workers.cli", "--lab", str(path.resolve()))
    return replace(
        testbed,
        description=f"{testbed.description}; {mark}" if testbed.description else mark,
        vm=replace(testbed.vm, directory=folder),
        dut=replace(testbed.dut, address=guest),
        generator=replace(testbed.generator, address=host),
        receiver=replace(testbed.receiver, address=host),
        power=testbed.power or Power((*cycle, "vm", "cycle", "--testbed", testbed.name)),
        console=testbed.console or Console(("tail", "-n", "0", "-F", str(folder / "console.log"))),
    )


def load_lab(path: Path) -> Lab:
    """The lab file at `path`, checked as far as a file can be checked alone.

    Raises:
        FileError: one line per fault: file, key, what would be right.
    """
    lab = tomlfile.load(path, Lab)
    here = path.resolve().parent
    if lab.ssh.config is not None:
        config = here / lab.ssh.config
        if not config.is_file():
            raise FileError(f"{path}: ssh.config: there is no file {config}")
        lab = replace(lab, ssh=replace(lab.ssh, config=config))
    overlays = tuple(
        replace(overlay, patch=here / overlay.patch) for overlay in lab.source.overlays
    )
    for overlay in overlays:
        if not overlay.patch.is_file():
            raise FileError(f"{path}: source.overlays: there is no file {overlay.patch}")
    configs = lab.source.kernel_configs
    if configs is not None:
        configs = (here / configs.expanduser()).resolve()
        if not configs.is_dir():
            raise FileError(f"{path}: source.kernel_configs: there is no folder {configs}")
    table = lab.source.revisions and here / lab.source.revisions.expanduser()
    lab = replace(
        lab,
        source=replace(lab.source, overlays=overlays, kernel_configs=configs, revisions=table),
        kernels=here / lab.kernels.expanduser(),
        scenario_directories=tuple(here / folder for folder in lab.scenario_directories),
        testbeds=tuple(_housed(testbed, path) for testbed in lab.testbeds),
        builders=tuple(
            replace(
                builder,
                directory=here / builder.directory.expanduser(),
                modules=lab.modules(builder),
            )
            for builder in lab.builders
        ),
    )
    for number, testbed in enumerate(lab.testbeds):
        for name in testbed.scenarios:
            try:
                load_scenario(name, lab.scenario_directories)
            except FileError as error:
                raise FileError(f"{path}: testbeds[{number}].scenarios: {error}") from error
    return lab
