"""The box plot of a comparison: a panel per scenario, a row per set."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.plots.figure import files, segments
from netbisect.reports.render import words
from netbisect.reports.render.palette import BAD, BOOT, GOOD, INK, unit

_LABEL = 26
"""Characters on a line of a set's name."""
_LABEL_LINES = 3
_BOX_MIN = 5
"""Boots from which a box of quartiles is drawn."""


def boxes(panels: Sequence[ComparedScenario], title: str) -> dict[str, bytes]:
    """The picture as SVG and PNG, by format; the same bytes for the same data."""
    rows = [len(panel.sets) for panel in panels]
    height = sum(1.1 + 0.42 * count for count in rows)

    def paint(figure: Figure) -> None:
        grid: Any = figure.subplots(
            len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": [1.6 + n for n in rows]}
        )
        for axes, panel in zip(grid[:, 0], panels, strict=True):
            marks(axes, panel)

    return files(paint, height, title=title)


def marks(axes: Axes, panel: ComparedScenario, fast: int = 0) -> None:
    """Draws a panel: a row for every set, a mark for every boot; `fast` as in `chart.boots`."""
    name, scale = unit([rate for one in panel.sets for rate in one.pps], panel.series)
    for y, one in enumerate(panel.sets):
        shown = [rate / scale for rate in one.pps]
        colour, marker = (GOOD, "o") if y < fast else (BAD, "s") if fast else (BOOT, "o")
        if len(shown) >= _BOX_MIN:
            _box(axes, shown, y - 0.1, colour)
        # Beside each other, so that equal boots can be counted.
        beside = [y + 0.22 + 0.16 * (i % 5) / 4 for i in range(len(shown))]
        axes.plot(
            shown, beside, marker, color=colour, markersize=3.4, markeredgewidth=0, alpha=0.85
        )
    axes.set_ylim(len(panel.sets) - 0.4, -0.6)
    axes.yaxis.set_major_locator(FixedLocator(list(range(len(panel.sets)))))
    axes.set_yticklabels([_wrapped(one.name) for one in panel.sets])
    axes.set_title(textwrap.shorten(words.clean(panel.name), 90, placeholder=" …"), fontsize=10)
    axes.set_xlabel(f"{name}, one mark per boot")
    axes.xaxis.set_major_locator(MaxNLocator(7))
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    _percents(axes, panel.sets[0].pps, scale)


def _box(axes: Axes, values: Sequence[float], y: float, colour: str) -> None:
    """Draws a box of quartiles and whiskers, with the median in a colour."""
    box = boxplot_stats(values)[0]
    low, first, third, high = (box[key] for key in ("whislo", "q1", "q3", "whishi"))
    bottom, top = y - 0.17, y + 0.17
    edges = [(x, bottom, x, top) for x in (first, third)]
    edges += [(first, side, third, side) for side in (bottom, top)]
    edges += [(low, y, first, y), (third, y, high, y)]
    edges += [(x, y - 0.08, x, y + 0.08) for x in (low, high)]
    segments(axes, edges, INK, 1.0, "projecting")
    segments(axes, [(box["med"], bottom, box["med"], top)], colour, 2.2)


def _percents(axes: Axes, reference: Sequence[float], scale: float) -> None:
    level = math.fsum(reference) / len(reference) / scale
    if level <= 0:
        return
    both_ways: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (
        lambda rate: 100 * (rate / level - 1),
        lambda percent: level * (1 + percent / 100),
    )
    axis: Any = axes.secondary_xaxis("top", functions=both_ways)
    axis.set_xlabel("% against the mean of the first", fontsize=8)
    axis.xaxis.set_major_locator(MaxNLocator(7))


def _wrapped(name: str) -> str:
    lines = textwrap.wrap(words.clean(name), _LABEL, max_lines=_LABEL_LINES, placeholder=" …")
    return "\n".join(lines)
