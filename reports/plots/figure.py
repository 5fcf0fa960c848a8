"""Figures drawn by matplotlib: SVG for pages, in the colours of their style sheet, and files.

The same data give the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from html import escape
from threading import Lock
from typing import Any, Literal

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import CapStyleType

from netbisect.reports.render.palette import GRID, INK, VARIABLES, WIDTH, unit

_PNG_DPI = 120
_PNG_DPI_MAX = 60_000
"""Divided by the height in inches: a PNG has at most 65535 rows."""
_MIN_SPAN = 0.004
"""Least relative span of an axis of rates."""
_LINE_HEIGHT = 9.6
"""Points."""
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
    "path.simplify": False,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "netbisect",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.color": INK,
    "ytick.labelsize": 8.0,
}
_UNUSED = re.compile(
    r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->|(?<=<g) id=\"[^\"]*\"|"
    r" font-family: [^;]*;| transform=\"rotate\(-0 [^\"]*\"|\n *(?=<)",
    re.DOTALL,
)
"""Parts of matplotlib's SVG that a page does not need."""
_COORDINATES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_DOT = re.compile(r"M (\S+) (\S+) \nL \1 \2 \n")
"""A line of no length. It gets a length, because PDF, and so print, shows none with square caps."""
_lock = Lock()
"""Guards matplotlib's style, which is global; reports are written in threads."""

Margins = tuple[float, float, float, float]
"""Left, bottom, right and top of the axes, inches."""


def draw(
    paint: Callable[[Axes], None],
    height: float,
    margins: Margins | None = None,
    *,
    name: str,
    title: str,
    text: str,
    overlay: str = "",
) -> Markup:
    """Draws one pair of axes as an `<svg>` element for a page.

    Args:
        paint: Fills the axes.
        height: In inches.
        margins: Margins of the axes; None for a computed layout.
        name: Prefix of all ids in the element, unique in the page.
        title: Tooltip and accessible name.
        text: Accessible description.
        overlay: SVG above the drawing, with its texts escaped.
    """
    with _lock, mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), dpi=72)
        FigureCanvasSVG(figure)
        paint(figure.add_subplot())
        if margins:
            left, bottom, right, top = margins
            figure.subplots_adjust(
                left / WIDTH, bottom / height, 1 - right / WIDTH, 1 - top / height
            )
        else:  # `savefig` would draw the figure twice for it
            ConstrainedLayoutEngine().execute(figure)
        attributes, content = _body(_saved(figure, "svg", {}).decode(), name)
    content = content.replace("</svg>", f"{overlay}</svg>")
    # The children of an image are not accessible: links need a group.
    role = "group" if "<a " in content else "img"
    return Markup(  # noqa: S704 - its texts are escaped
        f'<svg role="{role}" aria-labelledby="{name}-title {name}-text" stroke-linejoin="round" '
        f'font-family="DejaVu Sans, Verdana, Arial, sans-serif" {attributes}>\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-text">{escape(text)}</desc>{content}'
    )


def _body(svg: str, name: str) -> tuple[str, str]:
    """Attributes and content of the element: page colours, unique ids, two decimals."""
    svg = _UNUSED.sub("", svg[svg.index("<svg ") :])
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", svg)
    svg = _COORDINATES.sub(lambda found: _DECIMALS.sub(r"\1", found[0]), svg)
    svg = _DOT.sub(r"M \1 \2h.01 ", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(f": {colour}", f": var({variable}, {colour})")
    attributes, content = svg.removeprefix("<svg ").split(">", 1)
    return attributes, content


def files(paint: Callable[[Figure], None], height: float, *, title: str) -> dict[str, bytes]:
    """Draws a figure of this height, in inches, on white paper: its files as `svg` and `png`."""
    latin = title.encode("latin-1", "replace").decode("latin-1")
    with _lock, mpl.rc_context({**_STYLE, "savefig.facecolor": "white"}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        figure.set_dpi(min(_PNG_DPI, _PNG_DPI_MAX / height))
        return {
            "svg": _saved(figure, "svg", {"Title": title}),
            "png": _saved(figure, "png", {"Software": None, "Title": latin}),
        }


def _saved(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    if kind == "svg":
        metadata |= dict.fromkeys(("Date", "Creator", "Format", "Type"))
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The font only measures text here; the browser draws it with its own.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format=kind, metadata=metadata, dpi="figure")
    return buffer.getvalue()


def rate_axis(
    axes: Axes,
    rates: Sequence[float],
    *,
    series: str = "",
    reference: float | None = None,
    label: str = "",
) -> float:
    """Sets up the left axis for rates of a series; returns the scale to divide them by.

    With a reference rate, a right axis with this label has percentages; the reference is 0 %.
    """
    name, scale = unit(rates, series)
    low, high = min(rates) / scale, max(rates) / scale
    room = max(0.06 * (high - low), _MIN_SPAN * high - (high - low) / 2, 1e-9)
    limits = low - room, high + room
    sides = [(axes, name, limits)]
    if reference is not None:
        percents = axes.twinx()
        percents.grid(visible=False)
        low, high = (100 * (limit * scale / reference - 1) for limit in limits)
        sides.append((percents, label, (low, high)))
    for side, side_label, side_limits in sides:
        side.set_ylim(*side_limits)
        side.set_ylabel(side_label)
        side.yaxis.set_major_locator(MaxNLocator(6))
        side.ticklabel_format(axis="y", style="plain", useOffset=False)
    if reference is None:
        axes.spines.right.set_visible(False)
    return scale


def dots(axes: Axes, places: Iterable[tuple[float, float]], colour: str, size: float) -> None:
    """Draws a dot at every place, for `draw` only: lines of no length.

    They have a quarter of the bytes of markers. A PNG would not show them.
    """
    segments(axes, ((x, y, x, y) for x, y in places), colour, size, "round")


def segments(
    axes: Axes,
    ends: Iterable[tuple[float, float, float, float]],
    colour: str,
    width: float,
    cap: CapStyleType = "butt",
) -> None:
    """Draws lines from (x, y) to (x, y), all as one path."""
    gap = float("nan")
    xs: list[float] = []
    ys: list[float] = []
    for x0, y0, x1, y1 in ends:
        xs += (x0, x1, gap)
        ys += (y0, y1, gap)
    axes.plot(xs, ys, color=colour, linewidth=width, solid_capstyle=cap, alpha=0.85)


def marker_line(
    axes: Axes,
    x: float,
    name: str,
    colour: str,
    *,
    style: str = "-",
    row: int = 0,
    align: Literal["left", "center", "right"] = "center",
    url: str = "",
) -> None:
    """Draws a vertical line with a name above it.

    The name may be empty, and have a link; `row` is its row above the axes, 0 is the lowest.
    """
    axes.axvline(x, color=colour, linewidth=1.0, linestyle=style)
    if name:
        text = axes.annotate(
            name,
            (x, 1),
            (0, 2 + row * _LINE_HEIGHT),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=colour,
            fontsize=8,
            ha=align,
        )
        text.set_url(url or None)


def x_ticks(axes: Axes, ticks: Iterable[tuple[float, Sequence[str]]]) -> None:
    """Labels the lower axis: a place, and lines of text."""
    places, labels = zip(*ticks, strict=True)
    axes.set_xticks(places, ["\n".join(lines) for lines in labels])
