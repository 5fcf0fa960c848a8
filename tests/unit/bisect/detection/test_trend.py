"""Drift below the best level of a quarter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from histories import nights

from netbisect.bisect.detection.trend import drift
from netbisect.bisect.model.entities import Level, Noise

NOISE = Noise(boot=0.009, image=0.005)


def sliding(total: float, seed: int = 1) -> list[Level]:
    """One image per night; the level changes linearly by `total`."""
    rng = np.random.default_rng(seed)
    level = 14 + np.linspace(0, total, 90) + rng.normal(0, 0.005, 90)
    return nights(level[:, None] + rng.normal(0, 0.009, (90, 5)))


def test_gradual_drop_is_a_drift() -> None:
    """The level falls by 6 % in a quarter, by 0.07 % per night; four standard errors are needed."""
    found = drift(sliding(-0.06), NOISE)

    assert found is not None
    assert found.low < found.ln_ratio < found.high < 0
    assert found.ln_ratio == pytest.approx(-0.05, abs=0.015)
    assert found.latest == "r89"
    assert int(found.best[1:]) < 40
    assert drift(sliding(-0.06), Noise(boot=0.009, image=0.05)) is None


def test_old_revisions_measured_late_do_not_hide_a_drift() -> None:
    """A search of yesterday has measured a revision after every third night."""
    found = sliding(-0.06)
    mixed = []
    for i, one in enumerate(found):
        mixed.append(one)
        if i % 3 == 0 and i < 87:
            mixed.append(replace(one, revision=f"r{i}b", identity="", at=found[-2].at))

    assert drift(mixed, NOISE) == drift(found, NOISE)


@pytest.mark.parametrize("total", [0.0, 0.06, -0.01])
def test_small_drop_is_not_a_drift(total: float) -> None:
    for seed in range(20):
        assert drift(sliding(total, seed=seed), NOISE) is None


def test_scatter_beyond_the_noise_is_not_a_drift() -> None:
    """Twelve images of one level scatter by 5 %; the known noise is 0.5 %."""
    for seed in range(20):
        images = 14 + np.random.default_rng(seed).normal(0, 0.05, (12, 1))
        assert drift(nights(images.repeat(5, axis=1)), NOISE) is None


def test_no_drift_after_a_gap_of_half_a_year() -> None:
    levels = sliding(-0.06)
    late = [replace(one, at=one.at + 200 * 86400 * (i > 80)) for i, one in enumerate(levels)]

    assert drift(late, NOISE) is None


def test_slow_mode_is_not_a_drift() -> None:
    """Most boots of the latest nights are slow."""
    rng = np.random.default_rng(2)
    share = np.where(np.arange(90) < 80, 0.2, 0.8)[:, None]
    slow = rng.random((90, 5)) < share
    slow[:, 0] = False
    rows = 14 + rng.normal(0, 0.003, (90, 5)) - 0.12 * slow
    modes = Noise(boot=0.003, image=0.003, slow_share=0.3, slow_gap=0.12)

    assert drift(nights(rows), modes) is None
    assert drift(nights(rows), Noise(boot=0.003, image=0.003)) is not None
