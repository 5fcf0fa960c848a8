"""Facts in, chances out: which candidate made it slower, if any did.

Levels are ln pps. Four kinds of hypotheses are held against the boots: nothing changed; one step,
whose height is normal about the confirmed effect with a standard deviation of 30 % of it; two
steps of whichever sign; and a level that moves bit by bit along the whole range. The levels
themselves are as good as unknown, and so, within reason, is the noise. All of them are
integrated out on a grid: means that are estimated and put in let a search measure the two ends
for ever, for they may always turn out to be equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.apart import Offsets, combinations, roughly, summary
from netbisect.bisect.layouts import averages
from netbisect.bisect.levels import (
    Floats,
    Scatter,
    level_grid,
    log_likelihoods,
    scatters,
    toeplitz,
)
from netbisect.bisect.line import Line, Offset, lay_out
from netbisect.bisect.model import Belief, Bisection, Evidence

PRIOR_NONE = 0.1
"""That a drop which a retest confirmed is nobody's: it takes two images of unlike offset."""
PRIOR_TWO = 0.06
"""That two commits share it, or that one made it slower and another one faster."""
PRIOR_DRIFT, _NO_DRIFT = 0.02, 1e-12
"""That it came bit by bit; over one commit or two that is a step or two."""
_EFFECT_SHARE, _EFFECT_LEAST = 0.3, 0.5
"""Standard deviation of the height of a single step, as a share of the confirmed effect, and the
least that it can be: a smaller one is not what was confirmed, and could not be proved."""
_PART_MEAN, _PART_SD, _PART_LEAST = 0.5, 0.7, 0.2
"""Height of the first of two steps, as a share of the confirmed effect; both together are as high
as a single one. Steps that are smaller than the last share are not asked for."""
_DRIFTS = (
    (0.4, 0.055), (0.6, 0.11), (0.8, 0.21), (1.0, 0.25), (1.2, 0.21), (1.4, 0.11), (1.6, 0.055)
)  # fmt: skip
"""Of a drift over the whole range: shares of the confirmed effect and their chances."""
_OFF = -600.0
"""Nats; as good as impossible."""
_OPEN = 12.0
"""Nats below the likeliest pair of steps at which another one is passed over."""
_HEAVY, _HEAVIEST = 2e-3, 24
"""Mass from which a hypothesis is looked at when the next boot is chosen, and how many."""
_LIGHT, _MOST_LIGHT = 1e-4, 48
"""The same where further layouts average the offsets of images out: what is left to rule out then
is spread thin over many neighbours."""
_LITTLE = 1e-3
"""Share of a hypothesis that an assumption may have without being looked at there."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The C heaviest hypotheses, for the choice of the next boot.

    Candidates between two neighbouring measured positions cannot be told apart yet: they share a
    gap. Gap g holds the candidates above g of the m measured positions.
    """

    mass: Floats
    """C values that sum to 1."""
    first: NDArray[np.intp]
    """C: gap of the first step; m + 1 where there is none."""
    second: NDArray[np.intp]
    """C: gap of the second step; m + 1 where there is none."""
    density: Floats
    """C x 3 x G: chances of the levels before, between and after the steps."""
    levels: Floats
    """G: the levels, ln pps."""
    scatter: Scatter
    """The likeliest noise."""
    testbed: int = 0
    """Whose levels these are, as an index into `Line.testbeds`."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """The belief about n candidates."""

    chances: Floats
    """n + 1 values, by position: of the only step; 0 for the good end."""
    steps: Floats
    """n + 1 values, by position: of a step, the only one or one of two."""
    none: float
    two: float
    drift: float
    parts: Parts
    offsets: tuple[Offset, ...] = ()
    """By testbed of the line, where it has several."""


def believe(question: Bisection, evidence: Evidence) -> Belief:
    """Computes the chances of all hypotheses from the facts alone."""
    line = lay_out(question, evidence)
    return as_belief(line, infer(line))


def as_belief(line: Line, posterior: Posterior) -> Belief:
    """Puts the revisions to the chances."""
    chances = dict(zip(line.revisions[1:], posterior.chances[1:].tolist(), strict=True))
    return Belief(chances, posterior.none, posterior.two, posterior.drift)


@dataclass(frozen=True, slots=True)
class _Prior:
    """The chances before any boot, by gap."""

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


def _prior(line: Line) -> _Prior:
    weights = np.array([0.0, *(candidate.weight for candidate in line.question.candidates)])
    weights = np.where(line.possible, weights, 0.0)
    total = weights.sum()
    weights = weights / total if total else weights
    positions = np.array([image.position for image in line.images], dtype=np.intp)
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
    share_drift = PRIOR_DRIFT if np.count_nonzero(weights) > 2 else _NO_DRIFT  # noqa: PLR2004
    share_one = 1 - PRIOR_NONE - share_two - share_drift
    scale = share_two / two.sum() if len(two) else 1.0
    return _Prior(
        weights, gaps, one * share_one, two * scale, (first, second), PRIOR_NONE, share_drift
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """Log evidence of all hypotheses under one assumption about the noise."""

    none: float
    one: Floats
    two: Floats
    drift: float


def infer(line: Line, testbed: str = "") -> Posterior:
    """Applies Bayes' rule to all hypotheses at once.

    Args:
        line: The question and its evidence.
        testbed: Whose levels are foretold, where several measure; that of the most boots if it
            has measured nothing.
    """
    line = roughly(line)
    prior, levels = _prior(line), level_grid(line)
    steps = _Steps.of(levels, line.question.effect)
    start = _start(line, levels)
    assumed = scatters(line, levels)
    usual = int(np.argmax([scatter.log_weight for scatter in assumed]))
    if len(line.testbeds) > 1:
        assumed, usual = _apart(line, prior, levels, steps, assumed, usual)
    sums = [_sums(start, log_likelihoods(line, levels, scatter)) for scatter in assumed]
    # Pairs of steps are many: only those that the likeliest noise leaves open are weighed on.
    every = np.arange(len(prior.two))
    two = _two(prior, steps, sums[usual], every) + np.log(prior.two)
    open_ = np.flatnonzero(two > two.max(initial=-1e300) - _OPEN)
    fits = [
        _fit(line, prior, levels, steps, below, scatter.log_weight, open_)
        for below, scatter in zip(sums, assumed, strict=True)
    ]
    with np.errstate(divide="ignore"):
        table = np.array(
            [np.concatenate([[fit.none, fit.drift], fit.one, fit.two]) for fit in fits]
        ) + np.log(np.concatenate([[prior.none, prior.drift], prior.one, prior.two]))
    mass = np.exp(table - table.max())
    mass /= mass.sum()
    total = mass.sum(axis=0)
    count = len(prior.one)
    drift, one, two = float(total[1]), total[2 : 2 + count], total[2 + count :]
    chances = _spread(prior, one)
    none = max(0.0, 1.0 - math.fsum(chances) - math.fsum(two) - drift)
    return Posterior(
        chances,
        chances + _spread_pairs(prior, two),
        none,
        math.fsum(two),
        drift,
        _parts(line, prior, mass, sums, levels, steps, assumed, testbed),
        _offsets(line, assumed, mass),
    )


def _apart(
    line: Line,
    prior: _Prior,
    levels: Floats,
    steps: _Steps,
    assumed: list[Scatter],
    usual: int,
) -> tuple[list[Scatter], int]:
    """All assumptions about the noise with all about how far the testbeds lie apart.

    Returns:
        Them, and the index of the likeliest one of the usual noise.
    """
    start = _start(line, levels)
    with np.errstate(divide="ignore"):
        chances = np.log(np.array([prior.none, *prior.one]))

    def evidence_of(offsets: Offsets) -> float:
        own = replace(assumed[usual], offsets=offsets)
        below = _sums(start, log_likelihoods(line, levels, own))
        found = np.array([_log_sum(below[-1]), *_one(steps, below)])
        return _log_sum(found + chances)

    # Likeliest first.
    found = combinations(line, assumed[usual], evidence_of)
    every = [
        replace(scatter, offsets=offsets, log_weight=scatter.log_weight + weight)
        for scatter in assumed
        for offsets, weight in found
    ]
    return every, usual * len(found)


def _offsets(line: Line, assumed: list[Scatter], mass: Floats) -> tuple[Offset, ...]:
    if len(line.testbeds) == 1:
        return ()
    return summary(np.array([scatter.offsets for scatter in assumed]), mass.sum(axis=1))


def _start(line: Line, levels: Floats) -> Floats:
    """Log prior of the level of the good end: any from which no step leads off the grid."""
    reach = 2 * abs(line.question.effect)
    inside = (levels >= levels[0] + reach) & (levels <= levels[-1] - reach)
    return np.where(inside, 0.0, _OFF)


def _sums(start: Floats, log_likelihood: Floats) -> Floats:
    """Sums over the images below each gap and the prior of their level, m + 1 rows."""
    return np.cumsum(np.concatenate([start[None, :], log_likelihood]), axis=0)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Chances to come from one level (row) to another (column) by a step."""

    only: Floats
    """From before the first to after the last step."""
    part: Floats
    """From before the first to between the two."""

    @classmethod
    def of(cls, levels: Floats, effect: float) -> _Steps:
        n, step = len(levels), float(levels[1] - levels[0])
        shares = np.arange(-n + 1, n) * step / effect
        density = np.exp(-(((shares - _PART_MEAN) / _PART_SD) ** 2) / 2)
        least = np.minimum(np.abs(shares), np.abs(shares - 1))
        density = np.where(least >= _PART_LEAST, density, 0.0)
        only = np.exp(-(((shares - 1) / _EFFECT_SHARE) ** 2) / 2)
        only = np.where(shares >= _EFFECT_LEAST, only, 0.0)
        return cls(toeplitz(only / only.sum()), toeplitz(density / density.sum()))


