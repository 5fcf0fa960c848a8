"""Segmentation of a history into constant levels, with its noise.

Product partition model (D. Barry and J. A. Hartigan, Annals of Statistics 20, 1992): a new level
begins at each revision with a small probability; levels are normal around the median of the
history, and image and boot noise are normal within a segment. Dynamic
programming finds the most likely partition (P. Fearnhead, Statistics and Computing 16, 2006) for a
grid of image noises; the most likely one is kept. The scale of a step is therefore the image
noise, not the boot noise.

Long histories use candidate cuts from an optimal partition with a low penalty (B. Jackson et al.,
IEEE Signal Processing Letters 12, 2005).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.stats.boot_modes import fast_levels, local_modes
from netbisect.bisect.stats.robust import locations

Floats = NDArray[np.float64]

BOOT_SD = 0.009
"""Prior boot noise: the median of some 3,500 published series."""
_BOOT_WEIGHT = 4.0
"""Degrees of freedom of BOOT_SD."""
IMAGE_SD = 0.01
"""Prior image noise."""
IMAGE_WEIGHT = 4.0
"""Degrees of freedom of IMAGE_SD."""
_IMAGE_GRID = np.geomspace(0.002, 0.05, 18)
"""Grid of image noises; more than 5 % has not been observed."""
STEP_PROBABILITY = 0.05
"""Prior probability of a step at a revision."""
_FEW = 20
"""Maximum levels without a noise estimate from neighbours."""
_MEDIAN_MOVE = 0.954
"""Median of |a - b| for standard normal a and b."""
_PER_MOVE = 0.25
"""Degrees of freedom per difference of neighbours, for the median."""
_STEP_SD = 0.1
"""Prior standard deviation of levels around the median, ln pps."""
_LEAST_BOOTS = 3
"""Minimum boots of a segment, because of outliers."""
_FORBIDDEN = 1e6
"""Cost of a segment with fewer boots."""
_ALL_TRIED = 60
"""Maximum levels with all cuts as candidates."""
_WINDOW, _OVERLAP = 400, 50
"""Levels per window of the partition, and their overlap."""
_PROPOSED = 9.0
"""Penalty of a candidate cut, in variances of a level; deliberately low."""
_SHORTEST = 2
"""Minimum levels of a candidate segment."""
_NEIGHBOURS = 1
"""Neighbouring cuts on each side added as candidates."""


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

    def mean(self, start: int, stop: int) -> tuple[float, float]:
        """Mean ln pps of the levels `start` to `stop` - 1, and its variance."""
        return weighted_mean(self.y[start:stop], self.variance[start:stop])


def weighted_mean(y: Floats, variance: Floats) -> tuple[float, float]:
    """Mean weighted by inverse variance, and its variance."""
    weight = 1 / variance
    return float(weight @ y / weight.sum()), float(1 / weight.sum())


def group_by_image(levels: Sequence[Level]) -> list[list[Level]]:
    """Groups neighbouring levels with the same kernel identity."""
    groups: list[list[Level]] = []
    last = ""
    for level in levels:
        if last and level.identity == last:
            groups[-1].append(level)
        else:
            groups.append([level])
            last = level.identity
    return groups


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
    order = np.argsort(spreads, kind="stable")
    passed = np.cumsum(weights[order])
    degrees_of_freedom = float(passed[-1]) if len(passed) else 0.0
    middle = (
        float(spreads[order][np.searchsorted(passed, degrees_of_freedom / 2)])
        if len(passed)
        else 0.0
    )
    return math.sqrt(
        (_BOOT_WEIGHT * BOOT_SD**2 + degrees_of_freedom * middle)
        / (_BOOT_WEIGHT + degrees_of_freedom)
    )


def segment(
    levels: Sequence[Level],
    image_sd: float = IMAGE_SD,
    probabilities: Floats | None = None,
) -> Segmentation:
    """Segments a history and estimates its noise.

    Args:
        levels: One per image, oldest first, any number.
        image_sd: Prior image noise, ln pps.
        probabilities: Prior probability of a step at each level; 5 % by default.
    """
    boots = boot_matrix(levels)
    return segment_boots(boots, local_modes(boots), image_sd, probabilities)


def segment_boots(
    boots: Floats,
    modes: Sequence[BootModes | None],
    image_sd: float = IMAGE_SD,
    probabilities: Floats | None = None,
) -> Segmentation:
    """As `segment`, from a boot matrix.

    Args:
        boots: n rows of ln pps, padded with NaN.
        modes: Of every image, as from `boot_modes.local_modes`.
        image_sd: As for `segment`.
        probabilities: As for `segment`.
    """
    y, boot = local_levels(boots, modes)
    noise = Noise(float(boot[-1]) if len(boot) else BOOT_SD, image_sd)
    if modes and (latest := modes[-1]):
        noise = replace(noise, slow_share=latest.share, slow_gap=latest.gap)
    count = (~np.isnan(boots)).sum(axis=1).astype(np.float64)
    noise = replace(noise, boot_weight=float((count - 1).sum()))
    variances = _IMAGE_GRID[:, None] ** 2 + boot**2 / count
    places = _candidate_cuts(y, boot**2 / count)
    steps = np.full(len(y), STEP_PROBABILITY) if probabilities is None else probabilities
    # Log-normal prior; the variance of ln s with n degrees of freedom is 1 / 2n.
    prior = IMAGE_WEIGHT * np.log(_IMAGE_GRID / image_sd) ** 2
    costs, starts = _best_cuts(y - np.median(y) if len(y) else y, variances, count, steps, places)
    best = int(np.argmin(costs + prior))
    cuts: list[int] = []
    stop = int(starts[best, -1])
    while stop > 0:
        cuts.append(int(places[stop]))
        stop = int(starts[best, stop])
    image = float(_IMAGE_GRID[best]) if len(y) > 1 else image_sd
    variance = image**2 + boot**2 / count
    known = max(image, _neighbour_noise(y, boot**2 / count, image))
    noise = replace(noise, image=known, image_weight=IMAGE_WEIGHT + max(len(y) - 1 - len(cuts), 0))
    return Segmentation(tuple(reversed(cuts)), noise, y, variance)


def local_levels(boots: Floats, modes: Sequence[BootModes | None]) -> tuple[Floats, Floats]:
    """Level of every image, ln pps, and the boot noise within its modes.

    Args:
        boots: n rows of ln pps, padded with NaN.
        modes: Of every image.
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
    """Image noise from the differences of neighbours, pooled with a prior.

    A lower bound that does not depend on the segmentation, which may absorb noise into steps.

    Args:
        y: n levels.
        least: Their variances from boot noise.
        image_sd: The prior.
    """
    if len(y) <= _FEW:
        return 0.0
    moves = np.abs(np.diff(y))
    seen = max((float(np.median(moves)) / _MEDIAN_MOVE) ** 2 - float(np.mean(least)), 0.0)
    weight = _PER_MOVE * len(moves)
    return math.sqrt((IMAGE_WEIGHT * image_sd**2 + weight * seen) / (IMAGE_WEIGHT + weight))


