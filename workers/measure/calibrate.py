"""Measures the noise of a testbed with boots and runs of one kernel.

All boots use the same image, so differences between boots and between runs are noise of the
testbed. `image_noise` measures the noise between images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
"""Consecutive boots without a sample after which a kernel is not booted again, or none if the lab
is the cause.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisePlan:
    """Where to measure noise."""

    lab: Lab
    testbed: Testbed
    boots: int
    scenarios: Sequence[Scenario]
    logs: Path
    say: Callable[[str], None]
    runs: int = 1
    """Runs of each scenario within a boot."""
    kept: Path | None = None
    """File of facts from earlier calls, which are not measured again."""

    @property
    def series(self) -> list[str]:
        """Names of the measured series."""
        return [series for scenario in self.scenarios for series in scenario.series]

    def trial(
        self, connections: Connections, kernel: Kernel, archive: Path, emit: Callable[[Fact], None]
    ) -> list[Failure]:
        """Runs one trial; returns its failures.

        Raises:
            NoiseError: the testbed needs its owner.
        """
        trial = TrialRunner(self.testbed, kernel, archive, self.scenarios, self.logs, self.runs)
        limit = self.testbed.timing.boot_timeout
        with lock_testbed(self.lab, self.testbed, "measuring its noise", self.say, seconds=limit):
            sound = trial.run(connections, emit, self.say)
        failures = [fact for fact in trial.facts if isinstance(fact, Failure)]
        if not sound or any(fact.reaction is Reaction.QUARANTINE for fact in failures):
            raise NoiseError(f"{self.testbed.name} needs repair: {_why(failures)}")
        return failures


def _why(failures: Sequence[Failure]) -> str:
    """Why a trial has no sample."""
    return failures[-1].why if failures else "no run was a sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan(NoisePlan):
    """Boots and runs of one kernel."""

    kernel: Kernel
    archive: Path
    image_sd: float | None = None
    """Standard deviation between images, ln ratio, if known."""


@dataclass(slots=True)
class NoiseRuns:
    """Kernels by key, boots by name, and valid samples."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    boots: dict[str, Boot] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def add(self, fact: Fact) -> None:
        """Adds a kernel, a boot or a valid sample."""
        if isinstance(fact, Kernel):
            self.kernels[fact.key] = fact
        elif isinstance(fact, Boot):
            self.boots[fact.id] = fact
        elif isinstance(fact, Sample) and fact.valid:
            self.samples.append(fact)

    def of(self, series: str, image: str = "") -> list[list[float]]:
        """Numbers of a series by boot of an image (default: of all), without empty boots."""
        by_boot: dict[str, list[float]] = {
            boot.id: []
            for boot in self.boots.values()
            if not image or self.kernels[boot.kernel].identity == image
        }
        for sample in self.samples:
            if sample.scenario == series and sample.boot in by_boot:
                by_boot[sample.boot].append(sample.pps)
        return [runs for runs in by_boot.values() if runs]


def measure(plan: CalibrationPlan) -> NoiseRuns:
    """Boots the kernel until enough boots have a run of every scenario.

    Raises:
        NoiseError: see `kept_runs` and `boot_in_turn`.
    """
    runs = kept_runs(plan, plan.kernel.key[:12], plan.kernel)
    boot_in_turn(plan, runs, {plan.kernel: plan.archive})
    return runs


def boot_in_turn(plan: NoisePlan, runs: NoiseRuns, images: Mapping[Kernel, Path]) -> None:
    """Boots each image until enough of its boots have a run of every scenario.

    An image is skipped after several failed boots in a row.

    Raises:
        NoiseError: the conditions are not those of `kept`, the testbed needs its owner, or no
            image is left.
    """

    def done(kernel: Kernel) -> int:
        return min(len(runs.of(series, kernel.identity)) for series in plan.series)

    failed = dict.fromkeys(images, 0)
    lab = 0  # boots in a row that failed because of the lab
    with Connections(plan.lab.ssh) as connections:
        while waiting := {
            kernel: done(kernel) + failed[kernel]
            for kernel in images
            if done(kernel) < plan.boots and failed[kernel] < _FAILURES
        }:
            turn = min(waiting.values())
            # Forward, then backward, so that a drift does not appear as a difference of images.
            kernel = [one for one in waiting if waiting[one] == turn][-(turn % 2)]
            before = done(kernel)
            layout = f", layout {kernel.layout}" if kernel.layout else ""
            plan.say(f"boot {before + 1} of {plan.boots}{layout}")
            emit = partial(keep, plan, runs)
            failures = plan.trial(connections, kernel, images[kernel], emit)
            failed[kernel] = 0 if done(kernel) > before else failed[kernel] + 1
            infra = any(one.reaction is Reaction.INFRA for one in failures)
            lab = lab + 1 if failed[kernel] and infra else 0
            if _FAILURES in (failed[kernel], lab):
                reason = f"{_FAILURES} boots in a row failed: {_why(failures)}"
                if lab == _FAILURES or min(failed.values()) == _FAILURES:
                    raise NoiseError(reason)
                plan.say(f"layout {kernel.layout} is left out: {reason}")


def keep(plan: NoisePlan, runs: NoiseRuns, fact: Fact) -> None:
    """Adds a fact and stores it immediately, so that an interruption does not lose it.

    All boots of a series must have the same conditions.

    Raises:
        NoiseError: a series has samples of different conditions.
    """
    runs.add(fact)
    if plan.kept is None:
        return
    for series in plan.series:
        if len({one.conditions for one in runs.samples if one.scenario == series}) > 1:
            raise NoiseError(
                f"the conditions of {series} are not those of the boots in {plan.kept}; expected "
                "another file, in which all boots have the same ones"
            )
    with plan.kept.open("a") as stream:
        stream.write(f"{serialization.dumps(fact)}\n")


def images_of(revision: str, config: str) -> str:
    """Description of all layouts of a kernel, for error messages."""
    return f"images of {revision[:12]} with {config}"


def kept_runs(plan: NoisePlan, expected: str, *kernels: Kernel) -> NoiseRuns:
    """Reads the file of facts; removes an incomplete last line.

    `expected` describes the kernels in the file: `images_of`, or the key of a single kernel.

    Raises:
        NoiseError: it belongs to other kernels or another testbed.
    """
    runs = NoiseRuns({kernel.key: kernel for kernel in kernels})
    if plan.kept is None:
        return runs
    plan.kept.touch()  # an error before the first boot, if it cannot be written
    text = plan.kept.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        plan.kept.write_text(whole)
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            fact = serialization.loads(line)
        except serialization.WireError as error:
            raise NoiseError(f"{plan.kept}, line {number}: {error}") from error
        found = expected
        if isinstance(fact, Kernel):
            found = images_of(fact.revision, fact.config)
        elif isinstance(fact, Boot) and (
            fact.testbed != plan.testbed.name or fact.kernel not in runs.kernels
        ):
            found = f"a boot of {fact.kernel[:12]} on {fact.testbed}"
        if found != expected:
            raise NoiseError(
                f"{plan.kept}, line {number}: {found}; expected {expected} on {plan.testbed.name}"
            )
        runs.add(fact)
    runs.samples = [sample for sample in runs.samples if sample.boot in runs.boots]
    return runs
