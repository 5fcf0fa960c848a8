"""A trial: boots a kernel on a testbed and runs scenarios.

Scenarios with the same tunables share a boot; one `Boot` stands for all boots of a trial, so that
they count as one observation.

Facts are reported as they happen, so results before a fault are kept. `bisect/model/faults.py`
defines the reaction to each fault; afterwards the machine returns to its known-good kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netbisect.bisect.model.entities import Boot, Fact, Failure, Kernel, Reaction, Sample, Stage
from netbisect.bisect.model.faults import RULES, Fault, fault_of_run
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.workers.config.scenario import Scenario, by_tunables
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.toml import Scalar
from netbisect.workers.dut.device import ORDER, DeviceUnderTest
from netbisect.workers.dut.ports import PortFinder
from netbisect.workers.dut.running_kernel import RunningKernel
from netbisect.workers.measure.bench import Bench
from netbisect.workers.transport.errors import LabFault, MachineError, bench_fault
from netbisect.workers.transport.ssh import Connections

_DONE = "netbisect.done"
"""Variable of kenv(1): number of the finished trial."""
_IN_DOUBT = {Fault.NO_TRAFFIC, Fault.ODD_RUN, Fault.GENERATOR_DIES, Fault.LINK_FLAP}
"""Faults with several possible causes."""
_SLACK = 2.0
"""Tolerated seconds: time services correct that much in steps."""


class Clocks:
    """Detects jumps of the clocks of this host and the router during a run.

    The times of facts are this host's; the boot time of the router changes when its clock is set.
    Durations by either clock are then invalid.
    """

    def __init__(self) -> None:
        self.router = 0.0
        """Boot time of the router, by its clock."""
        self._offset = _offset()

    def begin(self) -> None:
        """Starts to watch the clocks."""
        self._offset = _offset()

    def jumps(self, boottime: float) -> list[str]:
        """Clock jumps since `begin`, one sentence each; the router's clock gives `boottime`."""
        moved = {"this host": _offset() - self._offset, "the router": boottime - self.router}
        self.router = boottime
        return [
            f"the clock of {who} jumped by {seconds:+.0f} s during the run"
            for who, seconds in moved.items()
            if abs(seconds) > _SLACK
        ]


def _offset() -> float:
    return time.time() - time.monotonic()


