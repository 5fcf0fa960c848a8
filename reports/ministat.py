"""What FreeBSD's ministat(1) prints, byte for byte, for data that is not in files.

ministat(1) is by Poul-Henning Kamp; this is a model of what it prints, checked against tables that
people published, so that a report shows the same block on every host: Debian's ministat, for one,
prints other numbers.

The test is Student's t with pooled variance. It takes spread for equal and boots for independent
and normal; it is what everybody can read and repeat, not what a verdict rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import add

from netbisect.reports.student import critical

_SYMBOLS = " x+*%#@O"
"""A cell of the plot shows the symbol of the OR of the numbers of the sets in it."""
_SETS_MAX = 7
POINTS_MIN = 3
_LARGEST = 1e100
"""Beyond it sums of squares leave the range of a double, and ministat's scale ends."""
_HEAD = "    N           Min           Max        Median           Avg        Stddev"


class Variant(StrEnum):
    """Generations of ministat whose numbers differ."""

    V10 = "v10"
    """To 10.x, and Debian's: upper middle as median; the relative error ignores set 1's."""
    V11 = "v11"
    """11.x: mean of both middles as median."""
    V12 = "v12"
    """12.x: relative error with that of set 1; variance never below 0."""
    HEAD = "head"
    """13.2 and later: variance in two passes."""


@dataclass(frozen=True, slots=True)
class _Set:
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


def ministat(
    datasets: Sequence[tuple[str, Sequence[float]]],
    *,
    width: int = 74,
    separate: bool = True,
    confidence: float = 95.0,
    variant: Variant = Variant.HEAD,
    plot: bool = True,
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

    Raises:
        ValueError: what ministat would refuse, and what would make it write past its plot.
    """
    if not 1 <= len(datasets) <= _SETS_MAX:
        raise ValueError(f"{len(datasets)} datasets: ministat takes 1 to {_SETS_MAX}")
    if width < 2:  # noqa: PLR2004 - a scale has two ends
        raise ValueError(f"width {width}: expected 2 or more")
    sets = [_read(name, values, variant) for name, values in datasets]
    lines = [f"{_SYMBOLS[number]} {each.name}" for number, each in enumerate(sets, 1)]
    if plot:
        lines += _plot(sets, width, separate=separate)
    lines += [_HEAD]
    for number, each in enumerate(sets, 1):
        lines += [_vitals(each, _SYMBOLS[number])]
        if number > 1:
            lines += _compare(each, sets[0], confidence, variant)
    return "".join(f"{line}\n" for line in lines)


def _read(name: str, values: Sequence[float], variant: Variant) -> _Set:
    if len(values) < POINTS_MIN:
        raise ValueError(f"dataset {name} must contain at least {POINTS_MIN} data points")
    for value in values:
        if not abs(value) <= _LARGEST:
            raise ValueError(f"dataset {name}: {value} is not a number of at most {_LARGEST:g}")
    n = len(values)
    points = tuple(sorted(values))
    # Not sum(): from Python 3.12 on it corrects the rounding that ministat does not.
    total = reduce(add, values, 0.0)
    mean = total / n
    if variant is Variant.HEAD:
        variance = reduce(add, ((point - mean) * (point - mean) for point in points), 0.0) / (n - 1)
    else:
        squares = reduce(add, (value * value for value in values), 0.0)
        variance = (squares - total * total / n) / (n - 1)
        if variant is Variant.V12:
            variance = max(variance, 0.0)
    middle = points[n // 2]
    if n % 2 == 0 and variant is not Variant.V10:
        middle = (middle + points[n // 2 - 1]) / 2
    return _Set(name, points, mean, middle, variance)


def _vitals(one: _Set, symbol: str) -> str:
    values = (one.points[0], one.points[-1], one.median, one.mean, one.stddev)
    return f"{symbol} {len(one.points):3d} " + " ".join(f"{value:13.8g}" for value in values)


def _compare(one: _Set, reference: _Set, confidence: float, variant: Variant) -> list[str]:
    n, m = len(one.points), len(reference.points)
    t = critical(n + m - 2, confidence)
    pooled = ((n - 1) * one.variance + (m - 1) * reference.variance) / (n + m - 2)
    pooled = math.sqrt(pooled) if pooled >= 0 else math.nan
    error = t * (pooled * math.sqrt(1.0 / n + 1.0 / m))
    difference = one.mean - reference.mean
    if not abs(difference) > error:
        return [f"No difference proven at {confidence:.1f}% confidence"]
    relative = error
    if variant in (Variant.V12, Variant.HEAD):
        spread = (n - 1) * one.variance + _divide(
            (m - 1) * reference.variance * (one.mean * one.mean), reference.mean * reference.mean
        )
        relative = t * math.sqrt(spread * ((n + m) / (n * m * (n + m - 2.0))))
    percent = _divide(difference * 100, reference.mean)
    percent_error = _divide(relative * 100, reference.mean)
    return [
        f"Difference at {confidence:.1f}% confidence",
        f"\t{difference:g} +/- {error:g}",
        f"\t{percent:g}% +/- {percent_error:g}%",
        f"\t(Student's t, pooled s = {pooled:g})",
    ]


def _divide(a: float, b: float) -> float:
    """As C divides: by zero too."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def _plot(sets: Sequence[_Set], width: int, *, separate: bool) -> list[str]:
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
    step = (max(ends) - min(ends)) / (width - 1.0)
    if step == 0:
        return ["[no plot, span is zero width]"]
    origin = min(ends) - 0.5 * step

    def column(value: float) -> int:
        # Where rounding puts a point outside, C writes past its line; we stay on its edge.
        return min(max(int((value - origin) / step), 0), width - 1)

    frame = f"+{'-' * width}+"
    dots = [f"|{''.join(row)}|" for row in _dots(sets, width, column)]
    bars = [f"|{''.join(row)}|" for row in _bars(sets, width, column, separate=separate)]
    return [frame, *dots, *bars, frame]


def _dots(sets: Sequence[_Set], width: int, column: Callable[[float], int]) -> list[list[str]]:
    """Rows of the stacked points, the highest first."""
    rows: list[list[int]] = []
    for number, one in enumerate(sets, 1):
        places: list[tuple[int, int]] = []
        for x in map(column, one.points):
            height = places[-1][1] + 1 if places and places[-1][0] == x else 0
            places.append((x, height))
        # A set lower than those before it cuts them: the height is always that of the last one.
        tallest = max(height for _, height in places) + 1
        rows = rows[:tallest] + [[0] * width for _ in range(tallest - len(rows))]
        for x, height in places:
            rows[height][x] |= number
    return [[_SYMBOLS[cell] for cell in row] for row in reversed(rows)]


def _bars(
    sets: Sequence[_Set], width: int, column: Callable[[float], int], *, separate: bool
) -> list[list[str]]:
    """One row of mean, median and standard deviation for every set, or one for all."""
    rows = [[" "] * width for _ in (sets if separate else sets[:1])]
    for number, one in enumerate(sets):
        row = rows[number if separate else 0]
        if not math.isnan(one.stddev):
            left, right = column(one.mean - one.stddev), column(one.mean + one.stddev)
            row[left] = row[right] = "|"
            row[left + 1 : right] = ["_" if c == " " else c for c in row[left + 1 : right]]
        row[column(one.median)] = "M"
        row[column(one.mean)] = "A"
    return rows
