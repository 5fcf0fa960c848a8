"""Whose turn it is when two kernels are measured side by side."""

from __future__ import annotations

from collections.abc import Iterable

from netbisect.bisect.model import Reading

_PATIENCE = 3
"""Boots without a sample that are borne beyond those that gave one."""


def good_is_next(good_boots: int, bad_boots: int) -> bool:
    """Tells whether the good side is booted next, in the order ABBA.

    The side with fewer boots comes first; in that order a drift of the laboratory that is linear
    in time cancels out of the difference.
    """
    if good_boots != bad_boots:
        return good_boots < bad_boots
    return good_boots % 2 == 0


def barren(readings: Iterable[Reading], scenario: str) -> bool:
    """Tells whether these boots show that one more will not give a sample of `scenario` either."""
    with_sample = [scenario in reading.ln_pps for reading in readings]
    return with_sample.count(False) >= _PATIENCE + with_sample.count(True)
