"""Looks at the machines of a testbed before and after a run, and hands the gate what it sees.

Nothing is looked at while packets flow: an overloaded router would answer late, and be
measured while answering. What a machine does not know (a counter, a sensor) stays unknown.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from netbisect.bisect import validity
from netbisect.bisect.validity import Look
from netbisect.workers import freebsd, pktgen, ports
from netbisect.workers.faults import CommandError, UnreachableError
from netbisect.workers.lab import Scenario, Testbed
from netbisect.workers.ssh import Machine

_GENERATOR, _RECEIVER = "the generator", "the receiver"
_INGRESS, _EGRESS = "the router's ingress", "the router's egress"
_FORWARDING = ("net.inet.ip.forwarding", "net.inet6.ip6.forwarding")
_ROUTER_SYSCTLS = (freebsd.HARDWARE_CLOCK, "dev.cpu", "hw.acpi.thermal")
_DOWN = re.compile(r"\b(\w+): link state changed to DOWN")
_SENSOR = re.compile(r"\.(freq|temperature)\Z")
_LINK_SECONDS = 10.0
"""For a link to come back after the ports were closed."""
_LINK_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen at one moment, with the machines' logs to compare."""

    look: Look
    logs: dict[str, list[str]] = field(default_factory=dict)
    """Lines of dmesg(8) by address."""
    names: dict[str, set[str]] = field(default_factory=dict)
    """Names of the data ports by address."""
    counted: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By address, what people want to look at: counters of the ports, clocks and temperatures,
    interrupts."""


class Watch:
    """Looks at one testbed."""

    def __init__(
        self,
        testbed: Testbed,
        router: Machine,
        generator: Machine,
        receiver: Machine,
        finder: ports.Finder,
    ) -> None:
        self._testbed = testbed
        self._router = router
        self._finder = finder
        dut = testbed.dut
        self._ends = [
            (_INGRESS, router, dut.ingress),
            (_EGRESS, router, dut.egress),
            (_GENERATOR, generator, testbed.generator.port),
            (_RECEIVER, receiver, testbed.receiver.port),
        ]
        self._names: dict[str, str] = {}
        """Of the data ports, by what they are; they stay for as long as the router is up."""

    def look(self, scenario: Scenario) -> Seen:
        """Everything at this moment, all machines at once. Raises HostKeyError alone."""
        look = Look()
        logs, names, counted = {}, {}, {}
        with contextlib.ExitStack() as asked:
            answers = {}
            for machine in dict.fromkeys(machine for _, machine, _ in self._ends):
                parts = self._parts(machine)
                names[machine.address] = {self._names[part] for part in parts}
                questions = self._questions(machine, parts, scenario)
                answers[machine] = parts, _ask(asked, machine, *questions)
            for machine, (parts, answer) in answers.items():
                seen, logs[machine.address], counted[machine.address] = self._read(
                    machine, parts, answer()
                )
                look = replace(
                    look if machine is not self._router else seen,
                    ports={**look.ports, **seen.ports},
                    settings={**look.settings, **seen.settings},
                )
        return Seen(look, logs, names, counted)

    def _parts(self, machine: Machine) -> list[str]:
        """What this machine has of the data ports, as far as they can be found."""
        ends = {part: port for part, other, port in self._ends if other is machine}
        if not ends.keys() <= self._names.keys():
            with contextlib.suppress(UnreachableError, CommandError):
                for part, port in ends.items():
                    with contextlib.suppress(ports.NoPortError):
                        found = self._finder.find(machine, port, ends.values())
                        self._names[part] = found.name
        return [part for part in ends if part in self._names]

    def _questions(self, machine: Machine, parts: list[str], scenario: Scenario) -> list[list[str]]:
        """What one machine is asked; `_read` reads the answers."""
        names = [self._names[part] for part in parts]
        router = machine is self._router
        return [
            ["dmesg"],
            ["ifconfig", "-a"],
            ["uname", "-v"],
            ["vmstat", "-i"],
            ["sysctl", "-ie", *(_ROUTER_SYSCTLS if router else ()), *freebsd.wrong_crc(names)],
            *(["netstat", "-I", name, "-bn", "--libxo", "json"] for name in names),
            *(_router_questions(scenario) if router else ()),
        ]

    def _read(
        self, machine: Machine, parts: list[str], said_by_it: list[str]
    ) -> tuple[Look, list[str], dict[str, Any]]:
        """One machine, its log, and what it counts."""
        names = [self._names[part] for part in parts]
        router = machine is self._router
        log, ifconfig, uname, vmstat, said, *answers = said_by_it
        values = freebsd.values_in(said)
        interfaces = {interface.name: interface for interface in ports.interfaces(ifconfig)}
        found = {}
        counted: dict[str, Any] = {
            "interrupts": freebsd.interrupts(vmstat),
            "sensors": {name: value for name, value in values.items() if _SENSOR.search(name)},
            "ports": {},
        }
        for part, name, counters in zip(parts, names, answers, strict=False):
            if name in interfaces:
                one = interfaces[name]
                link = one.status if one.up else ""
                found[part] = freebsd.port(name, link, counters, values, overloaded=router)
                counted["ports"][part] = {
                    "interface": name,
                    **{
                        key: value
                        for key, value in freebsd.counters_in(counters).items()
                        if isinstance(value, int)
                    },
                }
        if router:
            look = _router_look(values, *answers[len(names) :])
        else:
            look = Look(
                settings={f"the system of {machine.address}": uname.strip()} if uname else {}
            )
        return replace(look, ports=found), log.splitlines(), counted

    def look_again(self, scenario: Scenario, before: Seen) -> Seen:
        """As `look`, after a run: links that were there are given the time to come back."""
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


def as_data(before: Seen, after: Seen) -> dict[str, Any]:
    """Both moments for people to look at, and by how much whatever counts went up between."""
    return {
        "before": {**asdict(before.look), "machines": before.counted},
        "after": {**asdict(after.look), "machines": after.counted},
        "during": _growth(before.counted, after.counted),
    }


def _growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of `after` less those of `before`, in the same tables; what did not grow is left."""
    grown: dict[str, Any] = {}
    for name, value in after.items():
        earlier = before.get(name)
        if isinstance(value, int) and isinstance(earlier, int):
            if value != earlier:
                grown[name] = value - earlier
        elif isinstance(value, Mapping) and isinstance(earlier, Mapping):
            grown[name] = _growth(earlier, value)
    return grown


