"""How levels of one series lie to each other: differences with the noise of images in them.

What stands on a page of many levels is told here. It is no verdict: two levels that lie apart are
a reason to measure both again in turns, and only that ends in one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.bisect.model import Level, Noise
from netbisect.bisect.screen import levels_of
from netbisect.bisect.segments import boots_of

_TWO_SIDED = 1.96
"""Standard errors of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a level lies, or several together."""

    mean: float
    """Robust mean of its boots, ln pps; boots of a slow mode lifted to the fast one."""
    variance: float
    """Of that mean about the level of the image, from the scatter of boots alone."""
    images: float = 1.0
    """How many images it is the mean of: their offsets average out."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far one standing lies from another."""

    ln_ratio: float
    low: float
    high: float
    """Of its 95 % interval."""

    @property
    def clear(self) -> bool:
        """Whether the interval is on one side of zero."""
        return self.low * self.high > 0


def standings(levels: Sequence[Level], noise: Noise) -> list[Standing]:
    """Tells where each level lies.

    Args:
        levels: Of one series, any number.
        noise: Of that series, with its modes.
    """
    if not levels:
        return []
    y, variance = levels_of(boots_of(levels), noise)
    own = variance - noise.image**2
    return [Standing(float(mean), float(spread)) for mean, spread in zip(y, own, strict=True)]


def together(some: Sequence[Standing], noise: Noise) -> Standing | None:
    """Makes one standing of several, weighted by what they are worth; None of none."""
    if not some:
        return None
    weights = [1 / (one.variance + noise.image**2 or 1e-12) for one in some]
    total = math.fsum(weights)
    mean = math.fsum(w * one.mean for w, one in zip(weights, some, strict=True)) / total
    squares = math.fsum((w / total) ** 2 for w in weights)
    own = math.fsum((w / total) ** 2 * one.variance for w, one in zip(weights, some, strict=True))
    return Standing(mean, own, 1 / squares)


def distance(before: Standing, after: Standing, noise: Noise, *, twins: bool = False) -> Distance:
    """Holds one standing against another.

    Args:
        before: What the ratio is of.
        after: What is held against it.
        noise: Of the series.
        twins: Both are of one image, whose offset they share.
    """
    image = 0.0 if twins else noise.image**2 * (1 / before.images + 1 / after.images)
    reach = _TWO_SIDED * math.sqrt(before.variance + after.variance + image)
    ratio = after.mean - before.mean
    return Distance(ratio, ratio - reach, ratio + reach)
