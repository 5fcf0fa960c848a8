"""Routers that come up slower every now and then: which boots did, and how often they do.

The mode of a boot is drawn anew at every boot and holds until the next one. Where it is known,
a boot of the slow mode tells as much of the level as any other; where it is not, a night of
three slow boots looks like a regression. The level of a series is always that of its fast mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.model import Noise

Floats = NDArray[np.float64]

_LEAST_GAP = 0.015
"""Distance of two modes, ln ratio: less is lost in the scatter."""
_SHARES = (0.08, 0.15, 0.3, 0.5, 0.7)
"""Chances of the slow mode tried; fewer slow boots are strays."""
_SCATTERS = np.geomspace(0.002, 0.06, 9)
"""Standard deviations within a mode tried, ln pps."""
_NIGHTS = 60
"""Latest images that are learned from: a mode may come and go with a driver."""
_LEAST_MIXED = 3
"""Images with boots of both modes, below which two modes are not believed."""
_EVIDENCE = 8.0
"""ln likelihood ratio of two modes over one with strays, at least."""
_STRAY_CHANCE = 0.03
_STRAY_SD = 0.12
"""Of an outlier, ln pps."""
_CLEAR = 4.0
"""Standard deviations within a mode that the modes lie apart, at least."""
_HUBER = 1.345
_PASSES = 5
_BESIDE = 3
"""Images to each side whose level says which mode an image with boots of one mode shows."""
_ROUNDS = 2
_UNLIKE = 0.02
"""Standard deviation of a level about those beside it where nothing changed, ln pps."""
_NEW_LEVEL = 5.3
"""What a new level costs at most, -ln likelihood: one of twenty is new, and lies anywhere."""


@dataclass(frozen=True, slots=True)
class Modes:
    """Two modes of the boots of a series."""

    share: float
    """Chance of a boot to be slow."""
    gap: float
    """How much slower it is then, as a positive ln ratio."""
    boot: float
    """Standard deviation within a mode, ln pps."""


def of(noise: Noise) -> Modes | None:
    """Returns the modes that a noise tells of; None when it has one only."""
    if not 0 < noise.slow_share < 1 or noise.slow_gap <= 0:
        return None
    return Modes(noise.slow_share, noise.slow_gap, noise.boot)


def learn(boots: Floats) -> Modes | None:
    """Tells whether the boots of a series have two modes, from their spread within images.

    Images may lie anywhere, so that no step and no image noise is taken for a mode. Of the
    boots of one image, ordered, the lowest j are tried as the slow ones, for every j. Two modes
    must be e^8 times as likely as one with strays.

    Args:
        boots: ln pps, a row per image, oldest first; NaN where an image had fewer boots.

    Returns:
        The modes, or None when one is enough.
    """
    ordered = np.sort(boots[-_NIGHTS:], axis=1)
    ordered = ordered[(~np.isnan(ordered)).sum(axis=1) > 1]
    if not len(ordered):
        return None
    widest = np.nanmax(np.diff(ordered, axis=1), axis=1)
    wide = widest[widest >= _LEAST_GAP]
    if len(wide) < _LEAST_MIXED:
        return None  # the quick answer, for most series
    gaps = np.unique(np.quantile(wide, (0.25, 0.5, 0.75)))
    advantage, _ = _best(ordered, gaps[len(gaps) // 2 :][:1], _SHARES[1::2], _SCATTERS[1::3])
    if advantage < 0:
        return None  # a coarse look is enough for most of the others
    advantage, found = _best(ordered, gaps, _SHARES, _SCATTERS)
    if advantage < _EVIDENCE:
        return None
    refined = _refined(ordered, found)
    return refined if refined is not None and refined.gap >= _CLEAR * refined.boot else None


def _best(
    ordered: Floats, gaps: Floats, shares: Sequence[float], scatters: Floats
) -> tuple[float, Modes]:
    """The likeliest two modes, and by how much they beat one: ln likelihood ratio."""
    one = max(_likelihood(ordered, None, float(scatter)) for scatter in scatters)
    tried = [
        Modes(share, float(gap), float(scatter))
        for scatter in scatters
        for gap in gaps
        for share in shares
    ]
    scores = [_likelihood(ordered, modes, modes.boot) for modes in tried]
    best = int(np.argmax(scores))
    return scores[best] - one, tried[best]


def _likelihood(ordered: Floats, modes: Modes | None, scatter: float) -> float:
    """Log likelihood of all images, their levels integrated out."""
    cost, _ = _liftings(ordered, modes, scatter)
    count = (~np.isnan(ordered)).sum(axis=1)
    total = np.logaddexp.reduce(-cost, axis=0) - (count - 1) * math.log(scatter)
    return float(total.sum())


def _liftings(ordered: Floats, modes: Modes | None, scatter: float) -> tuple[Floats, Floats]:
    """Takes the lowest j boots of every image for slow ones, for every j.

    A boot that is further off than a stray's chance costs no more than that.

    Args:
        ordered: ln pps, n images of at most k boots, ascending, NaN last.
        modes: None for one mode, where only j = 0 is tried.
        scatter: Standard deviation within a mode.

    Returns:
        Minus log likelihood, infinite where an image has fewer than j boots; and the level of
        the fast mode. Both have a row per j and a column per image.
    """
    there = ~np.isnan(ordered)
    count = there.sum(axis=1)
    slow = np.arange(ordered.shape[1] + 1 if modes else 1)
    moved = np.repeat(ordered[None], len(slow), axis=0)
    if modes:
        lowest = np.arange(ordered.shape[1]) < slow[:, None]
        moved = np.sort(moved + np.where(lowest, modes.gap, 0.0)[:, None, :], axis=2)
    rows = np.arange(len(ordered))
    middle = (moved[:, rows, (count - 1) // 2] + moved[:, rows, count // 2]) / 2
    off = np.where(there, moved - middle[..., None], 0.0)
    reach = _HUBER * scatter
    shift = np.clip(off, -reach, reach).sum(axis=2) / count
    most = -2 * math.log(_STRAY_CHANCE * scatter / _STRAY_SD)
    squares = np.minimum(((off - shift[..., None]) / scatter) ** 2, most)
    cost = np.where(there, squares, 0.0).sum(axis=2) / 2
    if modes:
        j = slow[:, None]
        cost = cost - j * math.log(modes.share) - (count - j) * math.log1p(-modes.share)
        cost = np.where(count >= j, cost, np.inf)
    return cost, middle + shift


def _refined(ordered: Floats, modes: Modes) -> Modes | None:
    """The same modes with what the boots that are now told apart say of them."""
    there = ~np.isnan(ordered)
    for _ in range(_PASSES):
        level = levels(ordered, modes)
        slow = slow_ones(ordered, level, modes)
        off = ordered - level[:, None] + np.where(slow, modes.gap, 0.0)
        near = there & (np.abs(np.where(there, off, np.inf)) < _CLEAR * modes.boot)
        low, fast = near & slow, near & ~slow
        mixed = low.any(axis=1) & fast.any(axis=1)
        if mixed.sum() < _LEAST_MIXED:
            return None
        gaps = _means(ordered, fast)[mixed] - _means(ordered, low)[mixed]
        inner = np.where(near, off - _means(off, near)[:, None], 0.0)
        freedom = max(int(near.sum() - near.any(axis=1).sum()), 1)
        modes = Modes(
            float(low.sum() / near.sum()),
            float(np.median(gaps)),
            max(math.sqrt(float((inner**2).sum()) / freedom), float(_SCATTERS[0])),
        )
    return modes


def _means(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Mean of the chosen values of every row; 0 where none is."""
    total = np.where(chosen, values, 0.0).sum(axis=1)
    mean: Floats = total / np.maximum(chosen.sum(axis=1), 1)
    return mean