def judge(
    testbed: Testbed,
    scenario: Scenario,
    said: tuple[str, str],
    before: Seen,
    after: Seen,
) -> tuple[float, float, list[str]]:
    """What was received and offered (pps), and why it is no sample.

    Args:
        testbed: where it was measured.
        scenario: what was measured.
        said: the outputs of the sending and of the receiving pkt-gen.
        before: the machines before the run.
        after: the machines after it.
    """
    sender, receiver = said
    crashed = [
        f"{who}'s pkt-gen crashed"
        for who, output in ((_RECEIVER, receiver), (_GENERATOR, sender))
        if pktgen.crashed(output)
    ]
    problems = [*crashed]
    problems += [
        f"{who}'s pkt-gen says: {complaint}"
        for who, output in ((_RECEIVER, receiver), (_GENERATOR, sender))
        if (complaint := pktgen.complaint(output))
    ]
    pps = offered_pps = 0.0
    try:
        offered_pps = pktgen.offered_rate(sender)
    except pktgen.NoRateError as error:
        problems.append(str(error))
    try:
        kept = pktgen.kept_rates(receiver)
        pps = pktgen.sample(receiver)
        if len(kept) < pktgen.LEAST_SECONDS:
            problems.append(
                f"{len(kept)} seconds of traffic are left after trimming, "
                f"{pktgen.LEAST_SECONDS} are needed"
            )
    except pktgen.NoRateError as error:
        problems.append(f"{_RECEIVER}: {error}")
    run = validity.Run(
        pps=pps,
        offered_pps=offered_pps,
        line_rate=testbed.offered_rate(scenario.traffic),
        offered=[rate for rate in pktgen.all_rates(sender) if rate > 0],
        received=pktgen.all_rates(receiver),
        before=before.look,
        after=after.look,
        wanted={name: str(value) for name, value in scenario.sysctls.items()},
        # A pkt-gen that died explains what is missing, and closes its port.
        link_changes=() if crashed else link_changes(before, after),
    )
    return pps, offered_pps, problems + validity.problems(run)


# ------------------------------------------------------------------------------ what they say


def _ask(
    asked: contextlib.ExitStack, machine: Machine, *commands: list[str]
) -> Callable[[], list[str]]:
    """Begins to ask; what to call for what each command prints, before `asked` is closed.

    A machine that does not answer now says nothing.
    """
    nothing = [""] * len(commands)
    try:
        answer = asked.enter_context(machine.asking(*commands))
    except (UnreachableError, CommandError):
        return lambda: nothing

    def told() -> list[str]:
        try:
            return answer()
        except (UnreachableError, CommandError):
            return nothing

    return told


def _router_questions(scenario: Scenario) -> list[list[str]]:
    """What only the router is asked; `_router_look` reads the answers."""
    return [
        ["kldstat"],
        ["sysctl", "-ie", *_FORWARDING, *scenario.sysctls, *scenario.optional],
        ["ps", "-ax", "-o", "pid=", "-o", "ppid=", "-o", "pcpu=", "-o", "comm="],
    ]


def _router_look(values: Mapping[str, str], kldstat: str, said: str, programs: str) -> Look:
    settings = freebsd.values_in(said)
    modules = sorted(line.split()[-1] for line in kldstat.splitlines()[1:] if line.split())
    if modules:
        settings["the list of loaded modules"] = " ".join(modules)
    return replace(freebsd.sensors(values), settings=settings, programs=freebsd.programs(programs))


def link_changes(before: Seen, after: Seen) -> tuple[str, ...]:
    """The data ports that lost their link since `before`, by the logs, and how often."""
    downs = Counter(
        f"{address} {down[1]}"
        for address, lines in after.logs.items()
        for line in freebsd.new_lines(before.logs.get(address, []), lines)
        if (down := _DOWN.search(line)) and down[1] in after.names.get(address, ())
    )
    return tuple(f"{port} {number}x" for port, number in sorted(downs.items()))
