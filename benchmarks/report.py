"""Runs all benchmarks and updates docs/benchmarks.md.

    python -m benchmarks.report

Results are stored in a JSON file outside of the checkout, row by row; --reuse only writes the page
from it. With --case or --engine only those are run; other rows come from the file.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.cases import CASES
from benchmarks.search import ENGINES, OURS, PEERS, Row, run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
KEPT = Path(tempfile.gettempdir()) / "netbisect-benchmarks.json"


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for a number."""

    case: str
    field: str
    """Field of `Row`."""
    bound: float
    least: bool = False
    """Whether the goal is a minimum; else a maximum."""

    def text(self, row: Row) -> str:
        """The number of a row beside the bound, in bold if the goal is missed."""
        value = float(getattr(row, self.field))
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
}

GOALS = (
    Goal("ideal", "accuracy", 0.99, least=True),
    Goal("ideal", "hours_mean", 2.2),
    Goal("history", "hours_mean", 2.0),
    Goal("bimodal", "accuracy", 0.99, least=True),
    Goal("bimodal", "hours_mean", 2.75),
    Goal("small", "accuracy", 0.98, least=True),
    Goal("small", "hours_mean", 3.6),
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
    Goal("corpus", "blamed_wrong", 0.01),
    Goal("cheap", "accuracy", 0.98, least=True),
    Goal("cheap", "blamed_wrong", 0.01),
)


def goals(rows: Sequence[Row]) -> Iterator[str]:
    """The goals as a table with one line per case."""
    yield "| case | numbers and goals |"
    yield "|---|---|"
    ours = {row.case: row for row in rows if row.engine == OURS and not row.skipped}
    for case, some in itertools.groupby(GOALS, key=lambda goal: goal.case):
        if case in ours:
            yield f"| `{case}` | {', '.join(goal.text(ours[case]) for goal in some)} |"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A table with one line per case."""
    yield f"| case | {' | '.join(ENGINES)} |"
    yield "|---|" + "--:|" * len(ENGINES)
    found = {(row.case, row.engine): row for row in rows if not row.skipped}
    for case in CASES:
        cells = [_cell(found.get((case, engine))) for engine in ENGINES]
        if any(cells):
            yield f"| `{case}` | {' | '.join(cells)} |"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row.accuracy:.2f}, {row.blamed_wrong:.2f}, {row.hours_mean:.1f}"


def between(text: str, name: str, lines: Iterable[str]) -> str:
    """Replaces the lines between two markers.

    Raises:
        ValueError: The page lacks the markers.
    """
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, marker, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not marker or not end:
        raise ValueError(f"the page lacks the markers {first.strip()} and {last}")
    return before + marker + "\n".join(lines).strip() + "\n" + end + after


def replaced(rows: Sequence[Row], row: Row) -> list[Row]:
    """Replaces the row of the same case and engine."""
    kept = [one for one in rows if (one.case, one.engine) != (row.case, row.engine)]
    order = list(CASES)
    return sorted([*kept, row], key=lambda one: (order.index(one.case), ENGINES.index(one.engine)))


def _span(counts: Sequence[int]) -> str:
    least, most = min(counts, default=0), max(counts, default=0)
    return str(least) if least == most else f"{least} to {most}"


def write(rows: Sequence[Row], seed: int) -> None:
    """Writes the page."""
    text = PAGE.read_text()
    ours = [row.trials for row in rows if row.trials and row.engine == OURS]
    others = [row.trials for row in rows if row.trials and row.engine in PEERS]
    trials = f"{_span(ours)} trials of netbisect, {_span(others)} of each other"
    text = between(text, "trials", [f"Seed {seed}; {trials}."])
    text = between(text, "goals", goals(rows))
    text = between(text, "table", table(rows))
    PAGE.write_text(text)


@click.command(help=__doc__)
@click.option(
    "--trials", type=click.IntRange(1), default=100, show_default=True, help="Trials of netbisect."
)
@click.option("--peer-trials", type=click.IntRange(1), default=40, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes.")
@click.option("--results", type=click.Path(path_type=Path), default=KEPT, show_default=True)
@click.option("--reuse", is_flag=True, help="Run nothing.")
@click.option("--case", "cases", type=click.Choice(list(CASES)), multiple=True)
@click.option("--engine", "engines", type=click.Choice(ENGINES), multiple=True)
def main(
    trials: int,
    peer_trials: int,
    seed: int,
    jobs: int,
    results: Path,
    cases: Sequence[str],
    engines: Sequence[str],
    *,
    reuse: bool,
) -> None:
    """Runs the benchmarks and writes the page."""
    rows: list[Row] = []
    if reuse or cases or engines:
        kept = json.loads(results.read_text())
        rows = [Row(**row) for row in kept["rows"]]
        if kept["seed"] != seed and not reuse:
            raise click.UsageError(f"{results} has seed {kept['seed']}, not {seed}")
        seed = kept["seed"]
    if not reuse:
        count = dict.fromkeys(ENGINES, peer_trials) | {OURS: trials}
        for row in run(engines or ENGINES, cases or CASES, count, seed, jobs):
            rows = replaced(rows, row)
            click.echo(f"{row.case}: {row.engine} {row.skipped or 'done'}", err=True)
            results.write_text(json.dumps({"seed": seed, "rows": [asdict(one) for one in rows]}))
    write(rows, seed)
    click.echo(f"wrote {PAGE.name} from {results}", err=True)


if __name__ == "__main__":
    main()
