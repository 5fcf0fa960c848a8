"""Test for a shift of the level over the images of a history, valid on every night.

A history is an experiment with many independent images. For each of the latest images as the first
one after a change, the likelihood of a shift is compared with that of none. The ratios form an
e-detector of the Shiryaev-Roberts type (J. Shin, A. Ramdas and A. Rinaldo, New England Journal of
Statistics in Data Science 1, 2023): their sum exceeds a bound after no fewer nights on average than
the bound, however often one looks. The rate of false alerts is chosen, not the error of one test.

Offsets of images follow Student's t, so that an odd image alone is no shift. Level and scatter are
unknown and integrated out, so that a series of few images has the uncertainty of few images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.log_space import log_sum
from netbisect.bisect.stats.partition import TAIL

NIGHTS = 3000.0
"""Least mean number of nights until a series is called without a change: 0.1 in 300 series."""
CANDIDATES = 20
"""Latest images that may be the first after a change."""
_BASELINE = 60
"""Most images before them."""
_SCATTER, _WEIGHT = 0.02, 4.0
"""Prior of the scatter of images: median of the published quiet stretches; degrees of freedom."""
_SCATTERS = np.geomspace(0.005, 0.07, 9)
_STEP, _REACH = 0.002, 0.15
"""Grid of levels around the median, ln pps; images beyond count as at its end."""
_LEVELS = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
_NEIGHBOURS = (0.0, 0.25)
"""Correlations of neighbouring images, equally likely: -0.1 to 0.4 in the published stretches."""
_PLAUSIBLE = 0.025
"""Probability that the change came before the first image of the range."""


@dataclass(frozen=True, slots=True)
class ImageShift:
    """The evidence of a shift in a history."""

    log_ratio: float
    """Log ratio of the likelihoods, summed over the candidates: a shift over none, nats."""
    first: int
    """Index of the earliest plausible image after the change."""
    at: int
    """Index of the most likely one."""

    @property
    def shown(self) -> bool:
        """Whether there is a shift."""
        return self.log_ratio >= math.log(NIGHTS)


def image_shift(y: Sequence[float] | Floats, effect: float) -> ImageShift | None:
    """Tests whether the latest images are shifted.

    Args:
        y: Levels of the images, ln pps, oldest first.
        effect: Least shift, ln ratio; negative for a drop. At most half the reach of the grid is
            used. Shifts are log-uniform from there; larger ones count as the end of the grid.

    Returns:
        The evidence; None with one image.
    """
    levels = -math.copysign(1.0, effect) * np.asarray(y, dtype=np.float64)
    skipped = max(len(levels) - CANDIDATES - _BASELINE, 0)
    levels = levels[skipped:]
    n = len(levels)
    if n < 2:  # noqa: PLR2004 - one image before a change, and one after
        return None
    off = np.clip(levels - np.median(levels), -_REACH, _REACH)
    candidates = np.arange(max(1, n - CANDIDATES), n)
    least = min(abs(effect), _REACH / 2)
    terms = [_log_likelihoods(off, candidates, least, rho) for rho in _NEIGHBOURS]
    same = log_sum(np.array([none for none, _ in terms]))
    ratios = log_sum(np.array([shifted for _, shifted in terms]), axis=0) - same
    total = float(log_sum(ratios))
    first = np.searchsorted(np.cumsum(np.exp(ratios - total)), _PLAUSIBLE)
    return ImageShift(
        total,
        skipped + int(candidates[min(int(first), len(candidates) - 1)]),
        skipped + int(candidates[np.argmax(ratios)]),
    )


def _log_likelihoods(
    off: Floats, candidates: NDArray[np.intp], effect: float, rho: float
) -> tuple[float, Floats]:
    """Log likelihoods without a shift, and with one at each candidate, at one correlation.

    The offset of an image given its neighbour is y - rho y'; the first image after a shift owes
    nothing to its neighbour.
    """
    given = np.concatenate([off[:1], (off[1:] - rho * off[:-1]) / (1 - rho)])
    kept = _log_density(given, math.sqrt((1 + rho) / (1 - rho))) - math.log(1 - rho)
    kept[0] = (fresh := _log_density(off, 1.0))[0]
    sums = np.concatenate([np.zeros((1, *kept.shape[1:])), np.cumsum(kept, axis=0)])
    # Scaled inverse chi-squared variances, on a logarithmic grid.
    prior = -_WEIGHT * ((_SCATTER / _SCATTERS) ** 2 / 2 + np.log(_SCATTERS))
    after = fresh[candidates] + sums[-1] - sums[candidates + 1]
    peak = after.max(axis=1, keepdims=True)
    shifted = np.log(_shifts(effect) @ np.exp(after - peak) + np.finfo(float).tiny) + peak
    return (
        float(log_sum(sums[-1] + prior)),
        log_sum(sums[candidates] + shifted + prior, axis=(1, 2)),
    )


def _log_density(values: Floats, stretch: float) -> Floats:
    """Log density of n values at each level and scatter, Student's t."""
    sd = stretch * _SCATTERS
    residual = (values[:, None] - _LEVELS)[..., None] / sd
    return -np.log(sd) - (TAIL + 1) / 2 * np.log1p(residual**2 / TAIL)


@cache
def _shifts(least: float) -> Floats:
    """Weights of the levels after a shift (columns), for each level before it (rows)."""
    sizes = np.arange(max(round(least / _STEP), 1), round(_REACH / _STEP))
    weights, places = np.zeros(len(_LEVELS)), np.arange(len(_LEVELS))
    weights[sizes] = 1 / sizes / (1 / sizes).sum()
    return np.tril(weights[np.abs(np.subtract.outer(places, places))])
