"""Measures image noise: builds one revision several times with different link layouts.

All images do the same work. Their difference, beyond the noise of boots, does not average out over
boots when two commits are compared.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from netbisect.bisect.model.entities import Failure, Kernel, Reaction
from netbisect.bisect.model.evidence import kernel_name
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.stats import variance_components
from netbisect.workers.build import userland
from netbisect.workers.build.artifacts import ArtefactStore
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.builder import Builder
from netbisect.workers.measure import calibrate
from netbisect.workers.measure.calibrate import NoisePlan, NoiseRuns
from netbisect.workers.measure.noise_report import components, percents, spread_text
from netbisect.workers.transport.errors import NoiseError

DROPS = (0.01, 0.02, 0.03, 0.05, 0.1)
"""Drops in the table of required boots."""
_FEWEST = 2
"""Images between which a difference can be measured."""

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
    """Builds the kernels and boots them in turn; a failure if fewer than two can be built.

    Raises:
        NoiseError: two images are identical, or an image differs from that of an earlier call;
            also see `kept_runs` and `boot_in_turn`.
    """
    runs = calibrate.kept_runs(plan, calibrate.images_of(plan.revision, plan.config))
    store = ArtefactStore(plan.builder.kernels)
    images: dict[Kernel, Path] = {}
    with contextlib.ExitStack() as held:
        for layout in range(1, plan.builds + 1):
            plan.say(f"layout {layout} of {plan.builds}")
            kernel = _built(plan, runs, store, layout)
            if isinstance(kernel, Kernel):
                # The service may build here meanwhile, and make room.
                images[kernel] = held.enter_context(store.lease(kernel.key))
            elif kernel.reaction is Reaction.SKIP or len(images) + plan.builds - layout < _FEWEST:
                return kernel  # the next layouts would not build, or are too few
            else:
                plan.say(f"layout {layout} is left out: {kernel.why}")
        if len({kernel.identity for kernel in images}) < len(images):
            raise NoiseError(
                "two layouts gave the same image: the linker of this tree has no "
                "--shuffle-sections, or its makefiles do not pass on LDFLAGS; expected LLD"
            )
        calibrate.boot_in_turn(plan, runs, images)
    for series in plan.series:
        if any(one.saturated for one in runs.samples if one.scenario == series):
            plan.say(f"{series}: saturated: the generator is too slow to see this router")
    return {
        series: [[*chain(*runs.of(series, kernel.identity))] for kernel in images]
        for series in plan.series
    }


def _built(
    plan: ImageNoisePlan, runs: NoiseRuns, store: ArtefactStore, layout: int
) -> Kernel | Failure:
    """The kernel of an earlier call if the store still has it, or a new one."""
    kept = {kernel.layout: kernel for kernel in runs.kernels.values()}.get(layout)
    if kept is not None and not store.discard_damaged(kept.key):
        return kept
    needs = userland.needs_of(plan.lab, plan.builder.arch, plan.config)
    revision, source = kernel_name(plan.revision, layout), plan.lab.source
    kernel = KernelBuild(plan.builder, source, revision, plan.config, plan.say, needs).run()
    if isinstance(kernel, Kernel):
        if kept is not None and kept.identity != kernel.identity:
            raise NoiseError(
                f"layout {layout} is not the image in {plan.kept}: the build tools have changed; "
                "expected another file"
            )
        calibrate.keep(plan, runs, kernel)
    return kernel


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
