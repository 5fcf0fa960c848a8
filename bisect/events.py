"""Shifts of many series as events: what has one reason is told once.

A shift lies in a range of revisions, after the last image that does not show it and up to the
first that does. Shifts of one branch whose ranges have a revision in common are one event, in
the revisions that all of them have in common.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from netbisect.bisect import trend
from netbisect.bisect.detect import Step, steps_of_many
from netbisect.bisect.model import Level, Noise
from netbisect.bisect.screen import MIN_EFFECT, levels_of
from netbisect.bisect.segments import boots_of, weighted
from netbisect.bisect.trend import Slide

_BACK = 0.25
"""Of a shift, by which the level after it may differ from the one before and still be back."""

_REACH = 98 * 86400.0
"""Seconds over which a slide is looked for: a quarter and the latest week."""


class EventKind(StrEnum):
    """What happened to the level."""

    DROP = "drop"
    IMPROVEMENT = "improvement"
    MIXED = "mixed"
    """A drop in some series and an improvement in others, in one and the same range."""
    DIP = "dip"
    """One image is slower; with the next one the level is back."""
    PEAK = "peak"
    """The same, faster."""
    DRIFT = "drift"
    """Slower bit by bit; no revision made it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A series of a branch: testbed and scenario."""

    testbed: str
    scenario: str


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of the level of one series."""

    testbed: str
    scenario: str
    before: str
    """Revision of the last level surely before it; of a drift, the last of the best stretch."""
    at: str
    """Revision of the first level surely after it; of a drift, the latest."""
    ln_ratio: float
    low: float
    high: float
    """Of its 95 % interval, ln ratio."""
    score: float
    """The shift over its standard error."""
    images_before: int | None
    """Of the level before it, and so below; None for a drift."""
    images_after: int | None
    boots_before: int | None
    boots_after: int | None
    noise: Noise
    back: str = ""
    """Revision of the next level, if one image lies between and that is the level from before."""
    ends: str = ""
    """Of a shift with which a level is back: the one image before it, which was off."""


@dataclass(frozen=True, slots=True)
class Event:
    """Shifts of series of one branch that may have one reason."""

    branch: str
    kind: EventKind
    before: str
    at: str
    """It came after `before`, with `at` at the latest: of the shifts, the common revisions."""
    shifts: tuple[Shift, ...]
    """At least one; the largest first."""
    back: str = ""
    """Of a dip or a peak: the first revision with the level from before."""
    also_on: tuple[str, ...] = ()
    """Branches that have the same images and so the same event."""


def shifts(
    series: Mapping[Place, Sequence[Level]], min_effect: float = MIN_EFFECT
) -> dict[Place, list[Shift]]:
    """Finds the shifts in the series of one branch, each with an eye on the others.

    Between levels that the generator limited nothing is seen, so no shift is told there.

    Args:
        series: Levels in the order of the branch.
        min_effect: Smallest |ln ratio| worth a line.

    Returns:
        Oldest first. A slide of the latest levels comes last, if their times are such that it
        can be seen; steps that are better described by it are left out.
    """
    found: dict[Place, list[Shift]] = {}
    measured = {place: levels for place, levels in series.items() if levels}
    for place, read in steps_of_many(measured, min_effect).items():
        levels, steps, noise = series[place], read.steps, read.noise
        limited = {level.revision for level in levels if level.saturated}
        slide = None if levels[-1].saturated else trend.drift(in_time(levels), noise)
        stairs = _within(steps, levels) if slide else []
        if stairs and not _slides(levels, stairs, noise):
            slide, stairs = None, []
        told = [
            _shift(place, steps, i, noise)
            for i, step in enumerate(steps)
            if step not in stairs and not {step.before, step.at} <= limited
        ]
        found[place] = [*told, _drift(place, slide, noise)] if slide else told
    return found


