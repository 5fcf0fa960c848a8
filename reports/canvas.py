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

from netbisect.reports.palette import BOX_MIN, GRID, INK, VARIABLES, WIDTH
from netbisect.reports.svg import small

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
    for colour, variable in VARIABLES.items():
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
