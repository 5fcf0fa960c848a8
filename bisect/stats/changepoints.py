"""Segmentation of a history into constant levels, with its noise.

The levels of the images, corrected for boot modes, are partitioned by `stats.partition`. The scale
of a step is the image noise, not the boot noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.boot_modes import fast_levels, local_modes
from netbisect.bisect.stats.partition import CORRELATIONS, STUDENT_SCALE, partition
from netbisect.bisect.stats.robust import locations, move_sd, weighted_location

BOOT_SD = 0.009
"""Prior boot noise: the median of some 3,500 published series."""
_BOOT_WEIGHT = 4.0
"""Degrees of freedom of BOOT_SD."""
IMAGE_SD = 0.01
"""Prior image noise."""
IMAGE_WEIGHT = 4.0
"""Degrees of freedom of IMAGE_SD."""
IMAGE_PRIOR = (IMAGE_SD, IMAGE_WEIGHT)
WEAK_PRIOR = (IMAGE_SD, 1.0)
"""Prior image noise of metrics other than packet rates, whose noise is less known."""
_FEW = 20
"""Maximum levels without a noise estimate from neighbours."""
_PER_MOVE = 0.25
"""Degrees of freedom per difference of neighbours, for the median."""
STEP_PROBABILITY = 0.05
"""Prior probability of a step at a revision."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """A segmented history of n levels."""

    cuts: tuple[int, ...]
    """Index of the first level of every segment but the first."""
    noise: Noise
    y: Floats
    """ln pps of each level, n values."""
    variance: Floats
    """Variance of each level around that of its segment, n values."""
    correlation: float = 0.0
    """Correlation of neighbouring levels."""

    def mean(self, start: int, stop: int) -> tuple[float, float]:
        """Robust mean ln pps of the levels `start` to `stop` - 1, and its variance."""
        variance = self.variance[start:stop]
        mean = weighted_location(self.y[start:stop], variance)
        alike = min((1 + self.correlation) / (1 - self.correlation), len(variance))
        return mean, alike / float((1 / variance).sum())


def weighted_mean(y: Floats, variance: Floats) -> tuple[float, float]:
    """Mean weighted by inverse variance, and its variance."""
    weight = 1 / variance
    return float(weight @ y / weight.sum()), float(1 / weight.sum())


def group_by_image(levels: Sequence[Level]) -> list[list[Level]]:
    """Groups neighbouring levels with the same kernel identity."""
    # A level without an identity is a group of its own.
    groups = itertools.groupby(enumerate(levels), lambda one: one[1].identity or one[0])
    return [[level for _, level in group] for _, group in groups]


def merge_levels(group: Sequence[Level]) -> Level:
    """Merges the levels of one image, under its first revision; saturated by majority of boots."""
    if len(group) == 1:
        return group[0]
    boots = tuple(x for level in group for x in level.ln_pps)
    limited = sum(len(level.ln_pps) for level in group if level.saturated)
    return replace(group[0], ln_pps=boots, saturated=2 * limited > len(boots))


def boot_matrix(levels: Sequence[Level]) -> Floats:
    """Ln pps of n levels as n rows, padded with NaN."""
    counts = np.array([len(level.ln_pps) for level in levels], dtype=np.intp)
    most = int(counts.max(initial=0)) if len(levels) else 1
    boots = np.full((len(levels), most), np.nan)
    boots[np.arange(most) < counts[:, None]] = [x for level in levels for x in level.ln_pps]
    return boots


def boot_sd(boots: Floats) -> float:
    """Standard deviation between boots of one image, ln pps.

    Weighted median of the variances of the levels, each over its chi² median, which is robust
    against outliers; pooled with the prior.

    Args:
        boots: ln pps, a row per image, padded with NaN.
    """
    there = ~np.isnan(boots)
    boots, there = boots[there.sum(axis=1) > 1], there[there.sum(axis=1) > 1]
    weights = there.sum(axis=1) - 1.0
    means = np.where(there, boots, 0.0).sum(axis=1) / (weights + 1)
    squares = np.where(there, boots - means[:, None], 0.0) ** 2
    spreads = squares.sum(axis=1) / weights / (special.chdtri(weights, 0.5) / weights)
    if not len(spreads):
        return BOOT_SD
    order = np.argsort(spreads, kind="stable")
    passed = np.cumsum(weights[order])
    degrees_of_freedom = float(passed[-1])
    middle = float(spreads[order][np.searchsorted(passed, degrees_of_freedom / 2)])
    return math.sqrt(
        (_BOOT_WEIGHT * BOOT_SD**2 + degrees_of_freedom * middle)
        / (_BOOT_WEIGHT + degrees_of_freedom)
    )


def segment(levels: Sequence[Level]) -> Segmentation:
    """Segments a history and estimates its noise.

    Args:
        levels: One per image, oldest first, any number.
    """
    boots = boot_matrix(levels)
    return segment_boots(boots, local_modes(boots))


def segment_boots(
    boots: Floats,
    modes: Sequence[BootModes | None],
    prior: tuple[float, float] = IMAGE_PRIOR,
    probabilities: Floats | None = None,
    correlations: Sequence[float] = CORRELATIONS,
    unit: Floats | float = 0.0,
) -> Segmentation:
    """As `segment`, from a boot matrix.

    Args:
        boots: n rows of ln pps, padded with NaN.
        modes: Modes of every image, as from `boot_modes.local_modes`.
        prior: Image noise, ln pps, and its degrees of freedom.
        probabilities: Prior probability of a step at each level; 5 % by default.
        correlations: Possible correlations of neighbouring images, equally likely.
        unit: Unit of the rounding as a share of each level; 0 if the numbers are not rounded.
    """
    image_sd, weight = prior
    y, boot = local_levels(boots, modes)
    noise = Noise(float(boot[-1]) if len(boot) else BOOT_SD, image_sd, image_weight=IMAGE_WEIGHT)
    if modes and (latest := modes[-1]):
        noise = replace(noise, slow_share=latest.share, slow_gap=latest.gap)
    count = (~np.isnan(boots)).sum(axis=1).astype(np.float64)
    noise = replace(noise, boot_weight=float((count - 1).sum()))
    least = np.maximum(boot**2 / count, unit**2 / 12)  # rounding: uniform within a unit
    steps = np.full(len(y), STEP_PROBABILITY) if probabilities is None else probabilities
    if not len(y):
        return Segmentation((), noise, y, image_sd**2 + least)
    scale = STUDENT_SCALE * image_sd, weight
    found = partition(y, least, count, scale, steps, correlations)
    image = math.sqrt(found.variance[-1] - least[-1]) / STUDENT_SCALE
    noise = replace(
        noise,
        image=max(image, _neighbour_noise(y, least, image)),
        image_weight=IMAGE_WEIGHT + max(len(y) - 1 - len(found.cuts), 0),
    )
    variance = (found.variance - least) / STUDENT_SCALE**2 + least
    return Segmentation(found.cuts, noise, y, variance, found.correlation)


def local_levels(boots: Floats, modes: Sequence[BootModes | None]) -> tuple[Floats, Floats]:
    """Level of every image, ln pps, and the boot noise within its modes.

    Args:
        boots: n rows of ln pps, padded with NaN.
        modes: Modes of every image.
    """
    y, boot = np.empty(len(boots)), np.empty(len(boots))
    one = boot_sd(boots[np.array([own is None for own in modes], dtype=bool)])
    start = 0
    for own, run in itertools.groupby(modes):
        rows = slice(start, start + len(list(run)))
        boot[rows] = own.boot if own else one
        y[rows] = fast_levels(boots[rows], own) if own else locations(boots[rows], one)
        start = rows.stop
    return y, boot


def _neighbour_noise(y: Floats, least: Floats, image_sd: float) -> float:
    """Image noise from the differences of neighbours, pooled with that of the segments.

    A lower bound that does not depend on the segmentation, which may absorb noise into steps.

    Args:
        y: n levels.
        least: Their variances from boot noise.
        image_sd: Standard deviations of images in the segments.
    """
    if len(y) <= _FEW:
        return 0.0
    moves = np.diff(y)
    seen = max(float(move_sd(moves)) ** 2 - float(np.mean(least)), 0.0)
    weight = _PER_MOVE * len(moves)
    return math.sqrt((IMAGE_WEIGHT * image_sd**2 + weight * seen) / (IMAGE_WEIGHT + weight))
