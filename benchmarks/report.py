"""Plays everything, then writes the tables and the picture of docs/benchmarks.md anew.

    python -m benchmarks.report

The results are kept in a JSON file outside of the checkout, row by row; with --reuse they are
taken from there, and only the page is written. With --case or --engine only those are played, and
all other rows are taken from there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from benchmarks.cases import CASES
from benchmarks.floor import ceilings
from benchmarks.plot import draw
from benchmarks.search import ENGINES, LIKE_WITH_LIKE, OURS, PEERS, SEARCHED, UNPROVED, Row, run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
PICTURE = PAGE.with_suffix(".svg")
KEPT = Path(tempfile.gettempdir()) / "netbisect-benchmarks.json"


@dataclass(frozen=True, slots=True)
class Goal:
    """A number to reach."""

    case: str
    field: str
    """Of `Row`."""
    bound: float
    least: bool = False
    """The number has to be this or more; else this or less."""

    def text(self) -> str:
        """Says it in a few words."""
        return f"{_WORDS[self.field]} {'≥' if self.least else '≤'} {self.bound:g}"

    def short_by(self, row: Row) -> float:
        """Tells by how much a row misses it; 0 or less if it does not."""
        value = float(getattr(row, self.field))
        return round(self.bound - value if self.least else value - self.bound, 4)


_WORDS = {
    "accuracy": "right",
    "blamed": "named",
    "blamed_wrong": "wrongly named",
    "builds_mean": "builds",
    "builds_median": "builds, median",
    "hours_mean": "hours",
}

GOALS = (
    Goal("ideal", "builds_mean", 8.1),
    Goal("ideal", "hours_mean", 2.05),
    Goal("ideal", "accuracy", 0.99, least=True),
    Goal("history", "hours_mean", 1.88),
    Goal("bimodal", "accuracy", 0.99, least=True),
    Goal("bimodal", "hours_mean", 3.0),
    Goal("small", "accuracy", 0.98, least=True),
    Goal("small", "hours_mean", 3.7),
    Goal("none", "accuracy", 0.95, least=True),
    Goal("none", "hours_mean", 0.5),
    Goal("none", "builds_median", 0),
    Goal("two", "accuracy", 0.8, least=True),
    Goal("drift", "blamed", 0.02),
    Goal("skips", "accuracy", 0.98, least=True),
    Goal("skips", "builds_mean", 10.3),
    Goal("paths", "builds_mean", 6.3),
    Goal("paths", "hours_mean", 1.63),
    Goal("parallel", "hours_mean", 1.4),
    Goal("image", "accuracy", 0.95, least=True),
    Goal("image", "blamed_wrong", 0.01),
    Goal("corpus", "accuracy", 0.98, least=True),
    Goal("corpus", "blamed_wrong", 0.01),
)


def goals(rows: Sequence[Row]) -> Iterator[str]:
    """Lays out the goals as a table, for the search with and without its verification."""
    yield "| case | goal | netbisect | | before it verifies | | without proof | |"
    yield "|---|---|---|---|---|---|---|---|"
    for goal in GOALS:
        cells = []
        for engine in (OURS, SEARCHED, UNPROVED):
            found = [row for row in rows if (row.engine, row.case) == (engine, goal.case)]
            if not found or found[0].skipped:
                plays = engine != UNPROVED or goal.case in LIKE_WITH_LIKE
                cells += ["-", "not played"] if plays else ["", ""]
                continue
            short = goal.short_by(found[0])
            value = float(getattr(found[0], goal.field))
            cells += [f"{value:.3g}", "reached" if short <= 0 else f"short by {short:.2g}"]
        yield f"| `{goal.case}` | {goal.text()} | {' | '.join(cells)} |"


def ceiling(rows: Sequence[Row]) -> Iterator[str]:
    """Says what image noise leaves to be found, and what was made of it."""
    ours = {row.case: row for row in rows if row.engine == OURS}
    for case in ("image-one-layout", "corpus-one-layout"):
        if not CASES[case].missing():
            best, named = ceilings(case)
            yield (
                f"- `{case}`: the best guess is right in {best:.2f} of all searches; "
                f"{named:.2f} of them can get to 0.99.{_ranges(ours.get(case))}"
            )


def _ranges(row: Row | None) -> str:
    if row is None or row.ranged_length is None:
        return ""
    return (
        f" netbisect names a commit in {row.blamed:.2f}, and in {row.ranged:.2f} it gives a range "
        f"of {row.ranged_length:.1f} commits, which holds the culprit in {row.ranged_right:.2f} "
        "of these."
    )


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Lays out one table per case."""
    for case in CASES.values():
        mine = [row for row in rows if row.case == case.name]
        if not mine:
            continue
        floor = mine[0].floor_hours
        bound = "" if floor is None else f" Floor: {floor:.2f} h."
        yield f"**`{case.name}`**: {case.title}.{bound}"
        yield ""
        if all(row.skipped for row in mine):
            yield f"Not played: {mine[0].skipped}."
            yield ""
            continue
        yield (
            "| engine | trials | right | in range | named | wrongly | builds | boots | runs "
            "| hours | p95 | calibration |"
        )
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        yield from map(_line, mine)
        yield ""


