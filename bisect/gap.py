"""Boots of one image that stand apart from the others: a stray one, or two groups."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST = 0.02
"""ln ratio: closer groups cannot be told from the scatter of boots."""
_CLEAR = 5.0
"""Standard deviations within a group that the groups lie apart, at least."""
_LEAST_SPREAD = 1e-3
"""ln ratio: boots that repeat themselves to the last digit make no gap."""
_FEWEST = 4
"""Boots, below which each of them is far from the others."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Where the boots of an image fall apart."""

    slow: int
    """Boots below it."""
    fast: int
    """Boots above it."""
    ln_ratio: float
    """From the mean of the slow boots to that of the fast ones, positive."""


def widest(ln_pps: Sequence[float]) -> Gap | None:
    """Finds the gap that parts the boots of one image; None where they belong together.

    It is the widest between neighbours, at least 2 % and five times the standard deviation
    within the two groups that it makes. Five normal boots that scatter by 1 % show one in one
    image of forty, and ten in one of five hundred: it is a hint and no proof.

    Args:
        ln_pps: One value per boot, in any order.
    """
    ordered = sorted(ln_pps)
    if len(ordered) < _FEWEST:
        return None
    steps = [after - before for before, after in itertools.pairwise(ordered)]
    at = max(range(len(steps)), key=steps.__getitem__) + 1
    slow, fast = ordered[:at], ordered[at:]
    levels = [math.fsum(group) / len(group) for group in (slow, fast)]
    squares = math.fsum(
        (value - level) ** 2
        for group, level in zip((slow, fast), levels, strict=True)
        for value in group
    )
    spread = max(math.sqrt(squares / (len(ordered) - 2)), _LEAST_SPREAD)
    if steps[at - 1] < max(_LEAST, _CLEAR * spread):
        return None
    return Gap(len(slow), len(fast), statistics.fmean(fast) - statistics.fmean(slow))
