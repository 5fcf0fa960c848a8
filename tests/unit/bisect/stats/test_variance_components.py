"""Noise of images and boots, and the drops that can be detected."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from scipy import stats

from netbisect.bisect.stats import variance_components
from netbisect.bisect.stats.variance_components import components, need


def draw(rng: random.Random, sizes: list[int], image: float, boot: float) -> list[list[float]]:
    groups = []
    for size in sizes:
        offset = rng.gauss(13.7, image)
        groups.append([rng.gauss(offset, boot) for _ in range(size)])
    return groups


def test_estimate_agrees_with_the_analysis_of_variance() -> None:
    """With equal numbers of boots, the variances are MSW and (MSB - MSW) / n."""
    groups = draw(random.Random(1), [3] * 8, 0.01, 0.008)
    within = statistics.mean(statistics.variance(group) for group in groups)
    between = statistics.variance([statistics.mean(group) for group in groups])
    found = components(groups)
    assert found.boot.sd == pytest.approx(math.sqrt(within), rel=1e-4)
    assert found.image.sd == pytest.approx(math.sqrt(between - within / 3), rel=1e-4)
    assert found.level == pytest.approx(statistics.mean(map(statistics.mean, groups)))
    assert (found.images, found.boots) == (8, 24)


@pytest.mark.long
@pytest.mark.parametrize("image", [0.0, 0.01])
def test_intervals_have_90_percent_coverage(image: float) -> None:
    """At least 13 of 15 intervals cover the true value; six images of two to four boots."""
    rng = random.Random(2)
    image_covered = boot_covered = 0
    for _ in range(15):
        found = components(draw(rng, [2, 3, 3, 4, 2, 3], image, 0.008))
        image_covered += found.image.low <= image <= found.image.high
        boot_covered += found.boot.low <= 0.008 <= found.boot.high
    assert image_covered >= 13
    assert boot_covered >= 13


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[1.0, 2.0]], "two images or more are needed"),
        ([[1.0], [2.0]], "one of them with two: found 1, 1"),
        ([[1.0, 1.0], [1.0]], "equal to the last digit"),
    ],
)
def test_too_few_boots_are_reported(groups: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        components(groups)


def test_required_boots_follow_from_both_scatters() -> None:
    """Calculated by hand: z = 2.326 + 1.282 = 3.608; 5 % needs a variance of 0.000096 per side."""
    assert (need(0.05, 0.0, 0.01).boots, need(0.05, 0.008, 0.01).boots) == (2, 4)
    assert need(0.05, 0.01, 0.01).boots is None
    assert need(0.05, 0.01, 0.01).images == 3


def test_smallest_drop_has_its_stated_power() -> None:
    """The power of the pooled t test with five boots per side is 80 %."""
    drop = variance_components.detectable(0.0, 0.01, 5)
    df = 8
    noncentrality = drop / (0.01 * math.sqrt(2 / 5))
    power = stats.nct.sf(stats.t.ppf(0.95, df), df, noncentrality)
    assert power == pytest.approx(0.8, abs=0.02)
