"""Measures the noise of a testbed with boots and runs of one kernel.

All boots use the same image, so differences between boots and between runs are noise of the
testbed. `image_noise` measures the noise between images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Fact, Failure, Kernel, Reaction, Sample
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.scenario import Scenario
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.errors import NoiseError
from netbisect.workers.transport.locks import lock_testbed
from netbisect.workers.transport.ssh import Connections

_FAILURES = 3
"""Consecutive boots without a sample after which calibration stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisePlan:
    """Where to measure noise."""

    lab: Lab
    testbed: Testbed
    boots: int
    scenarios: Sequence[Scenario]
    logs: Path
    say: Callable[[str], None]

    @property
    def series(self) -> list[str]:
        """Names of the measured series."""
        return [series for scenario in self.scenarios for series in scenario.series]

    def trial(
        self, connections: Connections, kernel: Kernel, archive: Path, runs: int = 1
    ) -> list[Fact]:
        """Facts of one trial.

        Raises:
            NoiseError: the testbed needs its owner.
        """
        facts: list[Fact] = []
        trial = TrialRunner(self.testbed, kernel, archive, self.scenarios, self.logs, runs)
        limit = self.testbed.timing.boot_timeout
        with lock_testbed(self.lab, self.testbed, "measuring its noise", self.say, seconds=limit):
            sound = trial.run(connections, facts.append, self.say)
        reactions = {fact.reaction for fact in facts if isinstance(fact, Failure)}
        if not sound or Reaction.QUARANTINE in reactions:
            raise NoiseError(f"{self.testbed.name} needs repair: {why_failed(facts)}")
        return facts


def why_failed(facts: Sequence[Fact]) -> str:
    """Reason of the last failure of a trial."""
    failures = [fact.why for fact in facts if isinstance(fact, Failure)]
    return failures[-1] if failures else "no run was a sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan(NoisePlan):
    """Boots and runs of one kernel."""

    kernel: Kernel
    archive: Path
    runs: int
    image_sd: float | None = None
    """Standard deviation between images, ln ratio, if known."""
    kept: Path | None = None
    """File of facts from earlier calls, which are not measured again."""


@dataclass(slots=True)
class CalibrationRuns:
    """Boots and valid samples."""

    boots: dict[str, Boot] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def add(self, fact: Fact) -> None:
        """Adds a boot or a valid sample."""
        if isinstance(fact, Boot):
            self.boots[fact.id] = fact
        elif isinstance(fact, Sample) and fact.valid:
            self.samples.append(fact)

    def of(self, series: str) -> list[list[float]]:
        """Numbers of a series by boot, without empty boots."""
        by_boot: dict[str, list[float]] = {boot: [] for boot in self.boots}
        for sample in self.samples:
            if sample.scenario == series:
                by_boot[sample.boot].append(sample.pps)
        return [runs for runs in by_boot.values() if runs]


def measure(plan: CalibrationPlan) -> CalibrationRuns:
    """Boots the kernel until enough boots have a run of every scenario.

    Raises:
        NoiseError: `kept` belongs to another kernel, testbed or conditions, the testbed needs its
            owner, or several boots failed.
    """
    runs = _kept(plan)
    fruitless = 0
    with Connections(plan.lab.ssh) as connections:
        while (done := _done(plan, runs)) < plan.boots:
            plan.say(f"boot {done + 1} of {plan.boots}")
            facts = plan.trial(connections, plan.kernel, plan.archive, plan.runs)
            for fact in facts:
                runs.add(fact)
            if plan.kept is not None:
                _check_conditions(plan, runs)
                with plan.kept.open("a") as stream:
                    stream.write("".join(f"{serialization.dumps(fact)}\n" for fact in facts))
            fruitless = 0 if _done(plan, runs) > done else fruitless + 1
            if fruitless == _FAILURES:
                raise NoiseError(f"{_FAILURES} boots in a row failed: {why_failed(facts)}")
    return runs


def _done(plan: CalibrationPlan, runs: CalibrationRuns) -> int:
    return min(len(runs.of(series)) for series in plan.series)


def _check_conditions(plan: CalibrationPlan, runs: CalibrationRuns) -> None:
    """Refuses boots before and after a change of the testbed: it is no noise.

    Raises:
        NoiseError: a series has samples of different conditions.
    """
    for series in plan.series:
        if len({one.conditions for one in runs.samples if one.scenario == series}) > 1:
            raise NoiseError(
                f"the conditions of {series} are not those of the boots in {plan.kept}; expected "
                "another file, in which all boots have the same ones"
            )


def _kept(plan: CalibrationPlan) -> CalibrationRuns:
    """Reads the file of facts; removes an incomplete last line."""
    runs = CalibrationRuns()
    if plan.kept is None:
        return runs
    plan.kept.touch()  # an error before the first boot, if it cannot be written
    text = plan.kept.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        plan.kept.write_text(whole)
    wanted = plan.testbed.name, plan.kernel.key
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            fact = serialization.loads(line)
        except serialization.WireError as error:
            raise NoiseError(f"{plan.kept}, line {number}: {error}") from error
        if isinstance(fact, Boot) and (fact.testbed, fact.kernel) != wanted:
            raise NoiseError(
                f"{plan.kept}, line {number}: a boot of {fact.kernel[:12]} on {fact.testbed}; "
                f"expected {plan.kernel.key[:12]} on {plan.testbed.name}"
            )
        runs.add(fact)
    runs.samples = [sample for sample in runs.samples if sample.boot in runs.boots]
    return runs
