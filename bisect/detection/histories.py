"""Steps and noise of histories of levels; they start baselines, but send no mail."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from netbisect.bisect.model.detection_results import (
    MIN_EFFECT,
    BootModes,
    HistoryAnalysis,
    LevelStep,
)
from netbisect.bisect.model.entities import Level, Noise, SeriesName
from netbisect.bisect.model.metric import SeriesMetric, metric_of
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.boot_modes import local_modes
from netbisect.bisect.stats.changepoints import (
    IMAGE_PRIOR,
    IMAGE_WEIGHT,
    STEP_PROBABILITY,
    WEAK_PRIOR,
    Segmentation,
    boot_matrix,
    group_by_image,
    local_levels,
    merge_levels,
    segment,
    segment_boots,
)
from netbisect.bisect.stats.robust import move_sd
from netbisect.bisect.stats.run_modes import shift_slow_runs

_WINSORISED = 4.0
"""Standard deviations at which the distance of an image from its level is winsorised."""
_STRONG = 7.0
"""Score of a step from which it raises the prior in other series."""
_AS_LIKELY = 2.0
"""Difference in log likelihood within which positions of a step are plausible: 95 %."""
_SHARED_STEP_PROBABILITY = 0.3
"""Prior probability of a step at a revision with a clear step in another series."""
_FEW = 60
"""Maximum images of a series whose prior image noise comes from other series."""
_POOLED = 8
"""Minimum series of a group that share a prior."""
_MOVES = 3
"""Least number of differences of neighbouring images in each."""
_MOVE_ERROR = 1.5
"""Variance of ln of the median of n differences, times n."""
_LEAST_SD = 0.002
"""Least image noise."""
_DIGITS, _EXACT = 4, 1e-6
"""Maximum digits of the smallest number for which rounding counts; tolerance of a multiple."""
_VALUES = 3
"""Minimum of different numbers that show a unit."""


def estimate_noise(levels: Sequence[Level]) -> Noise:
    """Noise of a series.

    Args:
        levels: Oldest first, any number; steps are taken into account.

    Returns:
        Standard deviations between boots (prior 0.9 %) and between images (prior 1 %).
    """
    return segment([merge_levels(group) for group in group_by_image(levels)]).noise


def analyze(levels: Sequence[Level], min_effect: float = MIN_EFFECT) -> HistoryAnalysis:
    """Noise of a series, and its steps of either sign.

    Args:
        levels: Oldest first, any number.
        min_effect: Smallest step reported, |ln ratio|.
    """
    images = group_by_image(levels)
    found = segment([merge_levels(group) for group in images])
    return HistoryAnalysis(_steps(images, found, min_effect), found.noise)


def analyze_jointly(
    series: Mapping[SeriesName, Sequence[Level]], min_effect: float = MIN_EFFECT
) -> dict[SeriesName, HistoryAnalysis]:
    """As `analyze`, with the series of one branch segmented jointly.

    A step of 7 standard errors in one series raises the prior of a step at the same revision in
    the others. If at least eight series of a testbed have the same metric, their typical image
    noise is the prior.
    """
    images = {key: group_by_image(levels) for key, levels in series.items()}
    boots = {key: boot_matrix([merge_levels(one) for one in own]) for key, own in images.items()}
    units = {key: _unit(own, metric_of(key.scenario)) for key, own in boots.items()}
    modes = {
        key: [
            one if one and one.gap > 2 * unit else None
            for one, unit in zip(local_modes(own), units[key], strict=True)
        ]
        for key, own in boots.items()
    }
    priors, groups = {}, defaultdict[tuple[str, SeriesMetric], list[SeriesName]](list)
    for key in series:
        metric = metric_of(key.scenario)
        priors[key] = WEAK_PRIOR if metric.name else IMAGE_PRIOR
        groups[key.testbed, metric].append(key)
    for members in groups.values():
        long = [(boots[key], modes[key]) for key in members if len(boots[key]) > _MOVES]
        if len(long) >= _POOLED:
            shared = _shared_noise(long)
            priors |= {key: shared for key in members if len(boots[key]) <= _FEW}
    alone = {}
    for key in series:
        if boots[key].shape[1] == 1:
            boots[key] = shift_slow_runs(boots[key][:, 0], priors[key], STEP_PROBABILITY)[:, None]
        alone[key] = segment_boots(boots[key], modes[key], priors[key], unit=units[key])
    strong = {
        key: {
            images[key][cut][0].revision
            for cut, (shift, error) in zip(cut_at.cuts, _shifts(cut_at, cut_at.cuts), strict=True)
            if abs(shift) >= _STRONG * error
        }
        for key, cut_at in alone.items()
    }
    found = {}
    for key, own in images.items():
        elsewhere = set().union(*(at for other, at in strong.items() if other != key))
        raised = [group[0].revision in elsewhere for group in own]
        cut_at = alone[key]
        if any(raised):
            probabilities = np.where(raised, _SHARED_STEP_PROBABILITY, STEP_PROBABILITY)
            cut_at = segment_boots(
                boots[key], modes[key], priors[key], probabilities, unit=units[key]
            )
        found[key] = HistoryAnalysis(_steps(own, cut_at, min_effect), cut_at.noise)
    return found


def _unit(boots: Floats, metric: SeriesMetric) -> Floats:
    """Unit of the rounding as a share of each level: 0.2 of 50 ms with a timer of 10 ms.

    It is the largest power of ten that divides all numbers, or 0 below 0.1 % of the smallest one.
    Two different numbers do not show a unit. Packet rates have many digits.
    """
    if not metric.name or not len(boots):
        return np.zeros(len(boots))
    levels = np.exp((-1 if metric.lower else 1) * boots)
    numbers = levels[~np.isnan(levels)]
    least = float(numbers.min())
    for digits in range(_DIGITS):
        unit = 10.0 ** (math.floor(math.log10(least)) - digits)
        counts = np.round(numbers / unit)
        if (np.abs(numbers / unit - counts) < _EXACT * numbers / least).all():
            seen = len(np.unique(counts)) >= _VALUES
            return seen * unit / np.nanmedian(levels, axis=1)
    return np.zeros(len(boots))


def _shared_noise(
    series: Sequence[tuple[Floats, Sequence[BootModes | None]]],
) -> tuple[float, float]:
    """Prior of the image noise of similar series.

    The differences of neighbours do not depend on the segmentation of a few noisy images. The
    variance of ln s with n degrees of freedom is 1 / 2n.

    Args:
        series: Boot matrices and modes, as for `segment_boots`.
    """
    logs, errors = [], []
    for boots, modes in series:
        y, boot = local_levels(boots, modes)
        move = float(move_sd(np.diff(y)))
        known = float(np.mean(boot**2 / (~np.isnan(boots)).sum(axis=1)))
        logs.append(math.log(max(move**2 - known, _LEAST_SD**2)) / 2)
        errors.append(_MOVE_ERROR / (len(y) - 1))
    spread = max(float(np.var(logs, ddof=1) - np.mean(errors)), 1 / (2 * IMAGE_WEIGHT))
    return math.exp(float(np.median(logs))), 1 / (2 * spread)


def _steps(
    images: Sequence[Sequence[Level]], found: Segmentation, min_effect: float
) -> list[LevelStep]:
    cuts = list(found.cuts)
    while cuts:  # smallest first: removing it changes the other shifts
        shifts = [abs(shift) for shift, _ in _shifts(found, cuts)]
        smallest = min(range(len(cuts)), key=shifts.__getitem__)
        if shifts[smallest] >= min_effect:
            break
        del cuts[smallest]
    return _describe(images, found, cuts) if cuts else []


def _shifts(found: Segmentation, cuts: Sequence[int]) -> list[tuple[float, float]]:
    """The shift at every cut, ln ratio, and its standard error."""
    if not cuts:
        return []
    edges = [0, *cuts, len(found.y)]
    means = [found.mean(a, b) for a, b in itertools.pairwise(edges)]
    return [
        (after[0] - before[0], math.sqrt(before[1] + after[1]))
        for before, after in itertools.pairwise(means)
    ]


def _plausible_cuts(found: Segmentation, start: int, cut: int, stop: int) -> tuple[int, int]:
    """First and last plausible positions of a cut: log likelihood within 2 of the best."""
    weight = 1 / found.variance[start:stop]
    total, product = np.cumsum(weight), np.cumsum(weight * found.y[start:stop])
    left, right = total[:-1], total[-1] - total[:-1]
    difference = product[:-1] / left - (product[-1] - product[:-1]) / right
    gain = difference**2 / (1 / left + 1 / right) / 2
    # The range is contiguous.
    unlikely = np.flatnonzero(gain < gain[cut - start - 1] - _AS_LIKELY) + start + 1
    first = unlikely[unlikely < cut].max(initial=start) + 1
    last = unlikely[unlikely > cut].min(initial=stop) - 1
    return int(first), int(last)


def _interval_reach(found: Segmentation, edges: Sequence[int]) -> float:
    """Half width of a 95 % interval of a step, in its standard errors.

    The prior makes the estimated scatter of noisy images too small: the scatter around the levels
    counts if its own interval is wider. There, the estimate has one degree of freedom.
    """
    free = len(found.y) - len(edges) + 1
    reach = float(special.stdtrit(IMAGE_WEIGHT + free, 0.975))
    if not free:
        return reach
    squares = 0.0
    for start, stop in itertools.pairwise(edges):
        off = found.y[start:stop] - found.mean(start, stop)[0]
        squares += float(np.minimum(off**2 / found.variance[start:stop], _WINSORISED**2).sum())
    wide = math.sqrt((1 + squares) / (1 + free))
    return max(reach, float(special.stdtrit(1 + free, 0.975)) * wide)


def _describe(
    images: Sequence[Sequence[Level]], found: Segmentation, cuts: Sequence[int]
) -> list[LevelStep]:
    edges = [0, *cuts, len(images)]
    reach = _interval_reach(found, edges)
    described = []
    places = [
        _plausible_cuts(found, *trio) for trio in zip(edges, edges[1:], edges[2:], strict=False)
    ]
    for i, (shift, error) in enumerate(_shifts(found, cuts)):
        before, after = images[edges[i] : edges[i + 1]], images[edges[i + 1] : edges[i + 2]]
        described.append(
            LevelStep(
                before=before[-1][-1].revision,
                at=after[0][0].revision,
                ln_ratio=shift,
                low=shift - reach * error,
                high=shift + reach * error,
                score=abs(shift) / error,
                levels_before=len(before),
                levels_after=len(after),
                boots_before=sum(len(level.ln_pps) for group in before for level in group),
                boots_after=sum(len(level.ln_pps) for group in after for level in group),
                earliest=images[places[i][0] - 1][-1].revision,
                latest=images[places[i][1]][0].revision,
            )
        )
    return described