def levels(boots: Floats, modes: Modes) -> Floats:
    """Finds the level of every image, in its fast mode, whatever modes its boots came up in.

    Of the ordered boots the lowest j are lifted by the gap, for the likeliest j. When all boots
    of an image came up in one mode, the levels beside it tell which one it was.

    Args:
        boots: ln pps, a row per image, oldest first; NaN where an image had fewer boots.
        modes: Of the series.
    """
    ordered = np.sort(boots, axis=1)
    cost, level = _liftings(ordered, modes, modes.boot)
    columns = np.arange(len(ordered))
    found: Floats = level[np.argmin(cost, axis=0), columns]
    if len(found) < 2 * _BESIDE:
        return found
    for _ in range(_ROUNDS):
        padded = np.pad(found, _BESIDE, constant_values=np.nan)
        around = np.lib.stride_tricks.sliding_window_view(padded, 2 * _BESIDE + 1)
        middle = np.nanmedian(np.delete(around, _BESIDE, axis=1), axis=1)
        surprise = np.minimum(((level - middle) / _UNLIKE) ** 2 / 2, _NEW_LEVEL)
        found = level[np.argmin(cost + surprise, axis=0), columns]
    return found


def slow_ones(boots: Floats, level: Floats, modes: Modes) -> NDArray[np.bool_]:
    """Tells which boots came up in the slow mode: those nearer to it than to the fast one."""
    with np.errstate(invalid="ignore"):
        slow: NDArray[np.bool_] = boots - level[:, None] < -modes.gap / 2
    return slow & ~np.isnan(boots)


def lifted(values: Sequence[float], modes: Modes | None) -> list[float]:
    """Returns the boots of one image as if all had come up in the fast mode, in their order."""
    if modes is None or not len(values):
        return list(values)
    boots = np.asarray([values], dtype=np.float64)
    slow = slow_ones(boots, levels(boots, modes), modes)
    return [float(x) for x in (boots + np.where(slow, modes.gap, 0.0))[0]]
