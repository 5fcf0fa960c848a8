"""When is a difference of two kernels a change of the code?

Two images differ by their own offsets even when the code does the same, and booting them again
shows the same difference again. So a difference is believed when it is too large for the offsets
of images, or when pairs of further images, each with kernels of its own, show it as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy import special

from netbisect.bisect.model import Effect
from netbisect.bisect.screen import MIN_EFFECT, REACH

LARGE = -math.log1p(-0.05)
"""|ln ratio| from which one pair of images is enough where images hardly differ: 5 %."""
_OFFSETS = 0.9987
"""One-sided: three standard deviations of the difference of two images, if these were known."""
_HOPE = 0.5
"""Share of `min_effect` below which two pairs and more leave no hope to see it."""
MOST_PAIRS = 6
"""After which it is given up: the images differ too much for so small a change."""
_BELIEF = 0.998
"""One-sided, for the mean of all pairs."""
_LEAST_SHARE = 0.9
"""Of `min_effect` that must be seen on average."""


class Word(StrEnum):
    """What the pairs so far allow to say."""

    CHANGED = "changed"
    MORE = "one more pair"
    NO = "no change"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all pairs say together."""

    word: Word
    effect: Effect
    """Of the lead, over all pairs; its interval counts the offsets of images."""
    why: str


def judge(
    pairs: Sequence[Effect],
    image_sd: float,
    min_effect: float = MIN_EFFECT,
    sign: int = -1,
    goods: int | None = None,
    image_weight: float = 1e6,
) -> Verdict:
    """Tells whether the code changed the level, from retests of pairs of images.

    The mean over k pairs with kernels of their own lies off the change by the boots of the
    retests and by sqrt(2 / k) of the image noise; by more where a good kernel served twice.

    Args:
        pairs: Effect of each retest in the leading scenario, at least one; no bad kernel in two.
        image_sd: Image noise of the series, standard deviation of ln pps.
        min_effect: Smallest |ln ratio| worth an alert.
        sign: -1 for a drop, 1 for a gain.
        goods: Different good kernels among the pairs; as many as pairs when left out.
        image_weight: Degrees of freedom of `image_sd`: the less it is known, the more is asked.

    Raises:
        ValueError: There is no pair.
    """
    if not pairs:
        raise ValueError("a verdict takes the retest of one pair of images at least")
    effect, error = _together(pairs, image_sd, goods or len(pairs))
    seen = sign * effect.ln_ratio
    sure = seen - float(special.stdtrit(image_weight, _BELIEF)) * error > 0
    enough = seen >= (min_effect if len(pairs) == 1 else _LEAST_SHARE * min_effect)
    offsets = float(special.stdtrit(image_weight, _OFFSETS)) * math.sqrt(2) * image_sd
    alone = max(LARGE, offsets)
    if sure and enough and (len(pairs) > 1 or seen >= alone):
        return Verdict(Word.CHANGED, effect, _count(pairs))
    if seen < _HOPE * min_effect and len(pairs) > 1:
        return Verdict(Word.NO, effect, f"{_count(pairs)} differ no more than any two images")
    if len(pairs) >= MOST_PAIRS:
        return Verdict(Word.NO, effect, f"{_count(pairs)} do not settle it")
    return Verdict(Word.MORE, effect, "so small a difference may be the offset of an image")


def _count(pairs: Sequence[Effect]) -> str:
    return "one pair of images" if len(pairs) == 1 else f"{len(pairs)} pairs of images"


def _together(pairs: Sequence[Effect], image_sd: float, goods: int) -> tuple[Effect, float]:
    """The mean effect with its interval, and its standard error with the offsets of images."""
    k = len(pairs)
    mean = math.fsum(pair.ln_ratio for pair in pairs) / k
    boots = math.fsum(((pair.high - pair.low) / (2 * REACH)) ** 2 for pair in pairs) / k**2
    error = math.sqrt(boots + image_sd**2 * (1 / k + 1 / goods))
    together = Effect(
        scenario=pairs[0].scenario,
        ln_ratio=mean,
        low=mean - REACH * error,
        high=mean + REACH * error,
        p=2 * float(special.ndtr(-abs(mean) / error)) if error > 0 else 0.0,
        good_boots=sum(pair.good_boots for pair in pairs),
        bad_boots=sum(pair.bad_boots for pair in pairs),
    )
    return together, error


def effects_together(
    retests: Sequence[Sequence[Effect]], image_sd: float, goods: int | None = None
) -> tuple[Effect, ...]:
    """Averages the effects of several retests, scenario by scenario, the lead first.

    Args:
        retests: Effects of each, the leading scenario first; at least one retest with effects.
        image_sd: As for `judge`; of the lead, and taken for the others too.
        goods: As for `judge`.
    """
    if len(retests) == 1:
        return tuple(retests[0])
    by_scenario = [{effect.scenario: effect for effect in effects} for effects in retests]
    count = goods or len(retests)
    shared = [name for name in by_scenario[0] if all(name in one for one in by_scenario)]
    return tuple(
        _together([one[name] for one in by_scenario], image_sd, count)[0] for name in shared
    )
