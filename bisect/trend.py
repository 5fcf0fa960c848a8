"""A level that slides: many steps too small to be seen, which add up.

As FD.io's CSIT does, the latest level is held against the best of the last quarter, the latest
week left out. It is told in the digest; no commit is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netbisect.bisect.model import Level, Noise
from netbisect.bisect.screen import REACH, levels_of
from netbisect.bisect.segments import boots_of, by_image, merge, weighted

DRIFT = -math.log1p(-0.03)
"""|ln ratio| worth a line: 3 %."""
_DAY = 86400.0
_WEEK = 7 * _DAY
_QUARTER = 91 * _DAY
_STRETCH = 20
"""Images whose mean is a level of the quarter."""
_LEAST = 5
"""Images of the latest week, or the latest ones if it has fewer; and of a quarter."""
_SURE = 3.0
"""Standard errors."""


@dataclass(frozen=True, slots=True)
class Slide:
    """The latest level lies below the best of the quarter before."""

    ln_ratio: float
    low: float
    high: float
    """Of its 95 % interval."""
    score: float
    """|ln ratio| in standard errors."""
    best: str
    """Last revision of the best stretch."""
    latest: str


def drift(levels: Sequence[Level], noise: Noise, least: float = DRIFT) -> Slide | None:
    """Holds the latest week against the best stretch of the quarter before it.

    Args:
        levels: Oldest first, since the last change that is known; times of their boots decide.
        noise: Of the series.
        least: Smallest |ln ratio| worth a line.

    Returns:
        None when it is not lower by `least`, and by three standard errors, or when there is too
        little to tell.
    """
    images = [merge(group) for group in by_image(levels)]
    if len(images) < 2 * _LEAST:
        return None
    at = np.array([image.at for image in images])
    recent = max(int((at > at[-1] - _WEEK).sum()), _LEAST)
    first = int(np.searchsorted(at, at[-1] - _WEEK - _QUARTER))
    before = len(images) - recent - first
    if before < _LEAST:
        return None
    images = images[first:]
    y, variance = levels_of(boots_of(images), noise)
    latest, error = weighted(y[-recent:], variance[-recent:])
    size = min(_STRETCH, before)
    stretches = [
        (i, *weighted(y[i : i + size], variance[i : i + size])) for i in range(before - size + 1)
    ]
    start, best, spread = max(stretches, key=lambda one: one[1])
    # The best of many is better than it is: of overlapping stretches about n / size count.
    tries = max(before / size, 1.0)
    best -= math.sqrt(2 * math.log(tries) * spread)
    deviation = math.sqrt(error + spread)
    ratio = latest - best
    if -ratio < max(least, _SURE * deviation):
        return None
    return Slide(
        ln_ratio=ratio,
        low=ratio - REACH * deviation,
        high=ratio + REACH * deviation,
        score=-ratio / deviation,
        best=images[start + size - 1].revision,
        latest=images[-1].revision,
    )
