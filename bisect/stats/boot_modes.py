"""Boot modes: routers that sometimes boot into a slower mode.

Each boot draws its mode at random. The level of a series is that of its fast mode; slow boots are
shifted by the gap. Unrecognised, a night of slow boots looks like a regression.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.robust import locations

_LEAST_GAP = 0.015
"""Minimum gap of two modes, ln ratio."""
_SHARES = (0.08, 0.15, 0.3, 0.5, 0.7)
"""Shares of the slow mode tried; fewer slow boots count as outliers."""
_SCATTERS = np.geomspace(0.002, 0.06, 9)
"""Standard deviations within a mode tried, ln pps."""
_NIGHTS = 60
"""Latest images used: modes change with drivers."""
_LEAST_MIXED = 3
"""Minimum images with boots in both modes."""
_EVIDENCE = 8.0
"""Minimum log likelihood ratio of two modes over one with outliers, and of a change of modes."""
_WINDOW, _STRIDE = 16, 8
"""Images from which modes are learned that may begin, end or change, and their distance."""
_WIDER = (1.0, 2.0, 4.0)
"""Standard deviations tried while there is one mode, relative to those within two."""
_OUTLIER_PROBABILITY = 0.03
_OUTLIER_SD = 0.12
"""Standard deviation of an outlier, ln pps."""
_CLEAR = 4.0
"""Minimum gap, in standard deviations within a mode."""
_PASSES = 5
_NEIGHBOURS = 3
"""Levels on each side that identify the mode of an image with boots in one mode."""
_ROUNDS = 2
_UNLIKE = 0.02
"""Standard deviation of a level around its neighbours without a change, ln pps."""
_NEW_LEVEL = 5.3
"""Maximum cost of a new level, -ln likelihood: one in twenty, uniformly distributed."""


def modes_of(noise: Noise) -> BootModes | None:
    """Modes of a noise; None with a single mode."""
    if not 0 < noise.slow_share < 1 or noise.slow_gap <= 0:
        return None
    return BootModes(noise.slow_share, noise.slow_gap, noise.boot)


def learn_modes(boots: Floats) -> BootModes | None:
    """Learns two modes from the scatter within images.

    Levels of images are free parameters, so steps and image noise are not taken for modes. For
    each image, the lowest j boots are tried as slow, for every j. Two modes must be e^8 times as
    likely as one with outliers.

    Args:
        boots: ln pps, a row per image, oldest first, padded with NaN.

    Returns:
        The modes, or None.
    """
    ordered = np.sort(boots[-_NIGHTS:], axis=1)
    ordered = ordered[(~np.isnan(ordered)).sum(axis=1) > 1]
    if not len(ordered):
        return None
    widest = np.nanmax(np.diff(ordered, axis=1), axis=1)
    wide = widest[widest >= _LEAST_GAP]
    if len(wide) < _LEAST_MIXED:
        return None  # quick exit for most series
    gaps = np.unique(np.quantile(wide, (0.25, 0.5, 0.75)))
    advantage, _ = _best(ordered, gaps[len(gaps) // 2 :][:1], _SHARES[1::2], _SCATTERS[1::3])
    if advantage < 0:
        return None  # coarse grid, enough for most others
    advantage, found = _best(ordered, gaps, _SHARES, _SCATTERS)
    if advantage < _EVIDENCE:
        return None
    refined = _refined(ordered, found)
    return refined if refined is not None and refined.gap >= _CLEAR * refined.boot else None


def local_modes(boots: Floats) -> list[BootModes | None]:
    """Modes of every image; they may begin, end or change their gap.

    Models learned from all images and from windows of 16, and that of one mode, compete. The most
    likely sequence (A. Viterbi, IEEE Transactions on Information Theory 13, 1967) changes the model
    where that is e^8 times as likely.

    Args:
        boots: ln pps, a row per image, oldest first, padded with NaN.
    """
    long = len(boots) > _WINDOW
    starts = range(0, len(boots) - _WINDOW + _STRIDE, _STRIDE) if long else ()
    learned = [learn_modes(boots), *(learn_modes(boots[i : i + _WINDOW]) for i in starts)]
    two = list(dict.fromkeys(modes for modes in learned if modes is not None))
    if not two:
        return [None] * len(boots)
    ordered = np.sort(boots, axis=1)
    fewer = (~np.isnan(ordered)).sum(axis=1) - 1
    models: list[tuple[BootModes | None, float]] = [(modes, modes.boot) for modes in two]
    models += [(None, wider * modes.boot) for modes in two for wider in _WIDER]
    costs = np.array(
        [
            fewer * math.log(scatter)
            - np.logaddexp.reduce(-_lift_costs(ordered, modes, scatter)[0], axis=0)
            for modes, scatter in models
        ]
    )
    path = _cheapest_path(costs, _EVIDENCE)
    return [models[i][0] for i in path]


def _cheapest_path(costs: Floats, change: float) -> list[int]:
    """Rows of the cheapest path through the columns, at a price per change of the row."""
    total = costs[:, 0]
    origins = []
    for column in costs.T[1:]:
        best = int(np.argmin(total))
        stay = total <= total[best] + change
        origins.append(np.where(stay, np.arange(len(total)), best))
        total = np.where(stay, total, total[best] + change) + column
    path = [int(np.argmin(total))]
    for origin in reversed(origins):
        path.append(int(origin[path[-1]]))
    return path[::-1]


def _best(
    ordered: Floats, gaps: Floats, shares: Sequence[float], scatters: Floats
) -> tuple[float, BootModes]:
    """Log likelihood ratio of the best two modes over one mode, and these modes."""
    one = max(
        float(_likelihoods(ordered, _shifted_costs(ordered, None, scatter)[0], scatter))
        for scatter in scatters.tolist()
    )
    tried: list[BootModes] = []
    scores: list[float] = []
    for scatter, gap in itertools.product(scatters.tolist(), gaps.tolist()):
        tried += [BootModes(share, gap, scatter) for share in shares]
        cost, _ = _shifted_costs(ordered, gap, scatter)
        costs = _with_shares(ordered, cost, shares)
        scores += _likelihoods(ordered, costs, scatter).tolist()
    best = int(np.argmax(scores))
    return scores[best] - one, tried[best]


def _likelihoods(ordered: Floats, costs: Floats, scatter: float) -> Floats:
    """Log likelihood of all images, with levels integrated out; the last axes are j and images."""
    count = (~np.isnan(ordered)).sum(axis=1)
    total = np.logaddexp.reduce(-costs, axis=-2) - (count - 1) * math.log(scatter)
    found: Floats = total.sum(axis=-1)
    return found


def _lift_costs(ordered: Floats, modes: BootModes | None, scatter: float) -> tuple[Floats, Floats]:
    """Costs and levels with the lowest j boots of every image slow, for every j.

    Args:
        ordered: ln pps, n images of at most k boots, ascending, NaN last.
        modes: None for one mode, where only j = 0 is tried.
        scatter: Standard deviation within a mode.

    Returns:
        Minus log likelihood, infinite for images with fewer than j boots, and level of the fast
        mode; a row per j and a column per image.
    """
    cost, level = _shifted_costs(ordered, modes.gap if modes else None, scatter)
    return (_with_shares(ordered, cost, [modes.share])[0] if modes else cost), level


def _with_shares(ordered: Floats, cost: Floats, shares: Sequence[float]) -> Floats:
    """Adds the costs of j slow boots of every image, for every share of the slow mode."""
    count = (~np.isnan(ordered)).sum(axis=1)
    j = np.arange(len(cost))[:, None]
    logs = np.array([(math.log(share), math.log1p(-share)) for share in shares])
    slow, fast = logs.T[..., None, None]
    return np.where(count >= j, cost - j * slow - (count - j) * fast, np.inf)


def _shifted_costs(ordered: Floats, gap: float | None, scatter: float) -> tuple[Floats, Floats]:
    """As `_lift_costs`, without the shares of the modes.

    The cost of a boot is bounded by that of an outlier.
    """
    there = ~np.isnan(ordered)
    slow = np.arange(1 if gap is None else ordered.shape[1] + 1)
    moved = np.repeat(ordered[None], len(slow), axis=0)
    if gap is not None:
        lowest = np.arange(ordered.shape[1]) < slow[:, None]
        moved += np.where(lowest, gap, 0.0)[:, None, :]
    level = locations(moved.reshape(-1, moved.shape[2]), scatter, steps=1).reshape(moved.shape[:2])
    off = np.where(there, moved - level[..., None], 0.0)
    most = -2 * math.log(_OUTLIER_PROBABILITY * scatter / _OUTLIER_SD)
    squares = np.minimum((off / scatter) ** 2, most)
    return np.where(there, squares, 0.0).sum(axis=2) / 2, level


def _refined(ordered: Floats, modes: BootModes) -> BootModes | None:
    """The modes, re-estimated from the classified boots."""
    there = ~np.isnan(ordered)
    for _ in range(_PASSES):
        level = fast_levels(ordered, modes)
        slow = slow_boots(ordered, level, modes)
        off = ordered - level[:, None] + np.where(slow, modes.gap, 0.0)
        near = there & (np.abs(np.where(there, off, np.inf)) < _CLEAR * modes.boot)
        low, fast = near & slow, near & ~slow
        mixed = low.any(axis=1) & fast.any(axis=1)
        if mixed.sum() < _LEAST_MIXED:
            return None
        gaps = _means(ordered, fast)[mixed] - _means(ordered, low)[mixed]
        inner = np.where(near, off - _means(off, near)[:, None], 0.0)
        degrees_of_freedom = max(int(near.sum() - near.any(axis=1).sum()), 1)
        modes = BootModes(
            float(low.sum() / near.sum()),
            float(np.median(gaps)),
            max(math.sqrt(float((inner**2).sum()) / degrees_of_freedom), float(_SCATTERS[0])),
        )
    return modes


def _means(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Mean of the chosen values of every row; 0 if none."""
    total = np.where(chosen, values, 0.0).sum(axis=1)
    mean: Floats = total / np.maximum(chosen.sum(axis=1), 1)
    return mean


