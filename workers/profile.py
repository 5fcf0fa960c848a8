"""A profile: a kernel booted once, packets at a load below saturation, and stacks by pmcstat(8).

A visit of its own. Sampling costs a router some of its speed, and the load is chosen, so nothing of
it is a sample of a series. At full load the machine starves pmcstat and there is next to nothing to
see (netbenches has a profile of 24 samples): hence the rate below what the kernel forwards.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect import stacks, wire
from netbisect.bisect.model import Boot, Dud, Fact, Kernel, Profile, Reaction, Stage
from netbisect.workers import freebsd, pktgen
from netbisect.workers.bench import Bench
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
)
from netbisect.workers.lab import Scenario, Testbed
from netbisect.workers.ssh import Connections, Machine
from netbisect.workers.trial import Trial

EVENTS = (
    "cpu_clk_unhalted.thread",
    "cpu_clk_unhalted.thread_p",
    "cpu_clk_unhalted.core",
    "cpu_clk_unhalted.core_p",
    "ls_not_halted_cyc",
    "bu_cpu_clk_unhalted",
    "k8-bu-cpu-clk-unhalted",
    "cpu_cycles",
    "unhalted-cycles",
    "inst_retired.any",
    "inst_retired.any_p",
    "clock.hard",
)
"""Cycles in which a processor works, by the names that makers give them; instructions where these
are not counted; the clock's own interrupt, which also a virtual machine has."""
LEAST_SAMPLES = 500
"""Fewer say nothing of a function that takes a percent."""
MOST_BYTES = 64 << 20
"""Of the text that pmcstat makes of a profile; a sound one has some hundreds of kilobytes."""
_DEPTH = "50"
"""Functions of a stack that are kept; the deepest ways through the stack have about 40."""
_LOST = 0.05
"""Share of the packets that may get lost; more of them, and the load was too high."""
_PLACE = "/var/tmp/netbisect-profile"  # noqa: S108 - root's own machine, and the name is removed first
_LOST_SAMPLES = "kern.hwpmc.stats.intr_bufferfull"
_READ_TIMEOUT = 900.0
"""Seconds for pmcstat to find the names of all functions."""


class NoProfileError(Exception):
    """There is nothing to keep of it; the message says why."""


