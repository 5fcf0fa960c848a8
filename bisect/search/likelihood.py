"""Likelihood of the boots of an image, on a grid of levels.

A boot scatters around the level of its image with variance boot² + run² / runs. It may be in the
slow mode, and it may be an outlier. The image scatters around the level of its revision with
variance image². On a grid, these mixtures are products and sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.search.search_space import MeasuredImage, SearchSpace
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.robust import LEAST_BOOT_SD, location

_FINEST = 20.0
"""Maximum ratio of the effect to the standard deviation of a boot; more would change no move."""
_OUTLIER_PROBABILITY = 0.02
"""Probability of an outlier; 1 to 3 % of boots on real routers."""
_UNKNOWN_OUTLIERS = (0.02, 0.3)
"""The same while the noise is not known: boots may have a second mode, programs may share their
processor. The outliers are then Cauchy distributed."""
_OUTLIER_RATIO = 9.0
"""Standard deviation of an outlier, relative to that of a boot: 8 % on routers, with 0.9 %. It is
at least the effect: boots of a quiet testbed do not scatter, but their outliers do."""
_MOST_LEVELS = 500
_BOOT_SCALES = (0.7, 1.0, 1.45, 2.1)
_FEW_SCALES = (0.8, 1.3)
"""With image noise, which matters more."""
_NOISE_UNCERTAINTY = 0.3
"""Prior standard deviation of ln(true boot noise / boot noise of the job). For image noise it is
1 / sqrt(2 w), with w = `image_weight` degrees of freedom."""
_IMAGE_NOISE_STEP = 1.1
"""Distance of the image noise hypotheses, in prior standard deviations."""


@dataclass(frozen=True, slots=True)
class NoiseHypothesis:
    """A hypothesis about the noise and the offsets of the testbeds."""

    image: float
    """Noise between images, ln pps."""
    log_weight: float
    """Prior weight, not normalised."""
    floor: float
    """Smallest standard deviation of a boot that the grid resolves."""
    outlier: float
    """Standard deviation of an outlier, ln pps."""
    outliers: float
    """Probability of an outlier."""
    heavy_tails: bool
    """Whether outliers are Cauchy distributed."""
    noises: tuple[Noise, ...]
    """By index of testbed."""
    offsets: tuple[float, ...]
    """By index of testbed: offset from the first one, ln ratio. Boots of later testbeds are
    ignored."""

    def variance(self, runs: int, testbed: int = 0) -> float:
        """Variance of the mean of `runs` runs of one boot, within its mode."""
        noise = self.noises[testbed]
        return max(self.floor**2, noise.boot**2 + noise.run**2 / runs)


def noise_hypotheses(space: SearchSpace, levels: Floats) -> list[NoiseHypothesis]:
    """Noise hypotheses: multiples of the noise of the job.

    With a variance taken as known, one surprising boot would decide a search.
    """
    noise, step = space.job.noise, float(levels[1] - levels[0])
    floor = max(LEAST_BOOT_SD, abs(space.job.effect) / _FINEST, 0.8 * step)
    outlier = max(_OUTLIER_RATIO * math.sqrt(noise.variance_of_boot()), abs(space.job.effect))
    doubt = 1 / math.sqrt(2 * max(noise.image_weight, 1.0))
    own = [space.job.noise_of(name) for name in space.testbeds]
    known = noise.is_known
    return [
        NoiseHypothesis(
            noise.image * math.exp(image * doubt),
            -((math.log(boot) / _NOISE_UNCERTAINTY) ** 2 + image**2) / 2,
            floor,
            outlier,
            outliers,
            not known,
            tuple(replace(one, boot=one.boot * boot, run=one.run * boot) for one in own),
            (0.0,) * len(own),
        )
        for outliers in ((_OUTLIER_PROBABILITY,) if known else _UNKNOWN_OUTLIERS)
        for boot in (_FEW_SCALES if noise.image else _BOOT_SCALES)
        for image in ((-_IMAGE_NOISE_STEP, 0.0, _IMAGE_NOISE_STEP) if noise.image else (0.0,))
    ]


def level_grid(space: SearchSpace) -> Floats:
    """Equally spaced levels that cover both sides and every step from them."""
    noise, effect = space.job.noise, abs(space.job.effect)
    boot = max(math.sqrt(noise.variance_of_boot()), LEAST_BOOT_SD)
    found = [location(aligned(space, image), boot) for image in space.images] or [0.0]
    sizes = [sum(image.runs if noise.run else [1] * len(image.runs)) for image in space.images]
    middle = float(np.median(found))
    reach = 4 * effect + 4 * math.hypot(boot, noise.image) + noise.slow_gap
    low = max(min(found) - middle, -2 * reach)
    high = min(max(found) - middle, 2 * reach)
    count = max([1, *sizes]) if noise.image else max(1, sum(sizes))
    finest = max(math.hypot(noise.boot, noise.run), effect / _FINEST, LEAST_BOOT_SD)
    step = min(effect / 10, _BOOT_SCALES[0] * finest / max(2.0, math.sqrt(count)))
    half = math.ceil((high - low + 2 * reach) / 2 / step)
    half = min(half, _MOST_LEVELS // 2)
    centre, width = (low + high) / 2, (high - low) / 2 + reach
    return middle + centre + np.linspace(-width, width, 2 * half + 1)


def aligned(space: SearchSpace, image: MeasuredImage) -> tuple[float, ...]:
    """The ln pps of an image, converted to the level of the first testbed."""
    if not space.offsets:
        return image.ln_pps
    boots = zip(image.ln_pps, image.testbeds, strict=True)
    return tuple(x - space.offsets[testbed].mean for x, testbed in boots)


class LevelLikelihoods:
    """Likelihoods of the boots of each image, by level of its revision.

    Hypotheses share what they have in common: the boots of a testbed depend on its noise and its
    offset alone, and the scatter of images on the image noise alone.
    """

    def __init__(self, space: SearchSpace, levels: Floats) -> None:
        self._levels = levels
        self._images = len(space.images)
        boots = [
            (image, *boot)
            for image, its in enumerate(space.images)
            for boot in zip(its.testbeds, its.ln_pps, its.runs, strict=True)
        ]
        self._boots = {
            testbed: [(image, x, runs) for image, its, x, runs in boots if its == testbed]
            for testbed in sorted({its for _, its, _, _ in boots})
        }
        self._of_boots: dict[tuple[int, float, float, Noise], Floats] = {}
        self._transitions: dict[float, Floats] = {}

    def log(self, hypothesis: NoiseHypothesis) -> Floats:
        """Log likelihoods, m x G values, for m images and G levels.

        Each row is up to a constant. All hypotheses must be from one call of `noise_hypotheses`,
        but may have other offsets.
        """
        levels, image = self._levels, hypothesis.image
        own: Floats = np.zeros((self._images, len(levels)))
        for testbed in self._boots.keys() & range(len(hypothesis.offsets)):
            own = own + self._testbed(testbed, hypothesis)
        if not self._images or image <= (levels[1] - levels[0]) / 2:
            return own
        if image not in self._transitions:
            self._transitions[image] = normal_transitions(levels, image)
        top = own.max(axis=1, keepdims=True)
        shifted = np.exp(own - top) @ self._transitions[image]
        found: Floats = np.log(shifted + 1e-300) + top
        return found

    def _testbed(self, testbed: int, hypothesis: NoiseHypothesis) -> Floats:
        offset, noise = hypothesis.offsets[testbed], hypothesis.noises[testbed]
        key = testbed, offset, hypothesis.outliers, noise
        if key not in self._of_boots:
            images, ln_pps, runs = zip(*self._boots[testbed], strict=True)
            variance = np.array([hypothesis.variance(count, testbed) for count in runs])
            off = np.array(ln_pps)[:, None] - self._levels - offset
            logs = _of_boots(off, variance[:, None], noise, hypothesis)
            edges = np.searchsorted(images, np.arange(1, self._images))
            self._of_boots[key] = np.array([part.sum(axis=0) for part in np.split(logs, edges)])
        return self._of_boots[key]


def _of_boots(off: Floats, variance: Floats, noise: Noise, hypothesis: NoiseHypothesis) -> Floats:
    """Log likelihood of boots at these distances from their levels, ln ratio."""
    density = (1 - noise.slow_share) * _density(off, variance)
    if noise.slow_share:
        density = density + noise.slow_share * _density(off + noise.slow_gap, variance)
    tail = _heavy_density if hypothesis.heavy_tails else _density
    stray = tail(off, variance + hypothesis.outlier**2)
    share = hypothesis.outliers
    found: Floats = np.log((1 - share) * density + share * stray + 1e-300)
    return found


def _density(off: Floats, variance: Floats) -> Floats:
    density: Floats = np.exp(-off * off / (2 * variance)) / np.sqrt(variance)
    return density


def _heavy_density(off: Floats, square: Floats) -> Floats:
    """The Cauchy density in the unit of `_density`, by the square of its scale."""
    density: Floats = math.sqrt(2 / math.pi) / (np.sqrt(square) * (1 + off * off / square))
    return density


def normal_transitions(levels: Floats, sd: float, shift: float = 0.0) -> Floats:
    """Normal transition probabilities from one level (row) to another (column), G x G."""
    step = float(levels[1] - levels[0])
    n = len(levels)
    steps = (np.arange(-n + 1, n) * step - shift) / sd
    density = np.exp(-steps * steps / 2) * (step / (sd * math.sqrt(2 * math.pi)))
    return toeplitz(density)


def toeplitz(density: Floats) -> Floats:
    """The G x G Toeplitz matrix of 2 G - 1 values, the most negative distance first."""
    n = (len(density) + 1) // 2
    view = np.lib.stride_tricks.sliding_window_view(density, n)
    return np.ascontiguousarray(view[::-1])
