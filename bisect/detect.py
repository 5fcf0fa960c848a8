"""Histories of levels: where are the steps, how large is the noise?

What is found here is printed as a list and begins baselines; no mail is sent on its word.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import special

from netbisect.bisect.model import Level, Noise
from netbisect.bisect.screen import MIN_EFFECT
from netbisect.bisect.segments import (
    IMAGE_WEIGHT,
    STEP_CHANCE,
    Floats,
    Segmentation,
    by_image,
    merge,
    segment,
)

Key = TypeVar("Key", bound=Hashable)

_STRONG = 7.0
"""Standard errors of a step from which it is looked for in other series too."""
_AS_LIKELY = 2.0
"""ln likelihood by which another place of a step may be less likely than the best: 95 %."""
_SHARED_CHANCE = 0.3
"""That a revision changes a series, if it changed another one for certain."""


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
    earliest: str
    """Revision of the level after which it came: `before`, or one that is about as likely."""
    latest: str
    """Revision of the level with which it was there for certain: `at`, or a later one."""


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
    return read(levels, min_effect).steps


@dataclass(frozen=True, slots=True)
class Read:
    """What a history shows."""

    steps: list[Step]
    """Oldest first."""
    noise: Noise


def read(levels: Sequence[Level], min_effect: float = MIN_EFFECT) -> Read:
    """As `steps` and `noise_of`, with one look at the history."""
    images = by_image(levels)
    found = segment([merge(group) for group in images])
    return Read(_steps(images, found, min_effect), found.noise)


def steps_of_many(
    series: Mapping[Key, Sequence[Level]], min_effect: float = MIN_EFFECT
) -> dict[Key, Read]:
    """Finds the steps of series of one branch, each with an eye on the others.

    A revision that changed one series beyond doubt (by 7 standard errors) is likelier than
    others to have changed the next: what is a step there need not be as clear here.

    Args:
        series: By any key, levels oldest first.
        min_effect: As for `steps`.
    """
    images = {key: by_image(levels) for key, levels in series.items()}
    alone = {key: segment([merge(one) for one in groups]) for key, groups in images.items()}
    strong = {
        key: {
            images[key][cut][0].revision
            for cut, (shift, error) in zip(cut_at.cuts, _shifts(cut_at, cut_at.cuts), strict=True)
            if abs(shift) >= _STRONG * error
        }
        for key, cut_at in alone.items()
    }
    found = {}
    for key, groups in images.items():
        elsewhere = set().union(*(at for other, at in strong.items() if other != key))
        chances = _chances(groups, elsewhere)
        cut_at = alone[key]
        if (chances > STEP_CHANCE).any():
            cut_at = segment([merge(one) for one in groups], chances=chances)
        found[key] = Read(_steps(groups, cut_at, min_effect), cut_at.noise)
    return found


def _chances(images: Sequence[Sequence[Level]], changed: set[str]) -> Floats:
    """That a new level begins with each image, where these revisions changed other series."""
    return np.array(
        [_SHARED_CHANCE if group[0].revision in changed else STEP_CHANCE for group in images]
    )


def _steps(images: Sequence[Sequence[Level]], found: Segmentation, min_effect: float) -> list[Step]:
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
    if not cuts:
        return []
    edges = [0, *cuts, len(found.y)]
    means = [found.mean(a, b) for a, b in itertools.pairwise(edges)]
    return [
        (after[0] - before[0], math.sqrt(before[1] + after[1]))
        for before, after in itertools.pairwise(means)
    ]


def _trios(edges: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Each cut between its neighbours."""
    return zip(edges, edges[1:], edges[2:], strict=False)


def _reach(found: Segmentation, start: int, cut: int, stop: int) -> tuple[int, int]:
    """First and last place about as likely as the cut, by a ln likelihood less by 2 at most.

    Between two clear levels that is the cut alone; a faint step may lie an image or two away.
    """
    weight = 1 / found.variance[start:stop]
    total, product = np.cumsum(weight), np.cumsum(weight * found.y[start:stop])
    left, right = total[:-1], total[-1] - total[:-1]
    apart = product[:-1] / left - (product[-1] - product[:-1]) / right
    gain = apart**2 / (1 / left + 1 / right) / 2
    # A place further off is in only when all those before it are.
    unlikely = np.flatnonzero(gain < gain[cut - start - 1] - _AS_LIKELY) + start + 1
    first = unlikely[unlikely < cut].max(initial=start) + 1
    last = unlikely[unlikely > cut].min(initial=stop) - 1
    return int(first), int(last)


def _describe(
    images: Sequence[Sequence[Level]], found: Segmentation, cuts: Sequence[int]
) -> list[Step]:
    edges = [0, *cuts, len(images)]
    freedom = IMAGE_WEIGHT + len(images) - len(cuts) - 1
    reach = float(special.stdtrit(freedom, 0.975))
    described = []
    places = [_reach(found, *trio) for trio in _trios(edges)]
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
                earliest=images[places[i][0] - 1][-1].revision,
                latest=images[places[i][1]][0].revision,
            )
        )
    return described
