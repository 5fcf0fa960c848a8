"""`[[testbeds]]` of the lab file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import attrgetter

from netbisect.workers.config.dut import Dut, PortSelector
from netbisect.workers.config.scenario import Traffic
from netbisect.workers.config.toml import FileError, OneOrMore, Scalar, TextOrTable
from netbisect.workers.config.tunables import check_tunables
from netbisect.workers.config.validation import (
    IDENT,
    NAME,
    SSH_NAME,
    check,
    check_choice,
    check_form,
    check_modules,
    check_name,
    check_unique,
    check_values,
)
from netbisect.workers.config.vm import ADDRESS, GUEST_MARK, HOST_MARK, Vm

FRAME_BYTES = 24
"""CRC, preamble and inter-frame gap, which take the wire with each frame."""
_SHORTEST_RUN = 25
_MOST_LAYOUTS = 99
_SIDES = {"generator": "ingress", "receiver": "egress"}
"""Port of the DUT that the first host of each end is connected to."""


@dataclass(frozen=True, slots=True)
class TrafficHost:
    """A generator or receiver: a host with a netmap port."""

    address: str
    port: PortSelector
    threads: int = 1
    """Threads of pkt-gen (-p): at most the queues of the port; of a receiver, 1 or all of them."""
    first_cpu: int | None = None
    """Processor of the first thread (-a), the others follow; None: any."""
    dut_port: PortSelector | None = None
    """Port of the DUT that it is connected to; None: that of the first generator or receiver."""

    def __post_init__(self) -> None:
        check_form(self, "address", SSH_NAME, "an ssh name", optional=False)
        check(self.threads >= 1, f"threads {self.threads}: expected 1 or more")
        check(
            self.first_cpu is None or self.first_cpu >= 0,
            f"first_cpu {self.first_cpu}: expected the number of a processor, 0 or more",
        )


@dataclass(frozen=True, slots=True)
class Power:
    """The power switch of the DUT."""

    cycle: tuple[str, ...]
    """Command on the worker, such as ipmitool."""
    timeout: int = 60

    def __post_init__(self) -> None:
        check(self.cycle, "cycle: expected a command")
        check(self.timeout > 0, f"timeout {self.timeout}: expected seconds > 0")


@dataclass(frozen=True, slots=True)
class Console:
    """The console of the DUT."""

    command: tuple[str, ...]
    """Command on the worker that prints the console until it is killed."""

    def __post_init__(self) -> None:
        check(self.command, "command: expected a command")


@dataclass(frozen=True, slots=True)
class Timing:
    """Timeouts and durations, in seconds."""

    boot_timeout: float = 600.0
    """From the reboot until the machine must answer."""
    poll: float = 2.0
    """Between two attempts to connect."""
    settle: float = 5.0
    """Between the start of receiver and generator; links bounce when a port is opened."""
    link_wait: int = 2
    """Delay of pkt-gen after opening its port (-w)."""
    run: float = 30.0
    """Traffic per run; at least 15 s must remain after trimming."""
    run_timeout: float = 180.0
    pause: float = 30.0
    """Before an invalid run is repeated, to let heat and other load pass."""

    def __post_init__(self) -> None:
        for name in ("boot_timeout", "poll", "run_timeout"):
            check(0 < getattr(self, name) < math.inf, f"{name}: expected seconds > 0")
        for name in ("settle", "link_wait", "pause"):
            check(getattr(self, name) >= 0, f"{name}: expected 0 seconds or more")
        check(
            _SHORTEST_RUN <= self.run < math.inf,
            f"run {self.run:g}: expected {_SHORTEST_RUN} seconds or more: "
            "ten are trimmed, and 15 must remain",
        )
        longest = self.settle + 2 * self.link_wait + self.run  # of a receiver
        check(
            longest < self.run_timeout,
            f"run_timeout {self.run_timeout:g}: expected more than the {longest:g} s of a run",
        )


@dataclass(frozen=True, slots=True)
class Testbed:
    """A DUT with its generators and receivers."""

    name: str
    arch: str
    kernel_config: TextOrTable
    """KERNCONF, or a table of them by pattern of branches; the first match counts."""
    line_rate_pps: int
    """Packets of 60 bytes without CRC per second that the generators must offer together; scaled
    for longer packets.
    """
    scenarios: tuple[str, ...]
    """In a loaded lab file the series of its scenarios, the leading one of each first."""
    dut: Dut
    generator: OneOrMore[TrafficHost]
    receiver: OneOrMore[TrafficHost]
    description: str = ""
    """Hardware, for reports."""
    drivers: tuple[str, ...] = ()
    """Drivers of its data ports; commits to them get a higher prior probability."""
    modules: tuple[str, ...] = ()
    """Kernel modules loaded by the DUT in addition to firewalls and drivers."""
    tunables: dict[str, Scalar] = field(default_factory=dict)
    """For loader(8), at every boot of a test kernel."""
    worker: str = ""
    """Name of its Buildbot worker; default: the testbed's name."""
    owner: str = ""
    """Mail address of the owner."""
    group: str = ""
    """Testbeds of the same group share their searches; they have equal hardware and configuration.
    """
    run_noise_percent: float = 0.0
    """Standard deviation between runs of one boot; above 0, a boot may have several runs."""
    layouts: int = 0
    """Limit of additional link layouts of a revision that a search may build."""
    values: dict[str, Scalar] = field(default_factory=dict)
    """Variables of the scenarios' commands; they take precedence."""
    power: Power | None = None
    console: Console | None = None
    vm: Vm | None = None
    """Set if the DUT is a virtual machine, which then provides power and console."""
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        check_name(self.name)
        self._check_hosts()
        self._check_vm()
        check(self.kernel_configs, "kernel_config: expected a string, or at least one branch")
        for name in self.kernel_configs:
            check(
                IDENT.match(name),
                f"kernel_config {name!r}: expected the name of a file in sys/ARCH/conf",
            )
        check(self.line_rate_pps > 0, f"line_rate_pps {self.line_rate_pps}: expected packets/s > 0")
        check(self.scenarios, "scenarios: expected at least one")
        check_unique("scenario", [*self.scenarios])
        check_form(self, "group", NAME, "lower-case letters, digits, '.', '_' or '-'")
        check_form(self, "worker", IDENT, "letters, digits, '.', '_' or '-'")
        check_modules(self.modules)
        check_modules(self.drivers, "drivers")
        check_tunables(self.tunables)
        check_values(self.values)
        check(
            0 <= self.run_noise_percent < 50,  # noqa: PLR2004 - half the packets are no noise
            f"run_noise_percent {self.run_noise_percent:g}: expected 0 or more, less than 50",
        )
        check(
            0 <= self.layouts <= _MOST_LAYOUTS,
            f"layouts {self.layouts}: expected 0 to {_MOST_LAYOUTS}",
        )

    def _check_hosts(self) -> None:
        seen: list[tuple[str, PortSelector]] = []
        for name, side in _SIDES.items():
            hosts = [*self.hosts(name).values()]
            check(hosts, f"{name}: expected a table, or at least one in the list")
            check(
                hosts[0].dut_port is None,
                f"{name}.dut_port: expected none, because the first {name} is connected to "
                f"dut.{side}",
            )
            check(
                self.vm is None or len(hosts) == 1,
                f"{name}: expected one table, because a virtual machine has one {name}",
            )
            seen += [(host.address, host.port) for host in hosts]
        for address, port in seen:
            check(
                seen.count((address, port)) == 1,
                f"generator, receiver: the port {port.text} of {address!r} is listed twice; "
                "expected a different port for each host",
            )

    def _check_vm(self) -> None:
        """Checks that a virtual DUT comes with virtual data ports."""
        addresses = [("dut", self.dut.address)]
        addresses += [(end, host.address) for end in _SIDES for host in self.hosts(end).values()]
        for name, address in addresses:
            virtual = address == ADDRESS or address.startswith((GUEST_MARK, HOST_MARK))
            check(
                virtual == (self.vm is not None),
                f"{name}.address {address!r}: expected the table `vm` with address 'vm', and "
                "neither without the other",
            )
        if self.vm is None:
            return
        check_choice(self, "arch", ("amd64",), "amd64 for a virtual machine")
        for name, wanted in _SIDES.items():
            check(
                self.ports[name][1].interface == wanted,
                f"{name}.port: expected {{ interface = {wanted!r} }} for a virtual machine",
            )

    @property
    def generators(self) -> tuple[TrafficHost, ...]:
        """All generators; a scenario's commands run on the first one."""
        return self.generator if isinstance(self.generator, tuple) else (self.generator,)

    @property
    def receivers(self) -> tuple[TrafficHost, ...]:
        """All receivers; a scenario's commands run on the first one."""
        return self.receiver if isinstance(self.receiver, tuple) else (self.receiver,)

    def hosts(self, end: str) -> dict[str, TrafficHost]:
        """The generators or the receivers by part of the testbed: `generator`, `generator 2`."""
        hosts = self.generators if end == "generator" else self.receivers
        return {
            f"{end} {number}" if number > 1 else end: one for number, one in enumerate(hosts, 1)
        }

    @property
    def dut_ports(self) -> dict[str, PortSelector]:
        """The data ports of the DUT by part: `ingress`, `egress`, and those of further hosts."""
        found = {"ingress": self.dut.ingress, "egress": self.dut.egress}
        for end, side in _SIDES.items():
            for part, host in self.hosts(end).items():
                if host.dut_port and host.dut_port not in found.values():
                    found[part.replace(end, side)] = host.dut_port
        return found

    @property
    def wires(self) -> dict[str, str]:
        """Part of the DUT's port by part of the host that it is connected to."""
        parts = {port: part for part, port in self.dut_ports.items()}
        return {
            part: parts[host.dut_port] if host.dut_port else side
            for end, side in _SIDES.items()
            for part, host in self.hosts(end).items()
        }

    def share(self, part: str) -> float:
        """Share of the packets that pass a data port, if all hosts of an end have equal ones."""
        wires, shares = self.wires, []
        for end in _SIDES:
            hosts = self.hosts(end)
            shares.append(sum(part in (one, wires[one]) for one in hosts) / len(hosts))
        return max(shares)

    @property
    def ports(self) -> dict[str, tuple[str, PortSelector]]:
        """Address of the machine and selector of each data port, by part of the testbed."""
        found = {part: (self.dut.address, port) for part, port in self.dut_ports.items()}
        for end in _SIDES:
            found |= {part: (one.address, one.port) for part, one in self.hosts(end).items()}
        return found

    @property
    def roles(self) -> dict[str, str]:
        """Names of the data ports in reports by part: `the generator`, or `generator 2 on gen2`."""
        found = {part: f"the router's {part}" for part in self.dut_ports}
        for end in _SIDES:
            hosts = self.hosts(end)
            for number, (part, host) in enumerate(hosts.items(), 1):
                several = f"{end} {number} on {host.address}"
                found[part] = several if len(hosts) > 1 else f"the {end}"
        return found

    @property
    def kernel_configs(self) -> tuple[str, ...]:
        """The kernel configurations of all branches."""
        table = self.kernel_config
        return (table,) if isinstance(table, str) else tuple(dict.fromkeys(table.values()))

    def config_on(self, branch: str) -> str:
        """The kernel configuration for revisions of a branch.

        Raises:
            FileError: the lab file names none.
        """
        table = self.kernel_config
        if isinstance(table, str):
            return table
        for pattern, name in table.items():
            if fnmatchcase(branch, pattern):
                return name
        raise FileError(
            f"testbed {self.name!r}: kernel_config has nothing for the branch {branch!r}; "
            f"expected one of {', '.join(table)}, or a pattern such as '*' as the last one"
        )

    def offered_rate(self, traffic: Traffic) -> float:
        """Required rate of all generators, packets/s."""
        possible = line_rate(self.line_rate_pps, traffic.mean_size)
        return min(possible, traffic.rate) if traffic.rate else possible


