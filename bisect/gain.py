"""What a visit would teach, in bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.belief import Parts, Posterior
from netbisect.bisect.levels import Floats, Scatter, normal
from netbisect.bisect.line import Line
from netbisect.bisect.model import Visit

_OUTCOMES = 4
"""Outcomes of a visit under way that are told apart: equally likely ones, from low to high."""
_MOST_UNDER_WAY = 3
"""Visits whose outcomes are combined; of more, the first ones that were ordered."""


def information(
    line: Line, posterior: Posterior, runs: int = 1, under_way: Sequence[Visit] = ()
) -> Floats:
    """Computes what one boot at each place of the line is expected to teach about the culprit.

    The mutual information of the boot's ln pps with the hypotheses: the entropy of the mixture
    of what they predict, less the entropy of each prediction (D. V. Lindley, Annals of
    Mathematical Statistics 27, 1956). What a boot teaches of the levels comes in through the
    hypotheses that it moves apart, so that the ends are measured again when that is what is
    missing.

    Args:
        line: The question and its evidence.
        posterior: What is believed.
        runs: Of the leading scenario within the boot.
        under_way: What other testbeds are measuring. What these visits will tell is not counted:
            the bits are a mean over their outcomes.

    Returns:
        Bits, one value per place.
    """
    positions = np.array([image.position for image in line.images], dtype=np.intp)
    parts, cases = posterior.parts, [(1.0, posterior.parts.mass)]
    if under_way:
        positions, parts = _refined(line, positions, parts, under_way)
        cases = _outcomes(line, positions, parts, under_way)
    sides = _sides(line, positions, parts)
    variances = _variances(line, parts, runs)
    density = parts.density.reshape(-1, len(parts.levels))
    bits = np.zeros(len(line.places))
    for variance in np.unique(variances):
        rows = variances == variance
        predicted = density @ _visit(parts, float(variance))
        for weight, mass in cases:
            chances = (sides[rows] * mass[:, None]).reshape(int(rows.sum()), -1)
            bits[rows] += weight * _mutual(chances, predicted)
    return bits


def _refined(
    line: Line, positions: NDArray[np.intp], parts: Parts, under_way: Sequence[Visit]
) -> tuple[NDArray[np.intp], Parts]:
    """Parts whose gaps are cut where something is under way.

    Returns:
        The measured positions with those under way among them, and the parts that come of it.
    """
    refined = np.union1d(positions, [_position(line, visit) for visit in under_way])
    count, whole = len(refined) + 1, len(positions) + 1
    sums = _sums(line)
    edges = np.array([-1, *refined, len(line.revisions) - 1])
    share = np.append(sums[edges[1:] + 1] - sums[edges[:-1] + 1], 1.0)  # of none
    gap = np.append(np.searchsorted(positions, refined, side="left"), len(positions))
    found: list[tuple[float, int, int, int]] = []
    for row, mass in enumerate(parts.mass.tolist()):
        one, two = int(parts.first[row]), int(parts.second[row])
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
        parts,
        mass=shares / shares.sum(),
        first=first,
        second=second,
        density=parts.density[rows],
    )


def _position(line: Line, visit: Visit) -> int:
    position = line.revisions.index(visit.revision)
    place = line.at[position]
    return position if place is None else place.position


def _outcomes(
    line: Line, positions: NDArray[np.intp], parts: Parts, under_way: Sequence[Visit]
) -> list[tuple[float, Floats]]:
    """What comes of the visits under way: chances, and the masses of the parts in each case."""
    found = [(1.0, parts.mass)]
    for visit in under_way[:_MOST_UNDER_WAY]:
        gap = int(np.searchsorted(positions, _position(line, visit), side="left"))
        side = (parts.first <= gap).astype(int) + (parts.second <= gap)
        kernel = _visit(parts, visit_variance(parts.scatter, (), visit.runs, parts.testbed))
        foretold = parts.density[np.arange(len(side)), side] @ kernel
        foretold /= np.maximum(foretold.sum(axis=1, keepdims=True), 1e-300)
        below = np.cumsum(parts.mass @ foretold)
        cut = np.minimum((below * _OUTCOMES).astype(int), _OUTCOMES - 1)
        told = np.array([foretold[:, cut == k].sum(axis=1) for k in range(_OUTCOMES)])
        cases = [(weight, mass * likelihood) for weight, mass in found for likelihood in told]
        found = [
            (weight * float(after.sum()), after / after.sum())
            for weight, after in cases
            if after.sum() > 1e-6  # noqa: PLR2004 - an outcome that will not be
        ]
    return found


def visit_variance(scatter: Scatter, boots: tuple[int, ...], runs: int, testbed: int = 0) -> float:
    """How well one more boot of an image tells its side, as a variance.

    The variance of a free observation that would add as much: one over the difference of the
    precisions of the mean after and before. With image noise, each boot adds less.

    Args:
        scatter: The noise.
        boots: Runs of each boot that the image has had.
        runs: Of the one to come.
        testbed: Where it will be measured.
    """
    image, own = scatter.noise.image**2, scatter.variance(runs, testbed)
    if not boots:
        return image + own
    known = math.fsum(1 / scatter.variance(count) for count in boots)
    before, after = image + 1 / known, image + 1 / (known + 1 / own)
    return 1 / (1 / after - 1 / before)


def _variances(line: Line, parts: Parts, runs: int) -> Floats:
    """How well one more boot tells the side of each place."""
    scatter, testbed, lead = parts.scatter, parts.testbed, line.question.lead
    found = np.full(len(line.places), visit_variance(scatter, (), runs, testbed))
    if scatter.noise.image:
        for i, place in enumerate(line.places):
            if place.boots:
                boots = tuple(sorted(r.runs for r in place.readings if lead in r.ln_pps))
                found[i] = round(visit_variance(scatter, boots, runs, testbed), 9)
    return found


def _visit(parts: Parts, variance: float) -> Floats:
    """Chances of what is read (columns) when the side has a level (rows)."""
    noise = parts.scatter.of(parts.testbed)
    kernel = normal(parts.levels, math.sqrt(variance))
    if noise.slow_share:
        slow = normal(parts.levels, math.sqrt(variance), -noise.slow_gap)
        kernel = (1 - noise.slow_share) * kernel + noise.slow_share * slow
    return kernel


def _sides(line: Line, positions: NDArray[np.intp], parts: Parts) -> Floats:
    """Chance that a place is before, between or after the steps of each part.

    Returns:
        Places x C x 3 values; the last three sum to 1.
    """
    where = np.array([place.position for place in line.places], dtype=np.intp)
    gap = np.searchsorted(positions, where, side="left")[:, None]
    share = _share_below(line, positions, where)[:, None]
    together = parts.first == parts.second
    one = np.where(together, 1 - (1 - share) ** 2, share)
    both = np.where(together, share**2, share)
    passed_first = np.where(parts.first < gap, 1.0, np.where(parts.first == gap, one, 0.0))
    passed_both = np.where(parts.second < gap, 1.0, np.where(parts.second == gap, both, 0.0))
    sides: Floats = np.stack([1 - passed_first, passed_first - passed_both, passed_both], axis=-1)
    return sides


def _share_below(line: Line, positions: NDArray[np.intp], where: NDArray[np.intp]) -> Floats:
    """Of the weight in the gap of each place, how much lies at or before the place."""
    sums = _sums(line)
    edges = np.array([-1, *positions, len(line.revisions) - 1])
    gap = np.searchsorted(positions, where, side="left")
    below = sums[where + 1] - sums[edges[gap] + 1]
    whole = sums[edges[gap + 1] + 1] - sums[edges[gap] + 1]
    share: Floats = np.divide(below, whole, out=np.zeros_like(below), where=whole > 0)
    return np.clip(share, 0.0, 1.0)


def _sums(line: Line) -> Floats:
    """Weight of the candidates before each position, n + 2 values."""
    weights = np.array([0.0, *(candidate.weight for candidate in line.question.candidates)])
    return np.concatenate([[0.0], np.cumsum(np.where(line.possible, weights, 0.0))])


def _mutual(chances: Floats, predicted: Floats) -> Floats:
    """Information of a draw from a mixture about its component, in bits.

    Args:
        chances: Of each of c components; one row per mixture.
        predicted: c rows: what each component predicts.
    """
    predicted = predicted / np.maximum(predicted.sum(axis=1, keepdims=True), 1e-300)
    own = special.entr(predicted).sum(axis=1)
    nats: Floats = special.entr(chances @ predicted).sum(axis=1) - chances @ own
    return np.maximum(nats, 0.0) / math.log(2)
