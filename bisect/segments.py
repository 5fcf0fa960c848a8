"""A history cut into stretches of one level each, and the noise inside them.

The model is a product partition (D. Barry and J. A. Hartigan, Annals of Statistics 20, 1992): at
each revision a new level begins with a small chance, levels are normal about the middle of the
history, and within a stretch a revision lies off its level by the offset of its image and by
what its boots scatter. The likeliest cut is found by dynamic programming (P. Fearnhead,
Statistics and Computing 16, 2006), for each of a range of image noises, of which the likeliest
is kept. So the yardstick of a step is the spread from revision to revision, not the spread
within a night, which on real routers calls two of five harmless pairs different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.model import Level, Noise
from netbisect.bisect.robust import location

Floats = NDArray[np.float64]

BOOT_SD = 0.009
"""Between boots of one image; the median of some 3,500 published series."""
_BOOT_WEIGHT = 4.0
"""Degrees of freedom that BOOT_SD counts for."""
IMAGE_SD = 0.01
"""Between images that do the same work."""
IMAGE_WEIGHT = 4.0
"""Degrees of freedom that it counts for."""
_IMAGE_GRID = np.geomspace(0.002, 0.05, 18)
"""Image noises tried. More than 5 % has not been seen; what looks like it is steps."""
_STEP_CHANCE = 0.05
"""That a new level begins at a given revision, before looking."""
_STEP_SD = 0.1
"""Of levels about the middle of a history, ln pps."""
_LEAST_BOOTS = 3
"""Of a stretch: one or two may all be stray."""
_FORBIDDEN = 1e6
"""Cost of a stretch with fewer, where there is a choice."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """A history of n levels, cut."""

    cuts: tuple[int, ...]
    """Index of the first level of every stretch but the first."""
    noise: Noise
    y: Floats
    """ln pps of each level, n values."""
    variance: Floats
    """Of each level about that of its stretch, n values."""

    def mean(self, start: int, stop: int) -> tuple[float, float]:
        """Returns mean ln pps of the levels `start` to `stop` - 1, and the variance of it."""
        return weighted(self.y[start:stop], self.variance[start:stop])


def weighted(y: Floats, variance: Floats) -> tuple[float, float]:
    """Returns the mean of values of known variance, and the variance of that mean."""
    weight = 1 / variance
    return float(weight @ y / weight.sum()), float(1 / weight.sum())


def by_image(levels: Sequence[Level]) -> list[list[Level]]:
    """Puts neighbours of one identity together: revisions that build the same kernel.

    They share the offset of their image, and none of them can have changed the level.
    """
    groups: list[list[Level]] = []
    for level in levels:
        if groups and level.identity and groups[-1][-1].identity == level.identity:
            groups[-1].append(level)
        else:
            groups.append([level])
    return groups


def merge(group: Sequence[Level]) -> Level:
    """Makes one level of those of one image; its revision is that of the first."""
    boots = tuple(x for level in group for x in level.ln_pps)
    return Level(group[0].revision, group[0].identity, group[0].at, boots)


def boot_sd(levels: Sequence[Level]) -> float:
    """Pools the spread between boots of one image, as a standard deviation of ln pps.

    The median of the variances of the levels, each over the median that chi² gives it, so that
    a stray boot spoils its own level only; then averaged with a weak prior of 0.9 %.
    """
    spreads = sorted(
        (float(np.var(level.ln_pps, ddof=1)) / _median_of_chi2(n - 1), n - 1)
        for level in levels
        if (n := len(level.ln_pps)) > 1
    )
    freedom = sum(weight for _, weight in spreads)
    passed, middle = 0.0, 0.0
    for middle, weight in spreads:  # noqa: B007 - the weighted median is where the loop stops
        passed += weight
        if passed >= freedom / 2:
            break
    return math.sqrt((_BOOT_WEIGHT * BOOT_SD**2 + freedom * middle) / (_BOOT_WEIGHT + freedom))


def _median_of_chi2(freedom: int) -> float:
    """Of chi² over its degrees of freedom."""
    return float(special.chdtri(freedom, 0.5)) / freedom


def segment(levels: Sequence[Level], image_sd: float = IMAGE_SD) -> Segmentation:
    """Cuts a history and measures its noise.

    Args:
        levels: One per image, oldest first, any number.
        image_sd: Image noise to expect, as a standard deviation of ln pps.
    """
    boot = boot_sd(levels)
    y = np.array([location(level.ln_pps, boot) for level in levels], dtype=np.float64)
    boots = np.array([len(level.ln_pps) for level in levels], dtype=np.float64)
    variances = _IMAGE_GRID[:, None] ** 2 + boot**2 / boots
    # Log-normal, for it doubts little noise no more than much; ln s on n degrees of freedom has
    # a variance of 1 / 2n.
    prior = IMAGE_WEIGHT * np.log(_IMAGE_GRID / image_sd) ** 2
    costs, starts = _cut(y - np.median(y) if len(y) else y, variances, boots)
    best = int(np.argmin(costs + prior))
    cuts: list[int] = []
    stop = int(starts[best, -1])
    while stop > 0:
        cuts.append(stop)
        stop = int(starts[best, stop])
    image = float(_IMAGE_GRID[best]) if len(y) > 1 else image_sd
    return Segmentation(tuple(reversed(cuts)), Noise(boot, image), y, image**2 + boot**2 / boots)


def _cut(y: Floats, variances: Floats, boots: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The best cut of every beginning of a history, for every image noise at once.

    Args:
        y: n levels, about 0.
        variances: Of each level; one row per image noise, n columns.
        boots: Of each level.

    Returns:
        Minus log likelihood and prior of the best cut of all n levels, one per image noise; and
        where the last stretch of the best cut of the first t levels begins, n + 1 columns.
    """
    rows, n = variances.shape
    weight = 1 / variances

    def sums(values: Floats) -> Floats:
        return np.concatenate([np.zeros((rows, 1)), np.cumsum(values, axis=1)], axis=1)

    sum_w, sum_wy, sum_wyy = sums(weight), sums(weight * y), sums(weight * y * y)
    sum_boots = np.concatenate([[0.0], np.cumsum(boots)])
    sum_log = sums(np.log(variances))
    cost = np.zeros((rows, n + 1))
    starts = np.zeros((rows, n + 1), dtype=np.intp)
    change = math.log((1 - _STEP_CHANCE) / _STEP_CHANCE)
    spread = _STEP_SD**2
    for t in range(1, n + 1):
        w = sum_w[:, t, None] - sum_w[:, :t]
        wy = sum_wy[:, t, None] - sum_wy[:, :t]
        misfit = sum_wyy[:, t, None] - sum_wyy[:, :t] - spread * wy**2 / (1 + spread * w)
        misfit += sum_log[:, t, None] - sum_log[:, :t] + np.log1p(spread * w)
        total = cost[:, :t] + misfit / 2
        total[:, 1:] += change
        total += np.where(sum_boots[t] - sum_boots[:t] < _LEAST_BOOTS, _FORBIDDEN, 0.0)
        starts[:, t] = np.argmin(total, axis=1)
        cost[:, t] = np.take_along_axis(total, starts[:, t, None], axis=1)[:, 0]
    return cost[:, n], starts
