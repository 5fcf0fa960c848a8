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
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.stats import robust

Floats = NDArray[np.float64]

_FREEDOM = np.array([1.0, 6.0])[:, None]
"""Degrees of freedom of the densities: with heavy tails, and nearly normal."""
_SCALES = np.geomspace(5e-4, 0.5, 10)
"""Scales of the densities, ln ratio."""
_CORES = np.geomspace(5e-4, 0.5, 24)
"""Standard deviations of differences in an estimate, ln ratio."""
_OUTLIERS = np.array([0.02, 0.2, 0.5])[:, None]
"""Shares of outliers in an estimate."""
_STRAY = 0.1
"""Scale of the Cauchy density of outliers, ln ratio."""
_ALTERNATIVES = np.geomspace(1.0, 8.0, 5)
"""Alternatives to an end of an interval, relative to the least effect."""
_NEAR, _NEAR_CENTRES, _WIDE_CENTRES = 8.0, 201, 201
"""Centres of an estimate: reach of the near ones in standard errors, and the numbers of near ones
and of those over all differences."""
_FARTHEST = 64.0
"""Widest half of an interval, relative to the least effect."""


def log_evidence(differences: Floats, centre: float, effects: Floats) -> float:
    """Log of the e-process against a centre of symmetry.

    Args:
        differences: n values, ln ratio.
        centre: The hypothesis, ln ratio.
        effects: m equally likely alternatives, ln ratio.
    """
    y, effect = (x[..., None, None] for x in (differences[:, None] - centre, effects - centre))
    gain = (_FREEDOM + 1) / 2 * (_log_tail(y + effect) - _log_tail(y - effect))
    logs = (math.log(2) - np.logaddexp(0.0, -gain)).sum(axis=0)
    return float(special.logsumexp(logs)) - math.log(logs.size)


def log_evidence_against(differences: Floats, effects: Floats) -> float:
    """Log of the least e-process against one of the effects as the centre of symmetry."""
    steps = _alternatives(float(np.abs(effects).min()))
    return min(log_evidence(differences, one, one + steps) for one in effects.tolist())


def _alternatives(least: float) -> Floats:
    found: Floats = least * np.concatenate([_ALTERNATIVES, -_ALTERNATIVES])
    return found


def _log_tail(distance: Floats) -> Floats:
    found: Floats = np.log1p((distance / _SCALES) ** 2 / _FREEDOM)
    return found


def estimate(differences: Floats) -> tuple[float, float, float]:
    """Posterior median of the centre of symmetry, and its 95 % interval.

    The differences are normal with one of many standard deviations, some are outliers with a
    Cauchy density, and the prior of the centre is flat. With a second mode, this interval is
    narrower than one by ranks (Hodges and Lehmann 1963).

    Args:
        differences: n values, ln ratio; one has an interval without bounds.
    """
    if len(differences) == 1:
        return float(differences[0]), -math.inf, math.inf
    spread = max(robust.scale([differences.tolist()]), robust.LEAST_BOOT_SD)
    least, most = float(differences.min()), float(differences.max())
    margin = most - least + spread
    wide = np.linspace(least - margin, most + margin, _WIDE_CENTRES)
    wide = np.union1d(wide, differences)
    best = wide[np.argmax(_log_posterior(differences, wide))]
    near = np.linspace(-1, 1, _NEAR_CENTRES) * _NEAR * spread / math.sqrt(len(differences))
    centres = np.union1d(wide, best + near)
    logs = _log_posterior(differences, centres)
    density = np.exp(logs - logs.max())
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(centres))])
    low, middle, high = np.interp([0.025, 0.5, 0.975], mass / mass[-1], centres).tolist()
    return middle, low, high


def _log_posterior(differences: Floats, centres: Floats) -> Floats:
    """Log density of each centre, not normalised."""
    logs = np.zeros((len(centres), len(_OUTLIERS), len(_CORES)))
    for y in differences.tolist():
        off = (y - centres)[:, None, None]
        core = np.exp(-((off / _CORES) ** 2) / 2) / (_CORES * math.sqrt(2 * math.pi))
        stray = 1 / (math.pi * _STRAY * (1 + (off / _STRAY) ** 2))
        logs += np.log((1 - _OUTLIERS) * core + _OUTLIERS * stray)
    found: Floats = special.logsumexp(logs, axis=(1, 2))
    return found


def interval(differences: Floats, least: float, alpha: float) -> tuple[float, float]:
    """The centres that are not excluded, at any time, with a probability of 1 - alpha.

    Args:
        differences: n values, ln ratio.
        least: Smallest distance of an alternative from a centre, ln ratio.
        alpha: Type I error.
    """
    bound, alternatives = -math.log(alpha), _alternatives(least)
    starts = [estimate(differences)[0], float(np.median(differences))]
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
