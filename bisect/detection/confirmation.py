"""Confirmation: separates changes of the code from image noise.

Two images of equal performance differ by image noise, in every retest. The differences of pairs of
images without a common image are tested by the test of `stats.sequential`, with the image noise as
their scatter. Its tails are heavy: one pair confirms only a change of about six standard
deviations, and an odd image cannot confirm itself.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from scipy import special

from netbisect.bisect.detection.nightly_screen import Z_95
from netbisect.bisect.model.detection_results import MIN_EFFECT, RetestJudgement, RetestVerdict
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.results import Effect
from netbisect.bisect.stats.sequential import PRIOR_WEIGHT, log_uniform_effects, sequential_test

MOST_PAIRS = 10
"""Maximum number of pairs."""
_FUTILITY = 0.5
"""Share of `min_effect` below which two or more pairs are given up."""
_LEAST_SHARE = 0.9
"""Minimum mean of several pairs, as a share of `min_effect`."""


def judge(
    pairs: Sequence[Effect],
    noise: Noise,
    min_effect: float = MIN_EFFECT,
    sign: int = -1,
    goods: Sequence[str] | None = None,
) -> RetestJudgement:
    """Judges retests of pairs of images.

    Args:
        pairs: Effect of each retest in the leading scenario, at least one; no bad kernel in two.
        noise: Of the series before the suspicion.
        min_effect: Smallest |ln ratio| worth an alert.
        sign: -1 for a drop, 1 for a gain.
        goods: Good kernel of each pair; pairs that share one count as one. By default all differ.

    Raises:
        ValueError: There is no pair.
    """
    if not pairs:
        raise ValueError("a verdict needs the retest of at least one pair of images")
    names = goods or [str(i) for i in range(len(pairs))]
    effect = _mean_effect(pairs, noise, len(set(names)))
    seen = sign * effect.ln_ratio
    by_good = defaultdict(list)
    for name, pair in zip(names, pairs, strict=True):
        by_good[name].append(pair.ln_ratio)
    differences = [math.fsum(own) / len(own) for own in by_good.values()]
    sd = math.sqrt(noise.image**2 + len(pairs) * _boot_variance(pairs, noise) / 2)
    mixture = sign * log_uniform_effects(min_effect)
    tested = sequential_test(differences, sd, PRIOR_WEIGHT, mixture)
    enough = seen >= (min_effect if len(pairs) == 1 else _LEAST_SHARE * min_effect)
    if tested.shown and enough:
        return RetestJudgement(RetestVerdict.CHANGED, effect, _count(pairs))
    if len(pairs) > 1 and (tested.refuted or seen < _FUTILITY * min_effect):
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


def _boot_variance(pairs: Sequence[Effect], noise: Noise) -> float:
    """Of the mean of all pairs."""
    boots = math.fsum(1 / pair.good_boots + 1 / pair.bad_boots for pair in pairs)
    return noise.boot**2 * boots / len(pairs) ** 2


def _mean_effect(pairs: Sequence[Effect], noise: Noise, goods: int) -> Effect:
    """The mean effect; its 95 % interval includes image noise."""
    k = len(pairs)
    mean = math.fsum(pair.ln_ratio for pair in pairs) / k
    error = math.sqrt(_boot_variance(pairs, noise) + noise.image**2 * (1 / k + 1 / goods))
    return Effect(
        scenario=pairs[0].scenario,
        ln_ratio=mean,
        low=mean - Z_95 * error,
        high=mean + Z_95 * error,
        p=2 * float(special.ndtr(-abs(mean) / error)) if error > 0 else 0.0,
        good_boots=sum(pair.good_boots for pair in pairs),
        bad_boots=sum(pair.bad_boots for pair in pairs),
    )


def mean_effects(
    retests: Sequence[Sequence[Effect]], noise: Noise, goods: int | None = None
) -> tuple[Effect, ...]:
    """Mean effects of several retests by scenario, the lead first.

    Args:
        retests: Effects of each, the leading scenario first; at least one retest with effects.
        noise: As for `judge`; that of the lead, used for all scenarios.
        goods: Number of different good kernels; by default one per pair.
    """
    if len(retests) == 1:
        return tuple(retests[0])
    by_scenario = [{effect.scenario: effect for effect in effects} for effects in retests]
    count = goods or len(retests)
    shared = [name for name in by_scenario[0] if all(name in one for one in by_scenario)]
    return tuple(_mean_effect([one[name] for one in by_scenario], noise, count) for name in shared)
