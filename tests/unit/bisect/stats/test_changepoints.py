"""Segmentation of histories."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
import ruptures
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Level
from netbisect.bisect.stats import changepoints
from netbisect.bisect.stats.changepoints import (
    BOOT_SD,
    boot_matrix,
    boot_sd,
    group_by_image,
    merge_levels,
    segment,
    segment_boots,
    weighted_mean,
)

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "histories.py"))
history, nights, moved = (made[name] for name in ("history", "nights", "moved"))


def of(identity: str, *ln_pps: float, saturated: bool = False) -> Level:
    return Level(f"r of {identity}", identity, 1.0, ln_pps, saturated)


# ------------------------------------------------------------------------------------- images


def test_neighbours_with_one_kernel_are_one_image() -> None:
    levels = [of(name, 14.0) for name in "aabba"]

    assert [len(group) for group in group_by_image(levels)] == [2, 2, 1]


def test_unknown_kernels_are_separate_images() -> None:
    assert [len(group) for group in group_by_image([of("", 14.0)] * 3)] == [1, 1, 1]
    assert group_by_image([]) == []


def test_levels_of_one_image_are_merged() -> None:
    one = merge_levels([Level("r1", "a", 1.0, (14.0,)), Level("r2", "a", 2.0, (15.0, 16.0))])

    assert one == Level("r1", "a", 1.0, (14.0, 15.0, 16.0))


def test_merged_level_is_saturated_by_majority() -> None:
    """Otherwise the screen could not know."""
    assert merge_levels([of("a", 14.0, saturated=True)]).saturated
    assert merge_levels([of("a", 14.0, 14.0, saturated=True)] * 2).saturated


def test_boot_matrix_is_padded() -> None:
    boots = boot_matrix([of("a", 14.0), of("b", 15.0, 16.0)])

    np.testing.assert_array_equal(boots, [[14, np.nan], [15, 16]])
    assert boot_matrix([]).shape == (0, 1)


# -------------------------------------------------------------------------------------- noise


def test_boot_sd_is_measured_within_images() -> None:
    boots = boot_matrix(history(1, (60, 0.0), (60, 0.5), boot=0.012, image=0.05, stray=0))

    assert boot_sd(boots) == pytest.approx(0.012, rel=0.1)


@pytest.mark.parametrize("rows", [[], [[14.0]], [[14.0], [15.0]]])
def test_boot_sd_without_repeated_boots_is_the_prior(rows: list[list[float]]) -> None:
    assert boot_sd(boot_matrix(nights(rows))) == pytest.approx(BOOT_SD)


def test_boot_sd_of_constant_boots_is_positive() -> None:
    """As it must not be 0."""
    assert 0 < boot_sd(np.full((500, 5), 14.0)) < BOOT_SD / 10


def test_boot_sd_is_robust() -> None:
    boots = boot_matrix(history(2, (30, 0.0), stray=0))
    spoiled = boots.copy()
    spoiled[3, 0] -= 1

    assert boot_sd(spoiled) == pytest.approx(boot_sd(boots), rel=0.1)


def test_weighted_mean() -> None:
    mean, variance = weighted_mean(np.array([0.0, 3.0]), np.array([1.0, 2.0]))

    assert mean == pytest.approx(1.0)
    assert variance == pytest.approx(2 / 3)


# --------------------------------------------------------------------------------------- cuts


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_short_history_is_one_segment(count: int) -> None:
    found = segment(history(3, (count, 0.0), stray=0))

    assert found.cuts == ()
    assert len(found.y) == len(found.variance) == count
    assert np.isfinite(found.y).all()


def test_mean_of_a_segment() -> None:
    found = segment(history(4, (20, 0.0), (20, -0.1), boot=0.002, image=0.001, stray=0))

    assert found.cuts == (20,)
    assert found.mean(0, 20)[0] == pytest.approx(14, abs=0.002)
    assert found.mean(20, 40)[0] == pytest.approx(13.9, abs=0.002)


def test_image_of_two_boots_is_no_segment() -> None:
    rows: list[list[float]] = [[14.0, 14.003, 13.997]] * 21
    rows[10] = [13.8, 13.8]
    assert segment(nights(rows)).cuts == ()

    rows[10] = [13.8, 13.801, 13.799]
    assert segment(nights(rows)).cuts == (10, 11)


def test_higher_prior_reveals_a_faint_step() -> None:
    """Of 30 histories with a faint one, it is found in more; elsewhere nothing is found."""
    expected = np.full(16, changepoints.STEP_PROBABILITY)
    expected[10] = 0.9
    alone = told = 0
    for seed in range(30):
        levels = history(seed, (10, 0.0), (6, -0.015), stray=0)
        alone += segment(levels).cuts == (10,)
        told += segment(levels, probabilities=expected).cuts == (10,)

    assert 0 < alone < told


def test_low_prior_hides_a_faint_step() -> None:
    levels = history(5, (10, 0.0), (6, -0.05))

    assert segment(levels).cuts == (10,)
    assert segment(levels, probabilities=np.full(16, 1e-30)).cuts == ()


def test_default_step_probability() -> None:
    levels = history(6, (30, 0.0), (30, -0.05), (30, 0.0))
    found = (
        segment(levels),
        segment(levels, probabilities=np.full(90, changepoints.STEP_PROBABILITY)),
    )

    assert found[0].cuts == found[1].cuts == (30, 60)


@given(st.integers(0, 10**6), st.floats(-5, 5))
@settings(max_examples=10)
def test_unit_does_not_matter(seed: int, by: float) -> None:
    levels = history(seed, (30, 0.0), (30, -0.06), (20, -0.03))
    one, other = segment(levels), segment(moved(levels, by))

    assert one.cuts == other.cuts
    assert other.y == pytest.approx(one.y + by)
    assert other.noise.image == pytest.approx(one.noise.image)
    assert other.noise.boot == pytest.approx(one.noise.boot)


def test_noise_includes_modes() -> None:
    boots = boot_matrix(history(7, (30, 0.0), share=0.3, boot=0.004, stray=0))
    noise = segment_boots(boots, BootModes(0.3, 0.12, 0.004)).noise

    assert (noise.slow_share, noise.slow_gap, noise.boot) == (0.3, 0.12, 0.004)


# ------------------------------------------------------------------------------ long histories


def every_place(monkeypatch: pytest.MonkeyPatch, levels: list[Level]) -> tuple[int, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(changepoints, "_ALL_TRIED", 10**9)
        return segment(levels).cuts


@pytest.mark.parametrize("seed", range(8))
def test_candidate_cuts_find_clear_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ((100 + seed, 0.0), (249, -0.08), (1 + seed, 0.05), (50, -0.1), (40, 0.0), (9, 0.3))
    levels = history(seed, *shape)
    found = segment(levels).cuts

    assert found == every_place(monkeypatch, levels)
    assert set(np.cumsum([count for count, _ in shape[:-1]])) <= set(found)


@pytest.mark.long
def test_candidate_cuts_find_most_faint_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same in 25 of 30 histories at least, and as many cuts or one more or less in all."""
    same = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shape = [
            (int(rng.integers(5, 90)), float(shift)) for shift in np.cumsum(rng.normal(0, 0.03, 5))
        ]
        levels = history(seed, *shape, (70, 0.0))
        some, every = segment(levels).cuts, every_place(monkeypatch, levels)
        same += some == every
        assert abs(len(some) - len(every)) <= 1

    assert same >= 25


