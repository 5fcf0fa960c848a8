"""The pictures of a report: how fast nights were, how boots scatter, how a search went."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import geometric_mean

from netbisect.bisect.model import Belief, Culprit, Level
from netbisect.reports import gist, words
from netbisect.reports.case import Attempt, Case
from netbisect.reports.drawing import Picture, notice, span
from netbisect.reports.palette import BOX_MIN
from netbisect.reports.sheet import sheet

_TICKS = 7
_TREND_MARGINS = 0.75, 0.45, 0.75, 0.4
_BOX_MARGINS = 0.75, 0.6, 0.75, 0.1
_PATH_MARGINS = 1.4, 0.45, 0.95, 0.25
"""Inches: the numbers of both axes, the lines below, and those above."""
_PERCENT = "% against good"
_LETTER = 5.1
"""Width of one beside the axes, points."""
_NUMBER = 6
"""Letters of a number there."""
_NIGHTS_MAX = 120
"""More than that, and the nights around the drop cannot be told apart."""
_COLUMNS = 64
"""Of the picture of a search; longer ranges share them."""
_STEPS_MAX = 40
_SHADES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
"""From which chance on a cell is drawn, and with which strength the next."""


# -------------------------------------------------------------------------------------- trend


def trend(case: Case, scenario: str) -> str:
    """Every boot of every night a dot, every revision's mean a bar; SVG.

    Marks show the good end, the bad end and, once it is verified, the culprit.
    """
    known = case.series.get(scenario, ())
    levels = known[-_NIGHTS_MAX:]
    name = f"trend-{_slug(scenario)}"
    title = f"{words.clean(case.title(scenario))}: every night on {words.clean(case.testbed)}"
    if not levels:
        return notice("No earlier nights of this scenario are known.", name=name, title=title)
    first, last = levels[0], levels[-1]
    boots = sum(len(level.ln_pps) for level in levels)
    text = (
        f"{words.count(boots, 'boot')} of the latest {words.count(len(levels), 'revision')}, from "
        f"{words.day(first.at)} to {words.day(last.at)}; from {words.pps(math.exp(first.mean))} "
        f"at first to {words.pps(math.exp(last.mean))} at last."
    )
    return _trend(case, levels).svg(name=name, title=title, text=text)


def _trend(case: Case, levels: Sequence[Level]) -> Picture:
    boots = [(x, math.exp(ln)) for x, level in enumerate(levels) for ln in level.ln_pps]
    unit, scale, up = span([rate for _, rate in boots])
    means = [math.exp(level.mean) / scale for level in levels]
    marks = _marks(case, levels)
    reference = next((means[round(mark.x)] for mark in marks if mark.name == "good"), means[0])
    picture = Picture(sheet(3.3, _TREND_MARGINS, _PERCENT), (-1, len(levels)), up)
    picture.sides(unit, 6, reference)
    picture.dots("dots", [(x, rate / scale) for x, rate in boots])
    picture.bars(enumerate(means))
    for mark in marks:
        picture.upright(mark.pen, mark.x, mark.name, mark.ink, mark.row)
    step = max(math.ceil(len(levels) / _TICKS), 1)
    shown = [(x, levels[x]) for x in range(len(levels) - 1, -1, -step)]
    picture.below([(x, (_short(case, one.revision), words.day(one.at))) for x, one in shown])
    return picture


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    x: float
    pen: str
    ink: str
    """That of the good end stands to the left, so that neighbours do not meet."""
    row: int = 0


def _marks(case: Case, levels: Sequence[Level]) -> list[_Mark]:
    places = {level.revision: x for x, level in enumerate(levels)}
    good, bad = places.get(case.good.revision), places.get(case.bad.revision)
    marks = []
    if good is not None:
        marks.append(_Mark("good", good, "baseline", "good name, left"))
    if bad is not None:
        marks.append(_Mark("bad", bad, "wanting", "bad name, right"))
    if isinstance(case.finding, Culprit):
        x: float | None = places.get(case.finding.revision)
        order = [commit.revision for commit in case.commits]
        if x is None and good is not None and bad is not None and case.finding.revision in order:
            share = (order.index(case.finding.revision) + 1) / len(order)
            x = good + share * (bad - good)
        if x is not None:
            marks.append(_Mark("culprit", x, "culprit", "culprit name", row=1))
    return marks


# ----------------------------------------------------------------------------------- box plot


def boxplot(case: Case, scenario: str) -> str:
    """The boots of the good end, the parent, the culprit and the bad end, side by side; SVG."""
    name = f"boxes-{_slug(scenario)}"
    title = f"{words.clean(case.title(scenario))}: boots of the kernels compared"
    groups = [
        (role, revision, boots)
        for revision, role in _roles(case).items()
        if (boots := list(case.boots(scenario, revision)))
    ]
    if not groups:
        return notice("No boot has been measured for this case yet.", name=name, title=title)
    text = "; ".join(
        f"{role} {words.clean(case.label(revision))}: {words.count(len(boots), 'boot')} from "
        f"{words.pps(min(boots))} to {words.pps(max(boots))}"
        for role, revision, boots in groups
    )
    return _boxes(case, groups).svg(name=name, title=title, text=f"{text}.")


def _roles(case: Case) -> dict[str, str]:
    """By revision, in the order of the branch: what it is to this case."""
    roles = {case.good.revision: ["good"]}
    if isinstance(case.finding, Culprit):
        roles.setdefault(case.finding.parent, []).append("parent")
        roles.setdefault(case.finding.revision, []).append("culprit")
    roles.setdefault(case.bad.revision, []).append("bad")
    return {revision: ", ".join(names) for revision, names in roles.items()}


def _boxes(case: Case, groups: Sequence[tuple[str, str, list[float]]]) -> Picture:
    unit, scale, up = span([rate for _, _, boots in groups for rate in boots])
    picture = Picture(sheet(3.0, _BOX_MARGINS, _PERCENT), (-0.6, len(groups) - 0.4), up)
    picture.sides(unit, 6, geometric_mean(groups[0][2]) / scale)
    for x, (role, _, boots) in enumerate(groups):
        kind = "slow" if "culprit" in role or "bad" in role else "fast"
        rates = [rate / scale for rate in boots]
        if len(rates) >= BOX_MIN:
            picture.box(f"{kind} median", rates, x - 0.27, x + 0.03)
        beside = [(x + 0.14 + 0.2 * (i % 7) / 7, rate) for i, rate in enumerate(rates)]
        picture.dots(f"{kind} dots", beside)
    picture.below(
        [
            (x, (role, _short(case, revision), words.count(len(boots), "boot")))
            for x, (role, revision, boots) in enumerate(groups)
        ]
    )
    return picture


# ------------------------------------------------------------------------------------- search


def path(case: Case) -> str:
    """How the chances moved: a line for every step, a column for every candidate; SVG.

    The darker a cell, the likelier its commits were held to have made the change when the step
    was chosen. A ring is the revision asked; a cross, one that gave no answer.
    """
    title = f"The search among {words.count(len(case.commits), 'commit')}, step by step"
    steps = gist.steps(case)
    if not steps or not case.commits:
        return notice("The search has not taken a step yet.", name="search", title=title)
    if len(steps) > _STEPS_MAX:
        every = (len(steps) - 1) / (_STEPS_MAX - 1)
        steps = [steps[round(i * every)] for i in range(_STEPS_MAX)]
    text = f"{words.count(len(steps), 'step')}; the table of attempts has the same in numbers."
    return _path(case, steps).svg(name="search", title=title, text=text)


def _path(case: Case, steps: Sequence[Attempt]) -> Picture:
    size = math.ceil(len(case.commits) / _COLUMNS)
    columns = {commit.revision: i // size for i, commit in enumerate(case.commits)}
    width = max(columns.values()) + 1
    nothing = width + 1 + width // 10
    columns[case.good.revision] = -2
    final = case.finding.belief if case.finding else None
    named = [f"{step.seq}. {_short(case, step.revision)}" for step in steps]
    named += ["in the end"] if final else []
    picture = Picture(
        sheet(1.0 + 0.2 * (len(steps) + 1), _PATH_MARGINS),
        (-3, nothing + 1.5 + width // 20),
        (0.4 - len(named), 0.6),
    )
    room = _LETTER * max(max(map(len, named)) - _NUMBER, 0)
    picture.rows("revision asked", [(-y, name) for y, name in enumerate(named)], room)
    picture.remarks([(-y, _result(step)) for y, step in enumerate(steps)])
    if isinstance(case.finding, Culprit) and case.finding.revision in columns:
        told = f"culprit {_short(case, case.finding.revision)}"
        picture.upright("culprit", columns[case.finding.revision], told, "culprit name")
    _shade(picture, [*(step.belief for step in steps), final], columns, nothing)
    asked = [
        (columns[step.revision], -y, step.ln_pps is not None)
        for y, step in enumerate(steps)
        if step.revision in columns
    ]
    picture.rings([(x, y) for x, y, answered in asked if answered])
    picture.crosses([(x, y) for x, y, answered in asked if not answered])
    last = columns.get(case.bad.revision, max(columns.values()))
    ends = {-2: ("good", _short(case, case.good.revision)), nothing: ("no", "change")}
    ends[last] = "bad", _short(case, case.bad.revision)
    picture.below(list(ends.items()))
    return picture


def _shade(
    picture: Picture, beliefs: Sequence[Belief | None], columns: dict[str, int], nothing: int
) -> None:
    """A line of cells each; all cells of one shade are one path."""
    cells: defaultdict[int, list[str]] = defaultdict(list)
    for y, belief in enumerate(beliefs):
        top, bottom = picture.y(0.42 - y), picture.y(-0.42 - y)
        for shade, first, last in _cells(belief, columns, nothing) if belief else ():
            left, right = picture.x(first - 0.5), picture.x(last + 0.5)
            cells[shade].append(f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z")
    for shade, found in sorted(cells.items()):
        picture.path("cells", found, strength=0.15 + 0.85 * shade / (len(_SHADES) - 1))


def _cells(belief: Belief, columns: dict[str, int], nothing: int) -> Iterator[tuple[int, int, int]]:
    """Shade, first and last column: neighbours of one shade are one cell."""
    chances: dict[int, float] = {nothing: belief.none}
    for revision, chance in belief.chances.items():
        if (x := columns.get(revision)) is not None:
            chances[x] = chances.get(x, 0.0) + chance
    shades = {x: bisect_right(_SHADES, chance) - 1 for x, chance in sorted(chances.items())}
    for (shade, _), run in groupby(
        enumerate(shades.items()), key=lambda one: (one[1][1], one[1][0] - one[0])
    ):
        xs = [x for _, (x, _) in run]
        if shade >= 0:
            yield shade, xs[0], xs[-1]


def _result(step: Attempt) -> str:
    return words.pps(math.exp(step.ln_pps)) if step.ln_pps is not None else "no answer"


# ------------------------------------------------------------------------------------- shared


def _slug(scenario: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", scenario.lower())


def _short(case: Case, revision: str) -> str:
    """The part of a label that fits under an axis: n302145."""
    return words.clean(case.label(revision)).split("-", maxsplit=1)[0][:12]
