"""Variance components of a testbed: between images and between boots.

One-way random-effects model of ln pps: level + image + boot, both normal. The variances are
estimated by restricted maximum likelihood (Patterson and Thompson, Biometrika 58, 1971), with
profile likelihood intervals (chi-square, one degree of freedom). With equal numbers of boots, the
estimate is that of the analysis of variance, if not negative.

Uses the standard library only, because it runs on lab hosts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

_SMALLEST = 1e-6
"""Smallest standard deviation, as a share of the total; counts as zero."""
_LARGEST = 1e2
"""Largest standard deviation, as a share of the total."""
_FLAT = 1e-9
"""Negligible difference of deviances."""
_ERROR, _POWER = 0.01, 0.9
"""Type I error and power of a planned measurement."""
_CONFIDENCE = 0.9
"""Confidence of the intervals."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 40
"""Iterations of golden section and bisection."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation of ln pps with its interval."""

    sd: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components."""

    images: int
    boots: int
    level: float
    """Weighted mean of ln pps over the images."""
    image: Spread
    """Between images of equal performance."""
    boot: Spread
    """Between boots of one image."""
    confidence: float
    """Confidence of both intervals."""


@dataclass(frozen=True, slots=True)
class Need:
    """Boots or images needed on each side to detect a drop."""

    boots: int | None
    """Boots of a single image; None if image noise hides the drop."""
    images: int
    """Booted once each."""


def need(drop: float, image: float, boot: float) -> Need:
    """Boots of one image, or images booted once, needed to detect a drop.

    Type I error 1 %, power 90 %, equal sides:
    drop^2 = 2 (z_error + z_power)^2 (image^2 + boot^2 / boots) / images.

    Args:
        drop: positive ln ratio.
        image: standard deviation of ln pps between images.
        boot: standard deviation of ln pps between boots of one image.
    """
    z = NormalDist().inv_cdf(1 - _ERROR) + NormalDist().inv_cdf(_POWER)
    variance = drop**2 / (2 * z**2)
    left = variance - image**2
    return Need(
        boots=max(1, math.ceil(boot**2 / left)) if left > 0 else None,
        images=max(1, math.ceil((image**2 + boot**2) / variance)),
    )


def detectable(image: float, boot: float, boots: int) -> float:
    """Smallest drop detectable by comparing two kernels, as a positive ln ratio.

    With a type I error of 5 % and a power of 80 %. One image per side, with equal numbers of boots:
    drop = (t_error + t_power) sqrt(2 (image^2 + boot^2 / boots)), with Student's t of
    2 boots - 2 degrees of freedom, one-sided (Cochran and Cox, Experimental Designs, 1957,
    chapter 2).

    Args:
        image: standard deviation of ln pps between images.
        boot: standard deviation of ln pps between boots of one image.
        boots: of each side, 2 or more.
    """
    degrees_of_freedom = 2 * boots - 2
    factor = _student(0.95, degrees_of_freedom) + _student(0.8, degrees_of_freedom)
    return factor * math.sqrt(2 * (image**2 + boot**2 / boots))


def _student(probability: float, degrees_of_freedom: int) -> float:
    """Quantile of Student's t.

    Four terms of the expansion around the normal quantile (Abramowitz and Stegun, 26.7.5);
    accurate to 0.5 % from 4 degrees of freedom on.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(
        term / float(degrees_of_freedom) ** power for power, term in enumerate(terms, 1)
    )


def components(groups: Sequence[Sequence[float]]) -> Components:
    """Variance components between images and between boots.

    Args:
        groups: ln pps of every boot, one group per image.

    Raises:
        ValueError: fewer than two images, no image with two boots, or no variance.
    """
    boots = [len(group) for group in groups]
    if len(groups) < 2 or min(boots) < 1 or max(boots) < 2:  # noqa: PLR2004 - to see a scatter
        raise ValueError(
            "two images or more are needed, each with a boot, and one of them with two: "
            f"found {', '.join(map(str, boots)) or 'none'}"
        )
    values = [value for group in groups for value in group]
    total = math.sqrt(_squares(values) / (len(values) - 1))
    if total == 0:
        raise ValueError("all boots are equal to the last digit: that is not a measurement")
    likelihood = _Likelihood(groups)
    low, high = _SMALLEST * total, _LARGEST * total

    def of_image(image: float) -> float:
        return _minimize(lambda boot: likelihood.deviance(image, boot), low, high)[1]

    def of_boot(boot: float) -> float:
        return _minimize(lambda image: likelihood.deviance(image, boot), low, high)[1]

    threshold = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) ** 2
    image = _interval(of_image, low, high, threshold)
    boot = _interval(of_boot, low, high, threshold)
    return Components(
        images=len(groups),
        boots=len(values),
        level=groups[0][0] + likelihood.level(max(image.sd, low), max(boot.sd, low))[2],
        image=image,
        boot=boot,
        confidence=_CONFIDENCE,
    )


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


class _Likelihood:
    """Minus twice the restricted log-likelihood, up to a constant."""

    def __init__(self, groups: Sequence[Sequence[float]]) -> None:
        self._sizes = [len(group) for group in groups]
        # Relative to one of the values, for precision.
        self._means = [
            math.fsum(value - groups[0][0] for value in group) / len(group) for group in groups
        ]
        self._within = math.fsum(_squares(group) for group in groups)
        self._free = sum(self._sizes) - len(groups)

    def deviance(self, image: float, boot: float) -> float:
        weights, total, level = self.level(image, boot)
        between = sum(
            weight * (mean - level) ** 2 - math.log(weight)
            for weight, mean in zip(weights, self._means, strict=True)
        )
        inside = self._free * math.log(boot**2) + self._within / boot**2
        return between + inside + math.log(total)

    def level(self, image: float, boot: float) -> tuple[list[float], float, float]:
        """Weights of the images, their sum, and the weighted mean relative to the first boot."""
        weights = [1 / (image**2 + boot**2 / size) for size in self._sizes]
        total = sum(weights)
        level = sum(map(operator.mul, weights, self._means)) / total
        return weights, total, level


def _minimize(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Argument and value of the minimum of a unimodal function: golden section on the logarithm."""
    first, last = math.log(low), math.log(high)
    near, far = last - _GOLDEN * (last - first), first + _GOLDEN * (last - first)
    at_near, at_far = function(math.exp(near)), function(math.exp(far))
    for _ in range(_STEPS):
        if at_near <= at_far:
            last, far, at_far = far, near, at_near
            near = last - _GOLDEN * (last - first)
            at_near = function(math.exp(near))
        else:
            first, near, at_near = near, far, at_far
            far = first + _GOLDEN * (last - first)
            at_far = function(math.exp(far))
    return math.exp((first + last) / 2), min(at_near, at_far)


def _interval(
    profile: Callable[[float], float], low: float, high: float, threshold: float
) -> Spread:
    best, least = _minimize(profile, low, high)
    limit = least + threshold
    lower = 0.0 if profile(low) <= limit else _crossing(profile, low, best, limit)
    upper = _crossing(profile, high, best, limit)
    none = profile(low) - least < _FLAT
    return Spread(0.0 if none else best, lower, upper)


def _crossing(
    profile: Callable[[float], float], outside: float, inside: float, limit: float
) -> float:
    """Argument at which a profile crosses its limit, by bisection."""
    for _ in range(_STEPS):
        middle = math.sqrt(outside * inside)
        if profile(middle) > limit:
            outside = middle
        else:
            inside = middle
    return inside