def line_rate(line_rate_pps: float, size: float) -> float:
    """Line rate in packets of `size` bytes without CRC, from that in packets of 60 bytes."""
    return line_rate_pps * (60 + FRAME_BYTES) / (size + FRAME_BYTES)


def check_same_group(one: Testbed, other: Testbed) -> None:
    """Checks the keys that must be equal in a group, so that its testbeds are interchangeable."""
    for name, mine in _compared(one).items():
        its = _compared(other)[name]
        check(
            mine == its,
            f"testbeds {one.name!r} and {other.name!r} of group {one.group!r} differ in {name}: "
            f"{mine!r} and {its!r}; expected the same of all testbeds of a group",
        )


def _compared(bed: Testbed) -> dict[str, object]:
    values = {name: attrgetter(name)(bed) for name in _EQUAL_IN_GROUP}
    found = {name: sorted(one) if isinstance(one, tuple) else one for name, one in values.items()}
    return found | {f"the number of {end}s": len(bed.hosts(end)) for end in _SIDES}


_EQUAL_IN_GROUP = (
    *("arch", "kernel_config", "line_rate_pps", "scenarios", "values", "drivers", "modules"),
    *("tunables", "dut.userland", "dut.tools", "timing.run"),
)
"""Compared keys of the lab file."""
