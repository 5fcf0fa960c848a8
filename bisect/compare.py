"""Two sets of boots, one effect: the only t-test there is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from netbisect.bisect.model import Effect, Reading
from netbisect.bisect.modes import Modes, lifted

_LEAST_SPREAD = 2e-4
"""Standard deviation of ln pps below which a spread is not the luck of boots.

A router that forwards all a generator offers, or a simulated one, repeats itself to the last
digit. Taken at its word, that would prove differences of a thousandth of a percent.
"""
_TRIM_FROM = 8
"""Boots of a side."""


def welch(
    good: Sequence[float], bad: Sequence[float], scenario: str, confidence: float = 0.95
) -> Effect:
    """Tells how far `bad` lies from `good`, and how sure that is.

    Welch's t-test (B. L. Welch, Biometrika 34, 1947), two-sided, with the degrees of freedom of
    Satterthwaite (1946). A side that hardly scatters is taken to scatter by 0.02 %, so that an
    interval never has zero width.

    Args:
        good: ln pps, one value per boot.
        bad: The same for the other side.
        scenario: Only copied into the answer.
        confidence: Of the interval, between 0 and 1.

    Returns:
        The difference bad - good as an ln ratio, its interval and two-sided p.

    Raises:
        ValueError: A side has fewer than two boots.
    """
    return _compare(good, bad, scenario, confidence, trim=0, known=UNKNOWN)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the spread between boots before two sides are compared."""

    sd: float
    """Standard deviation of ln pps."""
    weight: float
    """Degrees of freedom that it counts for on each side; 0: it is not known."""


UNKNOWN = Known(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Strata:
    """What it costs that boots of several testbeds are only held against those of their own."""

    inflation: float = 1.0
    """Of the variance of the difference, beside that of one testbed with as many boots."""
    lost: int = 0
    """Degrees of freedom that the levels of the further testbeds take."""


ONE_TESTBED = Strata()


def difference(
    good: Sequence[float],
    bad: Sequence[float],
    scenario: str,
    confidence: float = 0.95,
    known: Known = UNKNOWN,
    strata: Strata = ONE_TESTBED,
) -> Effect:
    """As `welch`, but one stray boot on each side cannot hide or make a difference.

    When both sides have eight boots, the highest and the lowest of each are left out and the
    spread is that of the winsorised values (K. K. Yuen, Biometrika 61, 1974). With fewer boots
    that would cost more than it gives, and it is Welch's test. A spread that is known from the
    past is averaged in (the moderated t of G. K. Smyth, Statistical Applications in Genetics and
    Molecular Biology 3, 2004), for three boots of a side hardly tell theirs.

    Raises:
        ValueError: A side has fewer than two boots.
    """
    trim = 1 if min(len(good), len(bad)) >= _TRIM_FROM else 0
    return _compare(good, bad, scenario, confidence, trim, known, strata)


def _compare(
    good: Sequence[float],
    bad: Sequence[float],
    scenario: str,
    confidence: float,
    trim: int,
    known: Known,
    strata: Strata = ONE_TESTBED,
) -> Effect:
    if len(good) < 2 or len(bad) < 2:  # noqa: PLR2004 - a spread takes two values
        raise ValueError(
            f"{scenario}: a comparison takes at least 2 boots on each side, "
            f"found {len(good)} good and {len(bad)} bad"
        )
    (fast, fast_part, fast_df), (slow, slow_part, slow_df) = (
        _mean(side, trim, known) for side in (good, bad)
    )
    variance = fast_part + slow_part
    freedom = variance**2 / (fast_part**2 / fast_df + slow_part**2 / slow_df)
    freedom = max(1.0, freedom - strata.lost) if strata.lost else freedom
    variance *= strata.inflation
    error = math.sqrt(variance)
    reach = float(special.stdtrit(freedom, (1 + confidence) / 2)) * error
    return Effect(
        scenario=scenario,
        ln_ratio=slow - fast,
        low=slow - fast - reach,
        high=slow - fast + reach,
        p=min(1.0, 2 * float(special.stdtr(freedom, -abs(slow - fast) / error))),
        good_boots=len(good),
        bad_boots=len(bad),
    )


def _mean(side: Sequence[float], trim: int, known: Known) -> tuple[float, float, float]:
    """Mean without the `trim` highest and lowest, its variance, and degrees of freedom."""
    ordered = np.sort(np.asarray(side, dtype=np.float64))
    kept = ordered[trim : len(ordered) - trim]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    spread = max(float(np.var(winsorised, ddof=1)), _LEAST_SPREAD**2)
    left = len(kept)
    freedom = left - 1 + known.weight
    scatter = ((len(ordered) - 1) * spread + known.weight * known.sd**2) / freedom
    return math.fsum(kept) / left, scatter / left, freedom


def values(readings: Sequence[Reading], scenario: str, modes: Modes | None = None) -> list[float]:
    """Returns ln pps of those boots that have a valid sample of `scenario`, sorted.

    With `modes`, boots of the slow one are lifted to where the fast one would have been.
    """
    return sorted(lifted([r.ln_pps[scenario] for r in readings if scenario in r.ln_pps], modes))


def sides(
    good: Sequence[Reading], bad: Sequence[Reading], scenario: str, modes: Modes | None = None
) -> tuple[list[float], list[float], Strata]:
    """Puts the boots of several testbeds on the level of one of them.

    Levels of testbeds and the difference of the sides are those of least squares, y = level +
    side; a testbed that has measured one side only says nothing of the difference and is left
    out. Of one testbed the values are as they are.

    Returns:
        ln pps of both sides, sorted, and what the levels have cost.
    """
    testbeds = [{r.testbed for r in side if scenario in r.ln_pps} for side in (good, bad)]
    if len(testbeds[0] | testbeds[1]) < 2:  # noqa: PLR2004 - one is no several
        return values(good, scenario, modes), values(bad, scenario, modes), ONE_TESTBED
    both = sorted(testbeds[0] & testbeds[1])
    boots = [
        (np.array(values([r for r in side if r.testbed == name], scenario, modes)), place, number)
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
    good: Sequence[Reading],
    bad: Sequence[Reading],
    lead: str,
    scenarios: Sequence[str],
    known: Known = UNKNOWN,
    modes: Modes | None = None,
) -> tuple[Effect, ...]:
    """Compares the two sides in every scenario that has two boots on each, the lead first.

    What is known of the spread, and of modes, is that of the lead.
    """
    found = []
    for name in [lead, *(name for name in scenarios if name != lead)]:
        its = modes if name == lead else None
        fast, slow, strata = sides(good, bad, name, its)
        if min(len(fast), len(slow)) > 1:
            spread = known if name == lead else UNKNOWN
            found.append(difference(fast, slow, name, known=spread, strata=strata))
    return tuple(found)
