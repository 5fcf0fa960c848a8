"""Self-checks of detection: sensitivity, A/A tests and false call rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from scipy import special

from netbisect.bisect.detection.histories import estimate_noise
from netbisect.bisect.detection.nightly_screen import LEAST_SHARE, WINDOWS, image_levels, screen
from netbisect.bisect.model.detection_results import (
    ALPHA,
    MIN_EFFECT,
    MINISTAT_ALPHA,
    SCREEN_ALPHA,
    RepeatedNight,
    RepeatedNights,
    SplitHalfTest,
)
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.stats import boot_modes
from netbisect.bisect.stats.changepoints import IMAGE_WEIGHT, boot_matrix
from netbisect.bisect.stats.effect import difference

_POWER = 0.8
_LEAST_HALF = 3
"""Minimum boots of each half."""


def smallest_drop(
    noise: Noise,
    images: int,
    *,
    boots: int,
    nights: int = 1,
    min_effect: float = MIN_EFFECT,
) -> float:
    """Smallest drop that the screen detects with 80 % power, as a positive ln ratio.

    Power of the moderated t-test of `nightly_screen.screen`.

    Args:
        noise: Noise of the series.
        images: Images of the baseline, at least one.
        boots: Per night.
        nights: With the drop.
        min_effect: Smallest suspicious drop.
    """
    each, freedom = noise.variance_of_mean(boots), IMAGE_WEIGHT + images - 1
    found = []
    for window, share in WINDOWS.items():
        if window <= nights:
            error = math.sqrt(each / window + each / images)
            threshold = float(special.stdtrit(freedom, 1 - SCREEN_ALPHA * share)) * error
            least = max(threshold, LEAST_SHARE * min_effect)
            found.append(least + float(special.ndtri(_POWER)) * error)
    return min(found)


def split_half_test(levels: Sequence[Level]) -> SplitHalfTest:
    """A/A test: compares the first half of the boots of each image with the second."""
    called = ministat = compared = 0
    for level in levels:
        half = len(level.ln_pps) // 2
        if half < _LEAST_HALF:
            continue
        compared += 1
        p = difference(level.ln_pps[:half], level.ln_pps[half:], "", robust=False).p
        called += p < ALPHA
        ministat += p < MINISTAT_ALPHA
    return SplitHalfTest(compared, called, ministat)


def sign_test(drops: int, gains: int) -> float:
    """Sign test: are drops and gains equally likely?

    Returns:
        Two-sided p of a binomial test; 1 without changes.
    """
    rarer = float(special.bdtr(min(drops, gains), drops + gains, 0.5))
    return min(2 * rarer, 1.0)


def night_overlap(nights: Sequence[frozenset[str]]) -> float | None:
    """Overlap of the suspicious series of consecutive nights; real changes persist.

    Args:
        nights: Suspicious series of each night, oldest first.

    Returns:
        Mean Jaccard index of pairs of nights with suspicions; None without such a pair.
    """
    shares = [
        len(one & other) / len(one | other)
        for one, other in itertools.pairwise(nights)
        if one | other
    ]
    return math.fsum(shares) / len(shares) if shares else None


# --------------------------------------------------------------------------- repeated nights


def compare_repeated_night(
    history: Sequence[Level], first: Level, second: Level, min_effect: float = MIN_EFFECT
) -> RepeatedNight:
    """Compares two nights of one image as if they were two images.

    Args:
        history: The levels before the image, oldest first, any number.
        first: A night of the image.
        second: A later one.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
    """
    one = replace(first, identity="")
    noise = estimate_noise([*history, one])
    (before, after), _ = image_levels(boot_matrix([one, second]), noise)
    two = boot_modes.modes_of(noise)
    earlier, later = (boot_modes.to_fast_mode(level.ln_pps, two) for level in (one, second))
    retested = False
    if min(len(earlier), len(later)) >= _LEAST_HALF:
        effect = difference(earlier, later, "", robust=False)
        retested = effect.p < ALPHA and abs(effect.ln_ratio) >= min_effect
    known = bool(history) and screen([*history, one], min_effect).asks
    return RepeatedNight(
        ln_ratio=float(after - before),
        variance=noise.boot**2 * (1 / len(one.ln_pps) + 1 / len(second.ln_pps)),
        screened=not known and screen([*history, one, second], min_effect).asks,
        retested=retested,
    )


def count_repeated_nights(found: Sequence[RepeatedNight]) -> RepeatedNights:
    """Counts false calls in repeated nights."""
    beyond = [(one.ln_ratio**2 - one.variance) / 2 for one in found]
    return RepeatedNights(
        nights=len(found),
        screened=sum(one.screened for one in found),
        retested=sum(one.retested for one in found),
        night_sd=math.sqrt(max(math.fsum(beyond) / len(found), 0.0)) if found else None,
    )


def false_call_p(called: int, tried: int, alpha: float) -> float:
    """Probability of at least so many false calls at the nominal rate.

    Returns:
        One-sided p of a binomial test; 1 without tests.
    """
    return float(special.bdtrc(called - 1, tried, alpha)) if tried else 1.0
