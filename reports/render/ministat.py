"""Output of FreeBSD's ministat(1), byte for byte.

ministat(1) is by Poul-Henning Kamp. This model of its output is checked against the program and
against published tables, so that reports are the same on every host; the ministat of Debian prints
other numbers.

The test is Student's t with pooled variance. It assumes independent normal boots of equal variance.
Its output is well known and repeatable; verdicts do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import add

from netbisect.reports.render.student_t import critical

_SYMBOLS = " x+*%#@O"
"""A cell of the plot shows the symbol of the OR of the numbers of the sets in it."""
SETS_MAX = 7
POINTS_MIN = 3
UNPROVEN = "No difference proven"
ASSUMES_NORMAL = (
    "ministat does not prove this difference: it assumes normal noise, equal on both sides. The "
    "verdict does not depend on it."
)
"""Explains `UNPROVEN` below a verdict that names a difference."""
LARGEST = 1e100
"""Largest value whose squares stay in the range of a double."""
_HEAD = "    N           Min           Max        Median           Avg        Stddev"


class Variant(StrEnum):
    """Generations of ministat whose numbers differ, by the year in which each began."""

    V2013 = "2013"
    """To 10.x, and Debian's: upper middle as median; the relative error ignores set 1's."""
    V2015 = "2015"
    """11.x: mean of both middles as median."""
    V2017 = "2017"
    """12.x: relative error with that of set 1; variance never below 0."""
    CURRENT = "current"
    """13.2 and later: variance in two passes."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Statistics of a data set."""

    name: str
    points: tuple[float, ...]
    """Sorted."""
    mean: float
    median: float
    variance: float

    @property
    def stddev(self) -> float:
        """Not a number where rounding has made the variance negative, as in C."""
        return math.sqrt(self.variance) if self.variance >= 0 else math.nan


@dataclass(frozen=True, slots=True)
class MinistatDifference:
    """Difference of two sets as ministat reports it; errors are half widths of its intervals."""

    proven: bool
    difference: float
    error: float
    percent: float
    """Difference in percent of the mean of the reference."""
    percent_error: float
    pooled: float
    """Standard deviation."""


def ministat(
    datasets: Sequence[tuple[str, Sequence[float]]],
    *,
    width: int = 74,
    separate: bool = True,
    confidence: float = 95.0,
    variant: Variant = Variant.CURRENT,
    plot: bool = True,
    test: bool = True,
    quiet: bool = False,
) -> str:
    """The output of `ministat` for (name, values) pairs, ending in a newline.

    Args:
        datasets: one to seven; values in the order in which a file would hold them, three or
            more; all are compared with the first.
        width: option -w; lines of the plot are two characters longer.
        separate: option -s, a line of bars for every set.
        confidence: option -c, in percent.
        variant: whose numbers.
        plot: False is option -A.
        test: False, with no plot, is option -n.
        quiet: option -q, neither names nor the head of the table.

    Raises:
        ValueError: what ministat would refuse, and what would make it write past its plot.
    """
    if not 1 <= len(datasets) <= SETS_MAX:
        raise ValueError(f"{len(datasets)} datasets: ministat takes 1 to {SETS_MAX}")
    sets = [vitals(name, values, variant) for name, values in datasets]
    lines = []
    if not quiet:
        lines += [f"{_SYMBOLS[number]} {each.name}" for number, each in enumerate(sets, 1)]
    if plot:
        lines += _plot(sets, width, separate=separate)
    if not quiet:
        lines += [_HEAD]
    for number, each in enumerate(sets, 1):
        lines += [_row(each, _SYMBOLS[number])]
        if number > 1 and test:
            lines += _verdict(difference(each, sets[0], confidence, variant), confidence)
    return "".join(f"{line}\n" for line in lines)


