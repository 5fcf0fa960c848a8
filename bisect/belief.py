"""Facts in, chances out: which candidate made it slower, if any did.

Levels are ln pps. Images before the culprit scatter about mu, those from the culprit on about
mu + delta; the mean of n boots of an image does so with variance image² + (1.25 boot)² / n. The
boots are inflated because real ones have heavier tails than the normal law, often two modes:
without it, searches that claim 99 % are right 96 times of 100. mu is as good as unknown; delta is
normal about the confirmed effect with a standard deviation of 30 % of it. Both are integrated
out: means that are estimated and put in let a search measure the two ends for ever, for they
may always turn out to be equal.

That nothing changed is a hypothesis like the others. So is that one image of one or two boots
was led astray by a bad boot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.line import Image, Line, lay_out
from netbisect.bisect.model import Belief, Bisection, Evidence, Noise
from netbisect.bisect.robust import location

Floats = NDArray[np.float64]

PRIOR_NONE = 0.1
"""That a drop which a retest confirmed is nobody's: it takes two images of unlike offset."""
_INFLATED = 1.25
_LEAST_BOOT_SD = 2e-4
_LEVEL_SD = 0.5
"""Of mu about what was measured, ln pps: anything goes."""
_EFFECT_SHARE = 0.3
_STRAY_CHANCE = 0.02
"""That a boot is an outlier; 1 to 3 % on real routers."""
_STRAY_SD = 0.08
"""How far off it lies, ln pps."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """The belief about n candidates, and what it says of boots to come.

    Candidates between two neighbouring measured positions cannot be told apart yet: they share a
    gap. Gap g holds the candidates above g of the m measured positions; "none" is in gap m. A
    part is one gap under one assumption about stray boots, C parts in all.
    """

    chances: Floats
    """n + 1 values, by position; 0 for the good end."""
    none: float
    mass: Floats
    """C: of each part; they sum to 1."""
    gap: NDArray[np.intp]
    """C."""
    level: Floats
    """C x 2: expected ln pps of good and of bad images."""
    variance: Floats
    """C x 2: of that level."""


def believe(question: Bisection, evidence: Evidence) -> Belief:
    """Computes the chances of all candidates and of "none" from the facts alone."""
    line = lay_out(question, evidence)
    return as_belief(line, infer(line))


def as_belief(line: Line, posterior: Posterior) -> Belief:
    """Puts the revisions to the chances."""
    chances = dict(zip(line.revisions[1:], posterior.chances[1:].tolist(), strict=True))
    return Belief(chances, posterior.none)


def visit_variance(noise: Noise, boots: int) -> float:
    """How well one more boot of an image with `boots` boots tells its side, as a variance.

    The variance of a free observation that would add as much: one over the difference of the
    precisions of the mean after and before. With image noise, each boot adds less.
    """
    boot, image = _boot_variance(noise), noise.image**2
    if boots == 0:
        return image + boot
    return (image * (boots + 1) + boot) * (image * boots + boot) / boot


def _boot_variance(noise: Noise) -> float:
    return (_INFLATED * max(noise.boot, _LEAST_BOOT_SD)) ** 2


def infer(line: Line) -> Posterior:
    """Applies Bayes' rule to all hypotheses at once."""
    question = line.question
    weights = np.array([0.0, *(candidate.weight for candidate in question.candidates)])
    weights = np.where(line.possible, weights, 0.0)
    positions = np.array([image.position for image in line.images], dtype=np.intp)
    gaps = np.searchsorted(positions, np.arange(len(weights)), side="left")
    prior: Floats = np.bincount(gaps, weights, minlength=len(positions) + 1).astype(np.float64)
    total = float(prior.sum())
    if total == 0:  # every candidate builds the kernel of its predecessor
        return Posterior(
            np.zeros(len(weights)),
            1.0,
            np.ones(1),
            np.array([len(positions)]),
            np.zeros((1, 2)),
            np.ones((1, 2)),
        )
    prior = prior * ((1 - PRIOR_NONE) / total)
    nobody = np.zeros_like(prior)
    nobody[-1] = PRIOR_NONE
    fit = _fit(line)
    with np.errstate(divide="ignore"):
        mass = fit.log_likelihood + np.log(prior + nobody)
    mass = np.exp(mass - mass.max())
    mass /= mass.sum()
    by_gap = mass.sum(axis=0)
    share = np.divide(by_gap, prior + nobody, out=np.zeros_like(prior), where=prior + nobody > 0)
    chances = weights * ((1 - PRIOR_NONE) / total) * share[gaps]
    none = max(0.0, 1.0 - math.fsum(chances))
    rows, columns = np.indices(mass.shape)
    return Posterior(
        chances,
        none,
        mass.ravel(),
        columns.ravel(),
        fit.level[rows.ravel(), columns.ravel()],
        fit.variance[rows.ravel(), columns.ravel()],
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """F assumptions about stray boots by m + 1 gaps."""

    log_likelihood: Floats
    """F x (m + 1), with the prior of the assumption, up to a constant."""
    level: Floats
    """F x (m + 1) x 2: of the good and the bad side."""
    variance: Floats
    """F x (m + 1) x 2: of these levels."""


def _fit(line: Line) -> _Fit:
    """Marginal likelihood and levels for every gap, by the normal equations of (mu, delta)."""
    noise, effect = line.question.noise, line.question.effect
    y = np.array(
        [location(image.ln_pps, math.sqrt(_boot_variance(noise))) for image in line.images]
    )
    middle = float(np.median(y)) if len(y) else 0.0
    y = y - middle
    variance, log_odds = _assumptions(line.images, noise)
    weight = 1 / variance
    # Column g: sums over the images below gap g are good, those from it on are bad.
    w_bad, wy_bad = _sums_from(weight), _sums_from(weight * y)
    w, wy = w_bad[:, :1], wy_bad[:, :1]
    spread = 1 / (_EFFECT_SHARE * effect) ** 2
    a, b, c = 1 / _LEVEL_SD**2 + w, w_bad, spread + w_bad
    u, v = wy, spread * effect + wy_bad
    determinant = a * c - b * b
    misfit = (weight * y * y).sum(axis=1, keepdims=True)
    explained = (c * u * u - 2 * b * u * v + a * v * v) / determinant
    log_likelihood = (
        log_odds[:, None]
        + np.log(weight).sum(axis=1, keepdims=True) / 2
        - (misfit - explained + np.log(determinant)) / 2
    )
    good = (c * u - b * v) / determinant
    bad = good + (a * v - b * u) / determinant
    return _Fit(
        log_likelihood,
        np.stack([good, bad], axis=-1) + middle,
        np.stack([c, a + c - 2 * b], axis=-1) / determinant[..., None],
    )


def _sums_from(values: Floats) -> Floats:
    """Sums of the columns from g on, g = 0…m."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    sums[:, :-1] = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return sums


def _assumptions(images: tuple[Image, ...], noise: Noise) -> tuple[Floats, Floats]:
    """Variances of the m images, first if no boot is astray, then if one image has a stray one.

    Images of three boots and more have outvoted theirs already. Of two boots, the distance tells.

    Returns:
        F x m variances, and F log odds of the assumptions against the first.
    """
    boot = _boot_variance(noise)
    sizes = np.array([len(image.ln_pps) for image in images], dtype=np.float64)
    plain = noise.image**2 + boot / sizes
    rows, log_odds = [plain], [0.0]
    for i, image in enumerate(images):
        boots = len(image.ln_pps)
        if boots > 2:  # noqa: PLR2004 - a majority
            continue
        chance = boots * _STRAY_CHANCE
        odds, shift = math.log(chance / (1 - chance)), _STRAY_SD**2
        if boots > 1:
            # If one of two is astray, it is by their distance, and their mean by half of that.
            distance = (image.ln_pps[1] - image.ln_pps[0]) ** 2
            usual, wide = 2 * boot, 2 * boot + _STRAY_SD**2
            odds += (math.log(usual / wide) + distance / usual - distance / wide) / 2
            shift = distance / 4
        row = plain.copy()
        row[i] += shift
        rows.append(row)
        log_odds.append(odds)
    return np.array(rows), np.array(log_odds)
