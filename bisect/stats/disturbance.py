"""Likelihood of blocks of boots that another load may have disturbed.

One boot that is 30 % slower makes one of the two differences of its block an outlier. The normal
likelihood of `stats.sequential` attributes it to the noise of all boots, which requires many more
boots. A block whose differences are far apart is therefore considered disturbed with a small
probability. The differences of a disturbed block have Cauchy densities around the effect, so that
it has little influence. The distance between the two differences does not depend on the effect, and
its bound is fixed before the data.

Without such a block, the likelihood is the normal one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.log_space import log_sum
from netbisect.bisect.stats.robust import LEAST_BOOT_SD, median_and_interval, outlier_density

_SHARE = 0.02
"""Probability of a disturbed block."""
_FAR = 4.0
"""Minimum distance between its two differences, in standard deviations."""
_FACTORS = 1.15 ** np.arange(-10, 50)
"""Standard deviations that are averaged over, relative to the expected one: 0.25 to 900."""
_WIDE_CENTRES, _NEAR_CENTRES, _REACH = 201, 161, 16.0
"""Centres of an estimate: the numbers of those over all values and of near ones, and the reach of
these in standard errors."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Effect and noise estimated from blocks that may include disturbed ones, ln ratios."""

    mean: float
    """Posterior median, with a flat prior."""
    low: float
    high: float
    """Ends of the effects that are not excluded."""
    interval: tuple[float, float]
    """Posterior 95 % interval."""
    boot_sd: float
    """Standard deviation of a boot, ln pps."""


class BlockLikelihood:
    """Likelihood of an effect, given blocks of two differences."""

    def __init__(self, differences: Floats, boot_sd: float, weight: float) -> None:
        """Stores whole blocks.

        Args:
            differences: 2 n values, ln ratios; those of a block are neighbours.
            boot_sd: Expected standard deviation of a boot, ln pps.
            weight: Its degrees of freedom.
        """
        blocks = differences.reshape(-1, 2)
        sd = max(math.sqrt(2) * boot_sd, LEAST_BOOT_SD)
        far = np.abs(blocks[:, 1] - blocks[:, 0]) > _FAR * math.sqrt(2) * sd
        self._near, self._far = blocks[~far].ravel(), blocks[far]
        self._all = differences
        self._variances = (_FACTORS * sd) ** 2
        prior = -weight * (np.log(_FACTORS) + _FACTORS**-2 / 2)
        self._prior = prior - log_sum(prior)

    @property
    def may_be_disturbed(self) -> bool:
        """Whether any block may be disturbed."""
        return bool(len(self._far))

    def log(self, effects: Floats) -> Floats:
        """Log likelihood of each effect, ln ratio."""
        return log_sum(self._joint(effects), axis=1)

    def estimate(self, reach: float) -> Estimate:
        """Estimates the effect and the noise.

        Args:
            reach: Log likelihood from which on an effect is not excluded.
        """
        y = self._all
        margin = float(np.ptp(y))
        wide = np.linspace(y.min() - margin, y.max() + margin, _WIDE_CENTRES)
        wide = np.union1d(wide, y.reshape(-1, 2).mean(axis=1))
        joint = self._joint(wide)
        best, variance = self._best(joint)
        width = _REACH * math.sqrt(variance / len(y))
        near = wide[best] + np.linspace(-1, 1, _NEAR_CENTRES) * width
        centres, places = np.unique(np.concatenate([wide, near]), return_index=True)
        joint = np.concatenate([joint, self._joint(near)])[places]
        _, variance = self._best(joint)
        logs = log_sum(joint, axis=1)
        # The ends are the next centres outside.
        inside = np.flatnonzero(logs >= min(reach, float(logs.max())))
        low, high = centres[[max(inside[0] - 1, 0), min(inside[-1] + 1, len(centres) - 1)]].tolist()
        middle, first, last = median_and_interval(centres, logs)
        return Estimate(middle, low, high, (first, last), math.sqrt(variance / 2))

    def _best(self, joint: Floats) -> tuple[int, float]:
        """Index of the likeliest centre, and the mean variance of a difference around it."""
        best = int(np.argmax(log_sum(joint, axis=1)))
        return best, float(special.softmax(joint[best]) @ self._variances)

    def _joint(self, effects: Floats) -> Floats:
        """Log likelihood by effect and variance."""
        variances, shift = self._variances, effects[:, None]
        squares = ((self._near - shift) ** 2).sum(axis=1)[:, None]
        joint = self._prior - squares / variances / 2
        joint = joint - len(self._near) / 2 * np.log(variances)
        for block in self._far:
            squares = ((block - shift) ** 2).sum(axis=1)[:, None]
            undisturbed = -squares / variances / 2 - np.log(2 * math.pi * variances)
            disturbed = np.log(outlier_density(block - shift)).sum(axis=1)
            joint = joint + np.logaddexp(
                math.log1p(-_SHARE) + undisturbed, math.log(_SHARE) + disturbed[:, None]
            )
        found: Floats = joint
        return found
