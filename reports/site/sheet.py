"""Axes that matplotlib draws once, and into which the data of many pictures are put.

A site has hundreds of pictures of one kind. Strokes, sizes of texts and where they stand about a
tick are the same in all of them: they are read from matplotlib's drawing of empty axes, and only
the places of ticks and data are computed for each picture. Where ticks are, and what they are
called, matplotlib's locators and formatters say. So a picture takes a millisecond instead of
fifty, and a fifth of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, ScalarFormatter

from netbisect.reports.canvas import BAD, BOOT, GOOD, GRID, INK, WIDTH, whole

_INCH = 72.0
"""Points."""
_MARK = 3.5
"""Length of a tick, points."""
_LINE = 9.6
"""From a line of text to the next, points."""
_WIDEST = {"left": "00.000", "right": "\u221200.0", "bottom": "n000000"}
"""Numbers beside the axes as wide as they may be: their names stand beyond them."""
_MIDDLE = 0.5
"""Where the one tick of empty axes is, as a share of them."""
_ROUNDING = 1e-9
"""By which a tick may lie outside of the axes, as a share of them."""
_STROKES: Mapping[str, Mapping[str, Any]] = {
    "grid": {"color": GRID, "linewidth": 0.6},
    "edge": {"color": INK, "linewidth": 0.8, "solid_capstyle": "projecting"},
    "dots": {"color": BOOT, "linewidth": 2.4, "solid_capstyle": "round", "alpha": 0.75},
    "means": {"color": INK, "linewidth": 1.3, "solid_capstyle": "butt"},
    "bars": {"color": BOOT, "linewidth": 1.0, "solid_capstyle": "round", "alpha": 0.8},
    "stretches": {"color": INK, "linewidth": 1.4, "solid_capstyle": "butt"},
    "baseline": {"color": GOOD, "linewidth": 1.0, "linestyle": "--"},
    "wanting": {"color": BAD, "linewidth": 1.0, "linestyle": "-."},
    "settled": {"color": BAD, "linewidth": 1.0, "linestyle": ":"},
    "epoch": {"color": INK, "linewidth": 0.8, "linestyle": ":"},
}
"""By name: how data can be drawn."""


@dataclass(frozen=True, slots=True)
class Pen:
    """How matplotlib draws something."""

    style: str
    x: float = 0.0
    y: float = 0.0
    """Where a text of empty axes stands, in points."""
    turn: str = ""
    """The attribute of a text that is turned."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Empty axes; lengths are points from the upper left corner."""

    height: float
    left: float
    right: float
    top: float
    bottom: float
    second: str
    """Name of the axis on the right; "" without one."""
    pens: Mapping[str, Pen]


@cache
def sheet(height: float, margins: tuple[float, float, float, float], second: str = "") -> Sheet:
    """Empty axes of a kind.

    Args:
        height: In inches.
        margins: As `canvas.draw` takes them.
        second: Name of the axis on the right; "" for none.
    """
    left, bottom, right, top = (margin * _INCH for margin in margins)
    text = whole(lambda axes: _paint(axes, second), height, margins, name="sheet")
    drawn = {one.get("id", ""): one for one in ET.fromstring(text).iter()}  # noqa: S314 - our own drawing
    names = [*_STROKES, "band", "left", "right", "bottom", "unit", "second", "bad", "ink"]
    return Sheet(
        height=height * _INCH,
        left=left,
        right=WIDTH * _INCH - right,
        top=top,
        bottom=height * _INCH - bottom,
        second=second,
        pens={name: _pen(drawn[f"sheet-{name}"][0]) for name in names if f"sheet-{name}" in drawn},
    )


def _paint(axes: Axes, second: str) -> None:
    """Everything that a picture may have, once."""
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    sides = [("left", "unit", axes.yaxis), ("bottom", "", axes.xaxis)]
    if second:
        sides.append(("right", "second", axes.secondary_yaxis("right").yaxis))
    for label, name, axis in sides:
        axis.set_major_locator(FixedLocator([_MIDDLE]))
        axis.set_ticklabels([_WIDEST[label]])
        axis.get_ticklabels()[0].set_gid(label)
        if name:
            axis.set_label_text(second or "unit").set_gid(name)
    for name, how in _STROKES.items():
        axes.plot([0, 1], [0, 1], gid=name, **how)
    axes.axhspan(0, 1, color=GRID, alpha=0.5, linewidth=0, gid="band")
    for name, colour in (("bad", BAD), ("ink", INK)):
        axes.annotate(
            "name",
            (_MIDDLE, 1),
            (0, 2),
            textcoords="offset points",
            color=colour,
            fontsize=8,
            ha="center",
            gid=name,
        )


def _pen(one: ET.Element) -> Pen:
    turn = one.get("transform", "")
    return Pen(
        one.get("style", ""),
        float(one.get("x", 0)),
        float(one.get("y", 0)),
        f' transform="{turn}"' if "rotate(-90" in turn else "",
    )