def _candidate_cuts(y: Floats, least: Floats) -> NDArray[np.intp]:
    """Candidate cuts, with 0 and n: all, or those of a coarse partition.

    Args:
        y: n levels.
        least: Their variances from boot noise.
    """
    n = len(y)
    if n <= _ALL_TRIED:
        return np.arange(n + 1)
    moves = np.abs(np.diff(y))
    sd = math.sqrt(max(float(np.median(moves) / _MEDIAN_MOVE) ** 2, float(np.median(least))))
    proposed = {0, n}
    for middle in _partition((y - np.median(y)) / sd):
        proposed.update(range(max(middle - _NEIGHBOURS, 1), min(middle + _NEIGHBOURS, n - 1) + 1))
    return np.array(sorted(proposed), dtype=np.intp)


def _partition(y: Floats) -> list[int]:
    """Cuts of the partition with minimal sum of squares and penalties.

    Args:
        y: n levels, in standard deviations. All windows are partitioned at once.
    """
    starts = range(0, max(len(y) - 2 * _SHORTEST + 1, 1), _WINDOW - _OVERLAP)
    windows = [y[start : start + _WINDOW] for start in starts]
    width = (max(map(len, windows)) // _SHORTEST + 1) * _SHORTEST
    # The padding is never used: a cut depends on earlier levels only.
    sums = np.cumsum([np.pad(one, (1, width - 1 - len(one))) for one in windows], axis=1)
    # Cost of the best partition of each prefix, minus the squares of its levels.
    saved = np.full(sums.shape, np.inf)
    saved[:, 0] = 0.0
    last = np.zeros(sums.shape, dtype=np.intp)
    # Prefixes per step: no segment fits between them.
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


def _best_cuts(
    y: Floats, variances: Floats, boots: Floats, probabilities: Floats, cuts: NDArray[np.intp]
) -> tuple[Floats, NDArray[np.intp]]:
    """The best partition of every prefix of a history, for every image noise at once.

    Args:
        y: n levels, about 0.
        variances: Of each level; one row per image noise, n columns.
        boots: Of each level.
        probabilities: Prior probability of a step at each level.
        cuts: Candidate cuts, ascending from 0 to n.

    Returns:
        Minus log posterior of the best partition, one per image noise; and for each candidate
        cut, the index of the start of the last segment before it.
    """
    rows = len(variances)
    weight = 1 / variances

    def sums(values: Floats) -> Floats:
        whole = np.concatenate([np.zeros((rows, 1)), np.cumsum(values, axis=1)], axis=1)
        return whole[:, cuts]

    sum_w, sum_wy, sum_wyy = sums(weight), sums(weight * y), sums(weight * y * y)
    sum_boots = np.concatenate([[0.0], np.cumsum(boots)])[cuts]
    sum_log = sums(np.log(variances))
    cost = np.zeros((rows, len(cuts)))
    starts = np.zeros((rows, len(cuts)), dtype=np.intp)
    begins = -special.logit(probabilities[cuts[:-1]])
    if len(begins):
        begins[0] = 0.0
    spread = _STEP_SD**2
    for t in range(1, len(cuts)):
        w = sum_w[:, t, None] - sum_w[:, :t]
        wy = sum_wy[:, t, None] - sum_wy[:, :t]
        misfit = sum_wyy[:, t, None] - sum_wyy[:, :t] - spread * wy**2 / (1 + spread * w)
        misfit += sum_log[:, t, None] - sum_log[:, :t] + np.log1p(spread * w)
        total = cost[:, :t] + misfit / 2 + begins[:t]
        total += np.where(sum_boots[t] - sum_boots[:t] < _LEAST_BOOTS, _FORBIDDEN, 0.0)
        starts[:, t] = np.argmin(total, axis=1)
        cost[:, t] = np.take_along_axis(total, starts[:, t, None], axis=1)[:, 0]
    return cost[:, -1], starts