def _two(prior: _Prior, steps: _Steps, below: Floats, pairs: NDArray[np.intp]) -> Floats:
    """Log evidence of these pairs of gaps."""
    if not len(pairs):
        return np.zeros(0)
    good, good_top = _scaled(below)
    bad, bad_top = _scaled(below[-1] - below)
    first, second = prior.pairs[0][pairs], prior.pairs[1][pairs]
    between = below[second] - below[first]
    top = between.max(axis=1)
    ends = good[first] * (bad @ steps.only.T)[second]
    found = (ends * (np.exp(between - top[:, None]) @ steps.part.T)).sum(axis=1)
    logs: Floats = np.log(found + 1e-300) + top + good_top[first] + bad_top[second]
    return logs


def _fit(
    line: Line,
    prior: _Prior,
    levels: Floats,
    steps: _Steps,
    below: Floats,
    log_weight: float,
    pairs: NDArray[np.intp],
) -> _Fit:
    one = _one(steps, below)
    two = np.full(len(prior.two), -np.inf)
    two[pairs] = _two(prior, steps, below, pairs)
    return _Fit(
        _log_sum(below[-1]) + log_weight,
        one + log_weight,
        two + log_weight,
        _drift(line, levels, below) + log_weight,
    )


def _one(steps: _Steps, below: Floats) -> Floats:
    """Log evidence of one step in each gap."""
    good, good_top = _scaled(below)
    bad, bad_top = _scaled(below[-1] - below)
    logs: Floats = np.log((good * (bad @ steps.only.T)).sum(axis=1) + 1e-300) + good_top + bad_top
    return logs


