"""What the boots of an image say about the level it stands for, at every level of a grid.

A boot lies about its image's own level with the variance of Noise: boot² + run² / runs. It may
have come up in a slower mode, and it may be astray. The image lies about the level of its side
with image². On a grid of levels such mixtures are products and sums; no formula is needed for
each of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.line import Image, Line
from netbisect.bisect.model import Noise
from netbisect.bisect.robust import location

Floats = NDArray[np.float64]

LEAST_BOOT_SD = 2e-4
"""ln pps; a simulated or saturated router repeats itself to the last digit."""
_FINEST = 20.0
"""An effect is this many standard deviations of a boot, at most: more would change no move."""
_STRAY_CHANCE = 0.02
"""That a boot is an outlier; 1 to 3 % on real routers."""
_STRAY_SD = 0.08
"""How far off it lies, ln pps."""
_MOST_LEVELS = 500
_BOOT_SCALES = (0.7, 1.0, 1.45, 2.1)
_FEW_SCALES = (0.8, 1.3)
"""Of boots where images have offsets, which matter more."""
_DOUBT = 0.3
"""Standard deviation of ln of the true noise of boots over the noise that the question names:
boots differ from one boot and one kernel to the next. Of images it is that of an estimate on
`image_weight` degrees of freedom: of w, 1 / sqrt(2 w)."""
_APART = 1.1
"""Standard deviations of that doubt between the image noises that are assumed."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """One assumption about the noise, and about how far the testbeds lie apart."""

    noise: Noise
    """Of the testbed that the question is about."""
    log_weight: float
    """Prior weight, not normalised."""
    floor: float
    """Smallest standard deviation of a boot that the grid can tell from none."""
    noises: tuple[Noise, ...] = ()
    """By index of testbed; empty: that of the question for all of them."""
    offsets: tuple[float, ...] = (0.0,)
    """By index of testbed: how far it lies from the first one, ln ratio. Boots of testbeds that
    come after these are left out."""

    def of(self, testbed: int) -> Noise:
        """How a testbed scatters."""
        return self.noises[testbed] if self.noises else self.noise

    def variance(self, runs: int, testbed: int = 0) -> float:
        """Variance of a boot of so many runs within its mode."""
        noise = self.of(testbed)
        return max(self.floor**2, noise.boot**2 + noise.run**2 / runs)


def scatters(line: Line, levels: Floats) -> list[Scatter]:
    """The assumptions about the noise: what the question names, and some more or less of it.

    A variance that is put in as if it were known lets one surprising boot settle a search.
    """
    noise, step = line.question.noise, float(levels[1] - levels[0])
    floor = max(LEAST_BOOT_SD, abs(line.question.effect) / _FINEST, 0.8 * step)
    doubt = 1 / math.sqrt(2 * max(noise.image_weight, 1.0))
    own = [line.question.noise_of(name) for name in line.testbeds]
    together = (0.0,) * len(own)
    return [
        Scatter(
            _scaled(noise, boot, noise.image * math.exp(image * doubt)),
            -((math.log(boot) / _DOUBT) ** 2 + image**2) / 2,
            floor,
            tuple(_scaled(one, boot, noise.image * math.exp(image * doubt)) for one in own),
            together,
        )
        for boot in (_FEW_SCALES if noise.image else _BOOT_SCALES)
        for image in ((-_APART, 0.0, _APART) if noise.image else (0.0,))
    ]


def _scaled(noise: Noise, boot: float, image: float) -> Noise:
    return Noise(noise.boot * boot, image, noise.run * boot, noise.slow_share, noise.slow_gap)


def level_grid(line: Line) -> Floats:
    """Levels, equally spaced, that hold those of both sides and all a step could lead to."""
    noise, effect = line.question.noise, abs(line.question.effect)
    boot = max(math.sqrt(noise.variance_of_boot()), LEAST_BOOT_SD)
    found = [location(aligned(line, image), boot) for image in line.images] or [0.0]
    sizes = [sum(image.runs if noise.run else [1] * len(image.runs)) for image in line.images]
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


def aligned(line: Line, image: Image) -> tuple[float, ...]:
    """The ln pps of an image as the first testbed would have measured them, as far as is known."""
    if not line.offsets:
        return image.ln_pps
    boots = zip(image.ln_pps, image.testbeds, strict=True)
    return tuple(x - line.offsets[testbed].mean for x, testbed in boots)


def log_likelihoods(line: Line, levels: Floats, scatter: Scatter) -> Floats:
    """Log likelihood of the boots of each image if its side has this level.

    Returns:
        m x G values, for m images and G levels, up to a constant of each image.
    """
    if not line.images:
        return np.zeros((0, len(levels)))
    own = np.array([_boots(image, levels, scatter) for image in line.images])
    if scatter.noise.image <= (levels[1] - levels[0]) / 2:
        return own
    top = own.max(axis=1, keepdims=True)
    shifted = np.exp(own - top) @ normal(levels, scatter.noise.image)
    found: Floats = np.log(shifted + 1e-300) + top
    return found


def _boots(image: Image, levels: Floats, scatter: Scatter) -> Floats:
    found: Floats = np.zeros(len(levels))
    where = np.array(image.testbeds)
    for testbed in sorted(set(image.testbeds) & set(range(len(scatter.offsets)))):
        noise, its = scatter.of(testbed), where == testbed
        boots, runs = np.array(image.ln_pps)[its], np.array(image.runs)[its]
        variance = np.array([scatter.variance(count, testbed) for count in runs.tolist()])[:, None]
        off = boots[:, None] - levels - scatter.offsets[testbed]
        density = (1 - noise.slow_share) * _density(off, variance)
        if noise.slow_share:
            density = density + noise.slow_share * _density(off + noise.slow_gap, variance)
        stray = _density(off, variance + _STRAY_SD**2)
        found = found + np.log((1 - _STRAY_CHANCE) * density + _STRAY_CHANCE * stray + 1e-300).sum(
            0
        )
    return found


def _density(off: Floats, variance: Floats) -> Floats:
    density: Floats = np.exp(-off * off / (2 * variance)) / np.sqrt(variance)
    return density


def normal(levels: Floats, sd: float, shift: float = 0.0) -> Floats:
    """Chance to come from one level (row) to another (column): normal about it, G x G values."""
    step = float(levels[1] - levels[0])
    n = len(levels)
    steps = (np.arange(-n + 1, n) * step - shift) / sd
    density = np.exp(-steps * steps / 2) * (step / (sd * math.sqrt(2 * math.pi)))
    return toeplitz(density)


def toeplitz(density: Floats) -> Floats:
    """G x G values from the 2 G - 1 chances of every distance, from the most negative one on."""
    n = (len(density) + 1) // 2
    view = np.lib.stride_tricks.sliding_window_view(density, n)
    return np.ascontiguousarray(view[::-1])
