"""Measures image noise: builds one revision several times with different link layouts.

All images do the same work. Their difference, beyond the noise of boots, does not average out over
boots when two commits are compared.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

from netbisect.bisect.model.entities import Failure, Kernel, Sample
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.stats import variance_components
from netbisect.workers.build import userland
from netbisect.workers.build.artifacts import ArtefactStore
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.builder import Builder
from netbisect.workers.measure.calibrate import NoisePlan
from netbisect.workers.measure.noise_report import components, percents, spread_text
from netbisect.workers.transport.errors import NoiseError
from netbisect.workers.transport.ssh import Connections

DROPS = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Drops in the table of required boots."""

Rates = dict[str, list[list[float]]]
"""Numbers of valid samples by series, image and boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageNoisePlan(NoisePlan):
    """Images of one revision; `boots` of each."""

    builder: Builder
    revision: str
    config: str
    """KERNCONF."""
    builds: int


def measure(plan: ImageNoisePlan) -> Rates | Failure:
    """Builds the kernels and boots them interleaved; stops at the first failure.

    Raises:
        NoiseError: identical images, or the testbed needs its owner.
    """
    kernels: list[Kernel] = []
    needs = userland.needs_of(plan.lab, plan.builder.arch, plan.config)
    for layout in range(1, plan.builds + 1):
        plan.say(f"layout {layout} of {plan.builds}")
        revision = f"{plan.revision}#{layout}"
        source, config = plan.lab.source, plan.config
        kernel = KernelBuild(plan.builder, source, revision, config, plan.say, needs).run()
        if isinstance(kernel, Failure):
            return kernel
        kernels.append(kernel)
    if len({kernel.identity for kernel in kernels}) < len(kernels):
        raise NoiseError(
            "two layouts gave the same image: the linker of this tree has no "
            "--shuffle-sections, or its makefiles do not pass on LDFLAGS; expected LLD"
        )
    rates: Rates = {name: [[] for _ in kernels] for name in plan.series}
    store = ArtefactStore(plan.builder.kernels)
    with contextlib.ExitStack() as held:
        connections = held.enter_context(Connections(plan.lab.ssh))
        # The service may build here meanwhile, and make room.
        archives = [held.enter_context(store.lease(kernel.key)) for kernel in kernels]
        for turn in range(plan.boots):
            # There and back again: what drifts with time is no difference of images.
            order = range(len(kernels)) if turn % 2 == 0 else reversed(range(len(kernels)))
            for number in order:
                plan.say(f"boot {turn + 1} of {plan.boots}, layout {number + 1}")
                for fact in plan.trial(connections, kernels[number], archives[number]):
                    if isinstance(fact, Failure):
                        return fact
                    if isinstance(fact, Sample) and fact.valid:
                        rates[fact.scenario][number].append(fact.pps)
                        if fact.saturated:
                            who = "the generator is too slow to see this router"
                            plan.say(f"{fact.scenario}: saturated: {who}")
    return rates


def _components(rates: Rates, series: str) -> variance_components.Components:
    """Variance components of the levels of one series; raises NoiseError for too few samples."""
    level = metric_of(series).level
    return components(series, [[level(one) for one in image] for image in rates[series] if image])


def as_data(plan: ImageNoisePlan, rates: Rates) -> dict[str, object]:
    """The report as JSON; spreads and drops in percent.

    Raises:
        NoiseError: too few samples.
    """
    scenarios: dict[str, object] = {}
    for name, images in rates.items():
        found, metric = _components(rates, name), metric_of(name)
        scenarios[name] = {
            "images": found.images,
            "boots": found.boots,
            "level": metric.number(found.level),
            "unit": metric.unit,
            "better": metric.better,
            "image_percent": percents(found.image),
            "boot_percent": percents(found.boot),
            "confidence": found.confidence,
            "needs": [
                {"drop_percent": 100 * drop, "boots": need.boots, "images": need.images}
                for drop, need in _needs(found)
            ],
            "samples": images,
        }
    return {"testbed": plan.testbed.name, "revision": plan.revision, "scenarios": scenarios}


def as_text(plan: ImageNoisePlan, rates: Rates) -> str:
    """The report as text.

    Raises:
        NoiseError: too few samples.
    """
    parts = [f"image noise of {plan.testbed.name} at {plan.revision[:12]}"]
    for name in rates:
        found, metric = _components(rates, name), metric_of(name)
        parts.append(
            f"\n{name}: {found.images} images, {found.boots} boots, "
            f"{metric.text(metric.number(found.level))}\n"
            f"  between images  {spread_text(found.image)}\n"
            f"  between boots   {spread_text(found.boot)}\n"
            "  to detect a drop of  boots of one image per side  or images per side, one boot each"
        )
        for drop, need in _needs(found):
            boots = "never enough" if need.boots is None else str(need.boots)
            parts.append(f"  {100 * drop:17.0f} %  {boots:>27}  {need.images:>33}")
    return "\n".join(parts)


def _needs(found: variance_components.Components) -> list[tuple[float, variance_components.Need]]:
    return [
        (drop, variance_components.need(-math.log1p(-drop), found.image.sd, found.boot.sd))
        for drop in DROPS
    ]
