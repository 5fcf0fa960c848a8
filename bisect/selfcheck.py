"""What the watch is worth: what it can see, and whether what it says looks like the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special, stats

from netbisect.bisect.compare import welch
from netbisect.bisect.comparison import ALPHA, LOOKS
from netbisect.bisect.model import Level, Noise
from netbisect.bisect.screen import CHANCE, MIN_EFFECT
from netbisect.bisect.segments import IMAGE_WEIGHT

_POWER = 0.8
_LEAST_HALF = 3
"""Boots of each half of an image, for it to be held against itself."""
_MINISTAT = 0.05


def smallest_drop(
    noise: Noise,
    images: int,
    *,
    boots: int,
    nights: int = 1,
    chance: float = CHANCE,
    min_effect: float = MIN_EFFECT,
) -> float:
    """Tells the smallest drop that a screen sees four times out of five, as a positive ln ratio.

    The power of the moderated t-test of `screen.screen`, its effect known to lie off by the
    standard error once more.

    Args:
        noise: Of the series.
        images: Of the baseline, at least one.
        boots: Of a night.
        nights: Latest images that are held against the baseline together.
        chance: Of a suspicion without a change.
        min_effect: Below which nothing is suspicious.
    """
    each = noise.variance_of_mean(boots)
    error = math.sqrt(each / nights + each / images)
    freedom = IMAGE_WEIGHT + images - 1
    threshold = float(special.stdtrit(freedom, 1 - chance / 2)) * error
    return max(threshold, 0.75 * min_effect) + float(special.ndtri(_POWER)) * error


@dataclass(frozen=True, slots=True)
class AgainstItself:
    """Boots of one image, their first half held against the second: nothing can have changed."""

    images: int
    """Compared."""
    called: int
    """A retest would have called different at its first look."""
    ministat: int
    """ministat would have called different at 95 %; about 5 % is what it promises."""


def against_itself(levels: Sequence[Level]) -> AgainstItself:
    """Holds every image with boots enough against itself (an A/A test that costs nothing)."""
    called = ministat = compared = 0
    for level in levels:
        half = len(level.ln_pps) // 2
        if half < _LEAST_HALF:
            continue
        compared += 1
        p = welch(level.ln_pps[:half], level.ln_pps[half:], "").p
        called += p < ALPHA / len(LOOKS)
        ministat += p < _MINISTAT
    return AgainstItself(compared, called, ministat)


def one_sided(drops: int, gains: int) -> float:
    """Tells how surprising this number of drops and gains would be if both were equally likely.

    Code grows slower and faster, noise has no side, and a detector that only ever finds drops is
    looking at its own threshold.

    Returns:
        Two-sided p of a binomial test; 1 when there is nothing.
    """
    return float(stats.binomtest(drops, drops + gains).pvalue) if drops + gains else 1.0


def overlap(nights: Sequence[frozenset[str]]) -> float | None:
    """Tells how far the suspicious series of a night are those of the night before.

    What is real stays; what is luck is new every night.

    Args:
        nights: The suspicious series of each night, oldest first.

    Returns:
        Mean of Jaccard's index over pairs of nights that had any; None without such a pair.
    """
    shares = [
        len(one & other) / len(one | other)
        for one, other in itertools.pairwise(nights)
        if one | other
    ]
    return math.fsum(shares) / len(shares) if shares else None
