"""Differences of levels of one series, for display; intervals include image noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.bisect.model.detection_results import LevelDifference
from netbisect.bisect.model.entities import Noise

_TWO_SIDED = 1.96
"""Standard errors of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class LevelEstimate:
    """Estimate of one level, or of the mean of several."""

    mean: float
    """Robust mean of the boots, ln pps, corrected for the slow mode."""
    variance: float
    """Variance of that mean, from boot noise alone."""
    images: float = 1.0
    """Effective number of images."""


def pooled(some: Sequence[LevelEstimate], noise: Noise) -> LevelEstimate | None:
    """Mean of several levels, weighted by inverse variance; None if empty."""
    if not some:
        return None
    weights = [1 / (one.variance + noise.image**2 or 1e-12) for one in some]
    total = math.fsum(weights)
    mean = math.fsum(w * one.mean for w, one in zip(weights, some, strict=True)) / total
    squares = math.fsum((w / total) ** 2 for w in weights)
    own = math.fsum((w / total) ** 2 * one.variance for w, one in zip(weights, some, strict=True))
    return LevelEstimate(mean, own, 1 / squares)


def level_difference(
    before: LevelEstimate, after: LevelEstimate, noise: Noise, *, same_image: bool = False
) -> LevelDifference:
    """Difference of two levels with its 95 % interval.

    Args:
        before: Base of the ratio.
        after: The other level.
        noise: Noise of the series.
        same_image: Both levels are of one image, so image noise cancels.
    """
    image = 0.0 if same_image else noise.image**2 * (1 / before.images + 1 / after.images)
    reach = _TWO_SIDED * math.sqrt(before.variance + after.variance + image)
    ratio = after.mean - before.mean
    return LevelDifference(ratio, ratio - reach, ratio + reach)
