"""Levels and spreads that one bad boot cannot carry away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_HUBER = 1.345
"""In standard deviations; costs 5 % of the efficiency of the mean when nothing is wrong."""
_STEPS = 200
_NEAR = 1e-10


def location(values: Sequence[float], sd: float) -> float:
    """Finds the level of some boots of one image, in the unit of `values`.

    Huber's M-estimate with a known scale (P. J. Huber, Annals of Mathematical Statistics 35,
    1964), from the median by modified residuals: a boot further away than 1.345 `sd` counts as
    if it stood there. One or two values give their mean.

    Args:
        values: At least one, in any order.
        sd: Standard deviation of one value, above 0.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    reach = _HUBER * sd
    level = float(np.median(data))
    for _ in range(_STEPS):
        pull = float(np.clip(data - level, -reach, reach).mean())
        level += pull
        if abs(pull) < _NEAR:
            break
    return level
