"""Records the state of a testbed before and after a run, for the validity checks.

Nothing is recorded while packets flow: an overloaded router would answer late and be disturbed.
Missing values are unknown, not errors.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.sample_validity import MachineState
from netbisect.workers.config.scenario import Scenario
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import drivers, freebsd_tools, ports
from netbisect.workers.measure import pktgen
from netbisect.workers.transport.errors import CommandError, UnreachableError
from netbisect.workers.transport.ssh import Connections, Machine

_FORWARDING = ("net.inet.ip.forwarding", "net.inet6.ip6.forwarding")
_ROUTER_SYSCTLS = (*freebsd_tools.HARDWARE_CLOCK, "dev.cpu", "hw.acpi.thermal")
_DOWN = re.compile(r"\b(\w+): link state changed to DOWN")
_SENSOR = re.compile(r"\.(freq|temperature)\Z")
_LINK_SECONDS = 10.0
"""For links to come back after the ports were closed."""
_LINK_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of all machines at one moment."""

    look: MachineState
    logs: dict[str, list[str]] = field(default_factory=dict)
    """Lines of dmesg(8) by address."""
    names: dict[str, set[str]] = field(default_factory=dict)
    """Names of the data ports by address."""
    counted: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counters of ports, clocks, temperatures and interrupts by address, for reports."""


class Telemetry:
    """Takes snapshots of one testbed."""

    def __init__(
        self,
        testbed: Testbed,
        connections: Connections,
        find: Callable[[str], ports.Interface],
    ) -> None:
        """Takes nothing yet; `find` gives the interface of a part of the testbed."""
        self._find = find
        self._router = connections.machine(testbed.dut.address)
        self._roles = testbed.roles
        self._parts: dict[Machine, list[str]] = {}
        for part, (address, _) in testbed.ports.items():
            self._parts.setdefault(connections.machine(address), []).append(part)
        self._names: dict[str, str] = {}
        """Interfaces of the data ports; they stay until the next boot."""

    def look(self, scenario: Scenario) -> Snapshot:
        """A snapshot of all machines, read in parallel. Raises only HostKeyError."""
        look = MachineState()
        logs, names, counted = {}, {}, {}
        with contextlib.ExitStack() as record:
            answers = {}
            for machine in self._parts:
                parts = self._found(machine)
                names[machine.address] = {self._names[part] for part in parts}
                commands = self._commands(machine, parts, scenario)
                answers[machine] = parts, _ask(record, machine, *commands)
            for machine, (parts, answer) in answers.items():
                seen, logs[machine.address], counted[machine.address] = self._read(
                    machine, parts, answer()
                )
                look = replace(
                    look if machine is not self._router else seen,
                    ports={**look.ports, **seen.ports},
                    settings={**look.settings, **seen.settings},
                )
        return Snapshot(look, logs, names, counted)

    def _found(self, machine: Machine) -> list[str]:
        """The parts of this machine whose ports were found."""
        for part in self._parts[machine]:
            if part not in self._names:
                with contextlib.suppress(UnreachableError, CommandError, ports.PortNotFoundError):
                    self._names[part] = self._find(part).name
        return [part for part in self._parts[machine] if part in self._names]

    def _commands(self, machine: Machine, parts: list[str], scenario: Scenario) -> list[list[str]]:
        """Commands for one machine; `_read` parses their output."""
        names = [self._names[part] for part in parts]
        router = machine is self._router
        sysctls = [one for name in names for one in drivers.crc_sysctls(name)]
        if router:
            queues = [one for name in names for one in drivers.queue_sysctls(name)]
            sysctls = [*_ROUTER_SYSCTLS, *sysctls, *queues]
        return [
            *(["dmesg"], ["ifconfig", "-a"], ["uname", "-v"], ["vmstat", "-i"]),
            ["sysctl", "-ie", *sysctls],
            *(["netstat", "-I", name, "-bn", "--libxo", "json"] for name in names),
            *(_router_questions(scenario) if router else ()),
        ]

    def _read(
        self, machine: Machine, parts: list[str], outputs: list[str]
    ) -> tuple[MachineState, list[str], dict[str, Any]]:
        """State, log and counters of one machine."""
        names = [self._names[part] for part in parts]
        router = machine is self._router
        log, ifconfig, uname, vmstat, sysctls, *answers = outputs
        values = freebsd_tools.parse_sysctls(sysctls)
        interfaces = {interface.name: interface for interface in ports.parse_interfaces(ifconfig)}
        found, counts = {}, {}
        for part, name, counters in zip(parts, names, answers, strict=False):
            if name in interfaces:
                down = "is not up" if router else ""  # pkt-gen brings up those of the other hosts
                link = interfaces[name].status if interfaces[name].up else down
                damaged = [values.get(place, "") for place in drivers.crc_sysctls(name)]
                queues = drivers.queue_packets(name, values)
                port = freebsd_tools.parse_port(name, link, counters, damaged, overloaded=router)
                found[self._roles[part]] = replace(port, queues=queues)
                rows = freebsd_tools.parse_netstat(counters).items()
                numbers = {key: value for key, value in rows if isinstance(value, int)}
                counts[self._roles[part]] = {"interface": name, "queues": queues, **numbers}
        counted: dict[str, Any] = {
            "interrupts": freebsd_tools.parse_vmstat(vmstat),
            "sensors": {name: value for name, value in values.items() if _SENSOR.search(name)},
            "ports": counts,
        }
        if router:
            look = _router_look(values, *answers[len(names) :])
        else:
            look = MachineState(
                settings={f"the system of {machine.address}": uname.strip()} if uname else {}
            )
        return replace(look, ports=found), log.splitlines(), counted

    def look_again(self, scenario: Scenario, before: Snapshot) -> Snapshot:
        """A snapshot after a run; waits for lost links to return."""
        deadline = time.monotonic() + _LINK_SECONDS
        while True:
            seen = self.look(scenario)
            lost = [
                part
                for part, port in seen.look.ports.items()
                if port.link not in ("", "active")
                and part in before.look.ports
                and before.look.ports[part].link == "active"
            ]
            if not lost or time.monotonic() >= deadline:
                return seen
            time.sleep(_LINK_POLL)


def as_data(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """Both snapshots for reports, with the increase of counters."""
    return {
        "before": {**asdict(before.look), "machines": before.counted},
        "after": {**asdict(after.look), "machines": after.counted},
        "during": _growth(before.counted, after.counted),
    }


def _growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Increase of numbers in nested tables; unchanged ones are omitted."""
    grown: dict[str, Any] = {}
    for name, value in after.items():
        earlier = before.get(name)
        if isinstance(value, int) and isinstance(earlier, int):
            if value != earlier:
                grown[name] = value - earlier
        elif isinstance(value, Mapping) and isinstance(earlier, Mapping):
            grown[name] = _growth(earlier, value)
    return grown


