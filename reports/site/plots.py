"""Figures of a series, and of a search along the commits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TypeAlias

from markupsafe import Markup
from matplotlib.axes import Axes

from netbisect.bisect.model.metric import metric_of
from netbisect.reports.model.changes import ChangeDocument
from netbisect.reports.model.series import LevelDocument, SeriesDocument
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.plots.chart import level_ticks, short
from netbisect.reports.plots.figure import dots, draw, marker_line, rate_axis, segments, x_ticks
from netbisect.reports.render import words
from netbisect.reports.render.palette import BAD, BOOT, CULPRIT, GOOD, GRID, INK, WIDTH
from netbisect.reports.site.files import LISTED, alert_page, revision_page

_RECENT_HEIGHT = 2.7
_POINTS = 72
"""Per inch."""
_MARGINS = 0.68, 0.6, 0.62, 0.2
_LINE_MARGINS = 0.75, 0.55, 0.35, 0.3
_SPARK = 24
"""Levels of a small picture."""
_SPARK_WIDTH, _SPARK_HEIGHT = 72, 16
_SPARK_SPAN = 0.06
"""ln ratio from bottom to top, unless more is needed: the noise of all series looks alike."""
MarkedAlert: TypeAlias = tuple[AlertSummary, int | None]
"""An alert, and the number of its culprit or None."""
_NAMED = 12
"""Alerts whose lines have a name; more would stand on one another."""


def recent(
    view: SeriesDocument,
    levels: Sequence[LevelDocument],
    alerts: Sequence[MarkedAlert],
    name: str,
) -> Markup:
    """Boots of the latest levels of the last epoch, with the baseline and the alerts; SVG.

    `name` is the prefix of all ids in the element, unique in the page.
    """
    boots = sum(len(level.boots) for level in levels)
    return draw(
        lambda axes: _recent(axes, view, levels, alerts),
        _RECENT_HEIGHT,
        _MARGINS,
        name=name,
        title=f"{words.clean(view.title)} on {words.clean(view.testbed)}: every boot",
        text=(
            f"{words.count(boots, 'boot')} of {words.count(len(levels), 'kernel')}, from "
            f"{words.number(levels[0].pps, view.scenario)} on {words.when(levels[0].at)} to "
            f"{words.number(levels[-1].pps, view.scenario)} on {words.when(levels[-1].at)}."
        ),
        overlay="".join(_tips(view, levels)),
    )


def _tips(view: SeriesDocument, levels: Sequence[LevelDocument]) -> Iterator[str]:
    """A transparent column over each kernel, with its text as tooltip and a link."""
    left, bottom, right, top = (_POINTS * one for one in _MARGINS)
    height = _POINTS * _RECENT_HEIGHT - bottom - top
    wide = (_POINTS * WIDTH - left - right) / (max(len(levels), 10) + 1)
    for x, level in enumerate(levels):
        tooltip = (
            f"{words.clean(level.label)}: {words.number(level.pps, view.scenario)}, "
            f"{words.count(len(level.boots), 'boot')}, {words.when(level.at)}"
        )
        box = (
            f'<title>{escape(tooltip)}</title><rect x="{left + (x + 0.5) * wide:.1f}" '
            f'y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" fill-opacity="0"/>'
        )
        listed = x >= len(levels) - LISTED
        page = revision_page(level.revision) if listed else view.link(level.revision)
        yield f'<a href="{escape(page)}">{box}</a>' if page else f"<g>{box}</g>"


def _recent(
    axes: Axes,
    view: SeriesDocument,
    levels: Sequence[LevelDocument],
    alerts: Sequence[MarkedAlert],
) -> None:
    rates = [(x, rate) for x, level in enumerate(levels) for rate in level.boots]
    base = metric_of(view.scenario).number(view.baseline.mean) if view.baseline else None
    every = [rate for _, rate in rates] + ([base] if base else [])
    label = "% against baseline"
    scale = rate_axis(axes, every, series=view.scenario, reference=base, label=label)
    axes.set_xlim(-1, max(len(levels), 10))
    if base:
        sd = math.sqrt(view.noise.image**2 + view.noise.boot**2 / len(levels[-1].boots))
        low, high = (base * math.exp(sign * sd) / scale for sign in (-1, 1))
        axes.axhspan(low, high, color=GRID, alpha=0.5, linewidth=0)
        axes.axhline(base / scale, color=GOOD, linewidth=1.0, linestyle="--")
    dots(axes, [(x, rate / scale) for x, rate in rates], BOOT, 2.4)
    means = ((x, level.pps / scale) for x, level in enumerate(levels))
    segments(axes, ((x - 0.4, y, x + 0.4, y) for x, y in means), INK, 1.3)
    level_ticks(axes, levels)
    _alerts(axes, alerts, levels)


def history(view: SeriesDocument, alerts: Sequence[MarkedAlert]) -> Markup:
    """All levels, a bar from the slowest to the fastest boot of each; SVG.

    Horizontal lines are the levels between steps, vertical ones the starts of epochs.
    """
    levels = [*(level for epoch in view.earlier for level in epoch.levels), *view.levels]
    first, last = min(one.at for one in levels), max(one.at for one in levels)
    return draw(
        lambda axes: _history(axes, view, levels, alerts),
        2.2,
        _MARGINS,
        name="history",
        title=f"{words.clean(view.title)} on {words.clean(view.testbed)}: since the beginning",
        text=(
            f"{words.count(len(levels), 'kernel')} from {words.when(first)} to {words.when(last)} "
            f"in {words.count(len(view.earlier) + 1, 'epoch')}, with "
            f"{words.count(len(view.steps), 'step')}."
        ),
    )


def _history(
    axes: Axes,
    view: SeriesDocument,
    levels: Sequence[LevelDocument],
    alerts: Sequence[MarkedAlert],
) -> None:
    number_of = metric_of(view.scenario).number
    edges = [(min(level.boots), max(level.boots)) for level in levels]
    scale = rate_axis(axes, [edge for pair in edges for edge in pair], series=view.scenario)
    axes.set_xlim(-1, max(len(levels), 10))
    bars = ((x, low / scale, x, high / scale) for x, (low, high) in enumerate(edges))
    segments(axes, bars, BOOT, max(0.5, min(3.0, 400 / len(levels))))
    earlier = len(levels) - len(view.levels)
    stretches = (
        (earlier + start - 0.5, number_of(ln) / scale, earlier + stop - 0.5, number_of(ln) / scale)
        for start, stop, ln in _stretches(view)
    )
    segments(axes, stretches, INK, 1.4)
    place = 0
    for number, epoch in enumerate(view.earlier, 2):
        place += len(epoch.levels)
        marker_line(axes, place - 0.5, f"epoch {number}", INK, style=":")
    level_ticks(axes, levels)
    _alerts(axes, alerts, view.levels, earlier)


def _stretches(view: SeriesDocument) -> Iterator[tuple[int, int, float]]:
    """First and last place of the levels between two steps, and where they lie, ln pps."""
    places = {level.revision: x for x, level in enumerate(view.levels)}
    cuts = [places[step.at] for step in view.steps]
    for start, stop in itertools.pairwise([0, *cuts, len(view.levels)]):
        means = sorted(one.mean for one in view.estimates[start:stop])
        if means:
            yield start, stop, means[len(means) // 2]


def _alerts(
    axes: Axes, alerts: Sequence[MarkedAlert], levels: Sequence[LevelDocument], start: int = 0
) -> None:
    """Draws a line for each alert, with a linked name if there is room.

    `start` is the place of the first level.
    """
    places = [(first_changed(one, levels, culprit), one) for one, culprit in alerts]
    found = [(start + x, one) for x, one in places if x is not None]
    for x, alert in found:
        name = f"alert {alert.id}" if len(found) <= _NAMED else ""
        style = "-." if alert.state.active else ":"
        marker_line(axes, x - 0.5, name, BAD, style=style, url=alert_page(alert.id))


def first_changed(
    alert: AlertSummary, levels: Sequence[LevelDocument], culprit: int | None
) -> int | None:
    """Place of the first level with the change of an alert; None if it is not among the levels.

    `culprit` is the number of the verified commit, which need not have a level.
    """
    places = {level.revision: x for x, level in enumerate(levels)}
    bad = places.get(alert.bad)
    if culprit is None or bad is None:
        return places.get(alert.culprit, bad)
    later = (x for x, one in enumerate(levels) if one.number >= culprit)
    return min(next(later, bad), bad)


def spark(means: Sequence[float]) -> str:
    """The path of a picture of 72 by 16 units, the latest levels (ln numbers) from left to right.

    Not drawn by matplotlib, whose markup would make a page with hundreds of them ten times as
    large.
    """
    shown = list(means[-_SPARK:])
    low, high = min(shown), max(shown)
    span, middle = max(high - low, _SPARK_SPAN), (low + high) / 2
    wide = _SPARK_WIDTH / max(_SPARK - 1, 1)
    start = _SPARK_WIDTH - wide * (len(shown) - 1)
    points = [
        f"{start + wide * i:.0f} {_SPARK_HEIGHT * (0.5 - 0.9 * (mean - middle) / span):.0f}"
        for i, mean in enumerate(shown)
    ]
    return f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h0"


def commit_line(document: ChangeDocument) -> Markup:
    """Boots of every tested kernel along the commits, and failed trials; SVG."""
    boots = [
        (x, rate)
        for revision, x in _places(document).items()
        for rate in document.numbers(document.lead, revision)
    ]
    return draw(
        lambda axes: _line(axes, document, boots),
        2.4,
        _LINE_MARGINS,
        name="line",
        title=f"{words.clean(document.title(document.lead))}: tested kernels by commit",
        text=(
            f"{words.count(len(boots), 'boot')} of "
            f"{words.count(len({x for x, _ in boots}), 'kernel')} among "
            f"{words.count(len(document.candidates), 'commit')}; "
            f"{words.count(len(document.skipped), 'revision')} failed."
        ),
    )


def _line(axes: Axes, document: ChangeDocument, boots: Sequence[tuple[int, float]]) -> None:
    places = _places(document)
    scale = rate_axis(axes, [rate for _, rate in boots] or [1.0], series=document.lead)
    last = max(places.values())
    axes.set_xlim(-0.8, last + 0.8)
    dots(axes, [(x, rate / scale) for x, rate in boots], BOOT, 4.0)
    skipped = [places[revision] for revision in document.skipped if revision in places]
    low, high = axes.get_ylim()
    axes.plot(skipped, [low + 0.04 * (high - low)] * len(skipped), "x", color=INK, markersize=5.4)
    for found in document.culprits:
        if found.revision in places:
            label = f"culprit {short(document, found.revision)}"
            marker_line(axes, places[found.revision] - 0.5, label, CULPRIT)
    ends = {0: ("good", document.good.revision), last: ("bad", document.bad.revision)}
    x_ticks(axes, [(x, (role, short(document, end))) for x, (role, end) in ends.items()])
    axes.set_xlabel("commits, oldest first")


def _places(document: ChangeDocument) -> dict[str, int]:
    """By revision: its place on the line, the good end at 0."""
    commits = (document.good, *(one.commit for one in document.candidates))
    return {one.revision: x for x, one in enumerate(commits)}
