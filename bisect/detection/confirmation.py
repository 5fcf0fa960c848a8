"""Confirmation: separates changes of the code from image noise.

Two images of equal performance differ by image noise, in every retest. A difference is confirmed
if it exceeds image noise, or if further pairs of images show it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import special

from netbisect.bisect.detection.nightly_screen import Z_95
from netbisect.bisect.model.detection_results import MIN_EFFECT, RetestJudgement, RetestVerdict
from netbisect.bisect.model.results import Effect

LARGE = -math.log1p(-0.05)
"""|ln ratio| from which one pair of images is enough, with little image noise: 5 %."""
_OFFSETS = 0.9987
"""One-sided quantile: three standard deviations of the difference of two images."""
_FUTILITY = 0.5
"""Share of `min_effect` below which two or more pairs are given up."""
MOST_PAIRS = 6
"""Maximum number of pairs."""
_CONFIDENCE = 0.998
"""One-sided confidence for the mean of all pairs."""
_REACH = 3.0
"""Half width of the interval of a retest, in standard errors, at least: it is valid at 99 % however
long the retest takes."""
_LEAST_SHARE = 0.9
"""Minimum mean of several pairs, as a share of `min_effect`."""


def judge(
    pairs: Sequence[Effect],
    image_sd: float,
    min_effect: float = MIN_EFFECT,
    sign: int = -1,
    goods: int | None = None,
    image_weight: float = 1e6,
) -> RetestJudgement:
    """Judges retests of pairs of images.

    The variance of the mean over k pairs is that of the boots plus 2 / k of the image variance,
    more if pairs share a good kernel.

    Args:
        pairs: Effect of each retest in the leading scenario, at least one; no bad kernel in two.
        image_sd: Image noise of the series, standard deviation of ln pps.
        min_effect: Smallest |ln ratio| worth an alert.
        sign: -1 for a drop, 1 for a gain.
        goods: Number of different good kernels; by default one per pair.
        image_weight: Degrees of freedom of `image_sd`.

    Raises:
        ValueError: There is no pair.
    """
    if not pairs:
        raise ValueError("a verdict needs the retest of at least one pair of images")
    effect, error = _mean_effect(pairs, image_sd, goods or len(pairs))
    seen = sign * effect.ln_ratio
    sure = seen - float(special.stdtrit(image_weight, _CONFIDENCE)) * error > 0
    enough = seen >= (min_effect if len(pairs) == 1 else _LEAST_SHARE * min_effect)
    offsets = float(special.stdtrit(image_weight, _OFFSETS)) * math.sqrt(2) * image_sd
    alone = max(LARGE, offsets)
    if sure and enough and (len(pairs) > 1 or seen >= alone):
        return RetestJudgement(RetestVerdict.CHANGED, effect, _count(pairs))
    if seen < _FUTILITY * min_effect and len(pairs) > 1:
        return RetestJudgement(
            RetestVerdict.NO, effect, f"{_count(pairs)} differ no more than any two images"
        )
    if len(pairs) >= MOST_PAIRS:
        return RetestJudgement(RetestVerdict.NO, effect, f"{_count(pairs)} do not settle it")
    return RetestJudgement(
        RetestVerdict.MORE, effect, "so small a difference may be the offset of an image"
    )


def _count(pairs: Sequence[Effect]) -> str:
    return "one pair of images" if len(pairs) == 1 else f"{len(pairs)} pairs of images"


def _mean_effect(pairs: Sequence[Effect], image_sd: float, goods: int) -> tuple[Effect, float]:
    """The mean effect with its interval, and its standard error including image noise."""
    k = len(pairs)
    mean = math.fsum(pair.ln_ratio for pair in pairs) / k
    boots = math.fsum(((pair.high - pair.low) / (2 * _REACH)) ** 2 for pair in pairs) / k**2
    error = math.sqrt(boots + image_sd**2 * (1 / k + 1 / goods))
    together = Effect(
        scenario=pairs[0].scenario,
        ln_ratio=mean,
        low=mean - Z_95 * error,
        high=mean + Z_95 * error,
        p=2 * float(special.ndtr(-abs(mean) / error)) if error > 0 else 0.0,
        good_boots=sum(pair.good_boots for pair in pairs),
        bad_boots=sum(pair.bad_boots for pair in pairs),
    )
    return together, error


def mean_effects(
    retests: Sequence[Sequence[Effect]], image_sd: float, goods: int | None = None
) -> tuple[Effect, ...]:
    """Mean effects of several retests by scenario, the lead first.

    Args:
        retests: Effects of each, the leading scenario first; at least one retest with effects.
        image_sd: As for `judge`; that of the lead, used for all scenarios.
        goods: As for `judge`.
    """
    if len(retests) == 1:
        return tuple(retests[0])
    by_scenario = [{effect.scenario: effect for effect in effects} for effects in retests]
    count = goods or len(retests)
    shared = [name for name in by_scenario[0] if all(name in one for one in by_scenario)]
    return tuple(
        _mean_effect([one[name] for one in by_scenario], image_sd, count)[0] for name in shared
    )
