"""Differences of levels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection.health import level_estimates
from netbisect.bisect.detection.level_difference import LevelEstimate, level_difference, pooled
from netbisect.bisect.model.entities import Level, Noise

NOISE = Noise(boot=0.01, image=0.008)
values = st.floats(-20, 20)


def level(*ln_pps: float) -> Level:
    return Level("r", "i", 0.0, ln_pps)


def test_estimate_is_the_robust_mean() -> None:
    [one, stray] = level_estimates(
        [level(14.0, 14.0, 14.0, 14.0), level(14, 14, 14, 14, 13)], NOISE
    )

    assert one.mean == pytest.approx(14.0)
    assert one.variance == pytest.approx(0.01**2 / 4)
    assert 13.99 < stray.mean < 14.0
    assert level_estimates([], NOISE) == []


def test_interval_includes_image_noise_of_both_sides() -> None:
    one, other = LevelEstimate(14.0, 0.0), LevelEstimate(13.9, 0.0)
    apart = level_difference(one, other, NOISE)

    assert apart.ln_ratio == pytest.approx(-0.1)
    assert apart.high - apart.ln_ratio == pytest.approx(1.96 * math.sqrt(2) * 0.008)
    assert apart.clear
    twins = level_difference(one, other, NOISE, twins=True)
    assert twins.high == twins.low == twins.ln_ratio


def test_pooled_images_average_image_noise() -> None:
    many = pooled([LevelEstimate(14.0, 0.0001)] * 16, NOISE)

    assert many is not None
    assert many.mean == pytest.approx(14.0)
    assert many.images == pytest.approx(16)
    assert many.variance == pytest.approx(0.0001 / 16)
    assert pooled([], NOISE) is None


@given(values, values, st.floats(0, 1), st.floats(0, 1))
def test_difference_is_antisymmetric(a: float, b: float, first: float, second: float) -> None:
    one, other = LevelEstimate(a, first), LevelEstimate(b, second)
    there, back = level_difference(one, other, NOISE), level_difference(other, one, NOISE)

    assert there.low <= there.ln_ratio <= there.high
    assert there.ln_ratio == pytest.approx(-back.ln_ratio)
    assert there.clear == back.clear


def test_zero_noise() -> None:
    """All boots of all images equal, and images without noise."""
    still = Noise(boot=0.0, image=0.0)

    found = pooled([LevelEstimate(14.0, 0.0)] * 3, still)
    assert found is not None
    assert (found.mean, found.images) == pytest.approx((14.0, 3.0))
    assert not level_difference(found, found, still).clear
