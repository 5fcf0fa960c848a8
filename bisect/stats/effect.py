"""The effect between two sets of boots, by a moderated Welch t-test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Observation
from netbisect.bisect.model.results import Effect
from netbisect.bisect.stats.boot_modes import to_fast_mode
from netbisect.bisect.stats.robust import LEAST_BOOT_SD

_TRIM_FROM = 8
"""Boots of a side."""
_PATIENCE = 3
"""Boots without a sample tolerated beyond the number with one."""


@dataclass(frozen=True, slots=True)
class SpreadPrior:
    """Prior of the standard deviation between boots."""

    sd: float
    """Standard deviation of ln pps."""
    weight: float
    """Degrees of freedom on each side; 0 for no prior."""


NO_PRIOR = SpreadPrior(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Strata:
    """Cost of comparing boots within their testbeds."""

    inflation: float = 1.0
    """Factor of the variance, relative to one testbed with as many boots."""
    lost: int = 0
    """Degrees of freedom used by the levels of further testbeds."""


ONE_TESTBED = Strata()


def difference(
    good: Sequence[float],
    bad: Sequence[float],
    scenario: str,
    confidence: float = 0.95,
    known: SpreadPrior = NO_PRIOR,
    strata: Strata = ONE_TESTBED,
    *,
    robust: bool = True,
) -> Effect:
    """Difference of `bad` and `good` by Welch's t-test, two-sided, with its interval.

    B. L. Welch, Biometrika 34, 1947, with the degrees of freedom of Satterthwaite (1946). The
    standard deviation is at least 0.02 %. From eight boots per side on, the highest and the lowest
    of each side are trimmed and the variance is winsorised, against one outlier on each side
    (K. K. Yuen, Biometrika 61, 1974). A prior of the standard deviation is pooled with the sample
    (moderated t, G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).

    Args:
        good: ln pps, one value per boot.
        bad: The other side.
        scenario: Copied into the result.
        confidence: Confidence of the interval.
        known: Prior of the standard deviation.
        strata: Cost of several testbeds.
        robust: Whether to trim.

    Raises:
        ValueError: A side has fewer than two boots.
    """
    if len(good) < 2 or len(bad) < 2:  # noqa: PLR2004 - a spread takes two values
        raise ValueError(
            f"{scenario}: a comparison needs at least 2 boots on each side, "
            f"found {len(good)} good and {len(bad)} bad"
        )
    trim = 1 if robust and min(len(good), len(bad)) >= _TRIM_FROM else 0
    (fast, fast_part, fast_df), (slow, slow_part, slow_df) = (
        _mean(side, trim, known) for side in (good, bad)
    )
    variance = fast_part + slow_part
    freedom = variance**2 / (fast_part**2 / fast_df + slow_part**2 / slow_df)
    if strata.lost:
        freedom = max(1.0, freedom - strata.lost)
    counts = len(good), len(bad)
    return t_effect(scenario, slow - fast, variance * strata.inflation, freedom, counts, confidence)


def paired(ratios: Sequence[float], scenario: str) -> Effect:
    """Mean of paired differences by Student's t-test, two-sided, with its 95 % interval.

    Pairs of one boot share its level, so that only the noise of runs remains. The standard
    deviation is at least 0.02 %.

    Args:
        ratios: Difference of each pair, ln ratio; two or more.
        scenario: Copied into the result.
    """
    return t_effect(scenario, *_mean(ratios, 0, NO_PRIOR), (len(ratios), len(ratios)))


def t_effect(
    scenario: str,
    ln_ratio: float,
    variance: float,
    freedom: float,
    counts: tuple[int, int],
    confidence: float = 0.95,
) -> Effect:
    """A difference with its interval and two-sided p by Student's t.

    Args:
        scenario: Scenario of the difference.
        ln_ratio: Bad minus good.
        variance: Variance of `ln_ratio`.
        freedom: Degrees of freedom of the variance.
        counts: Values of the good and of the bad side.
        confidence: Confidence of the interval.
    """
    error = math.sqrt(variance)
    reach = float(special.stdtrit(freedom, (1 + confidence) / 2)) * error
    p = min(1.0, 2 * float(special.stdtr(freedom, -abs(ln_ratio) / error)))
    return Effect(scenario, ln_ratio, ln_ratio - reach, ln_ratio + reach, p, *counts)


def _mean(side: Sequence[float], trim: int, known: SpreadPrior) -> tuple[float, float, float]:
    """Mean without the `trim` highest and lowest, its variance, and degrees of freedom."""
    ordered = np.sort(np.asarray(side, dtype=np.float64))
    kept = ordered[trim : len(ordered) - trim]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    spread = max(float(np.var(winsorised, ddof=1)), LEAST_BOOT_SD**2)
    left = len(kept)
    degrees_of_freedom = left - 1 + known.weight
    scatter = ((len(ordered) - 1) * spread + known.weight * known.sd**2) / degrees_of_freedom
    return math.fsum(kept) / left, scatter / left, degrees_of_freedom


def values(
    observations: Sequence[Observation], scenario: str, modes: BootModes | None = None
) -> list[float]:
    """Ln pps of the boots with a valid sample of `scenario`, sorted.

    With `modes`, slow boots are shifted to the fast mode.
    """
    return sorted(
        to_fast_mode([r.ln_pps[scenario] for r in observations if scenario in r.ln_pps], modes)
    )


def sides(
    good: Sequence[Observation], bad: Sequence[Observation], scenario: str
) -> tuple[list[float], list[float], Strata]:
    """Aligns the boots of several testbeds.

    Least squares of y = testbed level + side; testbeds that measured one side only are ignored.
    Values of a single testbed are unchanged.

    Returns:
        ln pps of both sides, sorted, and the cost of the alignment.
    """
    testbeds = [{r.testbed for r in side if scenario in r.ln_pps} for side in (good, bad)]
    if len(testbeds[0] | testbeds[1]) < 2:  # noqa: PLR2004 - one is no several
        return values(good, scenario), values(bad, scenario), ONE_TESTBED
    both = sorted(testbeds[0] & testbeds[1])
    boots = [
        (np.array(values([r for r in side if r.testbed == name], scenario)), place, number)
        for place, name in enumerate(both)
        for number, side in enumerate((good, bad))
    ]
    if not both:
        return [], [], ONE_TESTBED
    y = np.concatenate([own for own, *_ in boots])
    where = np.concatenate([np.full(len(own), place) for own, place, _ in boots])
    slow = np.concatenate([np.full(len(own), number) for own, _, number in boots])
    design = np.column_stack([where[:, None] == np.arange(len(both)), slow]).astype(float)
    levels = np.linalg.lstsq(design, y, rcond=None)[0][:-1]
    y = y - (levels - levels[0])[where]
    counts = np.array([[len(own) for own, *_ in boots[i : i + 2]] for i in range(0, len(boots), 2)])
    weight = float((counts.prod(axis=1) / counts.sum(axis=1)).sum())
    whole = counts.sum(axis=0)
    inflation = float(whole.prod() / whole.sum()) / weight
    strata = Strata(inflation, len(both) - 1)
    return np.sort(y[slow == 0]).tolist(), np.sort(y[slow == 1]).tolist(), strata


def effects(
    good: Sequence[Observation],
    bad: Sequence[Observation],
    lead: str,
    scenarios: Sequence[str],
    known: SpreadPrior = NO_PRIOR,
) -> tuple[Effect, ...]:
    """Effects in every scenario with two boots on each side, the lead first.

    The prior applies to the lead.
    """
    found = []
    for name in [lead, *(name for name in scenarios if name != lead)]:
        fast, slow, strata = sides(good, bad, name)
        if min(len(fast), len(slow)) > 1:
            spread = known if name == lead else NO_PRIOR
            found.append(difference(fast, slow, name, known=spread, strata=strata))
    return tuple(found)


def code_interval(effect: Effect, noise: Noise | None) -> tuple[float, float]:
    """95 % interval of a difference including image noise, ln ratio.

    Args:
        effect: Between two images.
        noise: Noise of the series; None for the interval of the boots.
    """
    if noise is None or noise.image <= 0:
        return effect.low, effect.high
    quantile = float(special.stdtrit(max(noise.image_weight, 1.0), 0.975))
    images = quantile * math.sqrt(2) * noise.image
    low = math.hypot(effect.ln_ratio - effect.low, images)
    high = math.hypot(effect.high - effect.ln_ratio, images)
    return effect.ln_ratio - low, effect.ln_ratio + high


def yields_no_sample(observations: Iterable[Observation], scenario: str) -> bool:
    """Whether further boots are unlikely to give a sample of `scenario`.

    Boots of other jobs count only if they have a sample: those jobs may not measure `scenario`.
    """
    seen = [(scenario in one.ln_pps, one.fresh) for one in observations]
    return seen.count((False, True)) >= _PATIENCE + sum(measured for measured, _ in seen)
