"""Simulates nights of a lab; prints detection rates, delays and false alerts.

    python -m benchmarks.detection --case unimodal --labs 4 --seed 1 --json

A lab has 300 series. Every night has a new revision and 5 boots of it; images differ by 0.8 %,
nights by 0.6 %, boots by 1 % with heavy tails, and 2 % of the boots are low outliers. After
30 quiet nights, 48 of the series become slower by 2, 3, 5 or 10 %, each in a different night.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import click
import numpy as np

from benchmarks import corpus
from benchmarks.detection import ours, page
from benchmarks.detection.lab import BOOTS, LEARNING, WITHIN, Lab
from benchmarks.detection.rules import RULES, Rule

OURS = "netbisect"
CASES = ("unimodal", "bimodal", "model")
_SERIES, _NIGHTS, _CHANGED = 300, 70, 48


@dataclass
class Row:
    """One engine in one case."""

    engine: str
    case: str
    labs: int
    false_alerts: float = 0.0
    """Per 300 series-nights."""
    hits: dict[str, float] = field(default_factory=dict)
    """Share of drops detected within 14 nights, by size of the drop in percent."""
    delay_nights: float | None = None
    """Median of the detected drops."""
    localisation_nights: float | None = None
    """Mean distance of the reported night from the true one."""
    retest_boots: float = 0.0
    """Boots per 300 series-nights."""
    retests: float = 0.0
    suspicious: float = 0.0
    """Suspicious series per 300 series-nights."""


@dataclass
class Count:
    """Results of an engine in one lab."""

    series_nights: int = 0
    false: int = 0
    drops: list[tuple[float, int | None, int]] = field(default_factory=list)
    """Size in percent, delay (None: not detected) and location error in nights of each drop."""
    boots: int = 0
    retests: int = 0
    suspicious: int = 0


def count(lab: Lab, alerts: list[tuple[int, int, int]]) -> Count:
    """Compares alerts with the drops: (night of the report, series, reported night of the drop)."""
    result = Count(series_nights=len(lab.scatters) * (lab.nights - LEARNING))
    hit: dict[int, tuple[int, int]] = {}
    for night, series, since in alerts:
        change = lab.changes.get(series)
        if change is not None and change.night <= night and series not in hit:
            hit[series] = (night - change.night, abs(since - change.night))
        elif night >= LEARNING:
            result.false += 1
    for series, change in lab.changes.items():
        delay, off = hit.get(series, (lab.nights, 0))
        found = delay if delay < WITHIN else None
        result.drops.append((-100 * math.expm1(change.ln_ratio), found, off))
    return result


def play_rule(rule: Rule, kind: str, seed: int) -> Count:
    """Simulates a lab with a rule, which is applied to each series separately."""
    lab = Lab(kind, seed, _SERIES, _NIGHTS, _CHANGED)
    alerts = []
    for series in range(_SERIES):
        start = 0
        seen = []
        for night in range(_NIGHTS):
            seen.append(lab.boots(series, night, night, 0, BOOTS))
            found = rule(seen[start:])
            if found is not None:
                alerts.append((night, series, start + found))
                start = start + found if found > 0 else night
    return count(lab, alerts)


def play_ours(kind: str, seed: int) -> Count:
    """Simulates a lab with netbisect."""
    lab = Lab(kind, seed, _SERIES, _NIGHTS, _CHANGED)
    watch = ours.Watch(lab)
    alerts = []
    for night in range(_NIGHTS):
        if night == LEARNING:
            watch.boots = watch.retests = watch.suspicious = 0
        alerts += [(night, series, since) for series, since in watch.night(night)]
    result = count(lab, alerts)
    result.boots, result.retests = watch.boots, watch.retests
    result.suspicious = watch.suspicious
    return result


def summary(engine: str, case: str, counts: list[Count]) -> Row:
    """The row of an engine over all labs."""
    share = 300 / sum(one.series_nights for one in counts)
    drops = [one for lab in counts for one in lab.drops]
    row = Row(engine, case, len(counts))
    row.false_alerts = round(share * sum(one.false for one in counts), 3)
    for size in sorted({round(size) for size, _, _ in drops}):
        found = [delay is not None for drop, delay, _ in drops if round(drop) == size]
        row.hits[str(size)] = round(float(np.mean(found)), 3)
    delays = [delay for _, delay, _ in drops if delay is not None]
    if delays:
        row.delay_nights = float(np.median(delays))
        errors = [off for _, delay, off in drops if delay is not None]
        row.localisation_nights = round(float(np.mean(errors)), 2)
    row.retest_boots = round(share * sum(one.boots for one in counts), 1)
    row.retests = round(share * sum(one.retests for one in counts), 2)
    row.suspicious = round(share * sum(one.suspicious for one in counts), 2)
    return row


@click.command(epilog="Example: python -m benchmarks.detection --case bimodal --labs 2 --json")
@click.option(
    "--case", "cases", type=click.Choice(list(CASES)), multiple=True, help="Default: all."
)
@click.option("--engine", "engines", multiple=True, help=f"{OURS}, or a rule. Default: all.")
@click.option("--labs", default=2, show_default=True, help="Labs of 300 series in each case.")
@click.option("--seed", default=1, show_default=True, help="Seed of the first lab.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--page", "as_page", is_flag=True, help="Update the table in docs/benchmarks.md.")
def main(
    cases: tuple[str, ...],
    engines: tuple[str, ...],
    labs: int,
    seed: int,
    *,
    as_json: bool,
    as_page: bool,
) -> None:
    """Simulate detection in labs of 300 series."""
    rows: list[dict[str, Any]] = []
    players: dict[str, Callable[[str, int], Count]] = {OURS: play_ours}
    players |= {name: partial(play_rule, rule) for name, rule in RULES.items()}
    for name in engines:
        if name not in players:
            raise click.ClickException(
                f"there is no engine {name!r}; there is {', '.join(players)}"
            )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for case in cases or CASES:
            if case == "model" and corpus.missing():
                click.echo(f"model: {corpus.missing()}", err=True)
                continue
            for name in engines or players:
                began = time.monotonic()
                seeds = range(seed, seed + labs)
                counts = list(pool.map(players[name], [case] * labs, seeds))
                rows.append(asdict(summary(name, case, counts)))
                click.echo(f"{case}: {name}, {time.monotonic() - began:.0f} s", err=True)
    if as_page:
        page.write(rows, seed)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        click.echo("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
