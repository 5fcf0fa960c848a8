"""Blocks with a disturbed boot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.stats.disturbance import BlockLikelihood
from netbisect.bisect.stats.sequential import (
    BLOCK,
    PRIOR_WEIGHT,
    Blocks,
    SequentialTest,
    block_test,
    effects_between,
    log_uniform_effects,
    sequential_test,
)

EFFECT = -0.05
SD = 0.01
OF_SEARCH = effects_between(EFFECT / 2, 1.5 * EFFECT)
OF_RETEST = -log_uniform_effects(0.02)


def differences_of(
    random: np.random.Generator, blocks: int, effect: float, outlier: NDArray[np.float64] | float
) -> list[float]:
    """Differences of boots in the order good, bad, bad, good; `outlier` has a row per block."""
    x = random.normal(0, SD, (blocks, BLOCK)) + outlier
    pairs = effect + np.stack([x[:, 1] - x[:, 0], x[:, 2] - x[:, 3]], axis=1)
    found: list[float] = pairs.ravel().tolist()
    return found


def verdict_of(
    differences: list[float], effects: NDArray[np.float64], known: float = 100.0
) -> SequentialTest:
    found = block_test(
        {"apu": Blocks(differences, runs=1)},
        lambda _: Noise(SD, boot_weight=known),
        lambda _: SD,
        PRIOR_WEIGHT,
        effects,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("outlier", [-0.6, 0.3])
@pytest.mark.parametrize("boot", range(BLOCK))
@pytest.mark.parametrize("effects", [OF_SEARCH, OF_RETEST])
def test_disturbed_boot_takes_few_blocks_more(
    outlier: float, boot: int, effects: NDArray[np.float64]
) -> None:
    """Five blocks suffice; treated as boot noise, an outlier of 60 % would take forty."""
    off = np.zeros((5, BLOCK))
    off[0, boot] = math.log1p(outlier)
    for seed in range(3):
        found = verdict_of(differences_of(np.random.default_rng(seed), 5, EFFECT, off), effects)

        assert found.shown
        assert found.is_precise
        assert found.mean == pytest.approx(EFFECT, abs=0.02)
        assert found.low < EFFECT < found.high < 0
        assert found.boot_sd < 2 * SD


def test_disturbed_boot_does_not_hide_that_nothing_changed() -> None:
    off = np.zeros((4, BLOCK))
    off[0, 1] = math.log1p(-0.6)
    for seed in range(10):
        differences = differences_of(np.random.default_rng(seed), 4, 0.0, off)

        assert verdict_of(differences, OF_SEARCH).refuted


@pytest.mark.parametrize("effects", [OF_SEARCH, OF_RETEST])
@pytest.mark.parametrize("outlier", [-0.05, -0.1, -0.6, 0.3])
def test_one_outlier_does_not_decide(outlier: float, effects: NDArray[np.float64]) -> None:
    """One outlier and one difference within the noise leave the test open, as two of each do."""
    for other in (0.0, SD, -SD):
        found = verdict_of([math.log1p(outlier), other], effects)

        assert not found.shown
        assert not found.refuted
    found = verdict_of([0.001, -0.9, -0.9, -0.001], OF_RETEST)
    assert not (found.shown and found.is_precise)


@pytest.mark.parametrize("outliers", [0.0, pytest.param(0.05, marks=pytest.mark.long)])
def test_equal_sides_are_not_called_different(outliers: float) -> None:
    """There is a look after each of eight blocks; outliers are 30 %."""
    for seed in range(50):
        random = np.random.default_rng(seed)
        off = np.where(random.random((8, BLOCK)) < outliers, math.log(0.7), 0.0)
        differences = differences_of(random, 8, 0.0, off)

        assert not any(verdict_of(differences[:n], OF_SEARCH).shown for n in range(2, 17, 2))


def test_unknown_noise_allows_no_disturbed_blocks() -> None:
    """A third of the runs may be 40 % slower, so that two equal pairs are not evidence."""
    pairs = [-0.4, -0.41, -0.4, 0.0]

    assert verdict_of(pairs, OF_RETEST).log_ratio > math.log(1 / ALPHA)
    assert verdict_of(pairs, OF_RETEST, known=0.0).log_ratio < math.log(1 / ALPHA)


def test_consistent_blocks_use_the_plain_sequential_test() -> None:
    """The sum over variances agrees with the integral."""
    differences = differences_of(np.random.default_rng(1), 4, EFFECT, 0.0)
    likelihood = BlockLikelihood(np.array(differences), SD, PRIOR_WEIGHT)
    expected = sequential_test(differences, SD, PRIOR_WEIGHT, OF_SEARCH)
    ratio = likelihood.log(np.array([EFFECT])) - likelihood.log(np.zeros(1))
    integral = sequential_test(differences, SD, PRIOR_WEIGHT, np.array([EFFECT]))

    assert not likelihood.may_be_disturbed
    assert verdict_of(differences, OF_SEARCH) == expected
    assert float(ratio[0]) == pytest.approx(integral.log_ratio, abs=0.01)


def test_noise_much_larger_than_known_is_not_disturbance() -> None:
    """Thirty blocks scatter by ten times the known noise."""
    random = np.random.default_rng(2)
    found = verdict_of(random.normal(0, 10 * SD, 60).tolist(), OF_RETEST)

    assert not found.shown
    assert 5 * SD < found.boot_sd < 10 * SD
