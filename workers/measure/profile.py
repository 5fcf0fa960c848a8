"""A profile: boots a kernel once and samples stacks with pmcstat(8) below saturation.

Sampling slows the router down, so the runs are not samples of a series. At full load pmcstat
starves (a profile of netbenches has 24 samples), hence the lower rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.model import profile_stacks, serialization
from netbisect.bisect.model.entities import Boot, Fact, Failure, Kernel, Profile, Reaction, Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.scenario import Scenario
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import freebsd_tools
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.bench import Bench
from netbisect.workers.measure.traffic import traffic_of
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.errors import CommandError, LabFault, MachineError, lab_fault
from netbisect.workers.transport.ssh import Connections, Machine

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
"""Events for busy cycles by vendor; instructions; and the clock interrupt, for virtual machines."""
LEAST_SAMPLES = 500
"""Fewer samples are not significant for a function of a percent."""
_DEPTH = "50"
"""Kept functions per stack; the deepest paths have about 40."""
_LOST = 0.05
"""Tolerated packet loss; above it the load was too high."""
_PLACE = "/var/tmp/netbisect-profile"  # noqa: S108 - root's own machine, and the name is removed first
_LOST_SAMPLES = "kern.hwpmc.stats.intr_bufferfull"
_TICKS = "CLOCK."
"""Prefix of the clock events of the kernel, which occur hundreds of times per second."""
_LEAST_COUNT = "kern.hwpmc.mincount"
"""Least number of events between two samples, 1000 after boot."""
_READ_TIMEOUT = 900.0
"""Seconds for pmcstat to resolve function names."""


class NoProfileError(Exception):
    """No usable profile; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """One profile to take."""

    testbed: Testbed
    kernel: Kernel
    archive: Path
    scenario: Scenario
    logs: Path
    pps: float = 0.0
    """Packets per second; 0: `rate_percent` of the forwarding rate of this boot."""
    rate_percent: float = 70.0
    seconds: float = 30.0
    event: str = ""
    """Event for pmcstat; "": that of the testbed, or one of `EVENTS`."""

    def run(
        self,
        connections: Connections,
        emit: Callable[[Fact], None],
        say: Callable[[str], None],
    ) -> Profile | None:
        """Takes the profile; None if the kernel does not boot.

        A scenario without packets needs no boot to be refused.

        Raises:
            LabFault: a fault of the lab.
        """
        for kind in ("folded", "json"):
            (self.logs / profile_stacks.file_name(self.scenario.name, kind)).unlink(missing_ok=True)
        try:
            traffic_of(self.scenario)
        except LabFault as fault:
            return self._profile(time.time(), problem=fault.why)
        scenarios = [self.scenario]
        trial = TrialRunner(self.testbed, self.kernel, self.archive, scenarios, self.logs, runs=0)
        sound = trial.run(connections, emit, say)
        for fact in trial.facts:
            if isinstance(fact, Failure) and (not sound or fact.reaction is not Reaction.SKIP):
                reaction = fact.reaction if sound else Reaction.QUARANTINE
                raise LabFault(
                    Fault(fact.fault), fact.why, fact.log, stage=fact.stage, reaction=reaction
                )
        boot = next((fact for fact in trial.facts if isinstance(fact, Boot)), None)
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
            samples = profile_stacks.total(found)
            if samples < LEAST_SAMPLES:
                raise NoProfileError(  # noqa: TRY301 - one of several reasons
                    f"{samples} samples are too few to tell functions apart: {LEAST_SAMPLES} are "
                    "needed"
                )
            self._keep("folded", profile_stacks.folded(found))
        except NoProfileError as error:
            problem = str(error)
        except LabFault as fault:
            if fault.reaction is not Reaction.SKIP:
                raise
            problem = fault.why
        except MachineError as error:
            raise lab_fault(Stage.BENCH, error) from error
        finally:
            bench.clean_up()
        return self._profile(started, event, pps, samples, lost, problem)

    def _profile(
        self,
        started: float,
        event: str = "",
        pps: float = 0.0,
        samples: int = 0,
        lost: int | None = None,
        problem: str = "",
    ) -> Profile:
        """The profile, which is also kept beside its stacks."""
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
        self._keep("json", f"{serialization.dumps(profile)}\n")
        return profile

    def _keep(self, kind: str, text: str) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / profile_stacks.file_name(self.scenario.name, kind)).write_text(text)

    def _rate(self, bench: Bench, boot: Boot) -> float:
        """A percentage of the forwarding rate of this boot."""
        _, sample = bench.measure(self.scenario, boot)[-1]
        if not sample.valid:
            raise NoProfileError(
                "what the kernel forwards is not known, so no load below it can be chosen: "
                f"{'; '.join(sample.problems) or 'no packet was received'}"
            )
        return sample.pps * self.rate_percent / 100

    def _event(self, machine: Machine) -> str:
        """The event: from the command line, the lab file, or `EVENTS`."""
        try:
            machine.run(["kldload", "-n", "hwpmc"])
            wanted = self.event or self.testbed.dut.pmc_event
            return wanted or choose(machine.run(["pmccontrol", "-L"]), _counters(machine))
        except CommandError as error:
            raise NoProfileError(
                f"{error} (the kernel needs `options HWPMC_HOOKS` and the module hwpmc)"
            ) from error

    def _sample(
        self, bench: Bench, event: str, pps: float
    ) -> tuple[dict[profile_stacks.Stack, int], int | None]:
        machine, place = bench.router, _PLACE
        most = self.seconds + self.testbed.timing.run_timeout
        limit = ["timeout", "-s", "INT", f"{most:.0f}"]
        command = ["pmcstat", "-z", _DEPTH, "-S", event, "-l", f"{self.seconds:g}"]
        ticks = event.upper().startswith(_TICKS)
        if ticks:  # else a sample is taken at every 65,536th: DEFAULT_SAMPLE_COUNT of libpmcstat.h
            command[1:1] = ["-n", "1"]
        try:
            if ticks:
                machine.run(["sysctl", "-in", f"{_LEAST_COUNT}=1"])
            machine.run(["rm", "-rf", place], ["mkdir", "-m", "700", place])
            with bench.under_load(self.scenario, pps, self.seconds) as flows:
                before = _counter(machine)
                try:
                    machine.run([*limit, *command, "-O", f"{place}/samples"], timeout=most + 60)
                except CommandError as error:  # a fault of the lab outside of this block
                    raise NoProfileError(str(error)) from error
                after = _counter(machine)
            _check_load(flows.outputs)
            found = self._read(machine, place)
        except CommandError as error:
            raise NoProfileError(str(error)) from error
        finally:
            machine.try_run(["rm", "-rf", place])
        lost = None if before is None or after is None else after - before
        return found, lost

    def _read(self, machine: Machine, place: str) -> dict[profile_stacks.Stack, int]:
        """Stacks with function names of this kernel."""
        command = ["pmcstat", "-R", f"{place}/samples", "-z", _DEPTH, "-G", f"{place}/stacks"]
        text = machine.run(
            command,
            ["head", "-c", str(profile_stacks.MOST_BYTES), f"{place}/stacks"],
            timeout=_READ_TIMEOUT,
        )
        try:
            return profile_stacks.parse(text)
        except profile_stacks.StacksError as error:
            raise NoProfileError(f"the output of pmcstat cannot be used: {error}") from error


