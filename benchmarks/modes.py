"""Simulates histories whose modes begin, end or change their gap; counts false events.

    python -m benchmarks.modes --trials 100 --seed 1 --jobs 2

A history has 53 images of five boots, boot noise of 0.6 % and image noise of 0.8 %; a third of the
boots are slow while there are two modes. Half of the histories have a step of 5 to 15 % of either
sign. Histories are also analysed as they grow: an event changes if a longer history does not have
it, within one image.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import click
import numpy as np

from netbisect.bisect.detection.histories import analyze
from netbisect.bisect.model.entities import Level

CASES = ("none", "last", "end", "begin", "gap", "stretch")
_IMAGES, _BOOTS, _SHARE = 53, 5, 1 / 3
_BOOT, _IMAGE = 0.006, 0.008
_WIDE, _NARROW = -math.log(0.73), -math.log(0.9)
"""Gaps between the modes, ln ratios."""
_GROWS = range(12, _IMAGES, 6)
"""Numbers of images of the shorter histories."""


def gaps(case: str) -> np.ndarray:
    """Gap of the modes at each image; 0 with one mode."""
    at = np.arange(_IMAGES)
    shapes = {
        "none": 0.0 * at,
        "last": _WIDE + 0.0 * at,
        "end": np.where(at < 20, _WIDE, 0.0),
        "begin": np.where(at < 33, 0.0, _WIDE),
        "gap": np.where(at < 27, _WIDE, _NARROW),
        "stretch": np.where((at >= 15) & (at < 35), _WIDE, 0.0),
    }
    return np.asarray(shapes[case])


@dataclass(frozen=True, slots=True)
class Played:
    """The events of a history."""

    steps: int
    found: int
    """Steps found: 0 or 1."""
    false: int
    changed: int
    """Events of shorter histories that longer ones do not have."""


def play(case: str, seed: int, number: int) -> Played:
    """Simulates one history."""
    random = np.random.default_rng([seed, CASES.index(case), number])
    gap = gaps(case)
    level = 14 + random.normal(0, _IMAGE, _IMAGES)
    at = int(random.integers(8, _IMAGES - 8)) if number % 2 else 0
    level[at:] += random.choice([-1, 1]) * random.uniform(0.05, 0.15) if at else 0.0
    slow = random.random((_IMAGES, _BOOTS)) < _SHARE
    boots = level[:, None] + random.normal(0, _BOOT, slow.shape) - slow * gap[:, None]
    history = [Level(str(i), str(i), float(i), tuple(row)) for i, row in enumerate(boots)]
    events = _places(history)
    shorter = [_places(history[:length]) for length in _GROWS]
    longer = [*shorter[1:], events]
    return Played(
        steps=bool(at),
        found=bool(at) and _near(at, events),
        false=sum(not (at and abs(one - at) <= 1) for one in events),
        changed=sum(
            not _near(one, later)
            for earlier, later in zip(shorter, longer, strict=True)
            for one in earlier
        ),
    )


def _places(history: list[Level]) -> list[int]:
    return [int(step.at) for step in analyze(history).steps]


def _near(one: int, others: Iterable[int]) -> bool:
    return any(abs(one - other) <= 1 for other in others)


def table(trials: int, seed: int, jobs: int) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| modes | precision | recall | false per 100 images | changed per 100 images |"
    yield "|---|--:|--:|--:|--:|"
    with ProcessPoolExecutor(jobs) as pool:
        every = {case: [pool.submit(play, case, seed, i) for i in range(trials)] for case in CASES}
        for case in [*CASES, "all"]:
            cases = CASES if case == "all" else (case,)
            played = [future.result() for one in cases for future in every[one]]
            found, false = sum(one.found for one in played), sum(one.false for one in played)
            steps, changed = sum(one.steps for one in played), sum(one.changed for one in played)
            per = 100 / (len(played) * _IMAGES)
            yield (
                f"| `{case}` | {found / max(found + false, 1):.2f} | {found / max(steps, 1):.2f} "
                f"| {per * false:.2f} | {per * changed:.2f} |"
            )


@click.command(help=__doc__)
@click.option("--trials", type=click.IntRange(1), default=100, show_default=True, help="Per case.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
def main(trials: int, seed: int, jobs: int) -> None:
    """Runs the benchmark and prints the table."""
    for line in table(trials, seed, jobs):
        click.echo(line)


if __name__ == "__main__":
    main()
