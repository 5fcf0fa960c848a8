"""Figures of a report: nightly levels, boots of the compared kernels, and the search."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from netbisect.bisect.model.results import Posterior
from netbisect.reports.model.changes import ChangeDocument, StepDocument
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.model.series import LevelDocument
from netbisect.reports.model.types import short_label
from netbisect.reports.plots.figure import dots, draw, marker_line, rate_axis, segments, x_ticks
from netbisect.reports.plots.netbenches_plot import marks
from netbisect.reports.render import summary, words
from netbisect.reports.render.palette import BAD, BOOT, CULPRIT, GOOD, HEAT, INK

_TICKS = 7
_TREND_MARGINS = 0.75, 0.6, 0.75, 0.4
_SEARCH_MARGINS = 1.5, 0.6, 0.95, 0.25
_PERCENT = "% against good"
_NIGHTS_MAX = 120
_COLUMNS = 64
"""Columns in the figure of a search; commits of longer ranges share them."""
_STEPS_MAX = 40
_SHADES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
"""Least probability for each shade of a cell."""


def trend(document: ChangeDocument) -> Markup:
    """Nightly boots of the leading scenario, and lines at both ends and a verified culprit; SVG."""
    levels = document.levels[-_NIGHTS_MAX:]
    title = words.clean(document.title(document.lead))
    if not levels:
        return notice("No earlier nights of this scenario.")
    first, last = levels[0], levels[-1]
    boots = sum(len(level.boots) for level in levels)
    text = (
        f"{words.count(boots, 'boot')} of the latest {words.count(len(levels), 'revision')}, from "
        f"{words.day(first.at)} to {words.day(last.at)}; from "
        f"{words.number(first.pps, document.lead)} at first to "
        f"{words.number(last.pps, document.lead)} at last."
    )
    return draw(
        lambda axes: _trend(axes, document, levels),
        3.3,
        _TREND_MARGINS,
        name="trend",
        title=f"{title}: every night on {words.clean(document.testbed)}",
        text=text,
    )


def _trend(axes: Axes, document: ChangeDocument, levels: Sequence[LevelDocument]) -> None:
    boots = [(x, rate) for x, level in enumerate(levels) for rate in level.boots]
    means = [level.pps for level in levels]
    places = {level.revision: x for x, level in enumerate(levels)}
    reference = means[places.get(document.good.revision, 0)]
    rates = [rate for _, rate in boots]
    scale = rate_axis(axes, rates, series=document.lead, reference=reference, label=_PERCENT)
    axes.set_xlim(-1, len(levels))
    dots(axes, [(x, rate / scale) for x, rate in boots], BOOT, 2.4)
    bars = ((x - 0.4, mean / scale, x + 0.4, mean / scale) for x, mean in enumerate(means))
    segments(axes, bars, INK, 1.3)
    _ends(axes, document, places)
    level_ticks(axes, levels)


def _ends(axes: Axes, document: ChangeDocument, places: dict[str, int]) -> None:
    """Lines at the good end, the bad end and a verified culprit."""
    good, bad = places.get(document.good.revision), places.get(document.bad.revision)
    if good is not None:
        marker_line(axes, good, "good", GOOD, style="--", align="right")
    if bad is not None:
        marker_line(axes, bad, "bad", BAD, style="-.", align="left")
    order = [one.commit.revision for one in document.candidates]
    for found in document.culprits:
        x: float | None = places.get(found.revision)
        if x is None and good is not None and bad is not None and found.revision in order:
            x = good + (order.index(found.revision) + 1) / len(order) * (bad - good)
        if x is not None:
            marker_line(axes, x, "culprit", CULPRIT, row=1)


def boxplot(document: ChangeDocument, scenario: str) -> Markup:
    """The boots of the good end, the parent, the culprit and the bad end, a row each; SVG."""
    sets = [
        Set(f"{role} {document.label(revision)}", document.numbers(scenario, revision))
        for revision, role in _roles(document).items()
        if document.numbers(scenario, revision)
    ]
    fast = sum(not one.name.startswith(("culprit", "bad")) for one in sets)
    panel = ComparedScenario(document.title(scenario), sets, series=scenario)
    title = f"{words.clean(panel.name)}: boots of the kernels compared"
    place = list(document.titles).index(scenario)
    return boots(panel, f"boxes-{place}", title, fast)


def _roles(document: ChangeDocument) -> dict[str, str]:
    """Roles by revision, in the order of the branch."""
    roles = {document.good.revision: ["good"]}
    if document.outcome == "culprit":
        roles.setdefault(document.culprits[0].parent, []).append("parent")
        roles.setdefault(document.culprits[0].revision, []).append("culprit")
    roles.setdefault(document.bad.revision, []).append("bad")
    return {revision: ", ".join(names) for revision, names in roles.items()}


def boots(panel: ComparedScenario, name: str, title: str, fast: int = 0) -> Markup:
    """The boots of kernels in a scenario, a row for each kernel; SVG.

    `name` is the prefix of the ids in the element, unique in the page; the first `fast` kernels are
    on the fast side, the others on the slow side. 0: no side is known to be faster.
    """
    facts = [
        f"{words.clean(one.name)}: {words.count(len(one.pps), 'boot')} from "
        f"{words.number(min(one.pps), panel.series)} to {words.number(max(one.pps), panel.series)}"
        for one in panel.sets
    ]
    if not facts:
        return notice("No boots measured yet.")
    return draw(
        lambda axes: marks(axes, panel, fast),
        1.1 + 0.42 * len(panel.sets),
        name=name,
        title=title,
        text=f"{'; '.join(facts)}.",
    )


def path(document: ChangeDocument) -> Markup:
    """Heat map of the search, a row per step and a column per candidate; SVG."""
    title = f"The search among {words.count(len(document.candidates), 'commit')}, step by step"
    steps = summary.steps(document)
    if not steps or not document.candidates:
        return notice("The search has no steps yet.")
    if len(steps) > _STEPS_MAX:
        every = (len(steps) - 1) / (_STEPS_MAX - 1)
        steps = [steps[round(i * every)] for i in range(_STEPS_MAX)]
    text = f"{words.count(len(steps), 'step')}; see the table of attempts."
    return draw(
        lambda axes: _path(axes, document, steps),
        1.0 + 0.2 * (len(steps) + 1),
        _SEARCH_MARGINS,
        name="search",
        title=title,
        text=text,
    )


def _path(axes: Axes, document: ChangeDocument, steps: Sequence[StepDocument]) -> None:
    size = math.ceil(len(document.candidates) / _COLUMNS)
    columns = {one.commit.revision: i // size for i, one in enumerate(document.candidates)}
    width = max(columns.values()) + 1
    nothing = width + 1 + width // 10
    columns[document.good.revision] = -2
    final = None if document.outcome in summary.UNDECIDED else document.posterior
    axes.set_xlim(-3, nothing + 1.5 + width // 20)
    _rows(axes, document, steps, final is not None)
    if document.outcome == "culprit" and document.culprits[0].revision in columns:
        culprit = document.culprits[0].revision
        marker_line(axes, columns[culprit], f"culprit {short(document, culprit)}", CULPRIT)
    _shade(axes, [*(step.posterior for step in steps), final], columns, nothing)
    for failed, shape in ((False, "o"), (True, "x")):
        places = [
            (columns[step.revision], -y)
            for y, step in enumerate(steps)
            if step.revision in columns
            and (step.pps is None and step.outcome is not None) is failed
        ]
        xs, ys = [x for x, _ in places], [y for _, y in places]
        axes.plot(xs, ys, shape, color=INK, fillstyle="none", markersize=5.4)
    ends = {-2: ("good", short(document, document.good.revision)), nothing: ("no", "change")}
    last = columns.get(document.bad.revision, max(columns.values()))
    ends[last] = "bad", short(document, document.bad.revision)
    x_ticks(axes, ends.items())
    axes.set_xlabel("commits, oldest first")


def _rows(axes: Axes, document: ChangeDocument, steps: Sequence[StepDocument], ended: bool) -> None:
    """Labels the steps on the left, and their results on the right."""
    named = [f"{step.place}. {short(document, step.revision)}" for step in steps]
    named += ["result"] if ended else []
    results = axes.twinx()
    results.grid(visible=False)
    for side in (axes, results):
        side.set_ylim(0.4 - len(named), 0.6)
        side.tick_params(left=False, right=False)
    axes.set_yticks([-y for y in range(len(named))], named)
    axes.set_ylabel("revision tested")
    results.set_yticks([-y for y in range(len(steps))], [_result(document, one) for one in steps])


def _result(document: ChangeDocument, step: StepDocument) -> str:
    if step.pps is not None:
        return words.number(step.pps, document.lead)
    return "not finished" if step.outcome is None else "no result"


def _shade(
    axes: Axes, posteriors: Sequence[Posterior | None], columns: dict[str, int], nothing: int
) -> None:
    """Draws the cells of each row; all cells of one shade are one path."""
    cells: defaultdict[int, list[Path]] = defaultdict(list)
    for y, posterior in enumerate(posteriors):
        for shade, first, last in _cells(posterior, columns, nothing) if posterior else ():
            left, right, top, bottom = first - 0.5, last + 0.5, 0.42 - y, -0.42 - y
            corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
            cells[shade].append(Path(corners, closed=True))
    for shade, found in sorted(cells.items()):
        strength = 0.15 + 0.85 * shade / (len(_SHADES) - 1)
        whole = Path.make_compound_path(*found)
        axes.add_patch(PathPatch(whole, facecolor=HEAT, linewidth=0, alpha=strength))


def _cells(
    posterior: Posterior, columns: dict[str, int], nothing: int
) -> Iterator[tuple[int, int, int]]:
    """Shade, first and last column: neighbours of one shade are one cell."""
    chances: dict[int, float] = {nothing: posterior.none}
    for revision, chance in posterior.chances.items():
        if (x := columns.get(revision)) is not None:
            chances[x] = chances.get(x, 0.0) + chance
    shades = {x: bisect_right(_SHADES, chance) - 1 for x, chance in sorted(chances.items())}
    for (shade, _), run in groupby(
        enumerate(shades.items()), key=lambda one: (one[1][1], one[1][0] - one[0])
    ):
        xs = [x for _, (x, _) in run]
        if shade >= 0:
            yield shade, xs[0], xs[-1]


def notice(sentence: str) -> Markup:
    """A paragraph instead of a figure without data."""
    return Markup('<p class="soft">{}</p>').format(sentence)


def level_ticks(axes: Axes, levels: Sequence[LevelDocument]) -> None:
    """Labels the lower axis, whose limits are set, with revisions and days, including the last."""
    step = math.ceil(axes.get_xlim()[1] / _TICKS)
    shown = [(x, levels[x]) for x in range(len(levels) - 1, -1, -step)]
    x_ticks(
        axes, [(x, (short_label(words.clean(one.label)), words.when(one.at))) for x, one in shown]
    )
    axes.set_xlabel("revision, and day of its measurement")


def short(document: ChangeDocument, revision: str) -> str:
    """The part of a label that fits under an axis: n302145."""
    return short_label(words.clean(document.label(revision)))
