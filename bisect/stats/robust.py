"""Robust levels and scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.log_space import log_sum

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
_REACH, _NEAR_CENTRES, _WIDE_CENTRES = 8.0, 201, 201
"""Centres of an estimate: reach of the near ones in standard errors, and the numbers of near ones
and of those over all values."""
_CORES = np.geomspace(5e-4, 0.5, 24)[:, None]
"""Standard deviations in an estimate, ln pps."""
_OUTLIERS = np.array([0.02, 0.2, 0.5])[:, None, None]
"""Shares of outliers in an estimate."""
_OUTLIER_SCALE = 0.1
"""Scale of the Cauchy density of outliers, ln pps."""
_FACTORS = 16
"""Densities multiplied before the logarithm is taken; each is between 1e-10 and 1e3."""
_MEDIAN_MOVE = 0.954
"""Median of |a - b| for standard normal a and b."""
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
        variance: Variance of each.
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


def move_sd(moves: Floats) -> Floats:
    """Robust standard deviation of values, from the differences of neighbours.

    Args:
        moves: The differences; the median is taken over the last axis.
    """
    return np.median(np.abs(moves), axis=-1) / _MEDIAN_MOVE


def estimate(values: Floats) -> tuple[float, float, float]:
    """Posterior median of the centre of values with an unknown noise, and its 95 % interval.

    The values are normal with one of many standard deviations, some are outliers with a Cauchy
    density, and the prior of the centre is flat. With a second mode, the interval is narrower than
    one by ranks (J. L. Hodges, E. L. Lehmann, Annals of Mathematical Statistics 34, 1963).

    Args:
        values: ln pps or ln ratios; the interval of a single one has no bounds.

    Returns:
        The median, and the ends of the interval.
    """
    if len(values) == 1:
        return float(values[0]), -math.inf, math.inf
    spread = max(scale([values.tolist()]), LEAST_BOOT_SD)
    least, most = float(values.min()), float(values.max())
    margin = most - least + spread
    wide = np.linspace(least - margin, most + margin, _WIDE_CENTRES)
    wide = np.union1d(wide, values)
    logs = _log_posterior(values, wide)
    reach = np.linspace(-1, 1, _NEAR_CENTRES) * _REACH * spread / math.sqrt(len(values))
    near = wide[np.argmax(logs)] + reach
    centres, first = np.unique(np.concatenate([wide, near]), return_index=True)
    logs = np.concatenate([logs, _log_posterior(values, near)])[first]
    return median_and_interval(centres, logs)


def median_and_interval(centres: Floats, logs: Floats) -> tuple[float, float, float]:
    """Median of a density, and the ends of its 95 % interval.

    Args:
        centres: Ascending.
        logs: Log density of each, not normalised.
    """
    density = np.exp(logs - logs.max())
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(centres))])
    low, middle, high = np.interp([0.025, 0.5, 0.975], mass / mass[-1], centres).tolist()
    return middle, low, high


def outlier_density(off: Floats) -> Floats:
    """Cauchy density of outliers at distances from the centre, ln pps."""
    return 1 / (math.pi * _OUTLIER_SCALE * (1 + (off / _OUTLIER_SCALE) ** 2))


def _log_posterior(values: Floats, centres: Floats) -> Floats:
    """Log density of each centre, not normalised."""
    odds = _OUTLIERS / (1 - _OUTLIERS)
    logs = np.zeros((len(_OUTLIERS), len(_CORES), len(centres)))
    logs += len(values) * np.log(1 - _OUTLIERS)
    for part in np.split(values, range(_FACTORS, len(values), _FACTORS)):
        density = np.ones_like(logs)
        for y in part.tolist():
            off = y - centres
            core = np.exp(-((off / _CORES) ** 2) / 2) / (_CORES * math.sqrt(2 * math.pi))
            density *= core + odds * outlier_density(off)
        logs += np.log(density)
    return log_sum(logs, axis=(0, 1))
