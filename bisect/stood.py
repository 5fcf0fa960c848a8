"""Did a series stay where it was while another one moved?

Asked of hundreds of series at once, for people who are told of a drop: what did not move says as
much of its reason as what did. A series that could not have shown it says nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from scipy import special

from netbisect.bisect.segments import IMAGE_SD, IMAGE_WEIGHT

_LEAST = 4
"""Levels before, of which a series is known."""
_ALIKE, _SEEN = 0.975, 0.8
"""Quantiles: a level is off that one in twenty would be, and a drop is seen four times in five."""


def stood(before: Sequence[float], since: float, change: float) -> bool:
    """Whether a series can tell, and does, that it did not move as another one did.

    Levels scatter as they are seen to, with the usual noise of images worth some of them beside
    it; a step or a stray boot among them makes them scatter more, and so they tell less.
    Student's t for one more observation.

    Args:
        before: Levels of the series up to the change elsewhere, ln pps, some of the latest.
        since: The first one after it, ln pps.
        change: What was seen elsewhere, as a positive ln ratio.
    """
    if len(before) < _LEAST:
        return False
    middle = statistics.fmean(before)
    freedom = IMAGE_WEIGHT + len(before) - 1
    squares = math.fsum((level - middle) ** 2 for level in before)
    variance = (IMAGE_WEIGHT * IMAGE_SD**2 + squares) / freedom
    error = math.sqrt(variance * (1 + 1 / len(before)))
    off, seen = _quantiles(freedom)
    return abs(since - middle) <= off * error and change >= (off + seen) * error


@lru_cache
def _quantiles(freedom: float) -> tuple[float, float]:
    """Of Student's t."""
    return float(special.stdtrit(freedom, _ALIKE)), float(special.stdtrit(freedom, _SEEN))