def _scaled(logs: Floats) -> tuple[Floats, Floats]:
    top = logs.max(axis=1)
    return np.exp(logs - top[:, None]), top


def _log_sum(logs: Floats) -> float:
    """Log of a sum; SciPy's own is careful about much that does not occur here, and slow."""
    top = float(logs.max())
    return math.log(float(np.exp(logs - top).sum())) + top


def _drift(line: Line, levels: Floats, below: Floats) -> float:
    """Log evidence of a level that moves in a straight line from the good to the bad end."""
    own = np.diff(below, axis=0)
    start = below[0]
    span = line.question.effect / (len(line.revisions) - 1)
    moved = np.tile(start, (len(_DRIFTS), 1))
    for row, (share, _) in enumerate(_DRIFTS):
        for image, likelihood in zip(line.images, own, strict=True):
            moved[row] += np.interp(levels + share * span * image.position, levels, likelihood)
    chances = np.log([chance for _, chance in _DRIFTS])
    top = moved.max(axis=1)
    logs = np.log(np.exp(moved - top[:, None]).sum(axis=1)) + top
    return _log_sum(logs + chances)


def _spread(prior: _Prior, mass: Floats) -> Floats:
    """Mass of gaps to their positions, by weight."""
    by_gap = np.bincount(prior.gaps, prior.weights, minlength=len(mass))
    share = np.divide(mass, by_gap, out=np.zeros_like(mass), where=by_gap > 0)
    found: Floats = prior.weights * share[prior.gaps]
    return found


def _spread_pairs(prior: _Prior, two: Floats) -> Floats:
    """Mass of pairs of gaps to the positions of either step."""
    first, second = prior.pairs
    count, apart = len(prior.one), first != second
    lone = np.bincount(first[apart], two[apart], minlength=count) + np.bincount(
        second[apart], two[apart], minlength=count
    )
    both = np.bincount(first[~apart], two[~apart], minlength=count)
    # Of two steps in one gap, position k is one with a chance of w (W - w).
    by_gap = np.bincount(prior.gaps, prior.weights, minlength=count)
    pull = prior.weights * (by_gap[prior.gaps] - prior.weights)
    pulls = np.bincount(prior.gaps, pull, minlength=count)
    share = np.divide(2 * both, pulls, out=np.zeros(count), where=pulls > 0)
    return _spread(prior, lone.astype(np.float64)) + pull * share[prior.gaps]


