"""Pictures on axes that matplotlib has drawn once: where its locators put ticks, and data there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.cbook import boxplot_stats
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from netbisect.reports.palette import WIDTH, unit
from netbisect.reports.sheet import INCH, Pen, Sheet, sheet

_MARK = 3.5
"""Length of a tick, points."""
_LINE = 9.6
"""From a line of text to the next, points."""
_ENDS = 2
"""Ticks between which there is room for the name of an axis."""
_NOTICE = 0.5, (0.0, 0.0, 0.0, 0.0)
"""Height, inches, and no margins."""
_INDENT = 6
"""Of a text alone, points."""
_REACH = 2.7
"""From the middle of a ring or a cross to its end, points."""
_ROUNDING = 1e-9
"""By which a tick may lie outside of the axes, as a share of them."""
_LEAST_SPAN = 0.004
"""Of an axis of rates, as a share: less is drawn as what it is, nothing."""


def span(rates: Sequence[float]) -> tuple[str, float, tuple[float, float]]:
    """Name of a unit, by how much to divide rates, and the limits of their axis in that unit."""
    name, scale = unit(rates)
    low, high = min(rates) / scale, max(rates) / scale
    room = max(0.06 * (high - low), _LEAST_SPAN * high - (high - low) / 2, 1e-9)
    return name, scale, (low - room, high + room)


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

    def path(
        self,
        pen: str,
        steps: Iterable[str],
        width: float | None = None,
        strength: float | None = None,
    ) -> None:
        """Draws lines, or fills what they go round.

        Args:
            pen: One of the sheet's.
            steps: Of an SVG path, in points.
            width: Of the line, where it is not the pen's own.
            strength: 1 for all of the colour, less where something is seen through it.
        """
        style = self._sheet.pens[pen].style
        style += f"; stroke-width: {width:.2g}" if width is not None else ""
        style += f"; opacity: {strength:.3g}" if strength is not None else ""
        self._parts.append(f'<path d="{"".join(steps)}" style="{style}"/>')

    def dots(self, pen: str, places: Iterable[tuple[float, float]]) -> None:
        """Dots where these values are: each is a line of no length with its two ends."""
        self.path(pen, (f"M{self.x(x):.1f} {self.y(y):.1f}h0" for x, y in places))

    def spans(self, pen: str, ends: Iterable[tuple[float, float]], width: float) -> None:
        """Upright lines, one for each unit of the lower axis from 0 on, all within the axes.

        Args:
            pen: One of the sheet's.
            ends: Of each line, in values of the left axis.
            width: Of the lines, points.
        """
        # A history has a thousand: what `x` and `y` work out is worked out once.
        left, step = self.x(0), self.per_x
        bottom, up = self._sheet.bottom + self._up[0] * self._per_y, self._per_y
        self.path(
            pen,
            [
                f"M{left + i * step:.1f} {bottom - low * up:.1f}V{bottom - high * up:.1f}"
                for i, (low, high) in enumerate(ends)
            ],
            width=width,
        )

    def bars(self, places: Iterable[tuple[float, float]]) -> None:
        """Short level lines where the means of levels are."""
        long = 0.8 * self.per_x
        self.path(
            "means", (f"M{self.x(x - 0.4):.1f} {self.y(y):.1f}h{long:.1f}" for x, y in places)
        )

    def rings(self, places: Iterable[tuple[float, float]]) -> None:
        """What was asked, and answered."""
        wide, turn = 2 * _REACH, f"a{_REACH} {_REACH} 0 1 0 "
        round_it = f"{turn}{wide} 0{turn}-{wide} 0"
        self.path(
            "box", (f"M{self.x(x) - _REACH:.1f} {self.y(y):.1f}{round_it}" for x, y in places)
        )

    def crosses(self, places: Iterable[tuple[float, float]]) -> None:
        """What was asked, and gave no answer."""
        wide = 2 * _REACH
        self.path(
            "box",
            (
                f"M{self.x(x) - _REACH:.1f} {self.y(y) - _REACH:.1f}l{wide} {wide}m0-{wide}"
                f"l-{wide} {wide}"
                for x, y in places
            ),
        )

    def box(self, median: str, values: Sequence[float], left: float, right: float) -> None:
        """Quartiles, and whiskers as matplotlib has them.

        Args:
            median: The pen of the median.
            values: One per boot.
            left: On the lower axis.
            right: On the lower axis.
        """
        told = boxplot_stats(values)[0]
        x, wide = self.x(left), self.x(right) - self.x(left)
        middle, quarter = x + wide / 2, wide / 4
        low, high = self.y(told["q1"]), self.y(told["q3"])
        steps = [f"M{x:.1f} {low:.1f}h{wide:.1f}V{high:.1f}h-{wide:.1f}z"]
        for edge, end in ((low, told["whislo"]), (high, told["whishi"])):
            steps.append(f"M{middle:.1f} {edge:.1f}V{self.y(end):.1f}")
            steps.append(f"m-{quarter:.1f} 0h{2 * quarter:.1f}")
        self.path("box", steps)
        self.path(median, [f"M{x:.1f} {self.y(told['med']):.1f}h{wide:.1f}"])

    def band(self, low: float, high: float) -> None:
        """A band from one side to the other."""
        left, right = self._sheet.left, self._sheet.right
        top, bottom = self.y(high), self.y(low)
        self.path("band", [f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z"])

    def level(self, pen: str, value: float) -> None:
        """A line from one side to the other."""
        self.path(pen, [f"M{self._sheet.left:.1f} {self.y(value):.1f}H{self._sheet.right:.1f}"])

    def upright(
        self, pen: str, at: float, name: str = "", ink: str = "ink name", row: int = 0
    ) -> None:
        """A line from bottom to top, and its name above it, so many rows higher than others."""
        x, top = self.x(at), self._sheet.top
        self.path(pen, [f"M{x:.1f} {self._sheet.bottom:.1f}V{top:.1f}"])
        if name:
            own = self._sheet.pens[ink]
            self._texts(ink, [(x + own.x, top + own.y - row * _LINE, name)])

    def sides(self, unit: str, ticks: int, reference: float | None) -> None:
        """Numbers on the left and, against a reference, percents on the right.

        Args:
            unit: Name of the left axis.
            ticks: About how many.
            reference: Value of the left axis that is 0 % of the right one; None for no such axis.
        """
        empty = self._sheet
        self.rows(unit, _ticks(*self._up, ticks))
        if reference is not None:
            low, high = (100 * (value / reference - 1) for value in self._up)
            places = [
                (self.y(reference * (1 + value / 100)), said)
                for value, said in _ticks(low, high, ticks)
            ]
            marks = [f"M{empty.right:.1f} {y:.1f}h{_MARK}" for y, _ in places]
            self._edge([*marks, f"M{empty.right:.1f} {empty.bottom:.1f}V{empty.top:.1f}"])
            self._beside("right", places)
            self._along("second", empty.right, empty.second)

    def rows(self, name: str, ticks: Sequence[tuple[float, str]], room: float = 0.0) -> None:
        """Ticks on the left, each with a line across.

        Args:
            name: Of the left axis.
            ticks: Values, and what they are called.
            room: By how much their names are wider than numbers, points.
        """
        empty = self._sheet
        places = [(self.y(value), said) for value, said in ticks]
        grid = (f"M{empty.left:.1f} {y:.1f}H{empty.right:.1f}" for y, _ in places)
        style = empty.pens["grid"].style
        self._parts.insert(0, f'<path d="{"".join(grid)}" style="{style}"/>')
        self._edge([f"M{empty.left:.1f} {y:.1f}h-{_MARK}" for y, _ in places])
        self._beside("left", places)
        self._along("unit", empty.left - room, name)

    def remarks(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Texts on the right: of values of the left axis, what there is to say of them."""
        self._beside("right", [(self.y(value), said) for value, said in ticks])

    def _beside(self, pen: str, places: Sequence[tuple[float, str]]) -> None:
        own = self._sheet.pens[pen]
        side = self._sheet.left if pen == "left" else self._sheet.right
        self._texts(pen, [(side + own.x, y + own.y, said) for y, said in places])

    def _along(self, pen: str, side: float, name: str) -> None:
        own, middle = self._sheet.pens[pen], (self._sheet.top + self._sheet.bottom) / 2
        self._texts(pen, [(side + own.x, middle + own.y, name)])

    def below(self, ticks: Sequence[tuple[float, Sequence[str]]], name: str = "") -> None:
        """Names below the axes, a line below the other, and in the middle that of the axis."""
        pen, bottom = self._sheet.pens["bottom"], self._sheet.bottom
        self._edge([f"M{self.x(at):.1f} {bottom:.1f}v{_MARK}" for at, _ in ticks])
        lines = [
            (self.x(at), bottom + pen.y + number * _LINE, line)
            for at, lines in ticks
            for number, line in enumerate(lines)
        ]
        if name:
            middle = (self._sheet.left + self._sheet.right) / 2
            deepest = max(y for _, y, _ in lines)
            lines.append((middle, deepest + (0 if len(ticks) <= _ENDS else _LINE), name))
        self._texts("bottom", lines)

    def _edge(self, marks: Sequence[str]) -> None:
        self._over.append(f'<path d="{"".join(marks)}" style="{self._sheet.pens["edge"].style}"/>')

    def _texts(self, pen: str, texts: Sequence[tuple[float, float, str]]) -> None:
        own = self._sheet.pens[pen]
        told = "".join(
            f'<text x="{x:.1f}" y="{y:.1f}"{_turn(own, x, y)}>{escape(text)}</text>'
            for x, y, text in texts
        )
        self._over.append(f'<g style="{own.style}">{told}</g>')

    def svg(self, *, name: str, title: str, text: str) -> str:
        """The picture as an `<svg>` element.

        Args:
            name: Begins the ids in it.
            title: For people who hear the page.
            text: The same in more words.
        """
        empty = self._sheet
        self._edge([f"M{empty.left:.1f} {empty.top:.1f}V{empty.bottom:.1f}H{empty.right:.1f}"])
        return _element([*self._parts, *self._over], empty.height, name, title, text)


def notice(sentence: str, *, name: str, title: str) -> str:
    """An `<svg>` element that says why there is nothing to draw."""
    style = sheet(*_NOTICE).pens["left"].style.replace("anchor: end", "anchor: start")
    said = f'<text x="{_INDENT}" y="{_LINE + _INDENT:g}" style="{style}">{escape(sentence)}</text>'
    return _element([said], _NOTICE[0] * INCH, name, title, sentence)


def _element(parts: Sequence[str], height: float, name: str, title: str, text: str) -> str:
    width = WIDTH * INCH
    return "\n".join(
        [
            (
                f'<svg role="img" aria-labelledby="{name}-title {name}-text" '
                f'width="{width:g}pt" height="{height:g}pt" '
                f'viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg">'
            ),
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-text">{escape(text)}</desc>',
            *parts,
            "</svg>\n",
        ]
    )


def _turn(pen: Pen, x: float, y: float) -> str:
    return f' transform="rotate(-90 {x:.1f} {y:.1f})"' if pen.turned else ""


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