def fast_levels(boots: Floats, modes: BootModes) -> Floats:
    """Level of every image in the fast mode.

    The lowest j boots are shifted by the gap, for the most likely j. The levels before and after
    decide the mode of images with boots in one mode; a change to either costs a new level.

    Args:
        boots: ln pps, a row per image, oldest first, padded with NaN.
        modes: Modes of the series.
    """
    ordered = np.sort(boots, axis=1)
    cost, level = _lift_costs(ordered, modes, modes.boot)
    columns = np.arange(len(ordered))
    found: Floats = level[np.argmin(cost, axis=0), columns]
    if len(found) < 2 * _NEIGHBOURS:
        return found
    for _ in range(_ROUNDS):
        padded = np.pad(found, _NEIGHBOURS, constant_values=np.nan)
        around = np.lib.stride_tricks.sliding_window_view(padded, _NEIGHBOURS)[1:-1]
        medians = locations(around, _UNLIKE, steps=0)  # numpy.nanmedian is slow
        middle = np.pad(medians, 1, constant_values=np.nan)
        total = cost.copy()
        for beside in (middle[: len(found)], middle[-len(found) :]):
            surprise = np.minimum(((level - beside) / _UNLIKE) ** 2 / 2, _NEW_LEVEL)
            total += np.where(np.isnan(beside), 0.0, surprise)
        found = level[np.argmin(total, axis=0), columns]
    return found


def slow_boots(boots: Floats, level: Floats, modes: BootModes) -> NDArray[np.bool_]:
    """Boots nearer to the slow mode than to the fast one."""
    with np.errstate(invalid="ignore"):
        slow: NDArray[np.bool_] = boots - level[:, None] < -modes.gap / 2
    return slow & ~np.isnan(boots)


def to_fast_mode(values: Sequence[float], modes: BootModes | None) -> list[float]:
    """The boots of one image, slow ones shifted to the fast mode, in their order."""
    if modes is None or not len(values):
        return list(values)
    boots = np.asarray([values], dtype=np.float64)
    slow = slow_boots(boots, fast_levels(boots, modes), modes)
    return [float(x) for x in (boots + np.where(slow, modes.gap, 0.0))[0]]
