"""Measures the scatter of a testbed: boots and runs of one kernel, compared with nothing.

All boots run the same image, so whatever differs is the testbed's own: between boots, and between
runs within a boot. What images differ by is not seen here; `image_noise` measures that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netbisect.bisect import wire
from netbisect.bisect.model import Boot, Dud, Fact, Kernel, Reaction, Sample
from netbisect.workers.lab import Lab, Scenario, Testbed
from netbisect.workers.ssh import Connections
from netbisect.workers.trial import Trial

_FAILURES = 3
"""Boots in a row without a sample that end it."""


class CalibrationError(Exception):
    """It cannot be measured; one sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure where."""

    lab: Lab
    testbed: Testbed
    kernel: Kernel
    archive: Path
    boots: int
    runs: int
    scenarios: Sequence[Scenario]
    logs: Path
    say: Callable[[str], None]
    image_sd: float | None = None
    """Between images, ln ratio; None where nobody measured it."""
    kept: Path | None = None
    """File of facts, one line each; what is in it is not measured again."""


@dataclass(slots=True)
class Runs:
    """What was measured: boots, and valid samples by boot."""

    boots: dict[str, Boot] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def add(self, fact: Fact) -> None:
        """Takes what counts."""
        if isinstance(fact, Boot):
            self.boots[fact.id] = fact
        elif isinstance(fact, Sample) and fact.valid:
            self.samples.append(fact)

    def of(self, scenario: str) -> list[list[float]]:
        """Rates of the runs (pps), a list for each boot that has any."""
        by_boot: dict[str, list[float]] = {boot: [] for boot in self.boots}
        for sample in self.samples:
            if sample.scenario == scenario:
                by_boot[sample.boot].append(sample.pps)
        return [runs for runs in by_boot.values() if runs]


# ---------------------------------------------------------------------------------- measuring


def measure(plan: Plan) -> Runs:
    """Boots the kernel until there are enough boots with a run of every scenario.

    Raises:
        CalibrationError: the kept facts are of something else, the testbed needs its owner, or
            several boots in a row gave nothing.
    """
    runs = _kept(plan)
    failures = 0
    with Connections(plan.lab.ssh) as connections:
        while (done := _done(plan, runs)) < plan.boots:
            plan.say(f"boot {done + 1} of {plan.boots}")
            trial = Trial(
                plan.testbed, plan.kernel, plan.archive, plan.scenarios, plan.logs, plan.runs
            )
            facts: list[Fact] = []
            sound = trial.run(connections, facts.append, plan.say)
            for fact in facts:
                runs.add(fact)
            _keep(plan, facts)
            duds = [fact for fact in facts if isinstance(fact, Dud)]
            why = duds[-1].why if duds else "no run was a sample"
            if not sound or any(dud.reaction is Reaction.QUARANTINE for dud in duds):
                raise CalibrationError(f"{plan.testbed.name} needs its owner: {why}")
            failures = 0 if _done(plan, runs) > done else failures + 1
            if failures == _FAILURES:
                raise CalibrationError(f"{_FAILURES} boots in a row gave nothing: {why}")
    return runs


def _done(plan: Plan, runs: Runs) -> int:
    return min(len(runs.of(scenario.name)) for scenario in plan.scenarios)


def _keep(plan: Plan, facts: Sequence[Fact]) -> None:
    """A visit is kept as a whole or, if it is stopped on its way, not at all."""
    if plan.kept is not None:
        with plan.kept.open("a") as stream:
            stream.write("".join(f"{wire.dumps(fact)}\n" for fact in facts))


def _kept(plan: Plan) -> Runs:
    """What the file of facts has; a last line that breaks off is cut."""
    runs = Runs()
    if plan.kept is None or not plan.kept.exists():
        return runs
    text = plan.kept.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        plan.kept.write_text(whole)
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            fact = wire.loads(line)
        except wire.WireError as error:
            raise CalibrationError(f"{plan.kept}, line {number}: {error}") from error
        if isinstance(fact, Boot) and (fact.testbed, fact.kernel) != (
            plan.testbed.name,
            plan.kernel.key,
        ):
            raise CalibrationError(
                f"{plan.kept}, line {number}: a boot of {fact.kernel[:12]} on {fact.testbed}; "
                f"expected {plan.kernel.key[:12]} on {plan.testbed.name}"
            )
        runs.add(fact)
    runs.samples = [sample for sample in runs.samples if sample.boot in runs.boots]
    return runs
