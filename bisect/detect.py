"""Histories of levels: is tonight's lower, where are the steps, how large is the noise?

What is found here only proposes a retest or is printed as a list; no mail is sent on its word.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from netbisect.bisect.model import Comparison, Level, Night, Noise
from netbisect.bisect.robust import location
from netbisect.bisect.segments import (
    IMAGE_WEIGHT,
    Segmentation,
    by_image,
    merge,
    segment,
    weighted,
)

MIN_EFFECT = math.log(1 / 0.98)
"""Smallest |ln ratio| worth an alert: 2 %."""

_LATEST = (1, 2, 3)
"""How many of the latest images are held against those before: a small drop takes longer."""
_FALSE_ALARMS = (0.015, 0.007, 0.007)
"""Chance of each to be called lower without a change, for normal noise."""
_LEAST_SHARE = 0.75
"""Of `min_effect`, that must be seen: a drop of just `min_effect` looks smaller every other
time."""
_SCREEN_SD = 0.015
"""Image noise that a screen expects until a baseline shows its own."""
_SETTLED = 3
"""Images after a drop in the history before they are the new baseline."""
_WINSORISED = 3.0
"""Standard deviations from the middle of the baseline beyond which an image counts no further."""


@dataclass(frozen=True, slots=True)
class Step:
    """A shift of level in a history, of either sign."""

    before: str
    """Revision of the last level before it."""
    at: str
    """Revision of the first level after it."""
    ln_ratio: float
    low: float
    high: float
    """Of its 95 % interval, ln ratio."""
    score: float
    """The shift over its standard error."""
    levels_before: int
    levels_after: int
    boots_before: int
    boots_after: int


@dataclass(frozen=True, slots=True)
class Screen:
    """How tonight compares with its baseline."""

    suspicious: bool
    ln_ratio: float
    """The latest level, or levels, over the baseline."""
    threshold: float
    """Smallest drop that is called suspicious, as a positive ln ratio."""
    score: float
    """The drop over the threshold; suspicious from 1."""
    baseline: float
    """Level of the baseline, ln pps."""
    good: str
    """Revision of the last level that belongs to the baseline."""


def noise_of(levels: Sequence[Level]) -> Noise:
    """Measures how a testbed scatters in one scenario.

    Args:
        levels: Oldest first, any number; steps among them are seen and left out.

    Returns:
        The spread between boots (prior 0.9 %), and between images of one level beyond what their
        boots explain (prior 1 %).
    """
    return segment([merge(group) for group in by_image(levels)]).noise


def steps(levels: Sequence[Level], min_effect: float = MIN_EFFECT) -> list[Step]:
    """Finds all shifts of level, of either sign and at least `min_effect`, oldest first.

    Args:
        levels: Oldest first, any number.
        min_effect: Smallest |ln ratio| worth a line.
    """
    images = by_image(levels)
    found = segment([merge(group) for group in images])
    cuts = list(found.cuts)
    while cuts:  # the smallest first: what is left of a history without it moves
        shifts = [abs(shift) for shift, _ in _shifts(found, cuts)]
        smallest = min(range(len(cuts)), key=shifts.__getitem__)
        if shifts[smallest] >= min_effect:
            break
        del cuts[smallest]
    return _describe(images, found, cuts) if cuts else []


def _shifts(found: Segmentation, cuts: Sequence[int]) -> list[tuple[float, float]]:
    """The shift at every cut, ln ratio, and its standard error."""
    edges = [0, *cuts, len(found.y)]
    means = [found.mean(a, b) for a, b in itertools.pairwise(edges)]
    return [
        (after[0] - before[0], math.sqrt(before[1] + after[1]))
        for before, after in itertools.pairwise(means)
    ]


def _describe(
    images: Sequence[Sequence[Level]], found: Segmentation, cuts: Sequence[int]
) -> list[Step]:
    edges = [0, *cuts, len(images)]
    freedom = IMAGE_WEIGHT + len(images) - len(cuts) - 1
    reach = float(special.stdtrit(freedom, 0.975))
    described = []
    for i, (shift, error) in enumerate(_shifts(found, cuts)):
        before, after = images[edges[i] : edges[i + 1]], images[edges[i + 1] : edges[i + 2]]
        described.append(
            Step(
                before=before[-1][-1].revision,
                at=after[0][0].revision,
                ln_ratio=shift,
                low=shift - reach * error,
                high=shift + reach * error,
                score=abs(shift) / error,
                levels_before=len(before),
                levels_after=len(after),
                boots_before=sum(len(level.ln_pps) for group in before for level in group),
                boots_after=sum(len(level.ln_pps) for group in after for level in group),
            )
        )
    return described


def screen(history: Sequence[Level], tonight: Level, min_effect: float = MIN_EFFECT) -> Screen:
    """Tells whether tonight is lower than its baseline, so that a retest is worth its boots.

    The baseline is what follows the last step of the history. A drop must stand for three images
    before it becomes the new baseline; until then it stays suspicious. The latest one, two and
    three images are held against the rest by a t-statistic whose yardstick is the spread from
    image to image, from a prior of 1.5 % on 4 degrees of freedom and from the history, besides
    the spread between boots.

    Args:
        history: Oldest first, at least one level.
        tonight: The level in question.
        min_effect: Smallest drop worth an alert, as a positive ln ratio.

    Raises:
        ValueError: The history is empty.
    """
    if not history:
        raise ValueError("a screen takes at least one earlier level, found none")
    images = by_image([*history, tonight])
    past = segment([merge(group) for group in images[:-1]], _SCREEN_SD)
    if len(images) == 1:
        return _unchanged(history, tonight, past.noise)
    freedom = IMAGE_WEIGHT + len(past.y) - 1 - len(past.cuts)
    images = images[_start(past) :]
    tried = [
        _hold(images, latest, float(special.stdtrit(freedom, 1 - chance)), past.noise, min_effect)
        for latest, chance in zip(_LATEST, _FALSE_ALARMS, strict=True)
        if latest < len(images)
    ]
    return max(tried, key=lambda held: held.score)


def _unchanged(history: Sequence[Level], tonight: Level, noise: Noise) -> Screen:
    """Tonight's kernel is the one of all nights before: it cannot be slower than itself."""
    baseline = location(merge(history).ln_pps, noise.boot)
    ratio = location(tonight.ln_pps, noise.boot) - baseline
    return Screen(False, ratio, math.inf, 0.0, baseline, history[-1].revision)