def file_of(scenario: str, kind: str) -> str:
    """Name of a profile's file: `folded` has the stacks, `json` what else is known of it."""
    return f"profile-{scenario}.{kind}"


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """What to boot, and what to look at."""

    testbed: Testbed
    kernel: Kernel
    archive: Path
    scenario: Scenario
    logs: Path
    pps: float = 0.0
    """Packets per second to send; 0: `rate_percent` of what this boot forwards."""
    rate_percent: float = 70.0
    seconds: float = 30.0
    event: str = ""
    """For pmcstat; "": that of the testbed, or one of `EVENTS`."""

    def run(
        self,
        connections: Connections,
        emit: Callable[[Fact], None],
        say: Callable[[str], None],
    ) -> Profile | None:
        """Does it; None when the kernel does not boot, which is emitted.

        Raises:
            LabFault: the lab has no answer; of the kernel nothing is known.
        """
        for kind in ("folded", "json"):
            (self.logs / file_of(self.scenario.name, kind)).unlink(missing_ok=True)
        facts: list[Fact] = []

        def tell(fact: Fact) -> None:
            facts.append(fact)
            emit(fact)

        booting = Trial(self.testbed, self.kernel, self.archive, (), self.logs)
        sound = booting.run(connections, tell, say)
        for fact in facts:
            if isinstance(fact, Dud) and (not sound or fact.reaction is not Reaction.SKIP):
                reaction = fact.reaction if sound else Reaction.QUARANTINE
                raise LabFault.told_by(fact, reaction)
        boot = next((fact for fact in facts if isinstance(fact, Boot)), None)
        return self._look(connections, boot, say) if boot is not None else None

    def _look(self, connections: Connections, boot: Boot, say: Callable[[str], None]) -> Profile:
        bench = Bench(self.testbed, connections, say, self.logs)
        started, event, pps = time.time(), "", self.pps
        samples, lost, problem = 0, None, ""
        try:
            pps = pps or self._rate(bench, boot)
            event = self._event(bench.router)
            say(f"{self.testbed.name}: {self.scenario.name}: {event} at {pps:,.0f} pps")
            found, lost = self._sample(bench, event, pps)
            samples = stacks.total(found)
            _check_enough(samples)
            self._keep("folded", stacks.folded(found))
        except NoProfileError as error:
            problem = str(error)
        except LabFault as fault:
            if fault.reaction is not Reaction.SKIP:
                raise
            problem = fault.why
        except (UnreachableError, HostKeyError) as error:
            raise lab_fault(Stage.BENCH, error) from error
        finally:
            bench.clean_up()
        profile = Profile(
            revision=self.kernel.revision,
            kernel=self.kernel.key,
            testbed=self.testbed.name,
            scenario=self.scenario.name,
            event=event,
            pps=pps,
            samples=samples,
            lost=lost,
            at=started,
            seconds=self.seconds,
            problem=problem,
        )
        self._keep("json", f"{wire.dumps(profile)}\n")
        return profile

    def _keep(self, kind: str, text: str) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / file_of(self.scenario.name, kind)).write_text(text)

    def _rate(self, bench: Bench, boot: Boot) -> float:
        """A part of what this boot forwards when it is offered all it can take."""
        _, sample = bench.measure(self.scenario, boot)
        if not sample.valid:
            raise NoProfileError(
                "what the kernel forwards is not known, so no load below it can be chosen: "
                f"{'; '.join(sample.problems) or 'no packet was received'}"
            )
        return sample.pps * self.rate_percent / 100

    # ---------------------------------------------------------------------------------- pmcstat

    def _event(self, machine: Machine) -> str:
        """What to count, by the word of the command line, the lab file, or the processor."""
        try:
            machine.run(["kldload", "-n", "hwpmc"])
            wanted = self.event or self.testbed.dut.pmc_event
            return wanted or choose(machine.run(["pmccontrol", "-L"]))
        except CommandError as error:
            raise NoProfileError(
                f"{error} (the kernel needs `options HWPMC_HOOKS` and the module hwpmc)"
            ) from error

    def _sample(
        self, bench: Bench, event: str, pps: float
    ) -> tuple[dict[stacks.Stack, int], int | None]:
        machine, place = bench.router, _PLACE
        most = self.seconds + self.testbed.timing.run_timeout
        limit = ["timeout", "-s", "INT", f"{most:.0f}"]
        command = ["pmcstat", "-z", _DEPTH, "-S", event, "-l", f"{self.seconds:g}"]
        try:
            machine.run(["rm", "-rf", place], ["mkdir", "-m", "700", place])
            with bench.under_load(self.scenario, pps, self.seconds) as (sent, received):
                before = _counter(machine)
                try:
                    machine.run([*limit, *command, "-O", f"{place}/samples"], timeout=most + 60)
                except CommandError as error:
                    raise NoProfileError(str(error)) from error
                after = _counter(machine)
            _check_load(sent.read_text(errors="replace"), received.read_text(errors="replace"))
            found = self._read(machine, place)
        except CommandError as error:
            raise NoProfileError(str(error)) from error
        finally:
            machine.try_run(["rm", "-rf", place])
        lost = None if before is None or after is None else after - before
        return found, lost

    def _read(self, machine: Machine, place: str) -> dict[stacks.Stack, int]:
        """The stacks with the names of this kernel's functions, found where the kernel lies."""
        bootfile = machine.run(["sysctl", "-n", "kern.bootfile"]).strip()
        command = ["pmcstat", "-R", f"{place}/samples", "-z", _DEPTH]
        command += ["-k", bootfile.rpartition("/")[0], "-G", f"{place}/stacks"]
        text = machine.run(
            command, ["head", "-c", str(MOST_BYTES), f"{place}/stacks"], timeout=_READ_TIMEOUT
        )
        try:
            return stacks.read(text)
        except stacks.StacksError as error:
            raise NoProfileError(f"what pmcstat tells cannot be used: {error}") from error


def choose(listed: str) -> str:
    """The first of `EVENTS` that `pmccontrol -L` lists, as it is written there.

    Raises:
        NoProfileError: there is none.
    """
    known = {words[0].lower(): words[0] for line in listed.splitlines() if (words := line.split())}
    for event in EVENTS:
        if event in known:
            return known[event]
    raise NoProfileError(
        "`pmccontrol -L` lists no event that is known here; the key pmc_event of the DUT names one"
    )


def _counter(machine: Machine) -> int | None:
    """Samples that the kernel had no room for so far; None where it does not tell."""
    [said] = machine.ask(["sysctl", "-n", _LOST_SAMPLES])
    return freebsd.count(said)


def _check_enough(samples: int) -> None:
    if samples < LEAST_SAMPLES:
        raise NoProfileError(
            f"{samples} samples are too few to tell functions apart: {LEAST_SAMPLES} are needed"
        )


def _check_load(sent: str, received: str) -> None:
    """The router forwarded what was sent.

    Raises:
        NoProfileError: it did not, and so was asked too much.
    """
    rates = [[rate for rate in pktgen.all_rates(said) if rate > 0] for said in (sent, received)]
    if not all(rates):
        raise NoProfileError("pkt-gen reports no packets")
    offered, forwarded = map(statistics.median, rates)
    if forwarded < (1 - _LOST) * offered:
        raise NoProfileError(
            f"of {offered:,.0f} packets per second the router forwarded {forwarded:,.0f}: "
            "the load was not below saturation"
        )
