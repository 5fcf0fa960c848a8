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

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, MaxNLocator

from netbisect.bisect.model import Belief, Culprit, Level
from netbisect.reports import gist, words
from netbisect.reports.canvas import (
    BAD,
    BOOT,
    CULPRIT,
    GOOD,
    HEAT,
    INK,
    box,
    dots,
    draw,
    lines,
    notice,
    percent_axis,
    unit,
)
from netbisect.reports.case import Attempt, Case

_TICKS = 7
_TREND_MARGINS = 0.75, 0.45, 0.75, 0.4
_BOX_MARGINS = 0.75, 0.6, 0.75, 0.1
"""Inches: the numbers of both axes, the lines below, and those above."""
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
    return draw(
        lambda axes: _paint_trend(axes, case, levels),
        3.3,
        name=name,
        title=title,
        text=text,
        margins=_TREND_MARGINS,
    )


def _paint_trend(axes: Axes, case: Case, levels: Sequence[Level]) -> None:
    boots = [(x, math.exp(ln)) for x, level in enumerate(levels) for ln in level.ln_pps]
    scale = _rate_axis(axes, [rate for _, rate in boots])
    dots(axes, [(x, rate / scale) for x, rate in boots], BOOT, 2.6, alpha=0.7)
    means = [math.exp(level.mean) / scale for level in levels]
    bars = [((x - 0.4, mean), (x + 0.4, mean)) for x, mean in enumerate(means)]
    lines(axes, bars, color=INK, linewidth=1.4, solid_capstyle="butt")
    axes.set_xlim(-1, len(levels))
    _name_nights(axes, case, levels)
    marks = _marks(case, levels)
    reference = next((means[round(mark.x)] for mark in marks if mark.name == "good"), means[0])
    percent_axis(axes, reference, "% against good", 6)
    for mark in marks:
        axes.axvline(mark.x, color=mark.colour, linestyle=mark.dashes, linewidth=1.2, zorder=1)
        axes.annotate(
            mark.name,
            (mark.x, 1),
            (mark.shift, 3 + 10 * mark.row),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            color=mark.colour,
            ha=mark.align,
        )


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    x: float
    colour: str
    dashes: str
    align: str
    """Where its name stands: `right` is left of the line, so that neighbours do not meet."""
    shift: int
    """Points to the right."""
    row: int = 0


def _marks(case: Case, levels: Sequence[Level]) -> list[_Mark]:
    places = {level.revision: x for x, level in enumerate(levels)}
    good, bad = places.get(case.good.revision), places.get(case.bad.revision)
    marks = []
    if good is not None:
        marks.append(_Mark("good", good, GOOD, "--", "right", -1))
    if bad is not None:
        marks.append(_Mark("bad", bad, BAD, "-.", "left", 1))
    if isinstance(case.finding, Culprit):
        x: float | None = places.get(case.finding.revision)
        order = [commit.revision for commit in case.commits]
        if x is None and good is not None and bad is not None and case.finding.revision in order:
            share = (order.index(case.finding.revision) + 1) / len(order)
            x = good + share * (bad - good)
        if x is not None:
            marks.append(_Mark("culprit", x, CULPRIT, "-", "center", 0, row=1))
    return marks


def _name_nights(axes: Axes, case: Case, levels: Sequence[Level]) -> None:
    step = max(math.ceil(len(levels) / _TICKS), 1)
    shown = range(len(levels) - 1, -1, -step)
    axes.xaxis.set_major_locator(FixedLocator(list(shown)))
    axes.set_xticklabels(
        [f"{_short(case, levels[x].revision)}\n{words.day(levels[x].at)}" for x in shown]
    )


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
    return draw(
        lambda axes: _paint_boxes(axes, case, groups),
        3.0,
        name=name,
        title=title,
        text=f"{text}.",
        margins=_BOX_MARGINS,
    )


def _roles(case: Case) -> dict[str, str]:
    """By revision, in the order of the branch: what it is to this case."""
    roles = {case.good.revision: ["good"]}
    if isinstance(case.finding, Culprit):
        roles.setdefault(case.finding.parent, []).append("parent")
        roles.setdefault(case.finding.revision, []).append("culprit")
    roles.setdefault(case.bad.revision, []).append("bad")
    return {revision: ", ".join(names) for revision, names in roles.items()}


