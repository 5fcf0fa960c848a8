"""Robust levels: Huber's M-estimate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_BOOT_SD = 2e-4
"""Minimum standard deviation of ln pps.

Saturated and simulated routers repeat every digit, which would make differences of 0.001 %
significant.
"""
_HUBER = 1.345
"""Huber's k in standard deviations: 95 % efficiency for normal data."""
_STEPS = 200
_NEAR = 1e-10
_PASSES = 10
_QN = 2.2219
"""Makes Qn the standard deviation of normal values."""


def location(values: Sequence[float], sd: float) -> float:
    """Robust level of the boots of one image, in the unit of `values`.

    Huber's M-estimate with known scale and k = 1.345 (P. J. Huber, Annals of Mathematical
    Statistics 35, 1964), by modified residuals from the median. Two values give their mean.

    Args:
        values: At least one, in any order.
        sd: Standard deviation of one value, above 0.
    """
    return float(locations(np.asarray([values], dtype=np.float64), sd)[0])


def locations(values: Floats, sd: float, steps: int = _STEPS) -> Floats:
    """As `location`, for many images.

    Args:
        values: One row per image, padded with NaN; at least one value per row.
        sd: Standard deviation of one value, above 0.
        steps: Maximum; one is nearly enough.

    Returns:
        One level per row.
    """
    ordered = np.sort(values, axis=1)  # NaN comes last
    there = ~np.isnan(ordered)
    count = there.sum(axis=1)
    rows = np.arange(len(ordered))
    level = (ordered[rows, (count - 1) // 2] + ordered[rows, count // 2]) / 2
    reach = _HUBER * sd
    moving = rows[count > 2]  # noqa: PLR2004 - the mean of two is their median
    for _ in range(steps):
        if not len(moving):
            break
        off = np.where(there[moving], ordered[moving] - level[moving, None], 0.0)
        pull = np.clip(off, -reach, reach).sum(axis=1) / count[moving]
        level[moving] += pull
        moving = moving[np.abs(pull) >= _NEAR]
    found: Floats = level
    return found


def weighted_location(values: Floats, variance: Floats) -> float:
    """As `location`, of values with different variances: inverse weights, iterated.

    Args:
        values: At least one.
        variance: Of each.
    """
    level = float(np.median(values))
    reach = _HUBER * np.sqrt(variance)
    for _ in range(_PASSES):
        weight = np.minimum(reach / np.maximum(np.abs(values - level), reach), 1.0) / variance
        level = float(weight @ values / weight.sum())
    return level


def scale(groups: Iterable[Sequence[float]]) -> float:
    """Robust standard deviation within groups of values; 0 without two values in a group.

    Qn (P. J. Rousseeuw, C. Croux, Journal of the American Statistical Association 88, 1993): the
    lower quartile of the distances of all pairs. A second mode with up to half of the values does
    not widen it.
    """
    arrays = [np.asarray(values, dtype=np.float64) for values in groups]
    pairs = [np.abs(np.subtract.outer(y, y))[np.triu_indices(len(y), 1)] for y in arrays]
    distances = np.concatenate([np.empty(0), *pairs])
    return _QN * float(np.quantile(distances, 0.25)) if len(distances) else 0.0
