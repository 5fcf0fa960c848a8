"""Measures image noise: builds one revision several times with different link layouts.

All images do the same work. Their difference, beyond the noise of boots, does not average out over
boots when two commits are compared.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netbisect.bisect.model.entities import Fact, Failure, Kernel, Sample
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.stats import variance_components
from netbisect.workers.build import userland
from netbisect.workers.build.artifacts import ArtefactStore
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.scenario import Scenario
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.ssh import Connections

DROPS = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Drops in the table of required boots."""


class ImageNoiseError(Exception):
    """Measurement failed."""


@dataclass(frozen=True, slots=True)
class ImageNoisePlan:
    """What to measure."""

    lab: Lab
    testbed: Testbed
    builder: Builder
    revision: str
    config: str
    """KERNCONF."""
    builds: int
    boots: int
    scenarios: Sequence[Scenario]
    logs: Path
    say: Callable[[str], None]


@dataclass(slots=True)
class ImageRates:
    """Valid samples by series, image and boot."""

    by_series: dict[str, list[list[float]]] = field(default_factory=dict)

    def components(self, series: str) -> variance_components.Components:
        """Variance components of the levels of one series.

        Raises:
            ImageNoiseError: too few samples.
        """
        level = metric_of(series).level
        groups = [[level(number) for number in image] for image in self.by_series[series]]
        try:
            return variance_components.components([group for group in groups if group])
        except ValueError as error:
            raise ImageNoiseError(f"{series}: {error}") from error


def measure(plan: ImageNoisePlan) -> ImageRates | Failure:
    """Builds the kernels and boots them interleaved; stops at the first failure.

    Raises:
        ImageNoiseError: identical images, or the testbed needs its owner.
    """
    kernels: list[Kernel] = []
    for layout in range(1, plan.builds + 1):
        plan.say(f"layout {layout} of {plan.builds}")
        kernel = KernelBuild(
            plan.builder,
            plan.lab.source,
            plan.revision,
            plan.config,
            plan.say,
            layout,
            userland.needs_of(plan.lab, plan.builder.arch, plan.config),
        ).run()
        if isinstance(kernel, Failure):
            return kernel
        kernels.append(kernel)
    if len({kernel.identity for kernel in kernels}) < len(kernels):
        raise ImageNoiseError(
            "two layouts gave the same image: the linker of this tree has no "
            "--shuffle-sections, or its makefiles do not pass on LDFLAGS; LLD would be right"
        )
    names = [series for scenario in plan.scenarios for series in scenario.series]
    rates = ImageRates({name: [[] for _ in kernels] for name in names})
    store = ArtefactStore(plan.builder.kernels)
    with contextlib.ExitStack() as held:
        connections = held.enter_context(Connections(plan.lab.ssh))
        for kernel in kernels:  # the service may build here meanwhile, and make room
            held.enter_context(store.lease(kernel.key))
        for turn in range(plan.boots):
            # There and back again: what drifts with time is no difference of images.
            order = range(len(kernels)) if turn % 2 == 0 else reversed(range(len(kernels)))
            for number in order:
                plan.say(f"boot {turn + 1} of {plan.boots}, layout {number + 1}")
                failure = _trial(plan, connections, kernels[number], number, rates)
                if failure is not None:
                    return failure
    return rates


def _trial(
    plan: ImageNoisePlan, connections: Connections, kernel: Kernel, number: int, rates: ImageRates
) -> Failure | None:
    facts: list[Fact] = []
    archive = ArtefactStore(plan.builder.kernels).archive(kernel.key)
    trial = TrialRunner(plan.testbed, kernel, archive, plan.scenarios, plan.logs)
    sound = trial.run(connections, facts.append, plan.say)
    for fact in facts:
        if isinstance(fact, Sample) and fact.valid:
            if fact.saturated:
                plan.say(
                    f"{fact.scenario}: saturated: the generator is too slow to see this router"
                )
            rates.by_series[fact.scenario][number].append(fact.pps)
    failures = [fact for fact in facts if isinstance(fact, Failure)]
    if not sound:
        why = failures[-1].why if failures else "it gave no reason"
        raise ImageNoiseError(f"{plan.testbed.name} needs its owner: {why}")
    return failures[0] if failures else None


# ------------------------------------------------------------------------------------ telling


def as_data(plan: ImageNoisePlan, rates: ImageRates) -> dict[str, object]:
    """The report as JSON; spreads and drops in percent.

    Raises:
        ImageNoiseError: too few samples.
    """
    scenarios: dict[str, object] = {}
    for name, images in rates.by_series.items():
        found = rates.components(name)
        scenarios[name] = {
            "images": found.images,
            "boots": found.boots,
            "level": metric_of(name).number(found.level),
            "unit": metric_of(name).unit,
            "better": metric_of(name).better,
            "image_percent": _percents(found.image),
            "boot_percent": _percents(found.boot),
            "confidence": found.confidence,
            "needs": [
                {"drop_percent": 100 * drop, "boots": need.boots, "images": need.images}
                for drop, need in _needs(found)
            ],
            "samples": images,
        }
    return {"testbed": plan.testbed.name, "revision": plan.revision, "scenarios": scenarios}


def as_text(plan: ImageNoisePlan, rates: ImageRates) -> str:
    """The report as text.

    Raises:
        ImageNoiseError: too few samples.
    """
    parts = [f"image noise of {plan.testbed.name} at {plan.revision[:12]}"]
    for name in rates.by_series:
        found = rates.components(name)
        parts.append(
            f"\n{name}: {found.images} images, {found.boots} boots, "
            f"{metric_of(name).text(metric_of(name).number(found.level))}\n"
            f"  between images  {_spread(found.image, found.confidence)}\n"
            f"  between boots   {_spread(found.boot, found.confidence)}\n"
            "  to see a drop of   boot one image a side   or boot so many images once, a side"
        )
        for drop, need in _needs(found):
            boots = "never enough" if need.boots is None else f"{need.boots} x"
            parts.append(f"  {100 * drop:13.0f} %   {boots:>21}   {need.images:10}")
    return "\n".join(parts)


def _needs(found: variance_components.Components) -> list[tuple[float, variance_components.Need]]:
    return [
        (drop, variance_components.need(-math.log1p(-drop), found.image.sd, found.boot.sd))
        for drop in DROPS
    ]


def _percents(spread: variance_components.Spread) -> dict[str, float]:
    return {"sd": 100 * spread.sd, "low": 100 * spread.low, "high": 100 * spread.high}


def _spread(spread: variance_components.Spread, confidence: float) -> str:
    return (
        f"sd {100 * spread.sd:.2f} %  "
        f"({100 * confidence:.0f} % interval {100 * spread.low:.2f} to {100 * spread.high:.2f})"
    )
