"""A history cut into stretches of one level each, and the noise inside them.

The model is a product partition (D. Barry and J. A. Hartigan, Annals of Statistics 20, 1992): at
each revision a new level begins with a small chance, levels are normal about the middle of the
history, and within a stretch a revision lies off its level by the offset of its image and by
what its boots scatter. The likeliest cut is found by dynamic programming (P. Fearnhead,
Statistics and Computing 16, 2006), for each of a range of image noises, of which the likeliest
is kept. So the yardstick of a step is the spread from revision to revision, not the spread
within a night, which on real routers calls two of five harmless pairs different.

Of long histories not every place is tried, only those that an optimal partition by squares with
a low penalty proposes (B. Jackson et al., IEEE Signal Processing Letters 12, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect import modes as two_modes
from netbisect.bisect.model import Level, Noise
from netbisect.bisect.modes import Modes
from netbisect.bisect.robust import locations

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
STEP_CHANCE = 0.05
"""That a new level begins at a given revision, before looking."""
_FEW = 20
"""Levels that tell nothing of the noise by their neighbours, or less."""
_MEDIAN_MOVE = 0.954
"""Median of |a - b| for normal a and b, in their standard deviations."""
_PER_MOVE = 0.25
"""Degrees of freedom that a difference of neighbours is worth, taken by its median."""
_STEP_SD = 0.1
"""Of levels about the middle of a history, ln pps."""
_LEAST_BOOTS = 3
"""Of a stretch: one or two may all be stray."""
_FORBIDDEN = 1e6
"""Cost of a stretch with fewer, where there is a choice."""
_ALL_TRIED = 60
"""Levels of a history up to which every place is tried."""
_WINDOW, _OVERLAP = 400, 50
"""Levels that are partitioned at a time, and of the next window those that were seen before."""
_PROPOSED = 9.0
"""Penalty of a proposal, in variances of a level: far below what a cut has to earn."""
_SHORTEST = 2
"""Levels of a stretch that is proposed."""
_BESIDE = 1
"""Levels to each side of a proposal that are tried too."""


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
    last = ""
    for level in levels:
        if last and level.identity == last:
            groups[-1].append(level)
        else:
            groups.append([level])
            last = level.identity
    return groups


def merge(group: Sequence[Level]) -> Level:
    """Makes one level of those of one image; its revision is that of the first.

    It is saturated when most of its boots belong to levels that are.
    """
    if len(group) == 1:
        return group[0]
    boots = tuple(x for level in group for x in level.ln_pps)
    limited = sum(len(level.ln_pps) for level in group if level.saturated)
    return replace(group[0], ln_pps=boots, saturated=2 * limited > len(boots))


def boots_of(levels: Sequence[Level]) -> Floats:
    """Puts the boots of n levels into n rows of ln pps; NaN where one had fewer than others."""
    counts = np.array([len(level.ln_pps) for level in levels], dtype=np.intp)
    most = int(counts.max(initial=0)) if len(levels) else 1
    boots = np.full((len(levels), most), np.nan)
    boots[np.arange(most) < counts[:, None]] = [x for level in levels for x in level.ln_pps]
    return boots


def boot_sd(boots: Floats) -> float:
    """Pools the spread between boots of one image, as a standard deviation of ln pps.

    The median of the variances of the levels, each over the median that chi² gives it, so that
    a stray boot spoils its own level only; then averaged with a weak prior of 0.9 %.

    Args:
        boots: ln pps, a row per image; NaN where an image had fewer boots.
    """
    there = ~np.isnan(boots)
    boots, there = boots[there.sum(axis=1) > 1], there[there.sum(axis=1) > 1]
    weights = there.sum(axis=1) - 1.0
    means = np.where(there, boots, 0.0).sum(axis=1) / (weights + 1)
    squares = np.where(there, boots - means[:, None], 0.0) ** 2
    spreads = squares.sum(axis=1) / weights / (special.chdtri(weights, 0.5) / weights)
    order = np.argsort(spreads, kind="stable")
    passed = np.cumsum(weights[order])
    freedom = float(passed[-1]) if len(passed) else 0.0
    middle = float(spreads[order][np.searchsorted(passed, freedom / 2)]) if len(passed) else 0.0
    return math.sqrt((_BOOT_WEIGHT * BOOT_SD**2 + freedom * middle) / (_BOOT_WEIGHT + freedom))


def segment(
    levels: Sequence[Level],
    image_sd: float = IMAGE_SD,
    chances: Floats | None = None,
) -> Segmentation:
    """Cuts a history and measures its noise.

    Args:
        levels: One per image, oldest first, any number.
        image_sd: Image noise to expect, as a standard deviation of ln pps.
        chances: That a new level begins with each of the levels, before looking; 5 % each
            unless something else is known, as from other series of the same revisions.
    """
    boots = boots_of(levels)
    return segment_boots(boots, two_modes.learn(boots), image_sd, chances)


def segment_boots(
    boots: Floats,
    found: Modes | None,
    image_sd: float = IMAGE_SD,
    chances: Floats | None = None,
) -> Segmentation:
    """As `segment`, of n images as rows of ln pps, NaN where one had fewer boots.

    Args:
        boots: n rows.
        found: The modes of the boots, which `modes.learn` takes from a history.
        image_sd: As for `segment`.
        chances: As for `segment`.
    """
    if found is None:
        boot = boot_sd(boots)
        y = locations(boots, boot)
        noise = Noise(boot, image_sd)
    else:
        boot = found.boot
        y = two_modes.levels(boots, found)
        noise = Noise(boot, image_sd, slow_share=found.share, slow_gap=found.gap)
    count = (~np.isnan(boots)).sum(axis=1).astype(np.float64)
    variances = _IMAGE_GRID[:, None] ** 2 + boot**2 / count
    places = _places(y, boot**2 / count)
    steps = np.full(len(y), STEP_CHANCE) if chances is None else chances
    # Log-normal, for it doubts little noise no more than much; ln s on n degrees of freedom has
    # a variance of 1 / 2n.
    prior = IMAGE_WEIGHT * np.log(_IMAGE_GRID / image_sd) ** 2
    costs, starts = _cut(y - np.median(y) if len(y) else y, variances, count, steps, places)
    best = int(np.argmin(costs + prior))
    cuts: list[int] = []
    stop = int(starts[best, -1])
    while stop > 0:
        cuts.append(int(places[stop]))
        stop = int(starts[best, stop])
    image = float(_IMAGE_GRID[best]) if len(y) > 1 else image_sd
    variance = image**2 + boot**2 / count
    known = max(image, _beside(y, boot**2 / count, image))
    noise = replace(noise, image=known, image_weight=IMAGE_WEIGHT + max(len(y) - 1 - len(cuts), 0))
    return Segmentation(tuple(reversed(cuts)), noise, y, variance)


def _beside(y: Floats, least: Floats, image_sd: float) -> float:
    """Image noise by what neighbours show, on average with a guess.

    Neighbours differ by noise alone, but for a few. A history of noisy images can be cut until
    little noise is left; whoever has to trust a difference of two images must not be told that.

    Args:
        y: n levels.
        least: Their variances, of boots only.
        image_sd: The guess.
    """
    if len(y) <= _FEW:
        return 0.0
    moves = np.abs(np.diff(y))
    seen = max((float(np.median(moves)) / _MEDIAN_MOVE) ** 2 - float(np.mean(least)), 0.0)
    weight = _PER_MOVE * len(moves)
    return math.sqrt((IMAGE_WEIGHT * image_sd**2 + weight * seen) / (IMAGE_WEIGHT + weight))


def _places(y: Floats, least: Floats) -> NDArray[np.intp]:
    """Where a stretch may begin, and n at the end: everywhere, or where that is proposed.

    Args:
        y: n levels.
        least: Their variances, of boots only.
    """
    n = len(y)
    if n <= _ALL_TRIED:
        return np.arange(n + 1)
    moves = np.abs(np.diff(y))
    sd = math.sqrt(max(float(np.median(moves) / _MEDIAN_MOVE) ** 2, float(np.median(least))))
    proposed = {0, n}
    for middle in _partition((y - np.median(y)) / sd):
        proposed.update(range(max(middle - _BESIDE, 1), min(middle + _BESIDE, n - 1) + 1))
    return np.array(sorted(proposed), dtype=np.intp)


def _partition(y: Floats) -> list[int]:
    """Where the stretches begin whose squares and penalties together are least.

    Args:
        y: n levels, in their standard deviations. All windows are cut at the same time.
    """
    starts = range(0, max(len(y) - 2 * _SHORTEST + 1, 1), _WINDOW - _OVERLAP)
    windows = [y[start : start + _WINDOW] for start in starts]
    width = (max(map(len, windows)) // _SHORTEST + 1) * _SHORTEST
    # What is filled up with zeros is never looked at: a cut knows only what is before it.
    sums = np.cumsum([np.pad(one, (1, width - 1 - len(one))) for one in windows], axis=1)
    # Of the best cut of each beginning, its squares and penalties less the squares of the levels.
    saved = np.full(sums.shape, np.inf)
    saved[:, 0] = 0.0
    last = np.zeros(sums.shape, dtype=np.intp)
    # As many beginnings at a time as no stretch fits between.
    beside = np.arange(_SHORTEST)
    window = np.arange(len(sums))[:, None]
    per_level = 1 / (beside[:, None] + np.arange(width, 0, -1))
    row, column = np.triu_indices(_SHORTEST - 1)
    for t in range(_SHORTEST, width, _SHORTEST):
        now = slice(t, t + _SHORTEST)
        costs = sums[:, now, None] - sums[:, None, :t]
        costs *= costs
        costs *= per_level[:, width - t :]
        np.subtract(saved[:, None, :t], costs, out=costs)
        costs[:, row, t - _SHORTEST + 1 + column] = np.inf
        last[:, now] = best = costs.argmin(axis=2)
        saved[:, now] = costs[window, beside, best] + _PROPOSED
    found = []
    for start, levels, of_window in zip(starts, windows, last, strict=True):
        cut = int(of_window[len(levels)])
        while cut > 0:
            found.append(start + cut)
            cut = int(of_window[cut])
    return found


def _cut(
    y: Floats, variances: Floats, boots: Floats, chances: Floats, places: NDArray[np.intp]
) -> tuple[Floats, NDArray[np.intp]]:
    """The best cut of every beginning of a history, for every image noise at once.

    Args:
        y: n levels, about 0.
        variances: Of each level; one row per image noise, n columns.
        boots: Of each level.
        chances: That a stretch begins with each level, before looking.
        places: Where a stretch may begin, ascending from 0 to n.

    Returns:
        Minus log likelihood and prior of the best cut of all n levels, one per image noise; and
        of the best cut up to each place, the index of the place where its last stretch begins.
    """
    rows = len(variances)
    weight = 1 / variances

    def sums(values: Floats) -> Floats:
        whole = np.concatenate([np.zeros((rows, 1)), np.cumsum(values, axis=1)], axis=1)
        return whole[:, places]

    sum_w, sum_wy, sum_wyy = sums(weight), sums(weight * y), sums(weight * y * y)
    sum_boots = np.concatenate([[0.0], np.cumsum(boots)])[places]
    sum_log = sums(np.log(variances))
    cost = np.zeros((rows, len(places)))
    starts = np.zeros((rows, len(places)), dtype=np.intp)
    begins = -special.logit(chances[places[:-1]])
    if len(begins):
        begins[0] = 0.0
    spread = _STEP_SD**2
    for t in range(1, len(places)):
        w = sum_w[:, t, None] - sum_w[:, :t]
        wy = sum_wy[:, t, None] - sum_wy[:, :t]
        misfit = sum_wyy[:, t, None] - sum_wyy[:, :t] - spread * wy**2 / (1 + spread * w)
        misfit += sum_log[:, t, None] - sum_log[:, :t] + np.log1p(spread * w)
        total = cost[:, :t] + misfit / 2 + begins[:t]
        total += np.where(sum_boots[t] - sum_boots[:t] < _LEAST_BOOTS, _FORBIDDEN, 0.0)
        starts[:, t] = np.argmin(total, axis=1)
        cost[:, t] = np.take_along_axis(total, starts[:, t, None], axis=1)[:, 0]
    return cost[:, -1], starts