def _line(row: Row) -> str:
    if row.skipped:
        return f"| {row.engine} | not played: {row.skipped} |" + " |" * 10
    cells = (
        *(_number(x, 2) for x in (row.accuracy, row.in_range, row.blamed, row.blamed_wrong)),
        *(_number(x, 1) for x in (row.builds_mean, row.boots_mean, row.runs_mean)),
        *(_number(x, 2) for x in (row.hours_mean, row.hours_p95, row.calibration)),
    )
    return f"| {row.engine} | {row.trials} | " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def between(text: str, name: str, lines: Iterable[str]) -> str:
    """Puts lines between the two markers of that name.

    Raises:
        ValueError: The markers are not there.
    """
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, marker, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not marker or not end:
        raise ValueError(f"{first.strip()} and {last} were looked for in the page, not found")
    return before + marker + "\n".join(lines).strip() + "\n" + end + after


def replaced(rows: Sequence[Row], row: Row) -> list[Row]:
    """Puts a row in the place of the one of its case and engine, all in the order of the page."""
    kept = [one for one in rows if (one.case, one.engine) != (row.case, row.engine)]
    order = list(CASES)
    return sorted([*kept, row], key=lambda one: (order.index(one.case), ENGINES.index(one.engine)))


def _span(counts: Sequence[int]) -> str:
    least, most = min(counts, default=0), max(counts, default=0)
    return str(least) if least == most else f"{least} to {most}"


def write(rows: Sequence[Row], seed: int) -> None:
    """Writes page and picture."""
    text = PAGE.read_text()
    ours = [row.trials for row in rows if row.trials and row.engine in (OURS, SEARCHED, UNPROVED)]
    others = [row.trials for row in rows if row.trials and row.engine in PEERS]
    trials = f"{_span(ours)} trials of netbisect, {_span(others)} of each other"
    text = between(text, "trials", [f"Seed {seed}; {trials}."])
    text = between(text, "ceiling", ceiling(rows))
    text = between(text, "goals", goals(rows))
    text = between(text, "tables", tables(rows))
    PAGE.write_text(text)
    draw(rows, PICTURE)


@click.command(help=__doc__)
@click.option("--trials", type=click.IntRange(1), default=100, show_default=True, help="Of ours.")
@click.option("--peer-trials", type=click.IntRange(1), default=40, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes.")
@click.option("--results", type=click.Path(path_type=Path), default=KEPT, show_default=True)
@click.option("--reuse", is_flag=True, help="Play nothing.")
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
    """Plays and writes."""
    rows: list[Row] = []
    if reuse or cases or engines:
        kept = json.loads(results.read_text())
        rows = [Row(**row) for row in kept["rows"]]
        if kept["seed"] != seed and not reuse:
            raise click.UsageError(f"{results} is of seed {kept['seed']}, not {seed}")
        seed = kept["seed"]
    if not reuse:
        mine = (OURS, SEARCHED, UNPROVED)
        count = dict.fromkeys(ENGINES, peer_trials) | dict.fromkeys(mine, trials)
        for row in run(engines or ENGINES, cases or CASES, count, seed, jobs):
            rows = replaced(rows, row)
            click.echo(f"{row.case}: {row.engine} {row.skipped or 'done'}", err=True)
            results.write_text(json.dumps({"seed": seed, "rows": [asdict(one) for one in rows]}))
    write(rows, seed)
    click.echo(f"wrote {PAGE.name} and {PICTURE.name} from {results}", err=True)


if __name__ == "__main__":
    main()