@pytest.mark.parametrize("count", [60, 61, 350, 351, 352, 353, 354, 702, 703])
def test_any_length_is_segmented(count: int) -> None:
    """However few levels are left over for the last window of PELT."""
    levels = history(8, (30, 0.0), (count - 30, -0.2), stray=0)

    assert 30 in segment(levels).cuts


def test_long_constant_history_is_one_segment() -> None:
    assert segment(nights([[14.0]] * 500)).cuts == ()


def test_flat_history_has_few_candidate_cuts() -> None:
    rng = np.random.default_rng(9)
    y = rng.normal(14, 0.01, 2000)

    assert len(changepoints._candidate_cuts(y, np.full(2000, 0.005**2))) < 200


# ------------------------------------------------------------------------- where they may begin


def squares(y: list[float], cuts: list[int]) -> float:
    """Squares of all stretches about their means, and a penalty for each of them."""
    edges = [0, *cuts, len(y)]
    parts = [np.array(y[a:b]) for a, b in itertools.pairwise(edges)]
    return sum(float(((part - part.mean()) ** 2).sum()) + changepoints._PROPOSED for part in parts)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-9.0, 9.0), min_size=4, max_size=9))
def test_partition_is_optimal(y: list[float]) -> None:
    cuts = sorted(changepoints._partition(np.array(y)))
    places = range(2, len(y) - 1)
    every = [
        list(some)
        for many in range(len(y) // 2)
        for some in itertools.combinations(places, many)
        if all(b - a >= 2 for a, b in itertools.pairwise([0, *some, len(y)]))
    ]

    assert all(b - a >= 2 for a, b in itertools.pairwise([0, *cuts, len(y)]))
    assert squares(y, cuts) <= min(squares(y, other) for other in every) + 1e-6


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1 << 30), st.integers(61, 1300))
def test_partition_agrees_with_pelt(seed: int, n: int) -> None:
    chance = np.random.default_rng(seed)
    y = chance.normal(0, 1, n)
    for place in chance.integers(0, n, 6):
        y[place:] += chance.normal(0, 3)
    windows = [
        (start, y[start : start + changepoints._WINDOW, None])
        for start in range(0, n, changepoints._WINDOW - changepoints._OVERLAP)
    ]
    found = [
        start + place
        for start, window in windows
        if len(window) >= 4
        for place in ruptures.KernelCPD(kernel="linear", min_size=2)
        .fit(window)
        .predict(pen=changepoints._PROPOSED)[:-1]
    ]

    assert sorted(changepoints._partition(y)) == sorted(found)
