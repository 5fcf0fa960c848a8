"""Critical values of Student's t as ministat(1) knows them: three decimals, typed from a table.

The table is that of the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2. Its errors are
part of the format.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

CONFIDENCES = (80.0, 90.0, 95.0, 98.0, 99.0, 99.5)
"""Two-sided, in percent."""
_TRUE = {99.5: 99.8}
"""Confidence of the values in a column, if it is not that of its head."""
_ERRORS = {1: 318.313, 7: 4.782, 8: 4.499, 9: 4.296, 10: 4.143, 11: 4.024, 12: 3.929}
"""Wrong values in the last column, by degrees of freedom."""
_ROWS = 100
"""Largest degrees of freedom in the table; above them, the values are those of infinity."""


@cache
def critical(degrees: int, confidence: float) -> float:
    """The t that a difference must exceed, two-sided; `confidence` is one of CONFIDENCES."""
    if confidence not in CONFIDENCES:
        levels = ", ".join(f"{level:g}" for level in CONFIDENCES)
        raise ValueError(f"confidence {confidence:g} %: ministat knows {levels}")
    if confidence == CONFIDENCES[-1] and degrees in _ERRORS:
        return _ERRORS[degrees]
    inside = _TRUE.get(confidence, confidence) / 100
    if degrees > _ROWS:
        return round(NormalDist().inv_cdf((1 + inside) / 2), 3)
    low, high = 0.0, 1000.0
    while high - low > 1e-9:  # noqa: PLR2004 - far below the third decimal
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, degrees) < inside else (low, middle)
    return round(high, 3)


def _probability(t: float, degrees: int) -> float:
    """P(|T| < t), by the finite series 26.7.3 and 26.7.4 of Abramowitz and Stegun."""
    odd, angle = degrees % 2, math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, series = cosine if odd else 1.0, 0.0
    for factor in range(1 + odd, degrees, 2):
        series += term
        term *= factor / (factor + 1) * cosine * cosine
    return 2 / math.pi * (angle + sine * series) if odd else sine * series