def _shift(place: Place, steps: Sequence[Step], i: int, noise: Noise) -> Shift:
    step = steps[i]
    later = i + 1 < len(steps) and _comes_back(step, steps[i + 1])
    earlier = i > 0 and _comes_back(steps[i - 1], step)
    return Shift(
        testbed=place.testbed,
        scenario=place.scenario,
        before=step.before if later or earlier else step.earliest,
        at=step.at if later or earlier else step.latest,
        ln_ratio=step.ln_ratio,
        low=step.low,
        high=step.high,
        score=step.score,
        images_before=step.levels_before,
        images_after=step.levels_after,
        boots_before=step.boots_before,
        boots_after=step.boots_after,
        noise=noise,
        back=steps[i + 1].at if later else "",
        ends=steps[i - 1].at if earlier else "",
    )


def _comes_back(step: Step, following: Step) -> bool:
    left = abs(step.ln_ratio + following.ln_ratio)
    return step.levels_after == 1 and left <= _BACK * abs(step.ln_ratio)


def _drift(place: Place, slide: Slide, noise: Noise) -> Shift:
    return Shift(
        testbed=place.testbed,
        scenario=place.scenario,
        before=slide.best,
        at=slide.latest,
        ln_ratio=slide.ln_ratio,
        low=slide.low,
        high=slide.high,
        score=slide.score,
        images_before=None,
        images_after=None,
        boots_before=None,
        boots_after=None,
        noise=noise,
    )


def _within(steps: Sequence[Step], levels: Sequence[Level]) -> list[Step]:
    """The steps of the time over which a slide is looked for."""
    kept = in_time(levels)
    recent = {level.revision for level in kept if level.at >= kept[-1].at - _REACH}
    return [step for step in steps if {step.before, step.at} <= recent]


def _slides(levels: Sequence[Level], stairs: Sequence[Step], noise: Noise) -> bool:
    """A straight line describes the latest levels better than these steps do.

    By Schwarz' criterion (Annals of Statistics 6, 1978): a line has two parameters, k steps have
    k places and k + 1 levels.
    """
    kept = in_time(levels)
    recent = [level for level in kept if level.at >= kept[-1].at - _REACH]
    y, variance = levels_of(boots_of(recent), noise)
    at = np.array([level.at for level in recent]) - recent[-1].at
    weight = 1 / np.sqrt(variance)
    line = np.polyval(np.polyfit(at, y, 1, w=weight), at)
    revisions = [level.revision for level in recent]
    edges = [0, *sorted(revisions.index(step.at) for step in stairs), len(recent)]
    steps = np.concatenate(
        [
            np.full(stop - start, weighted(y[start:stop], variance[start:stop])[0])
            for start, stop in itertools.pairwise(edges)
        ]
    )
    lines, falls = (float((((y - fit) * weight) ** 2).sum()) for fit in (line, steps))
    return lines + 2 * math.log(len(y)) < falls + (2 * len(stairs) + 1) * math.log(len(y))


def in_time(levels: Sequence[Level]) -> list[Level]:
    """The longest run of levels, not always neighbours, whose times never go backwards.

    So an old revision that was measured late does not count as recent, nor does a single boot
    with a wrong clock turn a history round.
    """
    ends: list[float] = []  # of the runs of each length, the least time at which one ends
    last: list[int] = []  # the level that ends it
    previous = []
    for i, level in enumerate(levels):
        length = bisect.bisect_right(ends, level.at)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [level.at]
        last[length : length + 1] = [i]
    kept = []
    i = last[-1] if last else -1
    while i >= 0:
        kept.append(levels[i])
        i = previous[i]
    return kept[::-1]


# ------------------------------------------------------------------------------------- grouping


def events(branch: str, found: Iterable[Shift], order: Mapping[str, int]) -> list[Event]:
    """Puts together what may have one reason, oldest first.

    Shifts of one sign meet when their ranges have a revision in common; of a shift whose range
    is so wide that it would meet several, the one with the clearest score. Shifts of unlike
    signs meet only in one and the same range. What dips for one image in a set of series, and
    comes back in the same ones, is one event and not two.

    Args:
        branch: Of all of them.
        found: In any order; of one series they do not overlap, as `shifts` finds them.
        order: Place on the branch of every revision that they name.
    """
    every = list(found)
    slides = [shift for shift in every if shift.images_before is None]
    steps = [shift for shift in every if shift.images_before is not None]
    told = [
        *_with_dips([_event(branch, group, order) for group in _grouped(steps, order)]),
        *(_event(branch, group, order) for group in _grouped(slides, order)),
    ]
    return sorted(told, key=lambda event: (order[event.at], order[event.before]))


