"""The pictures of a series, of two revisions and of the line of a search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netbisect.bisect.model import Culprit, Level, Several
from netbisect.reports import words
from netbisect.reports.case import Case
from netbisect.reports.drawing import Picture, span
from netbisect.reports.sheet import sheet
from netbisect.reports.site.nouns import AlertLine, SeriesView, when

RECENT = 120
"""Levels of the picture with every boot."""
_TICKS = 7
_MARGINS = 0.68, 0.42, 0.62, 0.2
"""Inches: the numbers of both axes, two lines of dates, and a line for names."""
_LINE_MARGINS = 0.75, 0.55, 0.35, 0.3
SPARK = 24
"""Levels of a small picture."""
_SPARK_WIDTH, _SPARK_HEIGHT = 72, 16
_SPARK_SPAN = 0.06
"""ln ratio from bottom to top, unless more is needed: the noise of all series looks alike."""
_NAMED = 12
"""Alerts whose lines have a name; more would stand on one another."""


def recent(view: SeriesView) -> str:
    """Every boot of the latest levels, with the baseline and the alerts; SVG."""
    levels = view.levels[-RECENT:]
    boots = sum(len(level.ln_pps) for level in levels)
    rates = [[math.exp(ln) for ln in level.ln_pps] for level in levels]
    base = math.exp(view.baseline.mean) if view.baseline else None
    every = [rate for of_level in rates for rate in of_level]
    name, scale, up = span([*every, *([base] if base else [])])
    empty = sheet(2.7, _MARGINS, "% against baseline" if base else "")
    picture = Picture(empty, (-1, max(len(levels), 10)), up)
    picture.sides(name, 5, base / scale if base else None)
    if base:
        sd = math.sqrt(view.noise.image**2 + view.noise.boot**2 / len(levels[-1].ln_pps))
        picture.band(*(base * math.exp(sign * sd) / scale for sign in (-1, 1)))
        picture.level("baseline", base / scale)
    picture.dots(
        "dots", ((x, rate / scale) for x, of_level in enumerate(rates) for rate in of_level)
    )
    picture.bars((x, math.exp(level.mean) / scale) for x, level in enumerate(levels))
    _days(picture, view, levels)
    _alerts(picture, view.alerts, {level.revision: x for x, level in enumerate(levels)})
    return picture.svg(
        name="recent",
        title=f"{words.clean(view.title)} on {words.clean(view.testbed)}: every boot",
        text=(
            f"{words.count(boots, 'boot')} of {words.count(len(levels), 'kernel')}, from "
            f"{words.pps(math.exp(levels[0].mean))} on {when(levels[0].at)} to "
            f"{words.pps(math.exp(levels[-1].mean))} on {when(levels[-1].at)}."
        ),
    )


def history(view: SeriesView) -> str:
    """Every image since the beginning, a bar from its slowest to its fastest boot; SVG.

    Lines are the levels between steps; where the conditions changed, a new epoch begins.
    """
    levels = [level for epoch in view.epochs for level in epoch.levels]
    edges = [(math.exp(min(level.ln_pps)), math.exp(max(level.ln_pps))) for level in levels]
    name, scale, up = span([edge for pair in edges for edge in pair])
    picture = Picture(sheet(2.2, _MARGINS), (-1, max(len(levels), 10)), up)
    picture.sides(name, 5, None)
    ends = [(low / scale, high / scale) for low, high in edges]
    picture.spans("bars", ends, width=max(0.5, min(3.0, 400 / len(levels))))
    earlier = len(levels) - len(view.levels)
    picture.path(
        "stretches",
        (
            f"M{picture.x(earlier + start - 0.5):.1f} {picture.y(math.exp(ln) / scale):.1f}"
            f"H{picture.x(earlier + stop - 0.5):.1f}"
            for start, stop, ln in _stretches(view)
        ),
    )
    place = 0
    for number, epoch in enumerate(view.epochs[:-1], 2):
        place += len(epoch.levels)
        picture.upright("epoch", place - 0.5, f"epoch {number}")
    _days(picture, view, levels)
    places = {level.revision: earlier + x for x, level in enumerate(view.levels)}
    _alerts(picture, view.alerts, places)
    first, last = min(one.at for one in levels), max(one.at for one in levels)
    return picture.svg(
        name="history",
        title=f"{words.clean(view.title)} on {words.clean(view.testbed)}: since the beginning",
        text=(
            f"{words.count(len(levels), 'kernel')} from {when(first)} to {when(last)} in "
            f"{words.count(len(view.epochs), 'epoch')}, with "
            f"{words.count(len(view.steps), 'step')}."
        ),
    )


def _stretches(view: SeriesView) -> Iterator[tuple[int, int, float]]:
    """First and last place of the levels between two steps, and where they lie, ln pps."""
    places = {level.revision: x for x, level in enumerate(view.levels)}
    cuts = [places[step.at] for step in view.steps]
    for start, stop in itertools.pairwise([0, *cuts, len(view.levels)]):
        means = sorted(one.mean for one in view.standings[start:stop])
        if means:
            yield start, stop, means[len(means) // 2]


def _alerts(picture: Picture, alerts: Sequence[AlertLine], places: dict[str, int]) -> None:
    """A line where each came; names only where there is room."""
    found = [(places[one.bad], one) for one in alerts if one.bad in places]
    for x, alert in found:
        name = f"alert {alert.number}" if len(found) <= _NAMED else ""
        picture.upright("wanting" if alert.wanting else "settled", x - 0.5, name, "bad name")


def _days(picture: Picture, view: SeriesView, levels: Sequence[Level]) -> None:
    """Days and revisions below the axis, the last one always."""
    step = max(math.ceil(len(levels) / _TICKS), 1)
    shown = [(x, levels[x]) for x in range(len(levels) - 1, -1, -step)]
    picture.below(
        [
            (x, [when(one.at), view.label(one.revision).split("-", maxsplit=1)[0][:12]])
            for x, one in shown
        ]
    )


def spark(means: Sequence[float]) -> str:
    """The path of a picture of 72 by 16 units, the latest levels from left to right.

    Written by hand: it has no axes, and what a plotting library puts round so short a line
    would make a page with hundreds of them ten times as large.

    Args:
        means: ln pps of levels, oldest first, at least one.
    """
    shown = list(means[-SPARK:])
    low, high = min(shown), max(shown)
    span, middle = max(high - low, _SPARK_SPAN), (low + high) / 2
    wide = _SPARK_WIDTH / max(SPARK - 1, 1)
    start = _SPARK_WIDTH - wide * (len(shown) - 1)
    points = [
        f"{start + wide * i:.0f} {_SPARK_HEIGHT * (0.5 - 0.9 * (mean - middle) / span):.0f}"
        for i, mean in enumerate(shown)
    ]
    return f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h0"


# ------------------------------------------------------------------------ the line of a search


@dataclass(frozen=True, slots=True)
class _Asked:
    x: float
    rate: float


def commit_line(case: Case) -> str:
    """Every boot of every kernel on the line of commits, and those that gave no answer; SVG."""
    boots = [
        _Asked(x, rate)
        for revision, x in _places(case).items()
        for rate in case.boots(case.lead, revision)
    ]
    title = f"{words.clean(case.title(case.lead))}: kernels tested on the line of commits"
    text = (
        f"{words.count(len(boots), 'boot')} of "
        f"{words.count(len({one.x for one in boots}), 'kernel')} among "
        f"{words.count(len(case.commits), 'commit')}; "
        f"{words.count(len(case.skipped), 'revision')} could not be measured."
    )
    picture = _line(case, boots)
    return picture.svg(name="line", title=title, text=text)


def _line(case: Case, boots: Sequence[_Asked]) -> Picture:
    places = _places(case)
    name, scale, up = span([one.rate for one in boots] or [1.0])
    last = max(places.values())
    picture = Picture(sheet(2.4, _LINE_MARGINS), (-0.8, last + 0.8), up)
    picture.sides(name, 5, None)
    picture.dots("large dots", [(one.x, one.rate / scale) for one in boots])
    skipped = [places[revision] for revision in case.skipped if revision in places]
    picture.crosses([(x, up[0] + 0.04 * (up[1] - up[0])) for x in skipped])
    for revision in _culprits(case):
        if revision in places:
            told = f"culprit {_short(case, revision)}"
            picture.upright("culprit", places[revision] - 0.5, told, "culprit name")
    ends = {0: ("good", case.good.revision), last: ("bad", case.bad.revision)}
    picture.below(
        [(x, (role, _short(case, revision))) for x, (role, revision) in ends.items()],
        "commits, oldest left",
    )
    return picture


def _places(case: Case) -> dict[str, int]:
    """By revision: its place on the line, the good end at 0."""
    return {one.revision: x for x, one in enumerate((case.good, *case.commits))}


def _culprits(case: Case) -> list[str]:
    match case.finding:
        case Culprit(revision=revision):
            return [revision]
        case Several(culprits=culprits):
            return [one.revision for one in culprits]
        case _:
            return []


def _short(case: Case, revision: str) -> str:
    return words.clean(case.label(revision)).split("-", maxsplit=1)[0][:12]
