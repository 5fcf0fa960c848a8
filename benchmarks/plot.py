"""Plot of lab hours against the share of right verdicts, by case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.cases import CASES
from benchmarks.search import ENGINES, Row

_COLUMNS = 4
_MARKERS = ("o", "s", "^", "v", "P", "X", "*")
_COLOURS = (
    *("#d62728", "#1f77b4", "#2ca02c"),
    *("#9467bd", "#8c564b", "#7f7f7f", "#bcbd22"),
)
_STYLE: dict[Any, Any] = {
    # Text stays text, and the same numbers make the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "netbisect",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Writes the plot as SVG.

    Args:
        rows: Of any cases and engines; those that were not played are left out.
        path: Overwritten.
    """
    played = [row for row in rows if not row.skipped]
    cases = [case for case in CASES if any(row.case == case for row in played)]
    lines = -(-len(cases) // _COLUMNS)
    with mpl.rc_context():
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(10, 0.7 + 2.1 * lines), layout="constrained")
        axes = figure.subplots(lines, _COLUMNS, squeeze=False, sharey=True).ravel()
        for panel, case in zip(axes, cases, strict=False):
            _panel(panel, case, [row for row in played if row.case == case])
        for panel in axes[len(cases) :]:
            panel.axis("off")
        for panel in axes[::_COLUMNS]:
            panel.set_ylabel("share right")
        handles = {
            label: handle
            for panel in axes
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    # A third of what it writes is indentation.
    path.write_text("\n".join(line.strip() for line in path.read_text().splitlines()) + "\n")


def _panel(panel: Axes, case: str, rows: Sequence[Row]) -> None:
    panel.set_title(f"{case}: {CASES[case].title}", fontsize=7)
    for row in rows:
        i = ENGINES.index(row.engine)
        panel.plot(
            [row.hours_mean or 0.0],
            [row.accuracy or 0.0],
            _MARKERS[i],
            color=_COLOURS[i],
            markersize=6,
            label=row.engine,
            linestyle="none",
        )
    panel.set_xscale("log")
    low = min(row.hours_mean or 1 for row in rows)
    high = max(row.hours_mean or 1 for row in rows)
    low, high = low / 1.3, high * 1.3
    panel.set_xlim(low, high)
    ticks = [x for x in (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100) if low <= x <= high]
    panel.set_xticks(ticks, [f"{x:g} h" for x in ticks])
    panel.minorticks_off()
    panel.set_ylim(-0.05, 1.05)
    panel.grid(alpha=0.3)