class Picture:
    """Axes that are being filled."""

    def __init__(self, empty: Sheet, across: tuple[float, float], up: tuple[float, float]) -> None:
        """Begins with frame and nothing in it.

        Args:
            empty: The axes.
            across: Limits from left to right.
            up: Limits from bottom to top.
        """
        self._sheet = empty
        self._across, self._up = across, up
        self.per_x = (empty.right - empty.left) / (across[1] - across[0])
        """Points for each unit of the lower axis."""
        self._per_y = (empty.bottom - empty.top) / (up[1] - up[0])
        self._parts: list[str] = []
        self._over: list[str] = []

    def x(self, value: float) -> float:
        """Where a value of the lower axis is."""
        return self._sheet.left + (value - self._across[0]) * self.per_x

    def y(self, value: float) -> float:
        """Where a value of the left axis is; one outside of it, at its end."""
        low, high = self._up
        return self._sheet.bottom - (min(max(value, low), high) - low) * self._per_y

    def path(self, pen: str, steps: Iterable[str], width: float | None = None) -> None:
        """Draws lines.

        Args:
            pen: One of the sheet's.
            steps: Of an SVG path, in points.
            width: Of the line, where it is not the pen's own.
        """
        wide = f"; stroke-width: {width:.2g}" if width is not None else ""
        style = self._sheet.pens[pen].style
        self._parts.append(f'<path d="{"".join(steps)}" style="{style}{wide}"/>')

    def band(self, low: float, high: float) -> None:
        """A band from one side to the other."""
        left, right = self._sheet.left, self._sheet.right
        top, bottom = self.y(high), self.y(low)
        self.path("band", [f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z"])

    def level(self, pen: str, value: float) -> None:
        """A line from one side to the other."""
        self.path(pen, [f"M{self._sheet.left:.1f} {self.y(value):.1f}H{self._sheet.right:.1f}"])

    def upright(self, pen: str, at: float, name: str = "", ink: str = "ink") -> None:
        """A line from bottom to top, and its name above it."""
        x = self.x(at)
        self.path(pen, [f"M{x:.1f} {self._sheet.bottom:.1f}V{self._sheet.top:.1f}"])
        if name:
            self._texts(ink, [(x, self._sheet.pens[ink].y, name)])

    def sides(self, unit: str, ticks: int, reference: float | None) -> None:
        """Numbers on the left and, against a reference, percents on the right.

        Args:
            unit: Name of the left axis.
            ticks: About how many.
            reference: Value of the left axis that is 0 % of the right one; None for no such axis.
        """
        own, empty = self._sheet.pens, self._sheet
        places = [(self.y(value), said) for value, said in _ticks(*self._up, ticks)]
        grid = (f"M{empty.left:.1f} {y:.1f}H{empty.right:.1f}" for y, _ in places)
        self._parts.insert(0, f'<path d="{"".join(grid)}" style="{own["grid"].style}"/>')
        marks = [f"M{empty.left:.1f} {y:.1f}h-{_MARK}" for y, _ in places]
        middle = (empty.top + empty.bottom) / 2
        self._texts("left", [(own["left"].x, y + own["left"].y - middle, t) for y, t in places])
        self._texts("unit", [(own["unit"].x, own["unit"].y, unit)])
        if reference is not None:
            low, high = (100 * (value / reference - 1) for value in self._up)
            places = [
                (self.y(reference * (1 + value / 100)), said)
                for value, said in _ticks(low, high, ticks)
            ]
            marks += [f"M{empty.right:.1f} {y:.1f}h{_MARK}" for y, _ in places]
            marks.append(f"M{empty.right:.1f} {empty.bottom:.1f}V{empty.top:.1f}")
            right = own["right"]
            self._texts("right", [(right.x, y + right.y - middle, t) for y, t in places])
            self._texts("second", [(own["second"].x, own["second"].y, empty.second)])
        self._edge(marks)

    def below(self, ticks: Sequence[tuple[float, Sequence[str]]]) -> None:
        """Names below the axes, a line below the other."""
        pen, bottom = self._sheet.pens["bottom"], self._sheet.bottom
        self._edge([f"M{self.x(at):.1f} {bottom:.1f}v{_MARK}" for at, _ in ticks])
        lines = [
            (self.x(at), pen.y + number * _LINE, line)
            for at, lines in ticks
            for number, line in enumerate(lines)
        ]
        self._texts("bottom", lines)

    def _edge(self, marks: Sequence[str]) -> None:
        self._over.append(f'<path d="{"".join(marks)}" style="{self._sheet.pens["edge"].style}"/>')

    def _texts(self, pen: str, texts: Sequence[tuple[float, float, str]]) -> None:
        own = self._sheet.pens[pen]
        told = "".join(
            f'<text x="{x:.1f}" y="{y:.1f}"{own.turn}>{escape(text)}</text>' for x, y, text in texts
        )
        self._over.append(f'<g style="{own.style}">{told}</g>')

    def svg(self, *, name: str, title: str, text: str) -> str:
        """The picture as an `<svg>` element.

        Args:
            name: Begins the ids in it.
            title: For people who hear the page.
            text: The same in more words.
        """
        empty, width = self._sheet, WIDTH * _INCH
        self._edge([f"M{empty.left:.1f} {empty.top:.1f}V{empty.bottom:.1f}H{empty.right:.1f}"])
        return "\n".join(
            [
                (
                    f'<svg role="img" aria-labelledby="{name}-title {name}-text" '
                    f'width="{width:g}pt" height="{empty.height:g}pt" '
                    f'viewBox="0 0 {width:g} {empty.height:g}" xmlns="http://www.w3.org/2000/svg">'
                ),
                f'<title id="{name}-title">{escape(title)}</title>',
                f'<desc id="{name}-text">{escape(text)}</desc>',
                *self._parts,
                *self._over,
                "</svg>\n",
            ]
        )


def _ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Ticks between two limits, and what they are called."""
    room = _ROUNDING * (high - low)
    values = [
        float(one)
        for one in MaxNLocator(count).tick_values(low, high)
        if low - room <= one <= high + room
    ]
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    formatter.create_dummy_axis()
    assert formatter.axis is not None
    formatter.axis.set_view_interval(low, high)
    return list(zip(values, formatter.format_ticks(values), strict=True))
