"""A test of the centre of differences whose distribution is symmetric but otherwise unknown.

The order of two boots is drawn at random: without an effect, a difference is as likely positive as
negative, whatever its size. A bet on its sign is then fair, and the product of the returns of all
bets is an e-process: it exceeds 1 / alpha at any time with a probability of at most alpha
(A. Ramdas et al., Admissible anytime-valid sequential inference must rely on nonnegative
martingales, 2020, section 4.2). The bets follow Student's t densities of many scales around many
effects, and the mean of their products is dominated by those that predict the signs best.

Outliers and a second mode of the boots hardly tell a sign and cost little. A test by the variance
takes them for noise of every boot.
"""

from __future__ import annotations

import math

import numpy as np

from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.log_space import log_sum

_FREEDOM = np.array([1.0, 6.0])[:, None, None, None]
"""Degrees of freedom of the densities: with heavy tails, and nearly normal."""
_SCALES = np.geomspace(5e-4, 0.5, 10)[:, None, None]
"""Scales of the densities, ln ratio."""
_ALTERNATIVES = np.geomspace(1.0, 8.0, 5)
"""Alternatives to an end of an interval, relative to the least effect."""
_FARTHEST = 64.0
"""Widest half of an interval, relative to the least effect."""


def log_evidence(differences: Floats, centre: float, effects: Floats) -> float:
    """Log of the e-process against a centre of symmetry.

    Args:
        differences: n values, ln ratio.
        centre: The hypothesis, ln ratio.
        effects: m equally likely alternatives, ln ratio.
    """
    y, effect = differences - centre, (effects - centre)[:, None]
    odds = (_tail(y - effect) / _tail(y + effect)) ** ((_FREEDOM + 1) / 2)
    logs = (math.log(2) - np.log(1 + odds)).sum(axis=-1)
    return float(log_sum(logs)) - math.log(logs.size)


def log_evidence_against(differences: Floats, effects: Floats) -> float:
    """Log of the least e-process against one of the effects as the centre of symmetry."""
    steps = _alternatives(float(np.abs(effects).min()))
    return min(log_evidence(differences, one, one + steps) for one in effects.tolist())


def _alternatives(least: float) -> Floats:
    return least * np.concatenate([_ALTERNATIVES, -_ALTERNATIVES])


def _tail(distance: Floats) -> Floats:
    found: Floats = 1 + (distance / _SCALES) ** 2 / _FREEDOM
    return found


def interval(differences: Floats, start: float, least: float, alpha: float) -> tuple[float, float]:
    """The centres that are not excluded, at any time, with a probability of 1 - alpha.

    Args:
        differences: n values, ln ratio.
        start: An estimate of the centre, ln ratio; the median is tried, too.
        least: Smallest distance of an alternative from a centre, ln ratio.
        alpha: Type I error.
    """
    bound, alternatives = -math.log(alpha), _alternatives(least)
    starts = [start, float(np.median(differences))]
    middle = min(starts, key=lambda one: log_evidence(differences, one, one + alternatives))

    def excluded(centre: float) -> bool:
        return log_evidence(differences, centre, centre + alternatives) >= bound

    def end(sign: float) -> float:
        inside, outside = 0.0, least
        while not excluded(middle + sign * outside):
            inside, outside = outside, 2 * outside
            if outside > _FARTHEST * least:
                return sign * math.inf
        while outside - inside > least / 20:
            half = (inside + outside) / 2
            inside, outside = (inside, half) if excluded(middle + sign * half) else (half, outside)
        return middle + sign * outside

    return end(-1.0), end(1.0)
