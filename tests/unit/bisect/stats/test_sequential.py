"""The sequential test on blocks of interleaved boots."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netbisect.bisect.model.entities import KNOWN_WEIGHT, Noise
from netbisect.bisect.stats.sequential import (
    BLOCK,
    PRIOR_WEIGHT,
    BlockBoot,
    Blocks,
    SequentialTest,
    block_test,
    blocks_of,
    effects_between,
    good_begins,
    log_uniform_effects,
    next_side,
    sequential_test,
)

EFFECT = -0.05
MIXTURE = effects_between(EFFECT / 2, 1.5 * EFFECT)


def difference_of_block(x: np.ndarray, effect: float) -> list[float]:
    """Differences of boots in the order good, bad, bad, good."""
    return [effect + x[1] - x[0], effect + x[2] - x[3]]


def simulated_test(
    random: np.random.Generator, effect: float, sd: float, known: float, correlation: float = 0.0
) -> SequentialTest:
    """A test of at most twelve blocks with AR(1) noise of this correlation from boot to boot."""
    differences: list[float] = []
    found = None
    for _ in range(12):
        x = random.normal(0, sd, BLOCK)
        for i in range(1, BLOCK):
            x[i] = correlation * x[i - 1] + math.sqrt(1 - correlation**2) * x[i]
        differences += difference_of_block(x, effect)
        found = sequential_test(differences, known, PRIOR_WEIGHT, MIXTURE)
        if found.shown or found.refuted:
            break
    assert found is not None
    return found


@pytest.mark.parametrize("weight", [PRIOR_WEIGHT, 2 * KNOWN_WEIGHT])
def test_a_large_effect_takes_no_more_blocks_than_a_small_one(weight: float) -> None:
    """Drops of 20 % to 98 % are shown by two blocks, with an interval around the drop."""
    random = np.random.default_rng(1)
    for effect in np.log([0.8, 0.5, 0.38, 0.2, 0.1, 0.02]):
        blocks = Blocks(list(effect + random.normal(0, 0.014, BLOCK)), runs=1)
        noise = Noise(0.01, boot_weight=weight)
        found = block_test(
            {"a": blocks}, lambda _, n=noise: n, lambda _: 0.01, 4.0, -log_uniform_effects(0.02)
        )
        assert found is not None
        assert found.shown
        assert 1.4 * effect < found.low < effect < found.high < 0.6 * effect


@pytest.mark.parametrize(
    ("sd", "known", "correlation"),
    [
        (0.01, 0.01, 0.0),
        pytest.param(0.03, 0.03, 0.0, marks=pytest.mark.long),
        (0.04, 0.04, 0.9),
        (0.02, 0.01, 0.0),
    ],
)
def test_false_positive_rate_of_repeated_looks(sd: float, known: float, correlation: float) -> None:
    """At most 11 of 500 tests of independent, correlated or underestimated noise show an effect."""
    random = np.random.default_rng(1)

    assert sum(simulated_test(random, 0.0, sd, known, correlation).shown for _ in range(500)) <= 11


@pytest.mark.parametrize(("sd", "correlation"), [(0.009, 0.0), (0.02, 0.0), (0.04, 0.9)])
def test_effect_is_shown(sd: float, correlation: float) -> None:
    random = np.random.default_rng(2)
    tests = [simulated_test(random, EFFECT, sd, sd, correlation) for _ in range(200)]

    assert sum(one.shown for one in tests) >= 198
    assert sum(one.low < EFFECT < one.high for one in tests) >= 196


def test_drift_within_blocks_cancels() -> None:
    """A slope of 2 % from boot to boot is noise, not an effect."""
    slope = difference_of_block(0.02 * np.arange(BLOCK), 0.0)

    found = sequential_test(slope * 3, 0.009, PRIOR_WEIGHT, MIXTURE)
    assert found.mean == pytest.approx(0, abs=1e-12)
    assert found.refuted


def test_order_of_blocks_is_random_and_balanced() -> None:
    boots: list[BlockBoot] = []
    for _ in range(400):
        good = next_side(blocks_of(boots), "seed", "apu", ())
        boots.append(BlockBoot("apu", good, 14.0))
    order = [boot.good for boot in boots]
    blocks = [order[i : i + BLOCK] for i in range(0, len(order), BLOCK)]

    assert all(
        block in ([True, False, False, True], [False, True, True, False]) for block in blocks
    )
    assert 30 < sum(bool(block[0]) for block in blocks) < 70
    assert [block[0] for block in blocks] == [good_begins("seed apu", i) for i in range(100)]


def test_boot_out_of_order_starts_a_new_block() -> None:
    """In the order good, bad, good, the last boot may start the next block."""
    boots = [BlockBoot("apu", good, 14.0) for good in (True, False, True, False, False, True)]
    blocks = blocks_of(boots)["apu"]

    assert (len(blocks.differences), blocks.begun) == (2, [])
    assert blocks_of([*boots[:5], BlockBoot("apu", None, 14.0), boots[5]])["apu"] == Blocks(
        begun=[boots[5]], number=2, runs=1
    )


def test_boots_to_decide_use_the_middle_of_the_interval() -> None:
    """The robust mean differs from the middle; the interval contains zero."""
    test = SequentialTest(-0.082, -0.155, 0.006, 3.0, -3.0, 200, 0.27)
    assert test.boots_to_decide(-0.01) == 68