@dataclass(slots=True)
class TrialRunner:
    """Boots of a kernel, one per set of tunables, with runs of scenarios."""

    testbed: Testbed
    kernel: Kernel
    archive: Path
    scenarios: Sequence[Scenario]
    logs: Path
    runs: int = 1
    """Runs per scenario; 0 only boots. Scenarios alternate, so runs of one scenario are apart."""
    facts: list[Fact] = field(default_factory=list, init=False)
    """All reported ones."""
    _connections: Connections = field(init=False)
    _emit: Callable[[Fact], None] = field(init=False)
    _say: Callable[[str], None] = field(init=False)
    _router: DeviceUnderTest = field(init=False)
    _clocks: Clocks = field(default_factory=Clocks, init=False)
    _doubtful: list[tuple[LabFault, float, Scenario]] = field(default_factory=list, init=False)
    """Faults with several possible causes, to be resolved at the end of a boot."""
    _scenarios: Sequence[Scenario] = field(default=(), init=False)
    """Scenarios of the current boot."""
    _first: Boot | None = field(default=None, init=False)
    """The reported boot."""

    def run(
        self,
        connections: Connections,
        emit: Callable[[Fact], None],
        say: Callable[[str], None],
    ) -> bool:
        """Runs the trial, once; False if the testbed needs its owner."""
        self._connections, self._emit, self._say = connections, emit, say
        self._router = DeviceUnderTest(self.testbed, connections, say)
        with self._router.recording_console(self.logs / "console.log"):
            for scenarios in by_tunables(self.scenarios) or [[]]:
                self._scenarios = scenarios
                self._doubtful.clear()
                if not self._one_boot():
                    return False
                if self._first is None and not self._own_tunables:
                    return True  # the kernel does not boot: no tunable was tried
        return True

    def _report(self, fact: Fact) -> None:
        self.facts.append(fact)
        self._emit(fact)

    @property
    def _own_tunables(self) -> Mapping[str, Scalar]:
        """Tunables of the scenarios of this boot."""
        return self._scenarios[0].tunables if self._scenarios else {}

    def _one_boot(self) -> bool:
        """One boot with its scenarios; False if the testbed needs its owner."""
        config = self.kernel.config.partition(OVERLAY_MARK)[0]
        bench = Bench(
            replace(self.testbed, kernel_config=config), self._connections, self._say, self.logs
        )
        if self._scenarios:
            bench.open()
        boot = self._boot()
        if isinstance(boot, LabFault):
            return self._end(boot, boot=None)
        waiting = [*self._scenarios] * self.runs
        worst: LabFault | None = None
        try:
            while waiting:
                scenario = waiting.pop(0)
                fault = self._measure(bench, scenario, boot)
                if fault is None:
                    continue
                ended = fault.reaction is Reaction.QUARANTINE or fault.stage is Stage.BOOT
                if worst is None or worst.fault is Fault.SCENARIO or ended:
                    worst = fault
                if ended:
                    break  # the kernel does not run any more
                waiting = [one for one in waiting if one is not scenario]
        finally:
            bench.clean_up()
        return self._end(worst, boot)

    def _end(self, fault: LabFault | None, boot: Boot | None) -> bool:
        """Cleans up; False if the testbed needs its owner.

        After an ambiguous fault the known-good kernel is checked: a fault there is not the
        revision's.
        """
        if fault is not None and fault.reaction is Reaction.QUARANTINE:
            for doubt, at, scenario in self._doubtful:
                self._report(self._failure(doubt, at, scenario))
            return False
        if fault is None or fault.fault is Fault.SCENARIO:
            assert boot is not None
            self._mark_done(boot)
            return True
        started = time.time()
        found: LabFault | None = None
        try:
            self._router.recover()
            if self._doubtful:
                found = next(find_faults(self.testbed, self._connections), None)
        except LabFault as error:
            self._say(f"{self.testbed.name}: {error.why}")
            self._report(self._failure(error, started))
            fault = error
        for doubt, at, scenario in self._doubtful:
            self._report(self._failure(found or doubt, at, scenario))
        return Reaction.QUARANTINE not in (fault.reaction, found and found.reaction)

    def _boot(self) -> Boot | LabFault:
        kernel = self.kernel
        name = f"{self.testbed.name}: {kernel.version}"
        started = time.time()
        attempt = 0
        while True:
            attempt += 1
            self._say(f"{name}: booting" + (f", try {attempt}" if attempt > 1 else ""))
            try:
                running = self._recover_interrupted()
                boot = self._router.boot(kernel, self.archive, running, self._own_tunables)
            except LabFault as fault:
                self._say(f"{name}: {fault.why}")
                if attempt >= fault.tries:
                    # Other scenarios have other tunables.
                    failed = self._scenarios if self._own_tunables else [None]
                    for scenario in failed:
                        self._report(self._failure(fault, started, scenario))
                    return fault
            else:
                if self._first is None:
                    self._first = boot
                    self._report(boot)
                self._say(f"{name}: up after {boot.seconds:.1f} s")
                self._clocks.router = self._router.boottime
                return boot

    def _recover_interrupted(self) -> RunningKernel:
        """Returns to the known-good kernel if the last trial was interrupted."""
        running = self._router.reach()
        begun = running.environment.get(ORDER, "")
        if begun and running.environment.get(_DONE) != begun:
            why = "the last trial was interrupted: returning to the known-good kernel first"
            self._say(f"{self.testbed.name}: {why}")
            return self._router.recover()
        return running

    def _mark_done(self, boot: Boot) -> None:
        try:
            self._router.machine.run(["kenv", f"{_DONE}={boot.id}"])
        except MachineError as error:
            # The next trial begins with the good kernel then.
            self._say(f"{self.testbed.name}: {error}")

    def _measure(self, bench: Bench, scenario: Scenario, boot: Boot) -> LabFault | None:
        """Repeats one scenario until a run is valid; returns the fault otherwise."""
        attempt = 0
        while True:
            attempt += 1
            started = time.time()
            fault = self._try(bench, scenario, boot)
            if fault is None:
                return None
            self._say(f"{self.testbed.name}: {scenario.name}: {fault.why}")
            if attempt >= fault.tries:
                if fault.fault in _IN_DOUBT:
                    self._doubtful.append((fault, started, scenario))
                else:
                    self._report(self._failure(fault, started, scenario))
                return fault
            time.sleep(self.testbed.timing.pause)

    def _try(self, bench: Bench, scenario: Scenario, boot: Boot) -> LabFault | None:
        """One run; returns its fault, if any."""
        self._clocks.begin()
        try:
            try:
                found = bench.measure(scenario, boot)
            except LabFault as fault:
                if fault.fault is Fault.COMMAND:  # perhaps of a kernel that went down
                    self._router.check_still_up(boot)
                return fault
            running = self._router.check_still_up(boot)
        except LabFault as fault:
            return fault
        jumps = self._clocks.jumps(running.boottime)
        assert self._first is not None
        for conditions, one in found:
            sample = replace(one, boot=self._first.id, problems=(*one.problems, *jumps))
            self._report(conditions)
            self._report(sample)
            if not sample.valid:
                return _fault_of(sample)
            self._say(f"{self.testbed.name}: {sample.scenario}: {measured(sample)}")
        for warning in sample.warnings:
            self._say(f"{self.testbed.name}: {scenario.name}: warning: {warning}")
        return None

    def _failure(
        self, fault: LabFault, started: float, scenario: Scenario | None = None
    ) -> Failure:
        return fault.failure(
            self.kernel.revision,
            started,
            testbed=self.testbed.name,
            scenario=scenario.name if scenario else "",
        )


def measured(sample: Sample) -> str:
    """The number of a run for messages, or why it has none."""
    if not sample.valid:
        return f"no sample: {'; '.join(sample.problems) or 'no packet was received'}"
    offered = f" of {sample.offered_pps:,.0f} offered" if sample.offered_pps else ""
    return f"{metric_of(sample.scenario).text(sample.pps)}{offered}"


def _fault_of(sample: Sample) -> LabFault:
    """The fault of an invalid run."""
    fault = fault_of_run(sample.problems) if sample.problems else Fault.NO_TRAFFIC
    assert RULES[fault].stage is Stage.BENCH
    return LabFault(fault, measured(sample))


def find_faults(testbed: Testbed, connections: Connections) -> Iterator[LabFault]:
    """Faults of the machines and links of a testbed on its known-good kernel.

    A fault that also occurs there is not the revision's. The check also precedes a release from
    quarantine.
    """
    finder = PortFinder(testbed, connections)
    for part in (*testbed.wires, *testbed.dut_ports):
        try:
            found = finder.find(part)
        except MachineError as error:
            yield bench_fault(error, testbed)
        else:
            if found.status not in ("", "active"):
                where = f"{testbed.roles[part]} ({found.name})"
                why = f"{where} has no link on the known-good kernel: {found.status}"
                yield LabFault(Fault.NO_LINK, why)
