"""Product partition of a sequence of levels, with heavy tails.

A new level begins at each image with a small probability (D. Barry and J. A. Hartigan, Annals of
Statistics 20, 1992). Offsets of images follow Student's t, so that an odd image alone is no new
level; neighbours may be correlated, so that a level that wanders is none either. The level is
integrated out over a grid.

The forward and backward recursions of a hidden Markov model (L. R. Rabiner, Proceedings of the IEEE
77, 1989) give the evidence of each scatter and correlation, over all partitions, and the
probability of a new level at each image. Dynamic programming finds the most likely partition with
cuts at plausible images (P. Fearnhead, Statistics and Computing 16, 2006).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.log_space import log_sum
from netbisect.bisect.stats.robust import move_sd

TAIL = 5.0
"""Degrees of freedom of the offset of an image."""
STUDENT_SCALE = 0.857
"""Scale of Student's t that fits normal offsets, in their standard deviations."""
SCATTERS = 0.002 * 30 ** (np.arange(11) / 7)
"""Scales of the offsets tried, ln pps: to 26 %, of single runs of a noisy program."""
CORRELATIONS = (0.0, 0.25, 0.5)
"""Correlations of neighbouring images tried."""
_STEP, _REACH = 0.001, 0.04
"""Grid of levels, ln pps: half of the least scatter; its distance from the nearest image."""
_SPREAD = 0.1
"""Scale of the levels around their median, Cauchy distribution, ln pps."""
_PLAUSIBLE = 0.01
"""Least probability of a new level at a place of a cut."""
LATEST = 120
"""Latest images that tell scatter and correlation."""
_LEAST_BOOTS = 3
"""Minimum boots of a segment."""
_STRETCH = 12
"""Differences of neighbours that tell the noise of a stretch of the history."""
_NOISIER = 4.0
"""Least ratio of the variance of a noisy stretch to that of the history."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The most likely partition of n levels."""

    cuts: tuple[int, ...]
    """Index of the first level of every segment but the first."""
    variance: Floats
    """Variance of each level around that of its segment: squared scale of Student's t."""
    correlation: float
    """Correlation of neighbouring images."""


def partition(
    y: Floats,
    least: Floats,
    boots: Floats,
    prior: tuple[float, float],
    steps: Floats,
    correlations: Sequence[float] = CORRELATIONS,
) -> Partition:
    """The most likely partition of the levels of at least one image.

    Args:
        y: n levels of images, ln pps.
        least: Their variances from boot noise.
        boots: Their boots.
        prior: Prior scatter of images, and its degrees of freedom.
        steps: Prior probability of a new level at each image.
        correlations: Possible correlations of neighbouring images, equally likely.
    """
    levels, grid = level_grid(y)
    off = y[:, None] - grid
    scatters, rho = (x.ravel() for x in np.meshgrid(SCATTERS, correlations, indexing="ij"))
    latest = slice(max(len(y) - LATEST, 0), len(y))
    sd = np.sqrt(scatters**2 + least[latest, None])
    alone = np.full(len(y), steps.min())  # the scatter does not depend on other series
    evidence, _ = recursions(levels, *_densities(off[latest], sd, rho), alone[latest])
    # Log-normal prior; the variance of ln s with n degrees of freedom is 1 / 2n.
    evidence -= prior[1] * np.log(scatters / prior[0]) ** 2
    best = int(np.argmax(evidence))
    scatter = _peak(evidence.reshape(len(SCATTERS), -1)[:, best % len(correlations)])
    variance = scatter**2 + least
    variance += _noisy_stretches(y, variance)
    fresh, kept = _densities(off, np.sqrt(variance)[:, None], rho[[best]])
    _, chances = recursions(levels, fresh, kept, steps)
    cuts = best_cuts(levels * fresh[:, 0], kept[:, 0], boots, steps, chances[:, 0])
    return Partition(cuts, variance, float(rho[best]))


def level_grid(y: Floats) -> tuple[Floats, Floats]:
    """Prior probabilities of possible levels near the images, and these levels, ln pps."""
    near = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    grid = np.unique(np.round((y[:, None] + near) / _STEP)) * _STEP
    prior = _STEP / (math.pi * _SPREAD) / (1 + ((grid - np.median(y)) / _SPREAD) ** 2)
    return prior, grid