def choose(listed: str, counters: bool = True) -> str:
    """The first of `EVENTS` in the output of `pmccontrol -L`, or else the clock interrupt.

    `pmccontrol -L` leaves out the soft events, such as clock.hard, where libpmc knows the
    processor (pmccontrol.c:294), also in a virtual machine without its counters.

    Args:
        listed: That output.
        counters: Whether the kernel has counters of the processor.

    Raises:
        NoProfileError: none is supported.
    """
    if not counters:
        return EVENTS[-1].upper()
    known = {words[0].lower(): words[0] for line in listed.splitlines() if (words := line.split())}
    for event in EVENTS:
        if event in known:
            return known[event]
    raise NoProfileError(
        "`pmccontrol -L` lists no known event; expected the key pmc_event of the DUT"
    )


def _counters(machine: Machine) -> bool:
    """Whether hwpmc has found counters of the processor, by its line in the kernel log.

    The line lists each class with its number of counters: `hwpmc: SOFT/16/64/0x67<...> TSC/1/...`
    (hwpmc_mod.c, pmc_initialize()). With these two only, the processor has none.
    """
    (log,) = machine.ask(["dmesg"])
    lines = [line for line in log.splitlines() if line.startswith("hwpmc: SOFT/")]
    classes = [word.partition("/")[0] for line in lines[-1:] for word in line.split()[1:]]
    return not lines or any(name not in ("SOFT", "TSC") for name in classes)


def _counter(machine: Machine) -> int | None:
    """Dropped samples so far, or None."""
    [output] = machine.ask(["sysctl", "-n", _LOST_SAMPLES])
    return freebsd_tools.parse_count(output)


def _check_load(outputs: pktgen.Outputs) -> None:
    """Checks that the router forwarded the load.

    Raises:
        NoProfileError: it lost packets.
    """
    sent, received = map(pktgen.busy_medians, (outputs.sent, outputs.received))
    offered, forwarded = sum(sent.values()), sum(received.values())
    if not all((*sent.values(), *received.values())):
        raise NoProfileError("pkt-gen reports no packets")
    if forwarded < (1 - _LOST) * offered:
        raise NoProfileError(
            f"of {offered:,.0f} packets per second the router forwarded {forwarded:,.0f}: "
            "the load was not below saturation"
        )
