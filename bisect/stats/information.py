"""Information of a boot."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.entities import Noise


def bits_of_boot(noise: Noise, effect: float, runs: int = 1) -> float:
    """Information of one boot about a kernel being fast or slow, both levels known, in bits.

    Args:
        noise: Noise of the testbed.
        effect: Difference of the levels, ln ratio.
        runs: Runs of the boot.
    """
    variance = max(noise.variance_of_boot(runs) + noise.image**2, 1e-12)
    distance = abs(effect) / math.sqrt(variance)
    y = np.linspace(-8, 8 + distance, 801)
    sides = np.exp(-((y - np.array([[0.0], [distance]])) ** 2) / 2)
    sides /= sides.sum(axis=1, keepdims=True)
    nats = special.entr(sides.mean(axis=0)).sum() - special.entr(sides).sum(axis=1).mean()
    return max(float(nats) / math.log(2), 1e-3)


def boots_of_search(commits: int, noise: Noise, effect: float, runs: int = 1) -> float:
    """Boots that a search is expected to take: the bits of the commit, and those of a proof.

    Args:
        commits: Candidates.
        noise: Noise of the testbed.
        effect: Effect of the culprit, ln ratio.
        runs: Runs of a boot.
    """
    return math.log2((commits + 1) / ALPHA) / bits_of_boot(noise, effect, runs)