def evaluate_run(
    testbed: Testbed,
    scenario: Scenario,
    outputs: pktgen.Outputs,
    before: Snapshot,
    after: Snapshot,
) -> tuple[float, float, list[str], list[str]]:
    """Received rate and offered rate (pps), problems and warnings of the run."""
    traffic = scenario.traffic
    pps, offered_pps, problems = pktgen.evaluate(outputs)
    run = sample_validity.RunRecord(
        pps=pps,
        offered_pps=offered_pps,
        line_rate=testbed.offered_rate(traffic) if traffic else 0.0,
        offered={
            who: [rate for rate in pktgen.all_rates(output) if rate > 0]
            for who, output in outputs.sent.items()
        },
        received={who: pktgen.all_rates(output) for who, output in outputs.received.items()},
        before=before.look,
        after=after.look,
        wanted={name: str(value) for name, value in scenario.sysctls.items()},
        # A pkt-gen that died explains what is missing, and closes its port.
        link_changes=() if outputs.crashed else link_changes(before, after),
        flows=traffic.number_of_flows if traffic else 0,
        shares=outputs.shares,
    )
    problems += sample_validity.problems(run)
    offered = sum(offered_pps.values(), 0.0) if all(offered_pps.values()) else 0.0
    return pps, offered, problems, sample_validity.warnings(run)


def _ask(
    record: contextlib.ExitStack, machine: Machine, *commands: list[str]
) -> Callable[[], list[str]]:
    """Starts commands; returns a function for their output.

    The output of an unreachable machine is empty.
    """
    nothing = [""] * len(commands)
    try:
        answer = record.enter_context(machine.running_each(*commands))
    except (UnreachableError, CommandError):
        return lambda: nothing

    def read() -> list[str]:
        try:
            return answer()
        except (UnreachableError, CommandError):
            return nothing

    return read


def _router_questions(scenario: Scenario) -> list[list[str]]:
    """Additional commands for the router; `_router_look` parses their output."""
    return [
        ["kldstat"],
        ["sysctl", "-ie", *_FORWARDING, *scenario.sysctls, *scenario.optional],
        ["ps", "-ax", "-o", "pid=", "-o", "ppid=", "-o", "pcpu=", "-o", "comm="],
    ]


def _router_look(
    values: Mapping[str, str], kldstat: str, sysctls: str, programs: str
) -> MachineState:
    settings = freebsd_tools.parse_sysctls(sysctls)
    modules = sorted(line.split()[-1] for line in kldstat.splitlines()[1:] if line.split())
    if modules:
        settings["the list of loaded modules"] = " ".join(modules)
    return replace(
        freebsd_tools.parse_sensors(values),
        settings=settings,
        programs=freebsd_tools.parse_ps(programs),
    )


def link_changes(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Data ports that lost their link between two snapshots, and how often."""
    downs = Counter(
        f"{address} {down[1]}"
        for address, lines in after.logs.items()
        for line in freebsd_tools.new_lines(before.logs.get(address, []), lines)
        if (down := _DOWN.search(line)) and down[1] in after.names.get(address, ())
    )
    return tuple(f"{port} {number}x" for port, number in sorted(downs.items()))