def _parts(
    line: Line,
    prior: _Prior,
    mass: Floats,
    sums: list[Floats],
    levels: Floats,
    steps: _Steps,
    assumed: list[Scatter],
    testbed: str,
) -> Parts:
    """The heaviest hypotheses and what they say of the levels of a testbed."""
    heavy = _heaviest(prior, mass.sum(axis=0), light=averages(line.question))
    # Of the assumptions, all that the likeliest noise comes with: they lie apart differently.
    best = int(np.argmax(mass.sum(axis=1)))
    alike = [i for i, one in enumerate(assumed) if one.noises == assumed[best].noises]
    where = line.testbeds.index(testbed) if testbed in line.testbeds else 0
    centre = assumed[best].offsets[where]
    step = float(levels[1] - levels[0])
    density = np.zeros((len(heavy), 3, len(levels)))
    for i in alike:
        good, _ = _scaled(sums[i])
        bad, _ = _scaled(sums[i][-1] - sums[i])
        away = (assumed[i].offsets[where] - centre) / step
        for row, (share, column, first, second) in enumerate(heavy):
            if len(alike) > 1 and mass[i, column] < _LITTLE * share:
                continue
            own = _densities(prior, (sums[i], good, bad), steps, first, second)
            weight = mass[i, column] if len(alike) > 1 else 1.0
            density[row] += weight * (_moved(own, away) if away else own)
    if len(alike) > 1:
        density /= np.maximum(density.sum(axis=-1, keepdims=True), 1e-300)
    masses = np.array([part[0] for part in heavy])
    return Parts(
        masses / max(masses.sum(), 1e-300),
        np.array([part[2] for part in heavy]),
        np.array([part[3] for part in heavy]),
        density,
        levels + centre,
        assumed[best],
        where,
    )


def _heaviest(
    prior: _Prior, total: Floats, *, light: bool = False
) -> list[tuple[float, int, int, int]]:
    """The heaviest hypotheses.

    Args:
        prior: What was believed before any boot.
        total: Mass of none, of a drift, of a step in each gap and of pairs of them.
        light: Whether light ones are looked at too.

    Returns:
        Mass, index in `total`, gap of the first and of the second step; the number of gaps where
        there is no such step.
    """
    count = len(prior.one)
    one, two = total[2 : 2 + count], total[2 + count :]
    none = max(0.0, 1.0 - math.fsum(_spread(prior, one)) - math.fsum(two) - float(total[1]))
    found = [(none, 0, count, count)]
    least, most = (_LIGHT, _MOST_LIGHT) if light else (_HEAVY, _HEAVIEST)
    found += [(float(one[g]), 2 + g, g, count) for g in np.flatnonzero(one > least).tolist()]
    for i in np.argsort(-two, kind="stable")[:_HEAVIEST].tolist():
        if two[i] > least:
            pair = int(prior.pairs[0][i]), int(prior.pairs[1][i])
            found.append((float(two[i]), 2 + count + i, *pair))
    return sorted(found, key=lambda part: -part[0])[:most]


def _densities(
    prior: _Prior, sums: tuple[Floats, Floats, Floats], steps: _Steps, first: int, second: int
) -> Floats:
    """What a hypothesis says of the levels before, between and after its steps; 3 x G chances."""
    below, good, bad = sums
    count = len(prior.one)
    if first == count:
        level = _chances(np.exp(below[-1] - below[-1].max()))
        return np.array([level, level, level])
    if second == count:
        fast = _chances(good[first] * (steps.only @ bad[first]))
        slow = _chances(bad[first] * (good[first] @ steps.only))
        return np.array([fast, slow, slow])
    middle = np.exp(below[second] - below[first] - (below[second] - below[first]).max())
    rise, fall = steps.part @ middle, steps.only @ bad[second]
    fast = good[first] * rise * fall
    slow = bad[second] * ((good[first] * rise) @ steps.only)
    middle = middle * ((good[first] * fall) @ steps.part)
    return np.array([_chances(x) for x in (fast, middle, slow)])


def _moved(density: Floats, steps: float) -> Floats:
    """Densities moved along the grid, by any part of its step."""
    places = np.arange(density.shape[-1])
    return np.array([np.interp(places - steps, places, row, 0.0, 0.0) for row in density])


def _chances(density: Floats) -> Floats:
    total = density.sum()
    return density / total if total > 0 else np.full(len(density), 1 / len(density))