def vitals(name: str, values: Sequence[float], variant: Variant = Variant.CURRENT) -> Vitals:
    """The numbers of a set, from three or more values in the order in which a file would hold them.

    Raises ValueError for too few values, or one that cannot be shown.
    """
    if len(values) < POINTS_MIN:
        raise ValueError(f"Dataset {name} must contain at least {POINTS_MIN} data points")
    given = [float(value) for value in values]
    for value in given:
        if not abs(value) <= LARGEST:
            raise ValueError(f"Dataset {name}: {value} is not a number of at most {LARGEST:g}")
    n = len(given)
    points = tuple(sorted(given))
    # Not sum(): from Python 3.12 on it corrects the rounding that ministat does not.
    total = reduce(add, given, 0.0)
    mean = total / n
    if variant is Variant.CURRENT:
        variance = reduce(add, ((point - mean) * (point - mean) for point in points), 0.0) / (n - 1)
    else:
        squares = reduce(add, (value * value for value in given), 0.0)
        variance = (squares - total * total / n) / (n - 1)
        if variant is Variant.V2017:
            variance = max(variance, 0.0)
    middle = points[n // 2]
    if n % 2 == 0 and variant is not Variant.V2013:
        middle = (middle + points[n // 2 - 1]) / 2
    return Vitals(name, points, mean, middle, variance)


def difference(
    one: Vitals,
    reference: Vitals,
    confidence: float = 95.0,
    variant: Variant = Variant.CURRENT,
) -> MinistatDifference:
    """Difference of means by Student's t with pooled variance; the errors of `critical`."""
    n, m = len(one.points), len(reference.points)
    t = critical(n + m - 2, confidence)
    pooled = ((n - 1) * one.variance + (m - 1) * reference.variance) / (n + m - 2)
    pooled = math.sqrt(pooled) if pooled >= 0 else math.nan
    error = t * (pooled * math.sqrt(1.0 / n + 1.0 / m))
    apart = one.mean - reference.mean
    relative = error
    if variant in {Variant.V2017, Variant.CURRENT}:
        spread = (n - 1) * one.variance + _divide(
            (m - 1) * reference.variance * (one.mean * one.mean), reference.mean * reference.mean
        )
        relative = t * math.sqrt(spread * ((n + m) / (n * m * (n + m - 2.0))))
    percent = _divide(apart * 100, reference.mean)
    percent_error = _divide(relative * 100, reference.mean)
    return MinistatDifference(abs(apart) > error, apart, error, percent, percent_error, pooled)


def _row(one: Vitals, symbol: str) -> str:
    values = (one.points[0], one.points[-1], one.median, one.mean, one.stddev)
    return f"{symbol} {len(one.points):3d} " + " ".join(f"{value:13.8g}" for value in values)


def _verdict(found: MinistatDifference, confidence: float) -> list[str]:
    if not found.proven:
        return [f"{UNPROVEN} at {confidence:.1f}% confidence"]
    return [
        f"Difference at {confidence:.1f}% confidence",
        f"\t{found.difference:g} +/- {found.error:g}",
        f"\t{found.percent:g}% +/- {found.percent_error:g}%",
        f"\t(Student's t, pooled s = {found.pooled:g})",
    ]


def _divide(a: float, b: float) -> float:
    """Division as in C, also by zero."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def _plot(sets: Sequence[Vitals], width: int, *, separate: bool) -> list[str]:
    ends = [
        end
        for one in sets
        for end in (
            one.points[0],
            one.points[-1],
            one.mean - one.stddev,
            one.mean + one.stddev,
        )
        if not math.isnan(end)
    ]
    nothing = ["[no plot, span is zero width]"]
    span = max(ends) - min(ends)
    if span == 0:
        return nothing
    if width < 0 or width == 1:
        raise ValueError(f"width {width}: expected 2 or more")
    step = span / (width - 1.0)
    if step == 0:
        return nothing
    origin = min(ends) - 0.5 * step

    def column(value: float) -> int:
        return int((value - origin) / step)

    frame = f"+{'-' * width}+"
    dots = [f"|{row}|" for row in _dots(sets, width, column)]
    bars = [f"|{row}|" for row in _bars(sets, width, column, separate=separate)]
    return [frame, *dots, *bars, frame]


def _dots(sets: Sequence[Vitals], width: int, column: Callable[[float], int]) -> list[str]:
    """Rows of the stacked points, the highest first."""
    cells: list[int] = []
    rows = 0
    for number, one in enumerate(sets, 1):
        places: list[tuple[int, int]] = []
        for x in map(column, one.points):
            height = places[-1][1] + 1 if places and places[-1][0] == x else 0
            places.append((x, height))
        # A set lower than those before it cuts them: the height is always that of the last one.
        rows = max(height for _, height in places) + 1
        size = rows * width
        cells = cells[:size] + [0] * (size - len(cells))
        for x, height in places:
            # Where rounding puts a point beside its row, it is in the next one, as in C.
            at = height * width + x
            if 0 <= at < size:
                cells[at] |= number
    shown = "".join(_SYMBOLS[cell] for cell in cells)
    return [shown[row * width : (row + 1) * width] for row in reversed(range(rows))]


def _bars(
    sets: Sequence[Vitals], width: int, column: Callable[[float], int], *, separate: bool
) -> list[str]:
    """One row of mean, median and standard deviation for every set, or one for all."""
    rows: list[dict[int, str]] = [{} for _ in (sets if separate else sets[:1])]
    for number, one in enumerate(sets):
        row = rows[number if separate else 0]
        if not math.isnan(one.stddev):
            left, right = column(one.mean - one.stddev), column(one.mean + one.stddev)
            row[left] = row[right] = "|"
            for x in range(left + 1, right):
                row.setdefault(x, "_")
        row[column(one.median)] = "M"
        row[column(one.mean)] = "A"
    return ["".join(row.get(x, " ") for x in range(width)) for row in rows]
