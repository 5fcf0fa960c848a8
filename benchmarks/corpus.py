"""Noise of real routers, from ../shared/netbenches if available.

The model: pps = level (1 + image) mode(boot) (1 + boot) (1 - outlier) (1 + second); seconds average
out. Routers are drawn in proportion to their number of series.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab import BootNoise

DATA = Path(__file__).resolve().parents[2] / "shared" / "netbenches"
_LEAST_BOOTS = 4
_SD_CAP = 1.3
"""Maximum in 90 % quantiles: the log-normal tail is too heavy."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Noise of a router in a configuration."""

    level: float
    """pps."""
    run_sd: float
    """Ratio of standard deviation to median over a run."""
    image_sd: float
    boot: BootNoise


def missing() -> str:
    """Reason why the corpus is missing; empty if it is available."""
    for name in ("noise_model.json", "series.jsonl"):
        if not (DATA / name).is_file():
            return f"{name} is not in ../shared/netbenches"
    return ""


@cache
def _data() -> tuple[Mapping[str, Any], Sequence[tuple[str, float]]]:
    """The contents of noise_model.json; for each series, the key of its router and median pps."""
    model = json.loads((DATA / "noise_model.json").read_text())
    series = []
    for line in (DATA / "series.jsonl").read_text().splitlines():
        one = json.loads(line)
        key = f"{one['hw']}/{one['nic']}"
        if one["unit"] == "pps" and one["n"] >= _LEAST_BOOTS and key in model["hw_nic"]:
            series.append((key, float(np.median(one["v"]))))
    return model, series


def draw(random: np.random.Generator) -> Measured:
    """Draws a series with its router and level, and noise from the model."""
    whole, series = _data()
    key, level = series[int(random.integers(len(series)))]
    model = whole["hw_nic"][key]
    spread = model["sd_boot_pct"]
    sd = spread["median"] * math.exp(spread["log_sd"] * random.standard_normal())
    gap = model.get("mode_gap_pct")
    low_gap = share = 0.0
    if random.random() < model["p_series_bimodal"] and gap:
        share, low_gap = model["p_low_mode"], _between(gap, random)
        sd = model["sd_in_mode_pct"]
    outliers = model.get("outlier_low_depth_pct", {"median": 0.0})
    boot = BootNoise(
        sd=min(sd, _SD_CAP * spread["p90"]) / 100,
        low_share=share,
        low_gap=low_gap / (100 + low_gap),
        outlier_share=model["p_run_outlier_low"],
        outlier_depth=outliers["median"] / math.log(2) / 100,
    )
    seconds = max(model["secs_per_run"], 1)
    run_sd = model["sd_within_pct"]["median"] / 100 / math.sqrt(seconds)
    return Measured(level, run_sd, _image_sd(whole, key, random) / 100, boot)


def _between(quartiles: Mapping[str, float], random: np.random.Generator) -> float:
    points = [quartiles[name] for name in ("p25", "median", "p75")]
    return float(np.interp(random.random(), [0.25, 0.5, 0.75], points))


def _image_sd(model: Mapping[str, Any], key: str, random: np.random.Generator) -> float:
    prefix = key.replace("/", "|") + "|"
    own = [
        part["sd_build_white"] for name, part in model["build"].items() if name.startswith(prefix)
    ]
    # Always draw once, so that later draws do not depend on the router.
    pick = int(random.integers(1 << 16))
    return float(own[pick % len(own)]) if own else 0.0