def _grouped(found: Iterable[Shift], order: Mapping[str, int]) -> list[list[Shift]]:
    def width(shift: Shift) -> int:
        return order[shift.at] - order[shift.before]

    groups: list[list[Shift]] = []
    for shift in sorted(found, key=lambda one: (width(one), -one.score)):
        near = [group for group in groups if _meets(group, shift, order)]
        if near:
            max(near, key=lambda group: max(one.score for one in group)).append(shift)
        else:
            groups.append([shift])
    return groups


def _range(group: Sequence[Shift], order: Mapping[str, int]) -> tuple[int, int]:
    return max(order[one.before] for one in group), min(order[one.at] for one in group)


def _meets(group: Sequence[Shift], shift: Shift, order: Mapping[str, int]) -> bool:
    if any((one.testbed, one.scenario) == (shift.testbed, shift.scenario) for one in group):
        return False
    first, last = _range(group, order)
    if any(one.ln_ratio * shift.ln_ratio > 0 for one in group):
        return max(first, order[shift.before]) < min(last, order[shift.at])
    return (first, last) == (order[shift.before], order[shift.at])


def _with_dips(found: Sequence[Event]) -> list[Event]:
    told = []
    ends = []
    for event in found:
        end = next((other for other in found if _undoes(other, event)), None)
        if end is None:
            told.append(event)
        else:
            kind = EventKind.DIP if event.kind is EventKind.DROP else EventKind.PEAK
            told.append(replace(event, kind=kind, back=end.at))
            ends.append(end)
    return [event for event in told if event not in ends]


def _undoes(later: Event, event: Event) -> bool:
    """All that shifted with `event` was back with `later`, and nothing else happened there."""
    dipped = {(one.testbed, one.scenario, one.at, one.back) for one in event.shifts if one.back}
    came_back = {(one.testbed, one.scenario, one.before, one.at) for one in later.shifts}
    return (
        len(dipped) == len(event.shifts)
        and dipped == came_back
        and event.kind is not EventKind.MIXED
    )


def _latest(revisions: Iterable[str], order: Mapping[str, int]) -> str:
    return max(revisions, key=order.__getitem__)


def _event(branch: str, group: Sequence[Shift], order: Mapping[str, int]) -> Event:
    members = tuple(sorted(group, key=lambda one: -abs(one.ln_ratio)))
    signs = {one.ln_ratio > 0 for one in members}
    if members[0].images_before is None:
        kind = EventKind.DRIFT
    elif len(signs) > 1:
        kind = EventKind.MIXED
    else:
        kind = EventKind.IMPROVEMENT if members[0].ln_ratio > 0 else EventKind.DROP
    return Event(
        branch=branch,
        kind=kind,
        before=_latest([one.before for one in members], order),
        at=min([one.at for one in members], key=order.__getitem__),
        shifts=members,
    )


def each_once(found: Sequence[Event]) -> list[Event]:
    """Leaves out what other branches show in the same images: of a fork, or under a new name.

    Args:
        found: Of all branches; of twins, the one in more series is kept, or the first.
    """
    kept: dict[int, Event] = {}
    for i in sorted(range(len(found)), key=lambda i: -len(found[i].shifts)):
        event = found[i]
        for j, other in kept.items():
            if other.branch != event.branch and _ranges(event) <= _ranges(other):
                kept[j] = replace(other, also_on=(*other.also_on, event.branch))
                break
        else:
            kept[i] = event
    return [kept[i] for i in sorted(kept)]


def _ranges(event: Event) -> set[tuple[str, str, str, str]]:
    return {(one.testbed, one.scenario, one.before, one.at) for one in event.shifts}
