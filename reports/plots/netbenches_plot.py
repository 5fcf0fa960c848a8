"""The box plot of a comparison: a panel per scenario, a row per set."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.plots.figure import box, files
from netbisect.reports.render import words
from netbisect.reports.render.palette import BAD, GOOD, unit

_LABEL = 26
"""Characters on a line of a set's name."""
_LABEL_LINES = 3


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


def marks(axes: Axes, panel: ComparedScenario) -> None:
    """Draws a panel: a row for every set, a mark for every boot."""
    name, scale = unit([rate for one in panel.sets for rate in one.pps], panel.series)
    for y, one in enumerate(panel.sets):
        shown = [rate / scale for rate in one.pps]
        colour = BAD if y else GOOD
        box(axes, shown, y - 0.1, 0.34, colour, orientation="horizontal")
        # Beside each other, so that equal boots can be counted.
        beside = [y + 0.22 + 0.16 * (i % 5) / 4 for i in range(len(shown))]
        marker = "s" if y else "o"
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
