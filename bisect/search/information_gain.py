"""Expected information gain of a trial, in bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.model.results import Trial
from netbisect.bisect.search.likelihood import NoiseHypothesis, normal_transitions
from netbisect.bisect.search.posterior import JointPosterior, LeadingHypotheses
from netbisect.bisect.search.search_space import SearchSpace
from netbisect.bisect.stats.arrays import Floats

_OUTCOMES = 4
"""Number of outcomes of a running trial: equally likely intervals, from low to high."""
_MOST_UNDER_WAY = 3
"""Running trials considered; the earliest ones if there are more."""


def information_gain(
    space: SearchSpace, joint: JointPosterior, runs: int = 1, under_way: Sequence[Trial] = ()
) -> Floats:
    """Expected information gain about the culprit of one boot of each target.

    The mutual information of the boot's ln pps and the hypotheses: the entropy of the mixture of
    their predictions, less the mean entropy of the predictions (D. V. Lindley, Annals of
    Mathematical Statistics 27, 1956). Information about the levels counts as far as it separates
    hypotheses, so the ends are measured again when their levels are the bottleneck.

    Args:
        space: The job and its evidence.
        joint: The posterior.
        runs: Runs of the leading scenario within the boot.
        under_way: Trials of other testbeds. Their own information is not counted: the result is
            the mean over their outcomes.

    Returns:
        Bits, one value per target.
    """
    positions = np.array([image.position for image in space.images], dtype=np.intp)
    leading, cases = joint.leading, [(1.0, joint.leading.mass)]
    if under_way:
        positions, leading = _split_at_trials(space, positions, leading, under_way)
        cases = _outcomes(space, positions, leading, under_way)
    sides = _sides(space, positions, leading)
    variances = _variances(space, leading, runs)
    density = leading.density.reshape(-1, len(leading.levels))
    bits = np.zeros(len(space.targets))
    for variance in np.unique(variances):
        rows = variances == variance
        predicted = density @ _transitions(leading, float(variance))
        for probability, mass in cases:
            weights = (sides[rows] * mass[:, None]).reshape(int(rows.sum()), -1)
            bits[rows] += probability * _mutual_information(weights, predicted)
    return bits


def _split_at_trials(
    space: SearchSpace,
    positions: NDArray[np.intp],
    leading: LeadingHypotheses,
    under_way: Sequence[Trial],
) -> tuple[NDArray[np.intp], LeadingHypotheses]:
    """Splits the gaps at the positions of running trials.

    Returns:
        The positions measured or being measured, and the hypotheses over the new gaps.
    """
    refined = np.union1d(positions, [_position(space, trial) for trial in under_way])
    count, whole = len(refined) + 1, len(positions) + 1
    sums = _cumulative_weights(space)
    edges = np.array([-1, *refined, len(space.revisions) - 1])
    share = np.append(sums[edges[1:] + 1] - sums[edges[:-1] + 1], 1.0)  # of none
    gap = np.append(np.searchsorted(positions, refined, side="left"), len(positions))
    found: list[tuple[float, int, int, int]] = []
    for row, mass in enumerate(leading.mass.tolist()):
        one, two = int(leading.first[row]), int(leading.second[row])
        inside = [
            np.flatnonzero(gap == own).tolist() if own < whole else [count] for own in (one, two)
        ]
        pairs = [
            (i, j, float(share[i] * share[j]) / (1 + (i == j < count)))
            for i in inside[0]
            for j in inside[1]
            if one != two or i <= j
        ]
        total = math.fsum(weight for *_, weight in pairs)
        found += [(mass * w / total, row, i, j) for i, j, w in pairs if total and w]
    shares, rows, first, second = (np.array(column) for column in zip(*found, strict=True))
    return refined, replace(
        leading,
        mass=shares / shares.sum(),
        first=first,
        second=second,
        density=leading.density[rows],
    )


def _position(space: SearchSpace, trial: Trial) -> int:
    position = space.revisions.index(trial.revision)
    target = space.target_at[position]
    return position if target is None else target.position


def _outcomes(
    space: SearchSpace,
    positions: NDArray[np.intp],
    leading: LeadingHypotheses,
    under_way: Sequence[Trial],
) -> list[tuple[float, Floats]]:
    """Outcomes of the running trials: probability, and masses of the hypotheses after each."""
    found = [(1.0, leading.mass)]
    for trial in under_way[:_MOST_UNDER_WAY]:
        gap = int(np.searchsorted(positions, _position(space, trial), side="left"))
        side = (leading.first <= gap).astype(int) + (leading.second <= gap)
        kernel = _transitions(
            leading, trial_variance(leading.hypothesis, (), trial.runs, leading.testbed)
        )
        predicted = leading.density[np.arange(len(side)), side] @ kernel
        predicted /= np.maximum(predicted.sum(axis=1, keepdims=True), 1e-300)
        below = np.cumsum(leading.mass @ predicted)
        cut = np.minimum((below * _OUTCOMES).astype(int), _OUTCOMES - 1)
        likelihoods = np.array([predicted[:, cut == k].sum(axis=1) for k in range(_OUTCOMES)])
        cases = [
            (weight, mass * likelihood) for weight, mass in found for likelihood in likelihoods
        ]
        found = [
            (weight * float(after.sum()), after / after.sum())
            for weight, after in cases
            if after.sum() > 1e-6  # noqa: PLR2004 - impossible outcomes
        ]
    return found


def trial_variance(
    hypothesis: NoiseHypothesis, boots: tuple[int, ...], runs: int, testbed: int = 0
) -> float:
    """Effective variance of one more boot of an image, as a measurement of its revision.

    The variance of an independent observation with the same information: one over the increase
    in precision of the mean. With image noise, each further boot adds less.

    Args:
        hypothesis: The noise.
        boots: Number of runs of each earlier boot of the image.
        runs: Runs of the next boot.
        testbed: Index of its testbed.
    """
    image, own = hypothesis.image**2, hypothesis.variance(runs, testbed)
    if not boots:
        return image + own
    known = math.fsum(1 / hypothesis.variance(count) for count in boots)
    before, after = image + 1 / known, image + 1 / (known + 1 / own)
    return 1 / (1 / after - 1 / before)


def _variances(space: SearchSpace, leading: LeadingHypotheses, runs: int) -> Floats:
    """`trial_variance` of each target."""
    hypothesis, testbed, lead = leading.hypothesis, leading.testbed, space.job.lead
    found = np.full(len(space.targets), trial_variance(hypothesis, (), runs, testbed))
    if hypothesis.image:
        for i, target in enumerate(space.targets):
            if target.boots:
                boots = tuple(sorted(r.runs for r in target.observations if lead in r.ln_pps))
                found[i] = round(trial_variance(hypothesis, boots, runs, testbed), 9)
    return found


def _transitions(leading: LeadingHypotheses, variance: float) -> Floats:
    """Probabilities of the observed ln pps (columns), by level of the revision (rows)."""
    noise = leading.hypothesis.noises[leading.testbed]
    kernel = normal_transitions(leading.levels, math.sqrt(variance))
    if noise.slow_share:
        slow = normal_transitions(leading.levels, math.sqrt(variance), -noise.slow_gap)
        kernel = (1 - noise.slow_share) * kernel + noise.slow_share * slow
    return kernel


def _sides(space: SearchSpace, positions: NDArray[np.intp], leading: LeadingHypotheses) -> Floats:
    """Probability that a target is before, between or after the steps of each hypothesis.

    Returns:
        Targets x C x 3 values; the last three sum to 1.
    """
    where = np.array([target.position for target in space.targets], dtype=np.intp)
    gap = np.searchsorted(positions, where, side="left")[:, None]
    share = _share_below(space, positions, where)[:, None]
    together = leading.first == leading.second
    one = np.where(together, 1 - (1 - share) ** 2, share)
    both = np.where(together, share**2, share)
    passed_first = np.where(leading.first < gap, 1.0, np.where(leading.first == gap, one, 0.0))
    passed_both = np.where(leading.second < gap, 1.0, np.where(leading.second == gap, both, 0.0))
    sides: Floats = np.stack([1 - passed_first, passed_first - passed_both, passed_both], axis=-1)
    return sides


def _share_below(
    space: SearchSpace, positions: NDArray[np.intp], where: NDArray[np.intp]
) -> Floats:
    """Share of the weight in the gap of each target that lies at or before it."""
    sums = _cumulative_weights(space)
    edges = np.array([-1, *positions, len(space.revisions) - 1])
    gap = np.searchsorted(positions, where, side="left")
    below = sums[where + 1] - sums[edges[gap] + 1]
    whole = sums[edges[gap + 1] + 1] - sums[edges[gap] + 1]
    share: Floats = np.divide(below, whole, out=np.zeros_like(below), where=whole > 0)
    return np.clip(share, 0.0, 1.0)


def _cumulative_weights(space: SearchSpace) -> Floats:
    """Cumulative weight of the candidates before each position, n + 2 values."""
    weights = np.array([0.0, *(candidate.weight for candidate in space.job.candidates)])
    return np.concatenate([[0.0], np.cumsum(np.where(space.possible, weights, 0.0))])


def _mutual_information(weights: Floats, predicted: Floats) -> Floats:
    """Mutual information of a draw from a mixture and its component, in bits.

    Args:
        weights: Probabilities of the c components; one row per mixture.
        predicted: Distribution of each component; c rows.
    """
    predicted = predicted / np.maximum(predicted.sum(axis=1, keepdims=True), 1e-300)
    own = special.entr(predicted).sum(axis=1)
    nats: Floats = special.entr(weights @ predicted).sum(axis=1) - weights @ own
    return np.maximum(nats, 0.0) / math.log(2)
