"""The tables of docs/benchmarks.md, and the goals of the search."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
OURS = "netbisect"
Row = dict[str, Any]
"""Results of an engine in a case."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for a number."""

    case: str
    field: str
    """Key of a row."""
    bound: float
    least: bool = False
    """Whether the goal is a minimum; else a maximum."""

    def text(self, row: Row) -> str:
        """The number of a row beside the bound, in bold if the goal is missed."""
        value = row[self.field]
        missed = value < self.bound if self.least else value > self.bound
        sign = ("<" if missed else "≥") if self.least else ">" if missed else "≤"
        text = f"{_WORDS[self.field]} {value:.4g} {sign} {self.bound:g}"
        return f"**{text}**" if missed else text


_WORDS = {
    "accuracy": "right",
    "blamed": "named",
    "blamed_wrong": "wrongly named",
    "builds_mean": "builds",
    "hours_mean": "hours",
    "hours_p95": "95th percentile",
}

GOALS = (
    Goal("ideal", "accuracy", 0.99, least=True),
    Goal("ideal", "hours_mean", 2.2),
    Goal("history", "hours_mean", 2.0),
    Goal("bimodal", "accuracy", 0.99, least=True),
    Goal("bimodal", "hours_mean", 2.75),
    Goal("small", "accuracy", 0.98, least=True),
    Goal("small", "hours_mean", 3.6),
    Goal("small", "hours_p95", 5.5),
    Goal("none", "accuracy", 0.97, least=True),
    Goal("none", "hours_mean", 0.4),
    Goal("two", "accuracy", 0.85, least=True),
    Goal("drift", "blamed", 0.02),
    Goal("skips", "builds_mean", 10.3),
    Goal("skips", "hours_mean", 2.6),
    Goal("paths", "builds_mean", 6.6),
    Goal("paths", "hours_mean", 1.85),
    Goal("parallel", "hours_mean", 1.3),
    Goal("image", "hours_mean", 3.5),
    Goal("image", "blamed_wrong", 0.01),
    Goal("corpus", "accuracy", 0.98, least=True),
    Goal("corpus", "hours_p95", 8.0),
    Goal("corpus", "blamed_wrong", 0.01),
    Goal("cheap", "accuracy", 0.98, least=True),
    Goal("cheap", "blamed_wrong", 0.01),
)


def table(rows: Iterable[Row], old: Sequence[str] = ()) -> Iterator[str]:
    """A table with one line per case: shares of right and wrong verdicts, and mean hours.

    Args:
        rows: New cells.
        old: Lines of an earlier table, whose other cells stay.
    """
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    split = [[cell.strip() for cell in line.split("|")[1:-1]] for line in old]
    engines = split[0] if split else ["case"]
    for case, *values in split[2:]:
        cells[case].update(zip(engines[1:], values, strict=True))
    for row in rows:
        hours = f"{row['hours_mean']:.{1 if row['hours_mean'] > 0.1 else 2}f}"
        numbers = f"{row['accuracy']:.2f}, {row['blamed_wrong']:.2f}, {hours}"
        cells[f"`{row['case']}`"][row["engine"]] = numbers
        engines += [row["engine"]] * (row["engine"] not in engines)
    yield f"| {' | '.join(engines)} |"
    yield "|---|" + "--:|" * (len(engines) - 1)
    for case in (f"`{name}`" for name in CASES if f"`{name}`" in cells):
        yield f"| {' | '.join([case, *(cells[case].get(one, '') for one in engines[1:])])} |"


def goals(rows: Sequence[Row], old: Sequence[str]) -> Iterator[str]:
    """The goals as a table with one line per case, like `table`."""
    lines = {line.split("`")[1]: line for line in old[2:]}
    ours = {row["case"]: row for row in rows if row["engine"] == OURS}
    yield "| case | numbers and goals |"
    yield "|---|---|"
    for case, some in itertools.groupby(GOALS, key=lambda goal: goal.case):
        if case in ours:
            yield f"| `{case}` | {', '.join(goal.text(ours[case]) for goal in some)} |"
        elif case in lines:
            yield lines[case]


def between(text: str, name: str, lines: Callable[[list[str]], Iterable[str]]) -> str:
    """Replaces the lines between two markers by lines made of them.

    Raises:
        ValueError: The page lacks the markers.
    """
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, marker, rest = text.partition(first)
    old, end, after = rest.partition(last)
    if not marker or not end:
        raise ValueError(f"the page lacks the markers {first.strip()} and {last}")
    return before + marker + "\n".join(lines(old.splitlines())) + "\n" + end + after


def update(rows: Sequence[Row]) -> None:
    """Writes the cells and goals of some rows into the page."""
    text = between(PAGE.read_text(), "table", lambda old: table(rows, old))
    PAGE.write_text(between(text, "goals", lambda old: goals(rows, old)))
