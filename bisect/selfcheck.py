"""What the watch is worth: what it can see, and whether what it says looks like the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy import special

from netbisect.bisect import modes
from netbisect.bisect.compare import welch
from netbisect.bisect.comparison import ALPHA, LOOKS
from netbisect.bisect.model import Level, Noise
from netbisect.bisect.screen import (
    CHANCE,
    LEAST_SHARE,
    MIN_EFFECT,
    WINDOWS,
    levels_of,
    screen,
)
from netbisect.bisect.segments import IMAGE_WEIGHT, boots_of, by_image, merge, segment

SCREEN_CHANCE = 2 * CHANCE
"""That a screen calls a night a drop, or a gain, without a change."""
RETEST_CHANCE = ALPHA / len(LOOKS)
"""That a retest calls equal images different at one look."""
_POWER = 0.8
_LEAST_HALF = 3
"""Boots of each side, for an image to be held against itself."""
MINISTAT = 0.05
"""That ministat calls equal images different at 95 %."""


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
    threshold = float(special.stdtrit(freedom, 1 - chance * WINDOWS[1])) * error
    return max(threshold, LEAST_SHARE * min_effect) + float(special.ndtri(_POWER)) * error


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
        called += p < RETEST_CHANCE
        ministat += p < MINISTAT
    return AgainstItself(compared, called, ministat)


def one_sided(drops: int, gains: int) -> float:
    """Tells how surprising this number of drops and gains would be if both were equally likely.

    Code grows slower and faster, noise has no side, and a detector that only ever finds drops is
    looking at its own threshold.

    Returns:
        Two-sided p of a binomial test; 1 when there is nothing.
    """
    rarer = float(special.bdtr(min(drops, gains), drops + gains, 0.5))
    return min(2 * rarer, 1.0)


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


# ---------------------------------------------------------------------- nights that were repeated


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two nights of one image: whatever is called between them is a false call."""

    ln_ratio: float
    """The second night over the first."""
    variance: float
    """Of that ratio, if boots are all that scatters."""
    screened: bool
    """Were they two images, the second night would be suspicious where the first was not."""
    retested: bool
    """A retest would have called them different at its first look, by what is worth an alert."""


def repeat(
    history: Sequence[Level], first: Level, second: Level, min_effect: float = MIN_EFFECT
) -> Repeat:
    """Holds two nights of one image against each other as if they were of two.

    Args:
        history: The levels before that image, oldest first, any number.
        first: A night of the image.
        second: A later one.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
    """
    one = replace(first, identity="")
    noise = segment([merge(group) for group in by_image([*history, one])]).noise
    (before, after), _ = levels_of(boots_of([one, second]), noise)
    two = modes.of(noise)
    earlier, later = (modes.lifted(level.ln_pps, two) for level in (one, second))
    retested = False
    if min(len(earlier), len(later)) >= _LEAST_HALF:
        effect = welch(earlier, later, "")
        retested = effect.p < RETEST_CHANCE and abs(effect.ln_ratio) >= min_effect
    known = bool(history) and screen(history, one, min_effect).asks
    return Repeat(
        ln_ratio=float(after - before),
        variance=noise.boot**2 * (1 / len(one.ln_pps) + 1 / len(second.ln_pps)),
        screened=not known and screen([*history, one], second, min_effect).asks,
        retested=retested,
    )


@dataclass(frozen=True, slots=True)
class Repeats:
    """What many repeated nights would have called."""

    nights: int
    """Second nights, of all series."""
    screened: int
    """As Repeat says; `SCREEN_CHANCE` of them is what a screen promises, at most."""
    retested: int
    """As Repeat says; `RETEST_CHANCE` of them is what a retest promises, at most."""
    night_sd: float | None
    """What nights of one image differ by beyond what their boots explain, as a standard
    deviation of ln pps; None without a repeated night."""


def repeats(found: Sequence[Repeat]) -> Repeats:
    """Counts what repeated nights would have called."""
    beyond = [(one.ln_ratio**2 - one.variance) / 2 for one in found]
    return Repeats(
        nights=len(found),
        screened=sum(one.screened for one in found),
        retested=sum(one.retested for one in found),
        night_sd=math.sqrt(max(math.fsum(beyond) / len(found), 0.0)) if found else None,
    )


def surprise(called: int, tried: int, chance: float) -> float:
    """Tells the chance of at least so many false calls when each has this chance.

    Args:
        called: How many there were.
        tried: Of how many.
        chance: That is promised, between 0 and 1.

    Returns:
        One-sided p of a binomial test; 1 when nothing was tried.
    """
    return float(special.bdtrc(called - 1, tried, chance)) if tried else 1.0
