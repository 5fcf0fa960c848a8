"""How something grows from night to night, once all has been done for the first time."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

SETTLED = 1 / 3
"""Share of the nights after which it is looked at: by then all has been done once, also a search,
for which pictures are drawn."""
_LEAST = 3
"""Nights that make a line."""


def a_night(values: Sequence[float]) -> tuple[float, float, float]:
    """By how much it grows in a night: estimate, and its 95 % interval.

    Args:
        values: After each night; of too few nothing is told, and all three are 0.
    """
    settled = int(len(values) * SETTLED)
    nights = range(settled, len(values))
    if len(nights) < _LEAST:
        return 0.0, 0.0, 0.0
    line = stats.linregress(nights, values[settled:])
    wide = stats.t.ppf(0.975, len(nights) - 2) * line.stderr
    return float(line.slope), float(line.slope - wide), float(line.slope + wide)
