"""Differences of levels."""

from __future__ import annotations

import math

import pytest

from netbisect.bisect.detection.health import level_estimates
from netbisect.bisect.detection.level_difference import LevelEstimate, level_difference
from netbisect.bisect.model.entities import Level, Noise

NOISE = Noise(boot=0.01, image=0.008)


def level(*ln_pps: float) -> Level:
    return Level("r", "i", 0.0, ln_pps)


def test_estimate_is_the_robust_mean() -> None:
    [one, outlier] = level_estimates(
        [level(14.0, 14.0, 14.0, 14.0), level(14, 14, 14, 14, 13)], NOISE
    )

    assert one.mean == pytest.approx(14.0)
    assert one.variance == pytest.approx(0.01**2 / 4)
    assert 13.99 < outlier.mean < 14.0
    assert level_estimates([], NOISE) == []


def test_interval_includes_image_noise_of_both_sides() -> None:
    one, other = LevelEstimate(14.0, 0.0), LevelEstimate(13.9, 0.0)
    difference = level_difference(one, other, NOISE)

    assert difference.ln_ratio == pytest.approx(-0.1)
    assert difference.high - difference.ln_ratio == pytest.approx(1.96 * math.sqrt(2) * 0.008)
    assert difference.clear
    same_image = level_difference(one, other, NOISE, same_image=True)
    assert same_image.high == same_image.low == same_image.ln_ratio
