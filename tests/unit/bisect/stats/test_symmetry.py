"""The test for effects in symmetric noise of any shape."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.stats import symmetry
from netbisect.bisect.stats.robust import Floats, estimate
from netbisect.bisect.stats.sequential import (
    Blocks,
    SequentialTest,
    block_test,
    log_uniform_effects,
)

NoiseSampler = Callable[[np.random.Generator, int, float], Floats]
EFFECTS = -log_uniform_effects(0.02)[::12]
BOUND = -math.log(ALPHA)


def two_modes(random: np.random.Generator, count: int, effect: float) -> Floats:
    """Differences of runs with a scatter of 1 %; half of the runs are 36 % slower."""
    good, bad = -0.45 * (random.random((2, count)) < 0.5) + random.normal(0, 0.01, (2, count))
    return bad - good + effect


def heavy_tails(random: np.random.Generator, count: int, effect: float) -> Floats:
    return 0.02 * random.standard_t(1.5, count) + effect


@pytest.mark.parametrize("noise", [two_modes, heavy_tails])
def test_error_rate_of_equal_sides(noise: NoiseSampler) -> None:
    wrong = 0
    for seed in range(100):
        y = noise(np.random.default_rng(seed), 60, 0.0)
        wrong += any(symmetry.log_evidence(y[:n], 0.0, EFFECTS) >= BOUND for n in range(4, 61, 4))

    assert wrong <= 2


@pytest.mark.parametrize("noise", [two_modes, heavy_tails])
def test_drop_of_five_percent_is_found_in_noise_of_thirty(noise: NoiseSampler) -> None:
    """80 pairs suffice; a test by the variance would need 400."""
    found = [
        symmetry.log_evidence(noise(np.random.default_rng(seed), 80, -0.05), 0.0, EFFECTS)
        for seed in range(40)
    ]

    assert np.mean(np.array(found) >= BOUND) >= 0.95


def test_fewer_than_seven_pairs_of_one_sign_show_nothing() -> None:
    """Two modes of equal frequency produce six equal signs once in 64 cases."""
    y = np.full(7, -0.5)

    assert symmetry.log_evidence(y[:6], 0.0, EFFECTS) < BOUND
    assert symmetry.log_evidence(y, 0.0, np.array([-0.5])) == pytest.approx(
        7 * math.log(2), abs=0.1
    )


@pytest.mark.long
@pytest.mark.parametrize("noise", [two_modes, heavy_tails])
def test_interval_of_the_estimate_has_its_coverage(noise: NoiseSampler) -> None:
    covered, error = 0, []
    for seed in range(60):
        middle, low, high = estimate(noise(np.random.default_rng(seed), 20, -0.05))
        covered += low <= -0.05 <= high
        error.append(abs(middle + 0.05))

    assert covered >= 56
    assert np.median(error) < 0.01


def test_only_one_difference_has_an_unbounded_interval() -> None:
    middle, low, high = estimate(np.full(8, -0.05))

    assert estimate(np.array([-0.05])) == (-0.05, -math.inf, math.inf)
    assert low < middle < high
    assert middle == pytest.approx(-0.05, abs=1e-4)


@pytest.mark.long
def test_sequential_interval_has_its_coverage() -> None:
    width = []
    for seed in range(40):
        y = two_modes(np.random.default_rng(seed), 80, -0.05)
        low, high = symmetry.interval(y, estimate(y)[0], 0.02, ALPHA)
        width.append(high - low)

        assert low <= -0.05 <= high

    assert np.median(width) < 0.06


def test_equal_sides_give_evidence_against_an_effect() -> None:
    refuted = [
        symmetry.log_evidence_against(two_modes(np.random.default_rng(seed), 200, 0.0), EFFECTS)
        >= BOUND
        for seed in range(40)
    ]

    assert np.mean(refuted) >= 0.9


@pytest.mark.parametrize(("weight", "shown"), [(0.0, True), (100.0, False)])
def test_symmetry_is_used_depending_on_the_noise(weight: float, shown: bool) -> None:
    differences = two_modes(np.random.default_rng(3), 80, -0.05).tolist()
    found = block_test(
        {"a": Blocks(differences, runs=1)},
        lambda _: Noise(0.009, boot_weight=weight),
        lambda _: 0.009,
        4.0,
        -log_uniform_effects(0.02),
    )

    assert isinstance(found, SequentialTest)
    assert found.shown is shown
    if shown:
        assert found.interval is not None
        assert found.interval[0] <= found.mean <= found.interval[1]
        assert found.is_precise
