"""Simulates nights resampled from quiet stretches of published histories; counts false alerts.

    python -m benchmarks.nights --labs 6 --seed 1 --jobs 2

A series consists of blocks of six neighbouring images from one stretch without a step; modes and
outliers are kept. A further boot of a kernel is drawn from its own boots. All alerts count,
including those of the first thirty nights, after which a third of the series becomes slower. Needs
../shared/netbenches.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache

import click
import numpy as np

from benchmarks.corpus import DATA
from benchmarks.detection.lab import LEARNING, WITHIN, Floats, plan_changes
from benchmarks.detection.ours import Watch
from benchmarks.detection.rules import pelt_cuts
from netbisect.bisect.model.alert_state import AlertKind

SERIES, NIGHTS, CHANGED = 72, 70, 24
DROPS = (3, 5, 10)
"""Sizes of the drops in percent."""
_BLOCK = 6
"""Images of a block."""
_LEAST = 8
"""Minimum number of images of a stretch."""


@cache
def stretches() -> tuple[tuple[Floats, ...], ...]:
    """Boots of the images of each quiet stretch between cuts of PELT, ln ratios to its median."""
    found = []
    for line in (DATA / "histories.jsonl").read_text().splitlines():
        one = json.loads(line)
        images = [np.log(np.array(point["v"], dtype=float)) for point in one.get("points", ())]
        images = [image for image in images if len(image) > 2]
        if one["kind"] != "history" or len(images) < _LEAST:
            continue
        y = np.array([np.median(image) for image in images])
        for start, stop in itertools.pairwise([0, *pelt_cuts(y)]):
            if stop - start >= _LEAST:
                middle = float(np.median(y[start:stop]))
                found.append(tuple(image - middle for image in images[start:stop]))
    return tuple(found)


class Lab:
    """A lab of resampled series, which depends on the seed only."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng([seed, 3])
        self.nights = NIGHTS
        self.scatters = range(SERIES)
        self.changes = plan_changes(random, NIGHTS, CHANGED, [drop / 100 for drop in DROPS])
        self._seed = seed
        self._images = [self._resampled(random) for _ in range(SERIES)]

    @staticmethod
    def _resampled(random: np.random.Generator) -> list[Floats]:
        stretch = stretches()[random.integers(len(stretches()))]
        images: list[Floats] = []
        while len(images) < NIGHTS:
            start = int(random.integers(len(stretch) - _BLOCK + 1))
            images += stretch[start : start + _BLOCK]
        return images[:NIGHTS]

    def boots(self, series: int, revision: int, night: int, turn: int, count: int) -> Floats:
        """Boots the kernel of night `revision` `count` times; ln pps of each."""
        change = self.changes.get(series)
        step = change.ln_ratio if change and revision >= change.night else 0.0
        own = self._images[series][revision]
        if turn:
            random = np.random.default_rng([self._seed, 4, series, revision, night, turn])
            own = random.choice(own, count)
        return 14.0 + step + own[:count]


@dataclass
class Played:
    """The alerts of a lab."""

    early: Counter[AlertKind] = field(default_factory=Counter)
    """False alerts of the first thirty nights."""
    late: Counter[AlertKind] = field(default_factory=Counter)
    """False alerts of the later nights."""
    drops: list[tuple[int, bool]] = field(default_factory=list)
    """Drops in percent, and whether they were found within 14 nights."""


def play(seed: int) -> Played:
    """Simulates one lab."""
    lab = Lab(seed)
    watch = Watch(lab)
    found = Played()
    hits: dict[int, int] = {}
    for night in range(NIGHTS):
        watch.night(night)
    for night, series, kind in watch.alerts:
        change = lab.changes.get(series)
        slower = change is not None and change.night <= night
        if slower and kind is AlertKind.DROP and series not in hits:
            hits[series] = night
        elif not slower or kind is not AlertKind.DRIFT:
            (found.early if night < LEARNING else found.late)[kind] += 1
    for series, change in lab.changes.items():
        soon = series in hits and hits[series] < change.night + WITHIN
        found.drops.append((round(-100 * math.expm1(change.ln_ratio)), soon))
    return found


def table(played: Iterable[Played]) -> list[str]:
    """Lines of Markdown."""
    labs = list(played)
    lines = ["| nights | series-nights | drop | gain | modes | drift | all |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    kinds = (AlertKind.DROP, AlertKind.IMPROVEMENT, AlertKind.MODES, AlertKind.DRIFT)
    for name, first, last in (("1 to 30", 0, LEARNING), ("31 to 70", LEARNING, NIGHTS)):
        counts = sum(((one.early if not first else one.late) for one in labs), Counter())
        nights = len(labs) * SERIES * (last - first)
        rates = [f"{300 * counts[kind] / nights:.2f}" for kind in kinds]
        total = f"{300 * counts.total() / nights:.2f}"
        lines.append(f"| {name} | {nights} | {' | '.join(rates)} | {total} |")
    lines.append("")
    for size in DROPS:
        hit = [soon for lab in labs for drop, soon in lab.drops if drop == size]
        lines.append(f"{size} %: {sum(hit)} of {len(hit)} found within {WITHIN} nights")
    return lines


@click.command(help=__doc__)
@click.option("--labs", type=click.IntRange(1), default=6, show_default=True)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the first lab."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
def main(labs: int, seed: int, jobs: int) -> None:
    """Runs the benchmark and prints the table."""
    with ProcessPoolExecutor(jobs) as pool:
        for line in table(pool.map(play, range(seed, seed + labs))):
            click.echo(line)


if __name__ == "__main__":
    main()
