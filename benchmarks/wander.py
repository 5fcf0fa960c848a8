"""Simulates searches on a testbed whose level is AR(1) noise in time.

    python -m benchmarks.wander --trials 30 --seed 1 --jobs 2

Each search begins with the retest of its ends.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import click
import numpy as np

from benchmarks import ours
from benchmarks.cases import WANDER_HOURS, WANDER_SD, wander
from benchmarks.lab import Lab
from benchmarks.search import Score, score

Cell = tuple[float, float]
"""Standard deviation (ratio) and correlation time (hours)."""


def trial(cell: Cell, seed: int, number: int) -> Score:
    """Simulates one search of a cell."""
    key = (seed, zlib.crc32(f"wander {cell}".encode()), number)
    world = wander(np.random.default_rng(key), sd=cell[0], hours=cell[1])
    return score(world, ours.play(world, Lab(world, key)))


def row(cell: Cell, scores: Iterable[Score]) -> str:
    """One line of the table: numbers of searches by result, and mean hours."""
    played = list(scores)
    right, wrong = sum(one.right for one in played), sum(one.wrong for one in played)
    none = sum(one.outcome.verdict.none for one in played)
    hours = float(np.mean([one.outcome.hours for one in played]))
    counts = f"{right} | {wrong} | {len(played) - right - wrong - none} | {none}"
    return f"| {100 * cell[0]:g} % | {cell[1]:g} h | {counts} | {hours:.1f} |"


def table(trials: int, seed: int, jobs: int) -> Iterator[str]:
    """The table over all cells, as Markdown."""
    yield "| sd | correlation time | right | wrong | no answer | nothing changed | hours |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    with ProcessPoolExecutor(jobs) as pool:
        cells = [(sd, hours) for sd in WANDER_SD for hours in WANDER_HOURS]
        playing = [
            (cell, [pool.submit(trial, cell, seed, i) for i in range(trials)]) for cell in cells
        ]
        for cell, futures in playing:
            yield row(cell, (future.result() for future in futures))


@click.command(help=__doc__)
@click.option("--trials", type=click.IntRange(1), default=30, show_default=True, help="Per cell.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
def main(trials: int, seed: int, jobs: int) -> None:
    """Runs the benchmark and prints the table."""
    for line in table(trials, seed, jobs):
        click.echo(line)


if __name__ == "__main__":
    main()
