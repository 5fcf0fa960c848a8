"""Simulates searches of all engines in one lab; prints accuracy and cost.

    python -m benchmarks.search --case ideal --trials 100 --seed 1 --json

All engines get the same truth, random numbers and prices: 600 s for a build, 180 s for a boot,
30 s for a run. The results depend on the seed only, not on the number of processes.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import click
import numpy as np
from scipy import special

from benchmarks import ours
from benchmarks.cases import CASES
from benchmarks.engine import Engine, Outcome, Task, play
from benchmarks.lab import Lab, World
from benchmarks.peers import bayesect
from benchmarks.peers.gitbisect import GitBisect
from benchmarks.peers.pinpoint import Pinpoint
from benchmarks.peers.psect import Psect

SURE = 0.99
OURS = "netbisect"
PEERS: dict[str, Callable[[Task], Engine]] = {
    "git_bayesect": bayesect.Bayesect,
    "psect (rule)": Psect,
    "git bisect, mean of 5": partial(GitBisect, runs=5),
    "git bisect, 1 run": partial(GitBisect, runs=1),
    "Pinpoint (rule)": Pinpoint,
}
ENGINES = (OURS, *PEERS)


@dataclass(frozen=True, slots=True)
class Row:
    """An engine in a case; None where a number has no meaning."""

    engine: str
    case: str
    trials: int
    accuracy: float | None = None
    """Share of right verdicts: all culprits, or none."""
    blamed: float | None = None
    """Share of searches with a culprit."""
    blamed_wrong: float | None = None
    """Share with a wrong culprit."""
    builds_mean: float | None = None
    boots_mean: float | None = None
    runs_mean: float | None = None
    hours_mean: float | None = None
    hours_p95: float | None = None
    calibration: float | None = None
    """Share of right verdicts among those that claim 0.99 or more."""
    in_range: float | None = None
    """Share of right verdicts or ranges with the culprit."""
    skipped: str = ""
    """Reason for skipping."""

    def public(self) -> dict[str, Any]:
        """The row for JSON."""
        row = asdict(self)
        del row["in_range"]
        if not self.skipped:
            del row["skipped"]
        return row


@dataclass(frozen=True, slots=True)
class Score:
    """Assessment of a search."""

    right: bool
    blamed: bool
    wrong: bool
    sure: bool
    in_range: bool | None
    """Whether the range contains the culprit; None without a range."""
    outcome: Outcome


def score(world: World, done: Outcome) -> Score:
    """Compares a verdict with the truth."""
    verdict = done.verdict
    named, guilty = set(verdict.culprits), set(world.culprits)
    right = named == guilty if guilty else not named and (verdict.none or world.drifts)
    sure = verdict.posterior is not None and verdict.posterior >= SURE
    suspects = set(verdict.suspects)
    in_range = bool(guilty) and guilty <= suspects if suspects else None
    return Score(right, bool(named), bool(named - guilty), sure, in_range, done)


def task(world: World, lab: Lab) -> Task:
    """Parameters that a peer cannot estimate itself."""
    good = float(world.levels[0])
    bad = good * float(np.exp(world.suspected))
    threshold = (good + bad) / 2
    return Task(
        world.commits,
        tuple(world.weights.tolist()),
        threshold,
        good - bad,
        _failures(world, good, float(world.run_sd[0]), threshold),
        _failures(world, bad, float(world.run_sd[-1]), threshold),
        (lab.earlier_boots(0), lab.earlier_boots(world.commits)),
    )


def _failures(world: World, level: float, run_sd: float, threshold: float) -> float:
    """Probability of a run below the threshold, over boots and images."""
    noise = world.boot
    sd = np.hypot(run_sd, level * np.hypot(noise.sd, world.image_sd))
    high, low = special.ndtr((threshold - level * np.array([1, 1 - noise.low_gap])) / sd)
    return float((1 - noise.low_share) * high + noise.low_share * low)


def trial(engine: str, case: str, seed: int, number: int) -> Score:
    """Runs one trial."""
    key = (seed, zlib.crc32((CASES[case].same_as or case).encode()), number)
    world = CASES[case].draw(np.random.default_rng(key))
    lab = Lab(world, key)
    if engine == OURS:
        return score(world, ours.play(world, lab))
    return score(world, play(PEERS[engine](task(world, lab)), lab))


def plays(engine: str, case: str) -> bool:
    """Whether an engine's row in a case is not redundant."""
    # A case with the random numbers of another one differs only for netbisect.
    return engine == OURS or not CASES[case].same_as


def missing(engine: str, case: str) -> str:
    """Reason why an engine cannot run a case here; empty if it can."""
    return CASES[case].missing() or (bayesect.missing() if engine == "git_bayesect" else "")


