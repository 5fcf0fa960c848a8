"""What a visit would teach, in bits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.belief import Posterior, visit_variance
from netbisect.bisect.line import Line

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_PARTS = 24
"""Of a posterior that are looked at, the heaviest ones; the rest hold next to nothing."""
_LEAST_MASS = 1e-3


def information(line: Line, posterior: Posterior) -> Floats:
    """Computes what one boot at each place of the line is expected to teach about the culprit.

    The mutual information of the boot's ln pps with the hypotheses: the entropy of the mixture
    of what they predict, less the entropy of each prediction (D. V. Lindley, Annals of
    Mathematical Statistics 27, 1956), by Gauss-Hermite quadrature. What a boot teaches of
    the two levels comes in through the hypotheses that it moves apart, so that the ends are
    measured again when that is what is missing.

    Returns:
        Bits, one value per place.
    """
    positions = np.array([image.position for image in line.images], dtype=np.intp)
    where = np.array([place.position for place in line.places], dtype=np.intp)
    boots = np.array([place.boots for place in line.places], dtype=np.intp)
    gap = np.searchsorted(positions, where, side="left")
    share = _share_below(posterior, positions, where)
    parts = np.argsort(-posterior.mass, kind="stable")[:_PARTS]
    parts = parts[posterior.mass[parts] > _LEAST_MASS]
    slow = np.sign(posterior.gap[parts] - gap[:, None])  # -1: culprit below the place, so slow
    chance_slow = np.where(slow < 0, 1.0, np.where(slow > 0, 0.0, share[:, None]))
    mass = posterior.mass[parts] / posterior.mass[parts].sum()
    chances = np.concatenate([mass * (1 - chance_slow), mass * chance_slow], axis=1)
    level = posterior.level[parts].T.ravel()
    variance = posterior.variance[parts].T.ravel()
    bits = np.zeros(len(where))
    for n in np.unique(boots):
        rows = boots == n
        visit = visit_variance(line.question.noise, int(n))
        bits[rows] = _mutual(chances[rows], level, np.sqrt(variance + visit))
    return bits


def _share_below(
    posterior: Posterior, positions: NDArray[np.intp], where: NDArray[np.intp]
) -> Floats:
    """Of the mass in the gap of each position, how much lies at or before the position."""
    edges = np.array([-1, *positions, len(posterior.chances) - 1])
    gap = np.searchsorted(positions, where, side="left")
    sums = np.concatenate([[0.0], np.cumsum(posterior.chances)])
    below = sums[where + 1] - sums[edges[gap] + 1]
    whole = sums[edges[gap + 1] + 1] - sums[edges[gap] + 1]
    whole = whole + np.where(gap == len(positions), posterior.none, 0.0)
    share: Floats = np.divide(below, whole, out=np.zeros_like(below), where=whole > 0)
    return np.clip(share, 0.0, 1.0)


def _mutual(chances: Floats, mean: Floats, sd: Floats) -> Floats:
    """Information of a draw from a normal mixture about its component, in bits.

    Args:
        chances: Of each of c components; one row per mixture.
        mean: c values.
        sd: c values.
    """
    points = (mean[:, None] + sd[:, None] * _NODES).ravel()
    density = np.exp(-(((points - mean[:, None]) / sd[:, None]) ** 2) / 2) / sd[:, None]
    own = np.repeat(1 / sd, len(_NODES)) * np.exp(-(np.tile(_NODES, len(mean)) ** 2) / 2)
    mixed = np.log(chances @ density + 1e-300)
    weight = np.repeat(chances, len(_NODES), axis=1) * np.tile(_WEIGHTS, len(mean))
    nats: Floats = (weight * (np.log(own) - mixed)).sum(axis=1)
    return np.maximum(nats, 0.0) / math.log(2)
