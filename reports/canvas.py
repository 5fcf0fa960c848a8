"""SVG that belongs in a page: same bytes for same data, colours from the page's style sheet."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from threading import Lock
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netbisect.reports import words
from netbisect.reports.svg import small

INK, GRID, BOOT, GOOD, BAD, CULPRIT, HEAT = (
    "#1b1b1f",
    "#d5d5dc",
    "#5b6b7b",
    "#0072b2",
    "#d55e00",
    "#a0307d",
    "#006d5b",
)
"""What a colour means; the page gives each another value in the dark. Told apart by everyone, and
no meaning rests on colour alone: shapes, dashes and words say the same."""

_VARIABLES = {
    INK: "--ink",
    GRID: "--grid",
    BOOT: "--boot",
    GOOD: "--good",
    BAD: "--bad",
    CULPRIT: "--culprit",
    HEAT: "--heat",
}
BOX_MIN = 5
"""Fewer boots have no quartiles worth a box; their dots say all."""
WIDTH = 8.0
"""Inches."""
_DOTS = 120
"""Of a PNG, per inch."""
_DOTS_MAX = 60_000
"""Of a PNG, from top to bottom: it cannot have more than 65535."""
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "figure.facecolor": "none",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9.0,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "savefig.facecolor": "none",
    "path.simplify": False,  # a line of no length is a dot
    "svg.fonttype": "none",
    "svg.hashsalt": "netbisect",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.color": INK,
    "ytick.labelsize": 8.0,
}
_lock = Lock()
"""matplotlib's style is one for the whole process, and reports are written in threads."""


def draw(
    paint: Callable[[Axes], None],
    height: float,
    *,
    name: str,
    title: str,
    text: str,
) -> str:
    """One pair of axes as an `<svg>` element.

    Args:
        paint: fills the axes.
        height: in inches.
        name: begins every id in the element, so that a page can hold several.
        title: for people who hear the page.
        text: the same in more words.
    """
    with _lock, mpl.rc_context(_STYLE):
        return _element(_painted(paint, height, None), name, title, text)


def whole(
    paint: Callable[[Axes], None],
    height: float,
    margins: tuple[float, float, float, float],
    *,
    name: str,
) -> str:
    """As `draw`, but every element has its own style and keeps its id, to be read by programs.

    Args:
        paint: fills the axes.
        height: in inches.
        margins: left, bottom, right and top of the axes in inches from that side.
        name: begins every id in the element.
    """
    with _lock, mpl.rc_context(_STYLE):
        return _drawn(_painted(paint, height, margins), name)


def _painted(
    paint: Callable[[Axes], None],
    height: float,
    margins: tuple[float, float, float, float] | None,
) -> Figure:
    figure = Figure(figsize=(WIDTH, height), layout=None if margins else "constrained")
    if margins:
        left, bottom, right, top = margins
        size = (left / WIDTH, bottom / height, 1 - right / WIDTH, 1 - top / height)
        figure.subplots_adjust(*size)
    paint(figure.add_subplot())
    return figure


def notice(sentence: str, *, name: str, title: str) -> str:
    """An `<svg>` element that says why there is nothing to draw."""
    with _lock, mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, 0.5))
        figure.text(0.01, 0.5, sentence, va="center")
        return _element(figure, name, title, sentence)


def pictures(paint: Callable[[Figure], None], height: float, *, title: str) -> dict[str, bytes]:
    """A figure as files of its own, by their format: `svg` and `png`, on white paper.

    Args:
        paint: fills the figure.
        height: in inches.
        title: for people who hear the picture.
    """
    told: dict[str, dict[str, str | None]] = {
        "svg": {**dict.fromkeys(("Date", "Creator", "Format", "Type")), "Title": title},
        "png": {"Software": None, "Title": title.encode("latin-1", "replace").decode("latin-1")},
    }
    found = {}
    with _lock, mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        for kind, metadata in told.items():
            buffer = io.BytesIO()
            resolution = min(_DOTS, _DOTS_MAX / height)
            figure.savefig(
                buffer, format=kind, metadata=metadata, facecolor="white", dpi=resolution
            )
            found[kind] = buffer.getvalue()
    return found


def _drawn(figure: Figure, name: str) -> str:
    """As matplotlib writes it, in the colours of the page."""
    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        # Only to measure a text is it set here; whoever shows it has letters of their own.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format="svg", metadata=nothing)
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(f": {colour}", f": var({variable}, {colour})")
    return svg


def _element(figure: Figure, name: str, title: str, text: str) -> str:
    start = f'<svg role="img" aria-labelledby="{name}-title {name}-text" '
    names = (
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-text">{escape(text)}</desc>\n'
    )
    head, body = small(_drawn(figure, name)).removeprefix("<svg ").split(">", 1)
    return f"{start}{head}>\n{names}{body}"


def box(
    axes: Axes,
    values: Sequence[float],
    position: float,
    width: float,
    colour: str,
    orientation: Literal["vertical", "horizontal"] = "vertical",
) -> None:
    """Draws a box of quartiles and whiskers, if there are values enough for one.

    Args:
        axes: Where.
        values: One per boot.
        position: On the axis of the sets.
        width: On the same axis.
        colour: Of the median.
        orientation: Of the values.
    """
    if len(values) < BOX_MIN:
        return
    line = {"color": INK, "linewidth": 1.0}
    axes.boxplot(
        [list(values)],
        positions=[position],
        widths=width,
        orientation=orientation,
        showfliers=False,
        boxprops=line,
        whiskerprops=line,
        capprops=line,
        medianprops={"color": colour, "linewidth": 2.2},
        manage_ticks=False,
    )


def unit(rates: Sequence[float]) -> tuple[str, float]:
    """The unit that suits the largest of these rates, and by how much to divide them."""
    name = words.pps(max(rates)).split()[1]
    return name, {"pps": 1.0, "kpps": 1e3, "Mpps": 1e6}[name]
