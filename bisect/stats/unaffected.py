"""Test for series unaffected by a change in another series."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy import special

from netbisect.bisect.stats.changepoints import IMAGE_SD, IMAGE_WEIGHT

_LEAST = 4
"""Minimum levels before the change."""
_ALIKE, _SEEN = 0.975, 0.8
"""Quantiles: 5 % two-sided significance, and 80 % power."""


def is_unaffected(before: Sequence[float], since: float, change: float) -> bool:
    """Whether a series did not change, and would have shown the change with 80 % power.

    Student's t-test of one more observation; the variance pools the levels with the prior image
    noise.

    Args:
        before: Latest levels of the series before the change, ln pps.
        since: The first level after it, ln pps.
        change: In the other series, as a positive ln ratio.
    """
    if len(before) < _LEAST:
        return False
    middle = statistics.fmean(before)
    freedom = IMAGE_WEIGHT + len(before) - 1
    squares = math.fsum((level - middle) ** 2 for level in before)
    variance = (IMAGE_WEIGHT * IMAGE_SD**2 + squares) / freedom
    error = math.sqrt(variance * (1 + 1 / len(before)))
    off, seen = map(float, special.stdtrit(freedom, (_ALIKE, _SEEN)))
    return abs(since - middle) <= off * error and change >= (off + seen) * error
