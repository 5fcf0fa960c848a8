"""Posterior probability of every candidate, computed from the evidence.

Levels are ln pps. Four kinds of hypotheses are compared: no change; one step, with a height
normally distributed around the confirmed effect (standard deviation 30 % of it); two steps of
either sign; and a linear drift over the whole range. The levels have a flat prior, the noise an
informative one; both are integrated out on a grid. With plug-in estimates of the levels, a search
would measure the two ends forever, because they could always turn out to be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Posterior
from netbisect.bisect.search.likelihood import (
    LevelLikelihoods,
    NoiseHypothesis,
    level_grid,
    noise_hypotheses,
    toeplitz,
)
from netbisect.bisect.search.link_order import can_average
from netbisect.bisect.search.search_space import SearchSpace, TestbedOffset, build_search_space
from netbisect.bisect.search.testbed_offsets import (
    Offsets,
    offset_combinations,
    rough_offsets,
    summarize,
)
from netbisect.bisect.search.verification import without_refuted
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.log_space import log_sum

PRIOR_NONE = 0.1
"""Prior probability of no change after a confirmed drop: two images with different offsets."""
_PRIOR_NONE_AFTER_SHIFT = 0.5
"""The same if the good end has changed, which may explain the whole drop."""
PRIOR_TWO = 0.06
"""Prior probability of two steps, of equal or opposite sign."""
PRIOR_DRIFT = 0.02
"""Prior probability of a drift; with one or two candidates that is the same as a step."""
_REFUTED = 1e-12
"""Prior probability of a hypothesis that is refuted, or the same as another."""
_EFFECT_SHARE, _EFFECT_LEAST = 0.3, 0.5
"""Standard deviation and minimum of the height of a single step, as shares of the confirmed
effect. A smaller step contradicts the confirmation and could not be verified."""
_PART_MEAN, _PART_SD, _PART_LEAST = 0.5, 0.7, 0.2
"""Mean, standard deviation and minimum of the height of the first of two steps, as shares of the
confirmed effect; their sum is distributed as a single step."""
_DRIFTS = (
    (0.4, 0.055), (0.6, 0.11), (0.8, 0.21), (1.0, 0.25), (1.2, 0.21), (1.4, 0.11), (1.6, 0.055)
)  # fmt: skip
"""Total drift over the range, as a share of the confirmed effect, and its probability."""
_IMPOSSIBLE = -600.0
"""Nats."""
_NEGLIGIBLE = 12.0
"""Nats below the most likely pair of steps; less likely pairs are ignored."""
_PAIRS_AT_ONCE = 4096
"""Limits the memory: a history of n measured kernels has n² / 2 pairs."""
_HEAVY, _HEAVIEST = 2e-3, 24
"""Minimum mass and maximum number of hypotheses in the choice of the next boot."""
_LIGHT, _MOST_LIGHT = 1e-4, 48
"""The same with further layouts: the remaining mass is then spread over many neighbours."""
_LEAST_SHARE = 1e-3
"""Share of a hypothesis below which a noise hypothesis is ignored."""


@dataclass(frozen=True, slots=True)
class LeadingHypotheses:
    """The C heaviest hypotheses, for the choice of the next boot.

    Candidates between two neighbouring measured positions are indistinguishable: they share a
    gap. Gap g holds the candidates above g of the m measured positions.
    """

    mass: Floats
    """C values that sum to 1."""
    first: NDArray[np.intp]
    """C: gap of the first step; m + 1 where there is none."""
    second: NDArray[np.intp]
    """C: gap of the second step; m + 1 where there is none."""
    density: Floats
    """C x 3 x G: probabilities of the levels before, between and after the steps."""
    levels: Floats
    """G: the levels, ln pps."""
    hypothesis: NoiseHypothesis
    """The most likely noise."""
    testbed: int
    """Testbed of the levels, as an index into `SearchSpace.testbeds`."""


@dataclass(frozen=True, slots=True)
class JointPosterior:
    """The posterior over n candidates, with the levels behind it."""

    posterior: Posterior
    any_step: Floats
    """n + 1 values, by position: of a step, the only one or one of two."""
    leading: LeadingHypotheses
    offsets: tuple[TestbedOffset, ...]
    """By testbed."""


def posterior_of(job: BisectJob, evidence: Evidence) -> Posterior:
    """Computes the probabilities of all hypotheses."""
    return infer(build_search_space(job, evidence)).posterior


@dataclass(frozen=True, slots=True)
class _Prior:
    """Prior probabilities, by gap."""

    weights: Floats
    """n + 1, by position; they sum to 1, or are all 0."""
    gaps: NDArray[np.intp]
    """n + 1: the gap of each position."""
    one: Floats
    """m + 1."""
    two: Floats
    """One value per pair of gaps."""
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]]
    """First and second gap of every pair; they may be the same."""
    none: float
    drift: float


def _prior(space: SearchSpace) -> _Prior:
    weights = np.array([0.0, *(candidate.weight for candidate in space.job.candidates)])
    weights = np.where(space.possible, weights, 0.0)
    total = weights.sum()
    weights = weights / total if total else weights
    positions = np.array([image.position for image in space.images], dtype=np.intp)
    gaps = np.searchsorted(positions, np.arange(len(weights)), side="left")
    count = len(positions) + 1
    one: Floats = np.bincount(gaps, weights, minlength=count).astype(np.float64)
    square = np.bincount(gaps, weights**2, minlength=count)
    first, second = np.triu_indices(count)
    two = one[first] * one[second]
    two = np.where(first == second, np.maximum(one[first] ** 2 - square[first], 0.0) / 2, two)
    kept = two > 1e-15  # noqa: PLR2004 - two steps cannot be one candidate
    first, second, two = first[kept], second[kept], two[kept]
    share_two = PRIOR_TWO if len(two) else 0.0
    if not total:
        return _Prior(weights, gaps, one, two, (first, second), 1.0, 0.0)
    share_drift = PRIOR_DRIFT if np.count_nonzero(weights) > 2 else _REFUTED  # noqa: PLR2004
    usual = PRIOR_NONE if space.shift is None else _PRIOR_NONE_AFTER_SHIFT
    none = _REFUTED if space.changed else usual
    share_one = 1 - none - share_two - share_drift
    scale = share_two / two.sum() if len(two) else 1.0
    return _Prior(weights, gaps, one * share_one, two * scale, (first, second), none, share_drift)


def infer(space: SearchSpace, testbed: str = "") -> JointPosterior:
    """Applies Bayes' rule to all hypotheses at once.

    Args:
        space: The job and its evidence.
        testbed: Predict the levels of this testbed; by default, and without boots on it, of the
            testbed with most boots.
    """
    space = rough_offsets(without_refuted(space))
    prior, levels = _prior(space), level_grid(space)
    steps = _StepProbabilities.of(levels, space.job.effect)
    hypotheses = noise_hypotheses(space, levels)
    usual = int(np.argmax([hypothesis.log_weight for hypothesis in hypotheses]))
    likelihoods, start = LevelLikelihoods(space, levels), _start(space, levels)

    def sides_of(hypothesis: NoiseHypothesis) -> _Sides:
        return _Sides.of(np.vstack([start, likelihoods.log(hypothesis)]), steps)

    if len(space.testbeds) > 1:
        hypotheses, usual = _with_testbed_offsets(space, prior, sides_of, hypotheses, usual)
    every = [sides_of(hypothesis) for hypothesis in hypotheses]
    # There are many pairs of steps: only those plausible under the usual noise are evaluated.
    pairs = np.arange(len(prior.two))
    two = _log_evidence_two(prior, steps, every[usual], pairs) + np.log(prior.two)
    open_ = np.flatnonzero(two > two.max(initial=-1e300) - _NEGLIGIBLE)
    drifts = _Drifts.of(space, levels)
    fits = [
        _log_evidence(prior, drifts, steps, sides, open_) + hypothesis.log_weight
        for sides, hypothesis in zip(every, hypotheses, strict=True)
    ]
    with np.errstate(divide="ignore"):
        table = np.array(fits) + np.log(
            np.concatenate([[prior.none, prior.drift], prior.one, prior.two])
        )
    mass = np.exp(table - table.max())
    mass /= mass.sum()
    total = mass.sum(axis=0)
    count = len(prior.one)
    drift, one, two = float(total[1]), total[2 : 2 + count], total[2 + count :]
    probabilities = _by_position(prior, one)
    none = max(0.0, 1.0 - math.fsum(probabilities) - math.fsum(two) - drift)
    chances = dict(zip(space.revisions[1:], probabilities[1:].tolist(), strict=True))
    return JointPosterior(
        Posterior(chances, none, math.fsum(two), drift),
        probabilities + _pairs_by_position(prior, two),
        _leading_hypotheses(space, prior, mass, every, levels, steps, hypotheses, testbed),
        summarize(np.array([hypothesis.offsets for hypothesis in hypotheses]), mass.sum(axis=1)),
    )


def _with_testbed_offsets(
    space: SearchSpace,
    prior: _Prior,
    sides_of: Callable[[NoiseHypothesis], _Sides],
    hypotheses: list[NoiseHypothesis],
    usual: int,
) -> tuple[list[NoiseHypothesis], int]:
    """Combines the noise hypotheses with the offsets of the testbeds.

    Returns:
        The combinations, and the index of the most likely one with the usual noise.
    """
    with np.errstate(divide="ignore"):
        probabilities = np.log(np.array([prior.none, *prior.one]))

    def evidence_of(offsets: Offsets) -> float:
        sides = sides_of(replace(hypotheses[usual], offsets=offsets))
        found = np.array([log_sum(sides.below[-1]), *_log_evidence_one(sides)])
        return float(log_sum(found + probabilities))

    # Most likely first.
    found = offset_combinations(space, hypotheses[usual], evidence_of)
    every = [
        replace(hypothesis, offsets=offsets, log_weight=hypothesis.log_weight + weight)
        for hypothesis in hypotheses
        for offsets, weight in found
    ]
    return every, usual * len(found)


def _start(space: SearchSpace, levels: Floats) -> Floats:
    """Log prior of the level of the good end: flat where no step leads off the grid."""
    reach = 2 * abs(space.job.effect)
    inside = (levels >= levels[0] + reach) & (levels <= levels[-1] - reach)
    return np.where(inside, 0.0, _IMPOSSIBLE)


@dataclass(frozen=True, slots=True)
class _StepProbabilities:
    """Transition probabilities of a step from one level (row) to another (column)."""

    only: Floats
    """Over all steps."""
    part: Floats
    """Over the first of two steps."""

    @classmethod
    def of(cls, levels: Floats, effect: float) -> _StepProbabilities:
        n, step = len(levels), float(levels[1] - levels[0])
        shares = np.arange(-n + 1, n) * step / effect
        density = np.exp(-(((shares - _PART_MEAN) / _PART_SD) ** 2) / 2)
        least = np.minimum(np.abs(shares), np.abs(shares - 1))
        density = np.where(least >= _PART_LEAST, density, 0.0)
        only = np.exp(-(((shares - 1) / _EFFECT_SHARE) ** 2) / 2)
        only = np.where(shares >= _EFFECT_LEAST, only, 0.0)
        # With extreme noise, the grid may be too coarse for a step.
        only, density = (one / max(one.sum(), 1e-300) for one in (only, density))
        return cls(toeplitz(only), toeplitz(density))


@dataclass(frozen=True, slots=True)
class _Sides:
    """Likelihoods of the images on both sides of each gap under one noise hypothesis; m + 1 rows.

    The rows of `good` and `bad` are scaled to a maximum of 1.
    """

    own: Floats
    """Log prior of the first level, then log likelihood of each image."""
    below: Floats
    """Log likelihood of the images below the gap."""
    good: Floats
    """Likelihood of the images below the gap."""
    good_top: Floats
    """Logs of the scales of `good`."""
    bad: Floats
    """Likelihood of the images above the gap."""
    bad_top: Floats
    """Logs of the scales of `bad`."""
    fall: Floats
    """Likelihood of the images above the gap, by the level before a single step."""

    @classmethod
    def of(cls, own: Floats, steps: _StepProbabilities) -> _Sides:
        below = np.cumsum(own, axis=0)
        bad, bad_top = _scaled(below[-1] - below)
        return cls(own, below, *_scaled(below), bad, bad_top, bad @ steps.only.T)


def _scaled(logs: Floats) -> tuple[Floats, Floats]:
    top = logs.max(axis=1)
    return np.exp(logs - top[:, None]), top


def _log_evidence(
    prior: _Prior,
    drifts: _Drifts,
    steps: _StepProbabilities,
    sides: _Sides,
    pairs: NDArray[np.intp],
) -> Floats:
    """Log evidence of no change, of a drift, of a step in each gap and of two steps."""
    two = np.full(len(prior.two), -np.inf)
    two[pairs] = _log_evidence_two(prior, steps, sides, pairs)
    none, drift = log_sum(sides.below[-1]), drifts.log_evidence(sides)
    return np.concatenate([[none, drift], _log_evidence_one(sides), two])


def _log_evidence_one(sides: _Sides) -> Floats:
    """Log evidence of one step in each gap."""
    found = (sides.good * sides.fall).sum(axis=1)
    logs: Floats = np.log(found + 1e-300) + sides.good_top + sides.bad_top
    return logs


def _log_evidence_two(
    prior: _Prior, steps: _StepProbabilities, sides: _Sides, pairs: NDArray[np.intp]
) -> Floats:
    """Log evidence of these pairs of gaps."""
    if not len(pairs):
        return np.zeros(0)
    if len(pairs) > _PAIRS_AT_ONCE:
        parts = np.split(pairs, range(_PAIRS_AT_ONCE, len(pairs), _PAIRS_AT_ONCE))
        return np.concatenate([_log_evidence_two(prior, steps, sides, part) for part in parts])
    first, second = prior.pairs[0][pairs], prior.pairs[1][pairs]
    between, top = _scaled(sides.below[second] - sides.below[first])
    ends = sides.good[first] * sides.fall[second]
    found = (ends * (between @ steps.part.T)).sum(axis=1)
    logs: Floats = np.log(found + 1e-300) + top + sides.good_top[first] + sides.bad_top[second]
    return logs


@dataclass(frozen=True, slots=True)
class _Drifts:
    """Linear drifts from the good to the bad end; for d drifts and m images."""

    whole: NDArray[np.intp]
    """d x m: movement of each image along the grid, whole steps."""
    rest: Floats
    """d x m x 1: what is left of a step."""

    @classmethod
    def of(cls, space: SearchSpace, levels: Floats) -> _Drifts:
        span = space.job.effect / (len(space.revisions) - 1) / (levels[1] - levels[0])
        positions = [image.position * span for image in space.images]
        moved: Floats = np.multiply.outer([share for share, _ in _DRIFTS], positions)
        whole = np.floor(moved).astype(np.intp)
        return cls(whole, (moved - whole)[:, :, None])

    def log_evidence(self, sides: _Sides) -> float:
        """Log evidence of a drift; the likelihoods are interpolated between levels."""
        start, own = sides.own[0], sides.own[1:]
        margin = int(np.abs(self.whole).max(initial=0)) + 1
        padded = np.pad(own, ((0, 0), (margin, margin)), "edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(start), axis=1)
        images, first = np.arange(len(own)), self.whole + margin
        near, next_ = windows[images, first], windows[images, first + 1]
        moved = start + (near + self.rest * (next_ - near)).sum(axis=1)
        probabilities = np.log([probability for _, probability in _DRIFTS])
        return float(log_sum(log_sum(moved, axis=1) + probabilities))


def _by_position(prior: _Prior, mass: Floats) -> Floats:
    """Distributes the mass of gaps over their positions, by weight."""
    by_gap = np.bincount(prior.gaps, prior.weights, minlength=len(mass))
    share = np.divide(mass, by_gap, out=np.zeros_like(mass), where=by_gap > 0)
    found: Floats = prior.weights * share[prior.gaps]
    return found


def _pairs_by_position(prior: _Prior, two: Floats) -> Floats:
    """Distributes the mass of pairs of gaps over the positions of both steps."""
    first, second = prior.pairs
    count, apart = len(prior.one), first != second
    lone = np.bincount(first[apart], two[apart], minlength=count) + np.bincount(
        second[apart], two[apart], minlength=count
    )
    both = np.bincount(first[~apart], two[~apart], minlength=count)
    # Of two steps in one gap, one is at position k with a probability of w (W - w).
    by_gap = np.bincount(prior.gaps, prior.weights, minlength=count)
    pull = prior.weights * (by_gap[prior.gaps] - prior.weights)
    pulls = np.bincount(prior.gaps, pull, minlength=count)
    share: Floats = np.divide(2 * both, pulls, out=np.zeros(count), where=pulls > 0)
    return _by_position(prior, lone.astype(np.float64)) + pull * share[prior.gaps]


def _leading_hypotheses(
    space: SearchSpace,
    prior: _Prior,
    mass: Floats,
    every: list[_Sides],
    levels: Floats,
    steps: _StepProbabilities,
    hypotheses: list[NoiseHypothesis],
    testbed: str,
) -> LeadingHypotheses:
    """The heaviest hypotheses, with their predicted levels on one testbed."""
    heavy = _heaviest(prior, mass.sum(axis=0), light=can_average(space.job))
    # All combinations with the most likely noise: they differ in the testbed offsets.
    best = int(np.argmax(mass.sum(axis=1)))
    noise = hypotheses[best].image, hypotheses[best].noises
    alike = [i for i, one in enumerate(hypotheses) if (one.image, one.noises) == noise]
    where = space.testbeds.index(testbed) if testbed in space.testbeds else 0
    centre = hypotheses[best].offsets[where]
    step = float(levels[1] - levels[0])
    density = np.zeros((len(heavy), 3, len(levels)))
    for i in alike:
        away = (hypotheses[i].offsets[where] - centre) / step
        for row, (share, column, first, second) in enumerate(heavy):
            if len(alike) > 1 and mass[i, column] < _LEAST_SHARE * share:
                continue
            own = _densities(prior, every[i], steps, first, second)
            weight = mass[i, column] if len(alike) > 1 else 1.0
            density[row] += weight * (_shifted(own, away) if away else own)
    if len(alike) > 1:
        density /= np.maximum(density.sum(axis=-1, keepdims=True), 1e-300)
    masses = np.array([entry[0] for entry in heavy])
    return LeadingHypotheses(
        masses / max(masses.sum(), 1e-300),
        np.array([entry[2] for entry in heavy]),
        np.array([entry[3] for entry in heavy]),
        density,
        levels + centre,
        hypotheses[best],
        where,
    )


def _heaviest(prior: _Prior, total: Floats, *, light: bool) -> list[tuple[float, int, int, int]]:
    """The heaviest hypotheses.

    Args:
        prior: Prior probabilities.
        total: Mass of no change, of a drift, of a step in each gap and of pairs of steps.
        light: Include lighter hypotheses.

    Returns:
        Mass, index in `total`, gap of the first and of the second step; the number of gaps
        stands for no step.
    """
    count = len(prior.one)
    one, two = total[2 : 2 + count], total[2 + count :]
    none = max(0.0, 1.0 - math.fsum(_by_position(prior, one)) - math.fsum(two) - float(total[1]))
    found = [(none, 0, count, count)]
    least, most = (_LIGHT, _MOST_LIGHT) if light else (_HEAVY, _HEAVIEST)
    found += [(float(one[g]), 2 + g, g, count) for g in np.flatnonzero(one > least).tolist()]
    for i in np.argsort(-two, kind="stable")[:_HEAVIEST].tolist():
        if two[i] > least:
            pair = int(prior.pairs[0][i]), int(prior.pairs[1][i])
            found.append((float(two[i]), 2 + count + i, *pair))
    return sorted(found, key=lambda entry: -entry[0])[:most]


def _densities(
    prior: _Prior,
    sides: _Sides,
    steps: _StepProbabilities,
    first: int,
    second: int,
) -> Floats:
    """Level probabilities before, between and after the steps of a hypothesis; 3 x G values."""
    below, good, bad = sides.below, sides.good, sides.bad
    count = len(prior.one)
    if first == count:
        level = _normalized(np.exp(below[-1] - below[-1].max()))
        return np.array([level, level, level])
    if second == count:
        fast = _normalized(good[first] * sides.fall[first])
        slow = _normalized(bad[first] * (good[first] @ steps.only))
        return np.array([fast, slow, slow])
    middle = np.exp(below[second] - below[first] - (below[second] - below[first]).max())
    rise, fall = steps.part @ middle, sides.fall[second]
    fast = good[first] * rise * fall
    slow = bad[second] * ((good[first] * rise) @ steps.only)
    middle = middle * ((good[first] * fall) @ steps.part)
    return np.array([_normalized(x) for x in (fast, middle, slow)])


def _shifted(density: Floats, steps: float) -> Floats:
    """Densities shifted along the grid by a fractional number of steps."""
    targets = np.arange(density.shape[-1])
    return np.array([np.interp(targets - steps, targets, row, 0.0, 0.0) for row in density])


def _normalized(density: Floats) -> Floats:
    total = density.sum()
    return density / total if total > 0 else np.full(len(density), 1 / len(density))
