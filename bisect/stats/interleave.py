"""Interleaving of two kernels (ABBA)."""

from __future__ import annotations

from collections.abc import Iterable

from netbisect.bisect.model.evidence import Observation

_PATIENCE = 3
"""Boots without a sample tolerated beyond the number with one."""


def good_is_next(good_boots: int, bad_boots: int) -> bool:
    """Whether the good side boots next, in the order ABBA, which cancels linear drift."""
    if good_boots != bad_boots:
        return good_boots < bad_boots
    return good_boots % 2 == 0


def yields_no_sample(observations: Iterable[Observation], scenario: str) -> bool:
    """Whether further boots are unlikely to give a sample of `scenario`."""
    with_sample = [scenario in observation.ln_pps for observation in observations]
    return with_sample.count(False) >= _PATIENCE + with_sample.count(True)
