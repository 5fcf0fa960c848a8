"""Simulates searches of all engines in one lab; prints accuracy and cost.

    python -m benchmarks.search --case ideal --trials 100 --seed 1 --json

All engines get the same truth, random numbers and prices: 600 s for a build, 180 s for a boot,
30 s for a run. The results depend on the seed only, not on the number of processes.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import click
import numpy as np
from scipy import special

from benchmarks import ours, page
from benchmarks.cases import CASES
from benchmarks.engine import Engine, Outcome, Task, play
from benchmarks.lab import Lab, World
from benchmarks.page import OURS, Row
from benchmarks.peers import bayesect
from benchmarks.peers.gitbisect import GitBisect
from benchmarks.peers.pinpoint import Pinpoint
from benchmarks.peers.psect import Psect

SURE = 0.99
PEERS: dict[str, Callable[[Task], Engine]] = {
    "git_bayesect": bayesect.Bayesect,
    "psect (rule)": Psect,
    "git bisect, mean of 5": partial(GitBisect, runs=5),
    "git bisect, 1 run": partial(GitBisect, runs=1),
    "Pinpoint (rule)": Pinpoint,
}
ENGINES = (OURS, *PEERS)
_AT_ONCE = 5
"""Trials of a process at a time."""


@dataclass(frozen=True, slots=True)
class Score:
    """Assessment of a search."""

    right: bool
    blamed: bool
    wrong: bool
    sure: bool
    in_range: bool
    """Whether it is right, or a range with the culprit."""
    outcome: Outcome


def score(world: World, done: Outcome) -> Score:
    """Compares a verdict with the truth."""
    verdict = done.verdict
    named, guilty = set(verdict.culprits), set(world.culprits)
    right = named == guilty if guilty else not named and (verdict.none or world.drifts)
    sure = verdict.posterior is not None and verdict.posterior >= SURE
    in_range = right or (bool(guilty) and guilty <= set(verdict.suspects))
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


def missing(engine: str, case: str) -> str:
    """Reason why an engine cannot run a case here; empty if it can."""
    return CASES[case].missing() or (bayesect.missing() if engine == "git_bayesect" else "")


def summarise(engine: str, case: str, scores: Sequence[Score]) -> Row:
    """Means over trials.

    `accuracy` is the share of right verdicts (all culprits, or none), `blamed` that of verdicts
    with a culprit, `blamed_wrong` with a wrong one. `calibration` is the share of right verdicts
    among those that claim 0.99 or more, or None.
    """
    done = [one.outcome for one in scores]
    hours = [one.hours for one in done]
    sure = [one.right for one in scores if one.sure]
    return {
        "engine": engine,
        "case": case,
        "trials": len(scores),
        "accuracy": _mean(one.right for one in scores),
        "blamed": _mean(one.blamed for one in scores),
        "blamed_wrong": _mean(one.wrong for one in scores),
        "builds_mean": _mean(one.builds for one in done),
        "boots_mean": _mean(one.boots for one in done),
        "runs_mean": _mean(one.runs for one in done),
        "hours_mean": _mean(hours),
        "hours_p95": round(float(np.percentile(hours, 95)), 4),
        "calibration": _mean(sure) if sure else None,
    }


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 4)


@click.command(help=__doc__)
@click.option(
    "--case", "cases", type=click.Choice(list(CASES)), multiple=True, help="Default: all."
)
@click.option(
    "--engine", "engines", type=click.Choice(ENGINES), multiple=True, help="May be repeated."
)
@click.option("--trials", type=click.IntRange(1), default=30, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="A list with one row per engine and case.")
@click.option("--page", "as_page", is_flag=True, help="Update these cells of docs/benchmarks.md.")
def main(
    cases: Sequence[str],
    engines: Sequence[str],
    trials: int,
    seed: int,
    jobs: int,
    *,
    as_json: bool,
    as_page: bool,
) -> None:
    """Runs the benchmark and prints the table."""
    rows, running = [], []
    with ProcessPoolExecutor(jobs) as pool:
        for case, engine in itertools.product(cases or CASES, ENGINES):
            # A case with the random numbers of another one differs only for netbisect.
            if engine not in (engines or ENGINES) or (engine != OURS and CASES[case].same_as):
                continue
            if why := missing(engine, case):
                click.echo(f"{case}: {engine} {why}", err=True)
                continue
            play_one = partial(trial, engine, case, seed)
            running.append((engine, case, pool.map(play_one, range(trials), chunksize=_AT_ONCE)))
        for engine, case, scores in running:
            with click.progressbar(scores, trials, f"{case}: {engine}", file=sys.stderr) as bar:
                done = list(bar)
            rows.append(summarise(engine, case, done))
            held = sum(one.in_range for one in done)
            click.echo(f"{case}: {engine}, {held} right, or a range with the culprit", err=True)
    if as_page:
        page.update(rows)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo("\n".join(page.table(rows)))


if __name__ == "__main__":
    main()