def summarise(engine: str, case: str, scores: Sequence[Score]) -> Row:
    """Means over trials."""
    done = [one.outcome for one in scores]
    hours = [one.hours for one in done]
    sure = [one.right for one in scores if one.sure]
    return Row(
        engine,
        case,
        len(scores),
        accuracy=_mean(one.right for one in scores),
        blamed=_mean(one.blamed for one in scores),
        blamed_wrong=_mean(one.wrong for one in scores),
        builds_mean=_mean(one.builds for one in done),
        boots_mean=_mean(one.boots for one in done),
        runs_mean=_mean(one.runs for one in done),
        hours_mean=_mean(hours),
        hours_p95=round(float(np.percentile(hours, 95)), 4),
        calibration=_mean(sure) if sure else None,
        in_range=_mean(one.right or bool(one.in_range) for one in scores),
    )


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 4)


_AT_ONCE = 5
"""Trials of a process at a time."""


def run(
    engines: Iterable[str], cases: Iterable[str], trials: Mapping[str, int], seed: int, jobs: int
) -> Iterator[Row]:
    """Runs all engines in all cases in several processes; yields rows by case.

    Args:
        engines: Names from `ENGINES`.
        cases: Names from `CASES`.
        trials: Numbers of trials by engine.
        seed: Seed of all random numbers.
        jobs: Number of processes; 1 uses the current one.
    """
    wanted = tuple(engines)
    players = [name for name in ENGINES if name in wanted]
    with ThreadPoolExecutor(1) if jobs == 1 else ProcessPoolExecutor(jobs) as pool:
        running = [
            (engine, case, _submit(pool, engine, case, trials[engine], seed))
            for case in cases
            for engine in players
            if plays(engine, case)
        ]
        for engine, case, futures in running:
            scores = [one for future in futures for one in future.result()]
            if scores:
                yield summarise(engine, case, scores)
            else:
                yield Row(engine, case, 0, skipped=missing(engine, case))


def _submit(
    pool: Executor, engine: str, case: str, trials: int, seed: int
) -> list[Future[list[Score]]]:
    if missing(engine, case):
        return []
    parts = (range(i, min(i + _AT_ONCE, trials)) for i in range(0, trials, _AT_ONCE))
    return [pool.submit(_trials, engine, case, seed, part) for part in parts]


def _trials(engine: str, case: str, seed: int, numbers: range) -> list[Score]:
    return [trial(engine, case, seed, number) for number in numbers]


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The rows as lines of text."""
    yield (
        f"{'case':9} {'engine':28} {'trials':>6} {'right':>6} {'range':>6} {'named':>6} "
        f"{'wrong':>6} {'builds':>6} {'boots':>6} {'runs':>6} {'hours':>6} "
        f"{'p95':>6} {'calib.':>6}"
    )
    for row in rows:
        if row.skipped:
            yield f"{row.case:9} {row.engine:28} not run: {row.skipped}"
            continue
        shares = " ".join(
            _cell(x, 3) for x in (row.accuracy, row.in_range, row.blamed, row.blamed_wrong)
        )
        work = " ".join(_cell(x, 1) for x in (row.builds_mean, row.boots_mean, row.runs_mean))
        rest = (row.hours_mean, row.hours_p95, row.calibration)
        yield (
            f"{row.case:9} {row.engine:28} {row.trials:6} {shares} {work} "
            + " ".join(_cell(x, 2) for x in rest)
        )


def _cell(value: float | None, digits: int) -> str:
    return f"{'-':>6}" if value is None else f"{value:6.{digits}f}"


@click.command(help=__doc__)
@click.option("--case", type=click.Choice(list(CASES)), help="One case. Default: all.")
@click.option(
    "--engine", "engines", type=click.Choice(ENGINES), multiple=True, help="May be repeated."
)
@click.option("--trials", type=click.IntRange(1), default=30, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="A list with one row per engine and case.")
def main(
    case: str | None, engines: Sequence[str], trials: int, seed: int, jobs: int, *, as_json: bool
) -> None:
    """Runs the benchmark and prints the table."""
    rows = []
    chosen = engines or ENGINES
    for row in run(chosen, [case] if case else CASES, dict.fromkeys(ENGINES, trials), seed, jobs):
        rows.append(row)
        click.echo(f"{row.case}: {row.engine} {row.skipped or 'done'}", err=True)
    if as_json:
        click.echo(json.dumps([row.public() for row in rows], indent=1))
    else:
        click.echo("\n".join(table(rows)))


if __name__ == "__main__":
    main()
