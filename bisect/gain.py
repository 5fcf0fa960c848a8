"""What a visit would teach, in bits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.belief import Parts, Posterior
from netbisect.bisect.levels import Floats, Scatter, normal
from netbisect.bisect.line import Line, Place


def information(line: Line, posterior: Posterior, runs: int = 1) -> Floats:
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

    Returns:
        Bits, one value per place.
    """
    parts = posterior.parts
    chances = _chances(line, parts)
    variances = np.array([_variance(place, parts.scatter, line, runs) for place in line.places])
    density = parts.density.reshape(-1, len(parts.levels))
    bits = np.zeros(len(line.places))
    for variance in np.unique(variances):
        rows = variances == variance
        bits[rows] = _mutual(chances[rows], density @ _visit(parts, float(variance)))
    return bits


def visit_variance(scatter: Scatter, boots: tuple[int, ...], runs: int) -> float:
    """How well one more boot of an image tells its side, as a variance.

    The variance of a free observation that would add as much: one over the difference of the
    precisions of the mean after and before. With image noise, each boot adds less.

    Args:
        scatter: The noise.
        boots: Runs of each boot that the image has had.
        runs: Of the one to come.
    """
    image, own = scatter.noise.image**2, scatter.variance(runs)
    if not boots:
        return image + own
    known = math.fsum(1 / scatter.variance(count) for count in boots)
    before, after = image + 1 / known, image + 1 / (known + 1 / own)
    return 1 / (1 / after - 1 / before)


def _variance(place: Place, scatter: Scatter, line: Line, runs: int) -> float:
    if not place.boots or not scatter.noise.image:
        return visit_variance(scatter, (), runs)
    lead = line.question.lead
    boots = tuple(sorted(r.runs for r in place.readings if lead in r.ln_pps))
    return round(visit_variance(scatter, boots, runs), 9)


def _visit(parts: Parts, variance: float) -> Floats:
    """Chances of what is read (columns) when the side has a level (rows)."""
    noise = parts.scatter.noise
    kernel = normal(parts.levels, math.sqrt(variance))
    if noise.slow_share:
        slow = normal(parts.levels, math.sqrt(variance), -noise.slow_gap)
        kernel = (1 - noise.slow_share) * kernel + noise.slow_share * slow
    return kernel


def _chances(line: Line, parts: Parts) -> Floats:
    """Chance that a place is before, between or after the steps of each part.

    Returns:
        One row per place, 3 C columns; each row sums to 1.
    """
    positions = np.array([image.position for image in line.images], dtype=np.intp)
    where = np.array([place.position for place in line.places], dtype=np.intp)
    gap = np.searchsorted(positions, where, side="left")[:, None]
    share = _share_below(line, positions, where)[:, None]
    together = parts.first == parts.second
    one = np.where(together, 1 - (1 - share) ** 2, share)
    both = np.where(together, share**2, share)
    passed_first = np.where(parts.first < gap, 1.0, np.where(parts.first == gap, one, 0.0))
    passed_both = np.where(parts.second < gap, 1.0, np.where(parts.second == gap, both, 0.0))
    sides = np.stack([1 - passed_first, passed_first - passed_both, passed_both], axis=-1)
    chances: Floats = (sides * parts.mass[:, None]).reshape(len(where), -1)
    return chances


def _share_below(line: Line, positions: NDArray[np.intp], where: NDArray[np.intp]) -> Floats:
    """Of the weight in the gap of each place, how much lies at or before the place."""
    weights = np.array([0.0, *(candidate.weight for candidate in line.question.candidates)])
    sums = np.concatenate([[0.0], np.cumsum(np.where(line.possible, weights, 0.0))])
    edges = np.array([-1, *positions, len(weights) - 1])
    gap = np.searchsorted(positions, where, side="left")
    below = sums[where + 1] - sums[edges[gap] + 1]
    whole = sums[edges[gap + 1] + 1] - sums[edges[gap] + 1]
    share: Floats = np.divide(below, whole, out=np.zeros_like(below), where=whole > 0)
    return np.clip(share, 0.0, 1.0)


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
