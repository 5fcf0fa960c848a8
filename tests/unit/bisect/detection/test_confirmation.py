"""Confirmation by the images of the history, or by one pair of images."""

from __future__ import annotations

from dataclasses import replace

import pytest

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


@pytest.mark.parametrize(
    ("ln_ratio", "image_sd", "min_effect", "shown"),
    [
        (-0.07, 0.005, MIN_EFFECT, True),
        (0.07, 0.005, MIN_EFFECT, True),
        (-0.03, 0.005, MIN_EFFECT, False),  # four standard deviations of a difference
        (0.025, 0.005, MIN_EFFECT, False),
        (-0.1, 0.03, MIN_EFFECT, False),
        (-0.015, 0.0005, 0.01, True),
        (-0.015, 0.0005, 0.02, False),
        (-0.7, 0.03, MIN_EFFECT, True),
        (-1.0, 0.05, MIN_EFFECT, True),  # larger than the effects of the prior
        (-4.0, 0.05, MIN_EFFECT, True),
        (2.3, 0.05, 0.005, True),
    ],
)
def test_one_pair_of_images_shows_a_change_beyond_their_noise(
    ln_ratio: float, image_sd: float, min_effect: float, shown: bool
) -> None:
    assert exceeds_images(ln_ratio, 6, Noise(BOOT_SD, image_sd), min_effect) is shown


def test_small_difference_needs_the_images_of_the_history() -> None:
    """The effect of the history is reported, because two images add their offsets."""
    result = Confirmed((effect(-0.05), effect(-0.04, "inet6")))
    alone = judge(replace(JOB, noise=Noise(BOOT_SD, 0.03)), result)
    agreed = judge(replace(JOB, agreed=effect(-0.03)), result)
    large = Confirmed((effect(-0.12),))

    assert isinstance(alone, NotConfirmed)
    assert "may differ by as much" in alone.why
    assert agreed == Confirmed((effect(-0.03), effect(-0.04, "inet6")))
    assert judge(replace(JOB, noise=Noise(BOOT_SD, 0.005)), large) == large
