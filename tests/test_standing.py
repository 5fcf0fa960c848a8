"""How levels of a series lie to each other, with the noise of images counted."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model import Level, Noise
from netbisect.bisect.standing import Standing, distance, standings, together

NOISE = Noise(boot=0.01, image=0.008)
values = st.floats(-20, 20)


def level(*ln_pps: float) -> Level:
    return Level("r", "i", 0.0, ln_pps)


def test_a_standing_is_the_robust_mean_of_the_boots() -> None:
    """One stray boot hardly moves it; its variance is that of the boots alone."""
    [one, stray] = standings([level(14.0, 14.0, 14.0, 14.0), level(14, 14, 14, 14, 13)], NOISE)

    assert one.mean == pytest.approx(14.0)
    assert one.variance == pytest.approx(0.01**2 / 4)
    assert 13.99 < stray.mean < 14.0
    assert standings([], NOISE) == []


def test_images_count_on_both_sides() -> None:
    """Two images have two offsets; two nights of one have none between them."""
    one, other = Standing(14.0, 0.0), Standing(13.9, 0.0)
    apart = distance(one, other, NOISE)

    assert apart.ln_ratio == pytest.approx(-0.1)
    assert apart.high - apart.ln_ratio == pytest.approx(1.96 * math.sqrt(2) * 0.008)
    assert apart.clear
    twins = distance(one, other, NOISE, twins=True)
    assert twins.high == twins.low == twins.ln_ratio


def test_a_baseline_of_many_images_is_known_better() -> None:
    """As a mean of n images, whose offsets average out."""
    many = together([Standing(14.0, 0.0001)] * 16, NOISE)

    assert many is not None
    assert many.mean == pytest.approx(14.0)
    assert many.images == pytest.approx(16)
    assert many.variance == pytest.approx(0.0001 / 16)
    assert together([], NOISE) is None


@given(values, values, st.floats(0, 1), st.floats(0, 1))
def test_a_distance_holds_its_ratio_and_turns_round(
    a: float, b: float, first: float, second: float
) -> None:
    one, other = Standing(a, first), Standing(b, second)
    there, back = distance(one, other, NOISE), distance(other, one, NOISE)

    assert there.low <= there.ln_ratio <= there.high
    assert there.ln_ratio == pytest.approx(-back.ln_ratio)
    assert there.clear == back.clear


def test_noise_of_nothing_is_no_error() -> None:
    """All boots of all images equal, and images without noise."""
    still = Noise(boot=0.0, image=0.0)

    found = together([Standing(14.0, 0.0)] * 3, still)
    assert found is not None
    assert (found.mean, found.images) == pytest.approx((14.0, 3.0))
    assert not distance(found, found, still).clear
