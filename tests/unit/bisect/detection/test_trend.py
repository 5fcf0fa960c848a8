"""Drift below the best level of a quarter."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.detection.trend import DRIFT, drift
from netbisect.bisect.model.detection_results import DriftEstimate
from netbisect.bisect.model.entities import Level, Noise

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "histories.py"))
nights, moved, shuffled = (made[name] for name in ("nights", "moved", "shuffled"))

NOISE = Noise(boot=0.009, image=0.005)


def sliding(total: float, count: int = 90, seed: int = 1, image: float = 0.005) -> list[Level]:
    """One image a night; by the last one the level has moved by `total`."""
    rng = np.random.default_rng(seed)
    level = 14 + np.linspace(0, total, count) + rng.normal(0, image, count)
    levels: list[Level] = nights(level[:, None] + rng.normal(0, 0.009, (count, 5)))
    return levels


def test_gradual_drop_is_a_drift() -> None:
    """6 % in a quarter, of which no night shows more than 0.07 %."""
    found = drift(sliding(-0.06), NOISE)

    assert found is not None
    assert found.low < found.ln_ratio < found.high < 0
    assert found.ln_ratio == pytest.approx(-0.05, abs=0.015)
    assert found.latest == "r89"
    assert int(found.best[1:]) < 40


@pytest.mark.parametrize("total", [0.0, 0.06, -0.01])
def test_small_drop_is_no_drift(total: float) -> None:
    for seed in range(20):
        assert drift(sliding(total, seed=seed), NOISE) is None


def test_least_drift_is_a_parameter() -> None:
    levels = sliding(-0.02, image=0.001)
    quiet = Noise(boot=0.009, image=0.001)

    assert drift(levels, quiet) is None
    assert drift(levels, quiet, least=0.01) is not None


def test_image_noise_needs_a_larger_drift() -> None:
    """Three standard errors at least."""
    levels = sliding(-0.06)

    assert drift(levels, NOISE) is not None
    assert drift(levels, Noise(boot=0.009, image=0.05)) is None


def test_only_the_last_quarter_counts() -> None:
    """It was faster, half a year ago."""
    levels = [
        replace(one, ln_pps=tuple(x + 0.3 for x in one.ln_pps)) if i < 100 else one
        for i, one in enumerate(sliding(0.0, count=260))
    ]

    assert drift(levels, NOISE) is None
    assert drift(levels[:150], NOISE) is not None


@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_few_images_show_no_drift(count: int) -> None:
    assert drift(sliding(-0.5, count=count), NOISE) is None


def test_five_images_before_the_week_are_enough() -> None:
    assert drift(sliding(-0.5, count=12), NOISE) is not None
    assert drift(sliding(-0.5, count=11), NOISE) is None


def test_single_image_is_no_drift() -> None:
    same = [replace(one, identity="same") for one in sliding(-0.06)]

    assert drift(same, NOISE) is None


def test_no_drift_after_a_gap_of_half_a_year() -> None:
    levels = sliding(-0.06)
    late = [replace(one, at=one.at + 200 * 86400 * (i > 80)) for i, one in enumerate(levels)]

    assert drift(late, NOISE) is None


def test_rare_nights_use_the_latest_five() -> None:
    levels = [replace(one, at=7 * one.at) for one in sliding(-0.08, count=18)]
    found = drift(levels, NOISE)

    assert found is not None
    assert found.latest == "r17"
    assert int(found.best[1:]) <= 12


def test_constant_levels_are_no_drift() -> None:
    assert drift(nights([[14.0] * 3] * 90), NOISE) is None
    assert drift(nights([[14.0]] * 90), Noise(boot=1e-9)) is None


@pytest.mark.parametrize("odd", [0, 45, 88])
def test_wrong_clock_is_no_drift(odd: int) -> None:
    for at in (0.0, 1e12):
        levels = sliding(0.0)
        levels[odd] = replace(levels[odd], at=at)
        assert drift(levels, NOISE) is None


def test_slow_mode_is_no_drift() -> None:
    """Most boots of the latest week came up slow."""
    rng = np.random.default_rng(2)
    share = np.where(np.arange(90) < 80, 0.2, 0.6)[:, None]
    slow = rng.random((90, 5)) < share
    slow[:, 0] = False
    rows = 14 + rng.normal(0, 0.003, (90, 5)) - 0.12 * slow
    modes = Noise(boot=0.003, image=0.003, slow_share=0.3, slow_gap=0.12)

    assert drift(nights(rows), modes) is None
    assert drift(nights(rows), Noise(boot=0.003, image=0.003)) is not None


@given(st.integers(0, 10**6), st.floats(-0.1, 0.02), st.floats(-5, 5))
@settings(max_examples=15)
def test_unit_and_order_of_boots_do_not_matter(seed: int, total: float, by: float) -> None:
    levels = sliding(total, count=40, seed=seed)
    one, other = drift(levels, NOISE), drift(shuffled(moved(levels, by), seed), NOISE)

    assert (one is None) == (other is None)
    if isinstance(one, DriftEstimate) and isinstance(other, DriftEstimate):
        assert other.ln_ratio == pytest.approx(one.ln_ratio, abs=1e-6)
        assert (other.best, other.latest) == (one.best, one.latest)


@given(st.integers(0, 10**6), st.floats(-0.1, 0.1))
@settings(max_examples=15)
def test_reported_drift_is_significant(seed: int, total: float) -> None:
    found = drift(sliding(total, count=40, seed=seed), NOISE)

    assert found is None or (found.ln_ratio <= -DRIFT and found.high < 0)
    assert math.isclose(DRIFT, -math.log(0.97))
