"""Link order: further layouts of a revision, with its code at other addresses.

Each image has an offset caused by its code layout (T. Mytkowicz et al., ASPLOS 2009), which boots
do not average out. Another order of the sections draws another offset (C. Curtsinger and
E. D. Berger, STABILIZER, ASPLOS 2013), so the mean over layouts is closer to the performance of
the code. Offsets of layouts are assumed to have the variance of offsets of neighbouring commits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from netbisect.bisect.model.evidence import Observation, kernel_name, split_kernel_name
from netbisect.bisect.model.in_flight import InFlight
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Effect
from netbisect.bisect.search.likelihood import aligned
from netbisect.bisect.search.search_space import MeasuredImage, SearchSpace, Target
from netbisect.bisect.stats import effect as compare
from netbisect.bisect.stats.effect import values, yields_no_sample
from netbisect.bisect.stats.robust import LEAST_BOOT_SD, location

Effects = tuple[Effect, ...]
_CLEAR = 3.0
"""Ratio of the effect to the standard error of the difference of two mean levels."""
_FEWEST_IMAGES = 2
"""Minimum of each side for an interval that includes image noise."""


def can_average(job: BisectJob) -> bool:
    """Whether further layouts help: there is image noise, and the lab can link them."""
    return job.layouts > 0 and job.noise.image > 0


def observations_of(space: SearchSpace, target: Target) -> tuple[Observation, ...]:
    """Observations of all layouts of a target."""
    if not can_average(space.job):
        return target.observations
    own = {id(observation) for observation in target.observations}
    names = _revisions(space, target)
    further = (r for r in space.evidence.observations if r.layout and r.revision in names)
    return (*target.observations, *(r for r in further if id(r) not in own))


def _revisions(space: SearchSpace, target: Target) -> set[str]:
    """The revisions that build the kernel of a target."""
    return {
        name for name, one in zip(space.revisions, space.target_at, strict=True) if one is target
    }


def further_layouts(space: SearchSpace, in_flight: InFlight) -> list[Target]:
    """Bootable further layouts: the existing ones, and one more of each kernel.

    A kernel is linked again only after a boot of its ordinary layout, and only if no layout of it
    failed. If two layouts give the same image, the linker ignores the order, and no further
    layouts are requested.

    Args:
        space: The job and its evidence.
        in_flight: Running builds and trials; their layout numbers are taken.
    """
    if not can_average(space.job):
        return []
    known = _known_layouts(space, in_flight)
    found, unordered = [], _order_has_no_effect(space)
    for target in space.targets:
        if not target.boots:
            continue
        names = _revisions(space, target)
        own = {key: observations for key, observations in known.items() if key[0] in names}
        failed = [key for key in own if kernel_name(*key) in space.evidence.skipped]
        dead = [
            key
            for key, observations in own.items()
            if yields_no_sample(observations, space.job.lead)
        ]
        left = sorted(own.keys() - {*failed, *dead}, key=lambda key: (key[1], key[0]))
        found += [_layout_target(space, target, *key, own[key]) for key in left]
        free = set(range(1, space.job.layouts + 1)) - {layout for _, layout in own}
        if free and not (failed or dead or unordered):
            found.append(_layout_target(space, target, target.revision, min(free), []))
    return found


def _known_layouts(
    space: SearchSpace, in_flight: InFlight
) -> dict[tuple[str, int], list[Observation]]:
    """Observations by revision and layout of all further layouts, including requested ones."""
    evidence = space.evidence
    found: defaultdict[tuple[str, int], list[Observation]] = defaultdict(list)
    for observation in evidence.observations:
        if observation.layout:
            found[observation.revision, observation.layout].append(observation)
    ordered = (*evidence.kernels, *evidence.skipped, *in_flight.building)
    keys = [split_kernel_name(name) for name in ordered if "#" in name]
    keys += [(trial.revision, trial.layout) for trial in in_flight.under_way if trial.layout]
    return dict(found) | {key: found.get(key, []) for key in keys}


def _layout_target(
    space: SearchSpace, target: Target, revision: str, layout: int, observations: list[Observation]
) -> Target:
    built = kernel_name(revision, layout) in space.evidence.kernels
    boots = len(values(observations, space.job.lead))
    return Target(target.position, revision, boots, built, tuple(observations), layout)


def _order_has_no_effect(space: SearchSpace) -> bool:
    seen: defaultdict[str, set[int]] = defaultdict(set)
    for kernel in space.evidence.kernels.values():
        seen[kernel.identity].add(kernel.layout)
    for observation in space.evidence.observations:
        seen[observation.identity].add(observation.layout)
    return any(len(layouts) > 1 for identity, layouts in seen.items() if identity)


# ------------------------------------------------------------------------------ verification


def layouts_needed(space: SearchSpace, effect: float) -> int:
    """Minimum number of layouts of each side of a verification.

    Enough for the effect to exceed the standard error of the difference of means `_CLEAR` times.

    Args:
        space: The job and its evidence.
        effect: Expected difference of the two sides, ln ratio.
    """
    noise = space.job.noise
    variance = 2 * (noise.image**2 + noise.variance_of_boot())
    most = space.job.layouts + 1
    return max(1, min(most, math.ceil(variance * (_CLEAR / effect) ** 2)))


def next_layout(space: SearchSpace, target: Target, layouts: int, in_flight: InFlight) -> Target:
    """The layout of a target that its verification boots next.

    A layout without fresh boots until `layouts` of them have some, built ones first; then the one
    with the fewest boots.
    """
    own = [
        target,
        *(one for one in further_layouts(space, in_flight) if one.position == target.position),
    ]

    def boots(one: Target) -> int:
        return sum(r.fresh and space.job.lead in r.ln_pps for r in one.observations)

    seen = [one for one in own if boots(one)]
    unseen = [one for one in own if not boots(one)]
    if unseen and len(seen) < layouts:
        return min(unseen, key=lambda one: (not one.built, one.layout))
    return min(seen or own, key=lambda one: (boots(one), one.layout))


def difference(space: SearchSpace, good: Target, bad: Target) -> Effect | None:
    """Difference of two revisions, with images as samples.

    Student's t-test of the mean levels over layouts; the variance pools the prior image noise and
    the scatter of the layouts (as in `stats.effect.difference`).

    Returns:
        The effect in the leading scenario with its 95 % interval, counted in images; None unless
        both are measured.
    """
    fast, slow = (
        level_of(
            space, [image for image in space.images if space.target_at[image.position] is target]
        )
        for target in (good, bad)
    )
    if fast is None or slow is None:
        return None
    known = max(space.job.noise.image_weight, 1.0)
    degrees_of_freedom = known + fast.images + slow.images - 2
    scale = (known + fast.squares + slow.squares) / degrees_of_freedom
    variance = scale * (fast.variance + slow.variance) + offset_variance(space, fast, slow)
    counts = fast.images, slow.images
    return compare.t_effect(
        space.job.lead, slow.mean - fast.mean, variance, degrees_of_freedom, counts
    )


@dataclass(frozen=True, slots=True)
class MeanLevel:
    """Mean level of several images."""

    mean: float
    """ln pps."""
    variance: float
    """Variance of the mean, from the noise of the job."""
    squares: float
    """Sum of squared deviations of the images, in units of their variances."""
    images: int
    shares: tuple[float, ...]
    """Weight of each testbed in the mean."""


def level_of(space: SearchSpace, images: Sequence[MeasuredImage]) -> MeanLevel | None:
    """Mean level of images; None without images."""
    if not images:
        return None
    noise = space.job.noise
    sd = max(math.sqrt(noise.variance_of_boot()), LEAST_BOOT_SD)
    y = np.array([location(aligned(space, image), sd) for image in images])
    least = LEAST_BOOT_SD**2
    own = [
        1 / math.fsum(1 / max(noise.variance_of_boot(runs), least) for runs in image.runs)
        for image in images
    ]
    weight = 1 / (noise.image**2 + np.array(own))
    weight_of = [(np.array(image.testbeds), w) for image, w in zip(images, weight, strict=True)]
    shares = [
        math.fsum(float((where == i).mean() * w) for where, w in weight_of) / float(weight.sum())
        for i in range(len(space.testbeds))
    ]
    mean = float(weight @ y / weight.sum())
    squares = float(weight @ (y - mean) ** 2)
    return MeanLevel(mean, float(1 / weight.sum()), squares, len(images), tuple(shares))


def offset_variance(space: SearchSpace, one: MeanLevel, other: MeanLevel) -> float:
    """Variance of a difference caused by uncertain testbed offsets."""
    parts = zip(one.shares, other.shares, space.offsets, strict=False)
    return math.fsum(((late - early) * offset.sd) ** 2 for early, late, offset in parts)


def effects(job: BisectJob, good: Sequence[Observation], bad: Sequence[Observation]) -> Effects:
    """Compares several layouts of each side in every scenario, the lead first.

    Each image counts once, with the mean of its boots, and scatters by image noise too.

    Returns:
        The effects; empty if a side has fewer than two images.
    """
    sides = [_by_image(job, side) for side in (good, bad)]
    if min(len({(r.identity, r.layout) for r in side}) for side in sides) < _FEWEST_IMAGES:
        return ()
    noise = job.noise
    sd = max(math.sqrt(noise.image**2 + noise.variance_of_boot()), LEAST_BOOT_SD)
    known = compare.SpreadPrior(sd, max(noise.image_weight, 1.0))
    found = compare.effects(sides[0], sides[1], job.lead, job.scenarios, known)
    return tuple(
        replace(
            effect,
            good_boots=len(values(good, effect.scenario)),
            bad_boots=len(values(bad, effect.scenario)),
        )
        for effect in found
    )


def _by_image(job: BisectJob, observations: Sequence[Observation]) -> list[Observation]:
    """One mean observation per image and testbed."""
    found: defaultdict[tuple[str, str, int, str], list[Observation]] = defaultdict(list)
    for r in observations:
        found[r.revision if not r.identity else "", r.identity, r.layout, r.testbed].append(r)
    return [_mean(job, boots) for boots in found.values()]


def _mean(job: BisectJob, boots: Sequence[Observation]) -> Observation:
    sd = max(math.sqrt(job.noise.variance_of_boot()), LEAST_BOOT_SD)
    levels: defaultdict[str, list[float]] = defaultdict(list)
    for observation in boots:
        for name, level in observation.ln_pps.items():
            levels[name].append(level)
    return replace(boots[0], ln_pps={name: location(own, sd) for name, own in levels.items()})
