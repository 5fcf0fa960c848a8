"""Histories of levels, made up or measured, for the tests of the watch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netbisect.bisect.model import Level

MEASURED = Path(__file__).resolve().parents[2] / "shared" / "netbenches" / "histories.jsonl"
DAY = 86400.0


def history(
    seed: int,
    *shape: tuple[int, float],
    boot: float = 0.009,
    image: float = 0.008,
    boots: int = 5,
    stray: float = 0.02,
    share: float = 0.0,
    gap: float = 0.12,
) -> list[Level]:
    """Levels of `count` images each at 14 + `shift`, for every (count, shift); seeded.

    A boot is `gap` low with the chance `share`, and 0.08 low with the chance `stray`.
    """
    rng = np.random.default_rng(seed)
    levels = []
    for count, shift in shape:
        for _ in range(count):
            mean = 14 + shift + rng.normal(0, image)
            values = mean + rng.normal(0, boot, boots) - 0.08 * (rng.random(boots) < stray)
            if share:
                values -= gap * (rng.random(boots) < share)
            name = f"r{len(levels)}"
            levels.append(Level(name, f"kernel {name}", float(len(levels)), tuple(values)))
    return levels


def nights(rows: Iterable[Sequence[float]], day: float = DAY) -> list[Level]:
    """One image r0, r1, ... per row of ln pps, a `day` apart."""
    return [
        Level(f"r{i}", f"kernel r{i}", day * i, tuple(float(x) for x in row))
        for i, row in enumerate(rows)
    ]


def moved(levels: Sequence[Level], by: float) -> list[Level]:
    """The same levels in another unit."""
    return [replace(one, ln_pps=tuple(x + by for x in one.ln_pps)) for one in levels]


def shuffled(levels: Sequence[Level], seed: int) -> list[Level]:
    """The same levels, the boots of each in another order."""
    rng = np.random.default_rng(seed)
    return [
        replace(one, ln_pps=tuple(float(x) for x in rng.permutation(one.ln_pps))) for one in levels
    ]


def measured(hardware: str, config: str, kind: str) -> list[Level]:
    """A history that was measured on a real router; skips the test where there is none."""
    if not MEASURED.exists():
        pytest.skip(f"the measurements are not there: {MEASURED}")
    for line in MEASURED.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == kind and record["hw"].startswith(hardware) and record["cfg"] == config:
            return [
                Level(
                    f"r{point['rev']}{point.get('patch', '')}",
                    "",
                    float(i),
                    tuple(math.log(pps) for pps in point["v"] if pps > 0),
                )
                for i, point in enumerate(record["points"])
                # The driver's import was also measured on the revision before it.
                if point.get("patch") != "iflib"
            ]
    pytest.fail(f"no {kind} of {hardware} {config} in {MEASURED}")
