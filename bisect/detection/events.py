"""Events: shifts of several series with a common range of revisions.

The range of a shift starts after the last image without it and ends at the first image with it.
Shifts of one branch with overlapping ranges form one event; its range is their intersection.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from netbisect.bisect.detection import trend
from netbisect.bisect.detection.histories import analyze_jointly
from netbisect.bisect.detection.nightly_screen import image_levels
from netbisect.bisect.model.detection_results import MIN_EFFECT, DriftEstimate, LevelStep
from netbisect.bisect.model.entities import Level, Noise, SeriesName
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.stats.changepoints import boot_matrix, weighted_mean

_BACK = 0.25
"""Tolerance for a return to the earlier level, as a share of the shift."""

_REACH = 98 * 86400.0
"""Seconds searched for a drift: a quarter and the latest week."""


class EventKind(StrEnum):
    """Kind of change of the level."""

    DROP = "drop"
    IMPROVEMENT = "improvement"
    MIXED = "mixed"
    """A drop in some series and an improvement in others, in the same range."""
    DIP = "dip"
    """A single slower image."""
    PEAK = "peak"
    """A single faster image."""
    RISE = "rise"
    """An increase of a number that should be low."""
    DRIFT = "drift"
    """A gradual drop without a culprit."""


@dataclass(frozen=True, slots=True)
class SeriesShift:
    """A shift of the level of one series."""

    testbed: str
    scenario: str
    before: str
    """Revision of the last level before it; of a drift, the last of the best stretch."""
    at: str
    """Revision of the first level after it; of a drift, the latest."""
    ln_ratio: float
    low: float
    high: float
    """Ends of the 95 % interval, ln ratio."""
    score: float
    """The shift over its standard error."""
    noise: Noise
    images_before: int | None = None
    """Images of the level before it; None for a drift, as below."""
    images_after: int | None = None
    boots_before: int | None = None
    boots_after: int | None = None
    back: str = ""
    """Revision of the return to the earlier level, if after a single image."""
    ends: str = ""
    """Single image before a return to the earlier level."""


@dataclass(frozen=True, slots=True)
class ShiftEvent:
    """Shifts of series of one branch with a possible common cause."""

    branch: str
    kind: EventKind
    before: str
    at: str
    """The common range of the shifts is after `before`, up to `at`."""
    shifts: tuple[SeriesShift, ...]
    """At least one, largest first."""
    back: str = ""
    """First revision back at the earlier level, after a dip or a peak."""
    also_on: tuple[str, ...] = ()
    """Other branches with the same images."""


_INVERTED = {
    EventKind.DROP: EventKind.RISE,
    EventKind.DIP: EventKind.PEAK,
    EventKind.PEAK: EventKind.DIP,
}


def in_units(event: ShiftEvent) -> ShiftEvent:
    """An event of levels as a change of the numbers that were measured."""
    inverted = [metric_of(one.scenario).lower for one in event.shifts]
    shifts = tuple(
        replace(one, ln_ratio=-one.ln_ratio, low=-one.high, high=-one.low) if lower else one
        for one, lower in zip(event.shifts, inverted, strict=True)
    )
    kind = _INVERTED.get(event.kind, event.kind) if inverted[0] else event.kind
    return replace(event, kind=kind, shifts=shifts)


def find_shifts(
    series: Mapping[SeriesName, Sequence[Level]], min_effect: float = MIN_EFFECT
) -> dict[SeriesName, list[SeriesShift]]:
    """Shifts of the series of one branch, segmented jointly.

    Shifts between saturated levels are ignored.

    Args:
        series: Levels in the order of the branch.
        min_effect: Smallest |ln ratio| reported.

    Returns:
        Oldest first; a drift of the latest levels comes last and replaces its steps.
    """
    found: dict[SeriesName, list[SeriesShift]] = {}
    measured = {key: levels for key, levels in series.items() if levels}
    for key, read in analyze_jointly(measured, min_effect).items():
        levels, steps, noise = series[key], read.steps, read.noise
        limited = {level.revision for level in levels if level.saturated}
        slide = None if levels[-1].saturated else trend.drift(levels, noise)
        stairs = _within(steps, levels) if slide else []
        if stairs and not _slides(levels, stairs, noise):
            slide, stairs = None, []
        shifts = [
            _shift(key, steps, i, noise)
            for i, step in enumerate(steps)
            if step not in stairs and not {step.before, step.at} <= limited
        ]
        found[key] = [*shifts, _drift(key, slide, noise)] if slide else shifts
    return found


def _shift(key: SeriesName, steps: Sequence[LevelStep], i: int, noise: Noise) -> SeriesShift:
    step = steps[i]
    later = i + 1 < len(steps) and _comes_back(step, steps[i + 1])
    earlier = i > 0 and _comes_back(steps[i - 1], step)
    return SeriesShift(
        testbed=key.testbed,
        scenario=key.scenario,
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


def _comes_back(step: LevelStep, following: LevelStep) -> bool:
    left = abs(step.ln_ratio + following.ln_ratio)
    return step.levels_after == 1 and left <= _BACK * abs(step.ln_ratio)


def _drift(key: SeriesName, slide: DriftEstimate, noise: Noise) -> SeriesShift:
    return SeriesShift(
        testbed=key.testbed,
        scenario=key.scenario,
        before=slide.best,
        at=slide.latest,
        ln_ratio=slide.ln_ratio,
        low=slide.low,
        high=slide.high,
        score=slide.score,
        noise=noise,
    )


def _within(steps: Sequence[LevelStep], levels: Sequence[Level]) -> list[LevelStep]:
    """The steps within the period searched for a drift."""
    kept = trend.chronological(levels)
    recent = {level.revision for level in kept if level.at >= kept[-1].at - _REACH}
    return [step for step in steps if {step.before, step.at} <= recent]


def _slides(levels: Sequence[Level], stairs: Sequence[LevelStep], noise: Noise) -> bool:
    """Whether a line fits the latest levels better than these steps.

    Schwarz' criterion (Annals of Statistics 6, 1978): a line has two parameters, k steps have k
    positions and k + 1 levels.
    """
    kept = trend.chronological(levels)
    recent = [level for level in kept if level.at >= kept[-1].at - _REACH]
    y, variance = image_levels(boot_matrix(recent), noise)
    at = np.array([level.at for level in recent]) - recent[-1].at
    weight = 1 / np.sqrt(variance)
    line = np.polyval(np.polyfit(at, y, 1, w=weight), at)
    revisions = [level.revision for level in recent]
    edges = [0, *sorted(revisions.index(step.at) for step in stairs), len(recent)]
    steps = np.concatenate(
        [
            np.full(stop - start, weighted_mean(y[start:stop], variance[start:stop])[0])
            for start, stop in itertools.pairwise(edges)
        ]
    )
    lines, falls = (float((((y - fit) * weight) ** 2).sum()) for fit in (line, steps))
    return lines + 2 * math.log(len(y)) < falls + (2 * len(stairs) + 1) * math.log(len(y))


# ------------------------------------------------------------------------------------- grouping


def group_shifts(
    branch: str, found: Iterable[SeriesShift], order: Mapping[str, int]
) -> list[ShiftEvent]:
    """Groups shifts into events, oldest first.

    Shifts of equal sign are grouped if their ranges overlap; a shift that overlaps several groups
    joins the one with the highest score. Shifts of opposite sign need equal ranges. A dip or peak
    and its return in the same series form one event.

    Args:
        branch: Branch of all shifts.
        found: In any order; as from `find_shifts`.
        order: Position of every revision on the branch.
    """
    every = list(found)
    slides = [shift for shift in every if shift.images_before is None]
    steps = [shift for shift in every if shift.images_before is not None]

    def place(event: ShiftEvent) -> tuple[int, int]:
        return order[event.at], order[event.before]

    stairs = sorted((_event(branch, one, order) for one in _grouped(steps, order)), key=place)
    drifts = [_event(branch, group, order) for group in _grouped(slides, order)]
    return sorted([*_with_dips(stairs), *drifts], key=place)


def _grouped(found: Iterable[SeriesShift], order: Mapping[str, int]) -> list[list[SeriesShift]]:
    def width(shift: SeriesShift) -> int:
        return order[shift.at] - order[shift.before]

    groups: list[list[SeriesShift]] = []
    ranges: list[tuple[int, int]] = []
    for shift in sorted(found, key=lambda one: (width(one), -one.score)):
        first, last = order[shift.before], order[shift.at]
        near = [
            i
            for i, (begin, end) in enumerate(ranges)
            if begin < last
            and first < end
            and _joins(shift, groups[i], (begin, end), (first, last))
        ]
        if near:
            i = max(near, key=lambda i: max(one.score for one in groups[i]))
            groups[i].append(shift)
            ranges[i] = max(ranges[i][0], first), min(ranges[i][1], last)
        else:
            groups.append([shift])
            ranges.append((first, last))
    return groups


def _joins(
    shift: SeriesShift, group: Sequence[SeriesShift], common: tuple[int, int], own: tuple[int, int]
) -> bool:
    """Whether a shift belongs to a group with an overlapping range."""
    if any((one.testbed, one.scenario) == (shift.testbed, shift.scenario) for one in group):
        return False
    return common == own or any(one.ln_ratio * shift.ln_ratio > 0 for one in group)


def _with_dips(found: Sequence[ShiftEvent]) -> list[ShiftEvent]:
    """Joins dips and peaks with their returns, oldest first; a return does not begin another."""
    kept = []
    ends: list[ShiftEvent] = []
    returns: dict[frozenset[tuple[str, str, str, str]], ShiftEvent] = {}
    for event in found:
        returns.setdefault(_ranges(event), event)
    for event in found:
        if event in ends:
            continue
        # Exactly its series return.
        back = [(one.testbed, one.scenario, one.at, one.back) for one in event.shifts]
        end = None if event.kind is EventKind.MIXED else returns.get(frozenset(back))
        if end is None:
            kept.append(event)
        else:
            kind = EventKind.DIP if event.kind is EventKind.DROP else EventKind.PEAK
            kept.append(replace(event, kind=kind, back=end.at))
            ends.append(end)
    return kept


def _event(branch: str, group: Sequence[SeriesShift], order: Mapping[str, int]) -> ShiftEvent:
    members = tuple(sorted(group, key=lambda one: -abs(one.ln_ratio)))
    signs = {one.ln_ratio > 0 for one in members}
    if members[0].images_before is None:
        kind = EventKind.DRIFT
    elif len(signs) > 1:
        kind = EventKind.MIXED
    else:
        kind = EventKind.IMPROVEMENT if members[0].ln_ratio > 0 else EventKind.DROP
    return ShiftEvent(
        branch=branch,
        kind=kind,
        before=max((one.before for one in members), key=order.__getitem__),
        at=min((one.at for one in members), key=order.__getitem__),
        shifts=members,
    )


def deduplicate(found: Sequence[ShiftEvent]) -> list[ShiftEvent]:
    """Merges events of branches with the same images, such as forks.

    Args:
        found: Events of all branches; the event with more series is kept.
    """
    kept: dict[int, ShiftEvent] = {}
    for i in sorted(range(len(found)), key=lambda i: -len(found[i].shifts)):
        event = found[i]
        for j, other in kept.items():
            if other.branch != event.branch and _ranges(event) <= _ranges(other):
                kept[j] = replace(other, also_on=(*other.also_on, event.branch))
                break
        else:
            kept[i] = event
    return [kept[i] for i in sorted(kept)]


def _ranges(event: ShiftEvent) -> frozenset[tuple[str, str, str, str]]:
    return frozenset((one.testbed, one.scenario, one.before, one.at) for one in event.shifts)