def _noisy_stretches(y: Floats, variance: Floats) -> Floats:
    """Variance of each level beyond `variance`, in stretches in which neighbours differ by more."""
    if len(y) <= _STRETCH:
        return np.zeros(len(y))
    stretches = (STUDENT_SCALE * move_sd(sliding_window_view(np.diff(y), _STRETCH))) ** 2
    around = sliding_window_view(np.pad(stretches, _STRETCH), _STRETCH + 1)
    noisiest = around.max(axis=1)  # of the stretches that include the level
    return np.where(noisiest > _NOISIER * variance, noisiest - variance, 0.0)


def _peak(evidence: Floats) -> float:
    """The most likely scatter, by a parabola through the best of the grid and its neighbours."""
    best = int(np.argmax(evidence))
    if not 0 < best < len(evidence) - 1:
        return float(SCATTERS[best])
    below, top, above = evidence[best - 1 : best + 2]
    shift = (above - below) / (2 * (2 * top - above - below) or 1.0)
    return float(SCATTERS[best] * (SCATTERS[1] / SCATTERS[0]) ** shift)


def _densities(off: Floats, sd: Floats, rho: Floats) -> tuple[Floats, Floats]:
    """Densities of n images at m levels: of a first image, and given the one before.

    The offset of an image given its neighbour is y - rho y'.

    Args:
        off: Distances from the levels, n rows of m.
        sd: Scales, n rows of k.
        rho: Correlations, k.

    Returns:
        Student's t: n by k by m, both.
    """
    fresh = student(off[:, None], sd[..., None])
    given = off[1:, None] - rho[:, None] * off[:-1, None]
    kept = student(given, (sd[1:] * np.sqrt(1 - rho**2))[..., None])
    return fresh, np.concatenate([fresh[:1], kept])


def student(off: Floats, sd: Floats) -> Floats:
    """Density of Student's t with `TAIL` degrees of freedom, times a constant."""
    wide = 1 + (off / sd) ** 2 / TAIL
    return 1 / (wide * wide * wide * sd)  # the power (TAIL + 1) / 2, fast


def recursions(prior: Floats, fresh: Floats, kept: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Log evidence of each scatter, and the probability of a new level at each image."""
    n, k, _ = fresh.shape
    begun = prior * fresh
    forward, scale = begun[0], np.empty((n, k))
    for i in range(n):
        if i:
            forward = (1 - steps[i]) * forward * kept[i] + steps[i] * begun[i]
        scale[i] = forward.sum(axis=1)
        forward = forward / scale[i][:, None]
    chances, backward = np.zeros((n, k)), np.ones_like(begun[0])
    for i in range(n - 1, 0, -1):
        chances[i] = steps[i] * (begun[i] * backward).sum(axis=1) / scale[i]
        backward = (1 - steps[i]) * kept[i] * backward / scale[i][:, None] + chances[i][:, None]
    return np.log(scale).sum(axis=0), chances


def best_cuts(
    begun: Floats, kept: Floats, boots: Floats, steps: Floats, chances: Floats
) -> tuple[int, ...]:
    """Cuts of the most likely partition, at plausible images.

    Args:
        begun: Densities of the first image of a segment, with the prior of the levels, n by m.
        kept: Densities of the later images, n by m.
        boots: Boots of each image.
        steps: Prior probability of a new level at each image.
        chances: Probability of a new level at each image.
    """
    places = np.array([0, *np.flatnonzero(chances > _PLAUSIBLE), len(boots)])
    first, sums = np.log(begun), np.cumsum(np.log(kept), axis=0)
    sums = np.concatenate([np.zeros_like(sums[:1]), sums])
    passed = np.concatenate([[0.0], np.cumsum(boots)])
    stays = np.concatenate([[0.0], np.cumsum(np.log1p(-steps))])
    begins = np.where(places[:-1] > 0, np.log(steps[places[:-1]]), 0.0)
    best, origin = np.zeros(len(places)), np.zeros(len(places), dtype=np.intp)
    for i in range(1, len(places)):
        starts, stop = places[:i], int(places[i])
        logs = first[starts] + sums[stop] - sums[starts + 1]
        scores = log_sum(logs, axis=1) + best[:i] + begins[:i] + stays[stop] - stays[starts + 1]
        scores[passed[stop] - passed[starts] < _LEAST_BOOTS] = -np.inf
        origin[i] = int(np.argmax(scores))
        best[i] = scores[origin[i]]
    cuts: list[int] = []
    i = int(origin[-1])
    while i > 0:
        cuts.append(int(places[i]))
        i = int(origin[i])
    return tuple(reversed(cuts))
