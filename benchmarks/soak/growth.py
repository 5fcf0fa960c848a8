"""Growth per night, after a warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scipy import stats

_SETTLED = 1 / 3
"""Share of the nights after which it is looked at: by then all has been done once, also a search,
for which pictures are drawn."""
_LEAST = 3
"""Minimum nights for a fit."""


def a_night(values: Sequence[float]) -> tuple[float, float, float]:
    """By how much it grows in a night: estimate, and its 95 % interval.

    Args:
        values: After each night; with too few, all three are 0.
    """
    settled = int(len(values) * _SETTLED)
    nights = range(settled, len(values))
    if len(nights) < _LEAST:
        return 0.0, 0.0, 0.0
    line = stats.linregress(nights, values[settled:])
    wide = stats.t.ppf(0.975, len(nights) - 2) * line.stderr
    return float(line.slope), float(line.slope - wide), float(line.slope + wide)


def kib_a_night(sizes: Sequence[int]) -> float:
    """Growth of a file per night, from its sizes."""
    settled = int(len(sizes) * _SETTLED)
    return (sizes[-1] - sizes[settled]) / max(len(sizes) - 1 - settled, 1) / 1024


def resident(process: int | str = "self") -> float:
    """Memory of a process in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{process}/status has no VmRSS")
