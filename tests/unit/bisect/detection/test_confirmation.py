"""Confirmation by the images of the history, or by one pair of images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection.confirmation import exceeds_images, judge
from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Confirmed, Effect, NotConfirmed

BOOT_SD = 0.002
JOB = CompareJob(
    "main", "apu", "r9", "r10", ("inet4", "inet6"), "inet4", suspected=-0.03, commits=30
)


def effect(ln_ratio: float, scenario: str = "inet4") -> Effect:
    return Effect(scenario, ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-6, 6, 6)


def exceeds(ln_ratio: float, image_sd: float, min_effect: float = MIN_EFFECT) -> bool:
    return exceeds_images(ln_ratio, 6, Noise(BOOT_SD, image_sd), min_effect)


@pytest.mark.parametrize("sign", [-1, 1])
def test_change_of_ten_standard_deviations_needs_one_pair(sign: int) -> None:
    assert exceeds(sign * 0.07, 0.005)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("size", [0.025, 0.03])
def test_moderate_change_may_be_an_odd_image(sign: int, size: float) -> None:
    """Up to four standard deviations of a difference."""
    assert not exceeds(sign * size, 0.005)


def test_change_is_relative_to_image_noise() -> None:
    """10 % is no more than two images of 3 % may differ by."""
    assert exceeds(-0.1, 0.005)
    assert not exceeds(-0.1, 0.03)


def test_min_effect_decides() -> None:
    assert exceeds(-0.015, 0.0005, min_effect=0.01)
    assert not exceeds(-0.015, 0.0005, min_effect=0.02)


@given(st.floats(-0.2, 0.2), st.floats(0, 0.05), st.floats(0, 0.05))
def test_more_image_noise_is_never_more_significant(
    ln_ratio: float, image_sd: float, more: float
) -> None:
    if exceeds(ln_ratio, image_sd + more):
        assert exceeds(ln_ratio, image_sd)
        assert exceeds(-ln_ratio, image_sd)


def test_images_of_equal_performance_are_rarely_a_change() -> None:
    """Pairs that differ by 1 % each: 4 of 400."""
    rng = np.random.default_rng(1)
    differences = rng.normal(0, 0.01 * np.sqrt(2), 400)

    assert sum(exceeds(float(one), 0.01) for one in differences) <= 4


def test_small_difference_needs_the_images_of_the_history() -> None:
    """Their effect is reported, because two images add their offsets."""
    result = Confirmed((effect(-0.05), effect(-0.04, "inet6")))
    alone = judge(replace(JOB, noise=Noise(BOOT_SD, 0.03)), result)
    agreed = judge(replace(JOB, agreed=effect(-0.03)), result)

    assert isinstance(alone, NotConfirmed)
    assert "offset of an image" in alone.why
    assert agreed == Confirmed((effect(-0.03), effect(-0.04, "inet6")))


def test_large_difference_is_confirmed_as_measured() -> None:
    result = Confirmed((effect(-0.12),))

    assert judge(replace(JOB, noise=Noise(BOOT_SD, 0.005)), result) == result
