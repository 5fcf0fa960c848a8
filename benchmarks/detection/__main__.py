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
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import click
import numpy as np

from benchmarks import corpus
from benchmarks.detection import ours
from benchmarks.detection.lab import BOOTS, LEARNING, WITHIN, Lab
from benchmarks.detection.rules import RULES, Rule
from benchmarks.page import OURS, PAGE, Row, between

CASES = ("unimodal", "bimodal", "model")
_SERIES, _NIGHTS, _CHANGED = 300, 70, 48
_DROPS = ("2", "3", "5", "10")


@dataclass
class Count:
    """Results of an engine in one lab."""

    series_nights: int = 0
    false: int = 0
    drops: list[tuple[float, int | None, int]] = field(default_factory=list)
    """Size in percent, delay (None: not detected) and location error in nights of each drop."""
    work: Counter[str] = field(default_factory=Counter)
    """Of `ours.Watch`."""


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
            watch.work.clear()
        alerts += [(night, series, since) for series, since in watch.night(night)]
    result = count(lab, alerts)
    result.work = watch.work
    return result


def summary(engine: str, case: str, counts: list[Count]) -> Row:
    """The row of an engine over all labs.

    False alerts, boots, retests and suspicious series per 300 series-nights; shares of the drops
    detected within 14 nights, by size in percent; the median delay of the detected ones, and the
    mean distance of the reported night from the true one.
    """
    share = 300 / sum(one.series_nights for one in counts)
    work = sum((one.work for one in counts), Counter())
    drops = [one for lab in counts for one in lab.drops]
    hits = {}
    for size in sorted({round(size) for size, _, _ in drops}):
        found = [delay is not None for drop, delay, _ in drops if round(drop) == size]
        hits[str(size)] = round(float(np.mean(found)), 3)
    delays = [delay for _, delay, _ in drops if delay is not None]
    errors = [off for _, delay, off in drops if delay is not None]
    return {
        "engine": engine,
        "case": case,
        "labs": len(counts),
        "false_alerts": round(share * sum(one.false for one in counts), 3),
        "hits": hits,
        "delay_nights": float(np.median(delays)) if delays else None,
        "localisation_nights": round(float(np.mean(errors)), 2) if delays else None,
        "retest_boots": round(share * work["boots"], 1),
        "retests": round(share * work["retests"], 2),
        "suspicious": round(share * work["suspicious"], 2),
    }


def table(rows: Sequence[Row], seed: int) -> list[str]:
    """The table of docs/benchmarks.md: lines of Markdown."""
    labs = max((row["labs"] for row in rows), default=0)
    lines = [
        f"Seeds {seed} to {seed + labs - 1}: {labs} labs of each case.",
        "",
        (
            "| case | rule | false alerts | 2 % | 3 % | 5 % | 10 % | delay (nights) "
            "| error (nights) | boots of retests |"
        ),
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        hits = " | ".join(f"{row['hits'].get(drop, float('nan')):.2f}" for drop in _DROPS)
        delay = "-" if row["delay_nights"] is None else f"{row['delay_nights']:.0f}"
        off = "-" if row["localisation_nights"] is None else f"{row['localisation_nights']:.2f}"
        lines.append(
            f"| `{row['case']}` | {row['engine']} | {row['false_alerts']:.2f} | {hits} | {delay} "
            f"| {off} | {row['retest_boots']:.0f} |"
        )
    return lines


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
    rows: list[Row] = []
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
                rows.append(summary(name, case, counts))
                click.echo(f"{case}: {name}, {time.monotonic() - began:.0f} s", err=True)
    if as_page:
        PAGE.write_text(between(PAGE.read_text(), "detection", lambda _: table(rows, seed)))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        click.echo("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