def _paint_boxes(axes: Axes, case: Case, groups: Sequence[tuple[str, str, list[float]]]) -> None:
    scale = _rate_axis(axes, [rate for _, _, boots in groups for rate in boots])
    for x, (role, _, boots) in enumerate(groups):
        slow = "culprit" in role or "bad" in role
        colour = BAD if slow else GOOD
        rates = [rate / scale for rate in boots]
        box(axes, rates, x - 0.12, 0.3, colour)
        beside = [(x + 0.14 + 0.2 * (i % 7) / 7, rate) for i, rate in enumerate(rates)]
        dots(axes, beside, colour, 3.6, alpha=0.8, square=slow)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(groups)))))
    axes.set_xticklabels(
        [
            f"{role}\n{_short(case, revision)}\n{words.count(len(boots), 'boot')}"
            for role, revision, boots in groups
        ]
    )
    percent_axis(axes, geometric_mean(groups[0][2]) / scale, "% against good", 6)


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
    height = 1.0 + 0.2 * (len(steps) + 1)
    return draw(
        lambda axes: _paint_path(axes, case, steps), height, name="search", title=title, text=text
    )


def _paint_path(axes: Axes, case: Case, steps: Sequence[Attempt]) -> None:
    size = math.ceil(len(case.commits) / _COLUMNS)
    columns = {commit.revision: i // size for i, commit in enumerate(case.commits)}
    width = max(columns.values()) + 1
    nothing = width + 1 + width // 10
    columns[case.good.revision] = -2
    final = case.finding.belief if case.finding else None
    _paint_beliefs(axes, [*(step.belief for step in steps), final], columns, nothing)
    for shape, answered in (("o", True), ("x", False)):
        asked = [
            (columns[step.revision], y)
            for y, step in enumerate(steps)
            if step.revision in columns and (step.ln_pps is not None) is answered
        ]
        if asked:
            axes.plot(
                *zip(*asked, strict=True), shape, color=INK, markerfacecolor="none", markersize=5.5
            )
    rows = [f"{step.seq}. {_short(case, step.revision)}" for step in steps]
    rows += ["in the end"] if final else []
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.yaxis.set_major_locator(FixedLocator(list(range(len(rows)))))
    axes.set_yticklabels(rows)
    axes.set_ylabel("revision asked")
    right = axes.secondary_yaxis("right")
    right.yaxis.set_major_locator(FixedLocator(list(range(len(steps)))))
    right.set_yticklabels([_result(step) for step in steps])
    right.spines["right"].set_visible(False)
    right.tick_params(length=0)
    right.grid(visible=False)
    axes.set_xlim(-3, nothing + 1.5 + width // 20)
    _name_columns(axes, case, columns, nothing)


def _paint_beliefs(
    axes: Axes, beliefs: Sequence[Belief | None], columns: dict[str, int], nothing: int
) -> None:
    """A line of cells each; all cells of one shade are one path."""
    cells: defaultdict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for y, belief in enumerate(beliefs):
        for shade, first, last in _cells(belief, columns, nothing) if belief else ():
            cells[shade].append((first - 0.5, last + 0.5, y))
    for shade, found in sorted(cells.items()):
        corners = [
            corner
            for left, right, y in found
            for corner in (
                (left, y - 0.42), (right, y - 0.42), (right, y + 0.42), (left, y + 0.42), (left, y),
            )
        ]  # fmt: skip
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(found)
        strength = 0.15 + 0.85 * shade / (len(_SHADES) - 1)
        axes.add_patch(PathPatch(Path(corners, codes), facecolor=HEAT, alpha=strength, linewidth=0))


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


def _name_columns(axes: Axes, case: Case, columns: dict[str, int], nothing: int) -> None:
    names = {-2: f"good\n{_short(case, case.good.revision)}", nothing: "no\nchange"}
    names[columns.get(case.bad.revision, max(columns.values()))] = (
        f"bad\n{_short(case, case.bad.revision)}"
    )
    if isinstance(case.finding, Culprit) and case.finding.revision in columns:
        x = columns[case.finding.revision]
        axes.axvline(x, color=CULPRIT, linewidth=0.8, zorder=0)
        axes.annotate(
            f"culprit {_short(case, case.finding.revision)}",
            (x, 1),
            (0, 3),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            color=CULPRIT,
            ha="center",
        )
    axes.xaxis.set_major_locator(FixedLocator(list(names)))
    axes.set_xticklabels(list(names.values()))


def _result(step: Attempt) -> str:
    return words.pps(math.exp(step.ln_pps)) if step.ln_pps is not None else "no answer"


# ------------------------------------------------------------------------------------- shared


def _slug(scenario: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", scenario.lower())


def _short(case: Case, revision: str) -> str:
    """The part of a label that fits under an axis: n302145."""
    return words.clean(case.label(revision)).split("-", maxsplit=1)[0][:12]


def _rate_axis(axes: Axes, rates: Sequence[float]) -> float:
    """Labels the left axis; returns by how much to divide rates."""
    name, scale = unit(rates)
    axes.set_ylabel(name)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    return scale
