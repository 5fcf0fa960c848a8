"""One visit: a kernel booted once on a testbed, every scenario run as often as asked.

The facts go to `emit` as they happen, so that what was measured before something went wrong is
kept. Nothing here decides what to measure next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.model import Boot, Dud, Fact, Kernel, Reaction, Stage
from netbisect.workers.bench import Bench
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
)
from netbisect.workers.lab import Scenario, Testbed
from netbisect.workers.router import Router
from netbisect.workers.ssh import Connections

_TRIES = 2
"""Of a boot, and of a run: trouble that comes back is no accident."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What to boot, and what to run on it."""

    testbed: Testbed
    kernel: Kernel
    archive: Path
    scenarios: Sequence[Scenario]
    logs: Path
    runs: int = 1
    """Of each scenario. They take turns, so that runs of one scenario lie apart."""

    def run(
        self,
        connections: Connections,
        emit: Callable[[Fact], None],
        say: Callable[[str], None],
    ) -> bool:
        """Does it; False when the testbed needs its owner."""
        router = Router(self.testbed, connections, say)
        boot = self._boot(router, emit, say)
        if isinstance(boot, LabFault):
            return boot.reaction is not Reaction.QUARANTINE
        bench = Bench(self.testbed, connections, say, self.logs)
        waiting = [*self.scenarios] * self.runs
        try:
            while waiting:
                scenario = waiting.pop(0)
                fault = self._measure(router, bench, scenario, boot, emit, say)
                if fault and fault.reaction is Reaction.QUARANTINE:
                    return False
                if fault and fault.stage is Stage.BOOT:
                    break  # what was to be measured does not run any more
                if fault:  # it would come to nothing again
                    waiting = [one for one in waiting if one is not scenario]
        finally:
            bench.clean_up()
        return True

    # --------------------------------------------------------------------------------- booting

    def _boot(
        self, router: Router, emit: Callable[[Fact], None], say: Callable[[str], None]
    ) -> Boot | LabFault:
        name = f"{self.testbed.name}: {self.kernel.version}"
        fault: LabFault | None = None
        started = time.time()
        for attempt in range(_TRIES):
            say(f"{name}: booting" + (f", try {attempt + 1}" if attempt else ""))
            try:
                console = self.logs / "console.log"
                boot = router.boot(self.kernel, self.archive, console)
            except LabFault as error:
                fault = error
                say(f"{name}: {error.why}")
                if error.reaction is Reaction.QUARANTINE:
                    break
            else:
                emit(boot)
                say(f"{name}: up after {boot.seconds:.1f} s")
                return boot
        assert fault is not None
        if fault.reaction is Reaction.RETRY and fault.stage is Stage.BOOT:
            # It had its second try. The lab is sound, so it is the kernel.
            fault = LabFault(fault.stage, Reaction.SKIP, fault.why, fault.log)
        emit(self._dud(fault, started))
        return fault

    # -------------------------------------------------------------------------------- measuring

    def _measure(
        self,
        router: Router,
        bench: Bench,
        scenario: Scenario,
        boot: Boot,
        emit: Callable[[Fact], None],
        say: Callable[[str], None],
    ) -> LabFault | None:
        """Runs one scenario until a run is good; what kept it from having any result."""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(self.testbed.timing.pause)
            started = time.time()
            last = attempt == _TRIES - 1
            try:
                conditions, sample = bench.measure(scenario, boot)
                self._still_up(router, boot)
            except LabFault as fault:
                say(f"{self.testbed.name}: {scenario.name}: {fault.why}")
                if last or fault.reaction is not Reaction.RETRY:
                    emit(self._dud(fault, started, scenario))
                    return fault
                continue
            emit(conditions)
            emit(sample)
            if sample.valid:
                say(
                    f"{self.testbed.name}: {scenario.name}: {sample.pps:,.0f} pps "
                    f"of {sample.offered_pps:,.0f} offered"
                )
                return None
            say(f"{self.testbed.name}: {scenario.name}: no sample: {'; '.join(sample.problems)}")
        return None

    def _still_up(self, router: Router, boot: Boot) -> None:
        """The router is still in the boot that was measured.

        Raises:
            LabFault: it went down under the load; the machine is back on its good kernel.
        """
        try:
            running = router.look()
        except HostKeyError as error:
            raise lab_fault(Stage.BENCH, error) from error
        except (UnreachableError, CommandError):
            running = router.reach()
        if running.environment.get("netbisect.order") != boot.id:
            raise LabFault(
                Stage.BOOT, Reaction.SKIP, "the router went down under the load of this scenario"
            )

    def _dud(self, fault: LabFault, started: float, scenario: Scenario | None = None) -> Dud:
        return fault.dud(
            self.kernel.revision,
            started,
            testbed=self.testbed.name,
            scenario=scenario.name if scenario else "",
        )