def _start(past: Segmentation) -> int:
    """Index of the first level of the baseline."""
    if not past.cuts:
        return 0
    last = past.cuts[-1]
    shift, _ = _shifts(past, past.cuts)[-1]
    if shift > 0 or len(past.y) - last >= _SETTLED:
        return last
    return past.cuts[-2] if len(past.cuts) > 1 else 0


def _hold(
    images: Sequence[Sequence[Level]], latest: int, quantile: float, noise: Noise, min_effect: float
) -> Screen:
    """Holds the `latest` images against those before."""
    levels = [merge(group) for group in images]
    y = np.array([location(level.ln_pps, noise.boot) for level in levels])
    variance = np.array([noise.variance_of_mean(len(level.ln_pps)) for level in levels])
    reach = _WINSORISED * np.sqrt(variance[:-latest])
    middle = float(np.median(y[:-latest]))
    before, uncertain = weighted(
        np.clip(y[:-latest], middle - reach, middle + reach), variance[:-latest]
    )
    after, spread = weighted(y[-latest:], variance[-latest:])
    threshold = max(quantile * math.sqrt(uncertain + spread), _LEAST_SHARE * min_effect)
    ratio = after - before
    # An odd image at the end of the baseline would make a poor good end.
    nearer = [i for i in range(len(images) - latest) if y[i] > (before + after) / 2]
    good = images[nearer[-1] if ratio < 0 and nearer else -latest - 1][-1]
    return Screen(-ratio >= threshold, ratio, threshold, -ratio / threshold, before, good.revision)


def suspicion(
    night: Night, series: Mapping[str, Sequence[Level]], min_effect: float = MIN_EFFECT
) -> Comparison | None:
    """Turns tonight's levels into the question of a retest, when one of them is suspicious.

    Args:
        night: What was measured.
        series: By scenario, the levels of the baseline, oldest first, tonight's last. A scenario
            without a level of tonight's revision, or without an earlier one, is passed over.
        min_effect: Smallest drop worth an alert, as a positive ln ratio.

    Returns:
        The comparison of tonight with the last good revision, led by the scenario with the
        highest score; None when nothing is suspicious.
    """
    held = [
        (found.score, scenario, found)
        for scenario in night.scenarios
        if (levels := series.get(scenario, ()))
        and len(levels) > 1
        and levels[-1].revision == night.revision
        and (found := screen(levels[:-1], levels[-1], min_effect)).suspicious
    ]
    if not held:
        return None
    _, lead, found = max(held, key=lambda one: one[0])
    return Comparison(
        branch=night.branch,
        testbed=night.testbed,
        good=found.good,
        bad=night.revision,
        scenarios=night.scenarios,
        lead=lead,
        suspected=found.ln_ratio,
        min_effect=min_effect,
    )
