"""Histories are cut where their level changes, whether every place is tried or only some."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
import ruptures
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect import segments
from netbisect.bisect.model import Level
from netbisect.bisect.modes import Modes
from netbisect.bisect.segments import (
    BOOT_SD,
    boot_sd,
    boots_of,
    by_image,
    merge,
    segment,
    segment_boots,
    weighted,
)

made = runpy.run_path(str(Path(__file__).with_name("histories.py")))
history, nights, moved = (made[name] for name in ("history", "nights", "moved"))


def of(identity: str, *ln_pps: float, saturated: bool = False) -> Level:
    return Level(f"r of {identity}", identity, 1.0, ln_pps, saturated)


# ------------------------------------------------------------------------------------- images


def test_neighbours_of_one_kernel_are_one_image() -> None:
    """A kernel that comes back later is another one: what lies between may have changed it."""
    levels = [of(name, 14.0) for name in "aabba"]

    assert [len(group) for group in by_image(levels)] == [2, 2, 1]


def test_levels_of_unknown_kernels_are_images_of_their_own() -> None:
    assert [len(group) for group in by_image([of("", 14.0)] * 3)] == [1, 1, 1]
    assert by_image([]) == []


def test_levels_of_one_image_are_one_with_all_boots() -> None:
    one = merge([Level("r1", "a", 1.0, (14.0,)), Level("r2", "a", 2.0, (15.0, 16.0))])

    assert one == Level("r1", "a", 1.0, (14.0, 15.0, 16.0))


def test_an_image_that_the_generator_limited_stays_so() -> None:
    """Otherwise the screen could not know."""
    assert merge([of("a", 14.0, saturated=True)]).saturated
    assert merge([of("a", 14.0, 14.0, saturated=True)] * 2).saturated


def test_boots_are_rows_with_gaps_at_their_end() -> None:
    boots = boots_of([of("a", 14.0), of("b", 15.0, 16.0)])

    np.testing.assert_array_equal(boots, [[14, np.nan], [15, 16]])
    assert boots_of([]).shape == (0, 1)


# -------------------------------------------------------------------------------------- noise


def test_the_spread_between_boots_is_measured_within_images() -> None:
    boots = boots_of(history(1, (60, 0.0), (60, 0.5), boot=0.012, image=0.05, stray=0))

    assert boot_sd(boots) == pytest.approx(0.012, rel=0.1)


@pytest.mark.parametrize("rows", [[], [[14.0]], [[14.0], [15.0]]])
def test_without_two_boots_of_an_image_the_usual_spread_is_taken(rows: list[list[float]]) -> None:
    assert boot_sd(boots_of(nights(rows))) == pytest.approx(BOOT_SD)


def test_boots_that_agree_to_the_last_digit_still_have_a_spread() -> None:
    """As it must not be 0."""
    assert 0 < boot_sd(np.full((500, 5), 14.0)) < BOOT_SD / 10


def test_one_stray_boot_spoils_its_own_image_only() -> None:
    boots = boots_of(history(2, (30, 0.0), stray=0))
    spoiled = boots.copy()
    spoiled[3, 0] -= 1

    assert boot_sd(spoiled) == pytest.approx(boot_sd(boots), rel=0.1)


def test_levels_are_averaged_by_how_sure_they_are() -> None:
    mean, variance = weighted(np.array([0.0, 3.0]), np.array([1.0, 2.0]))

    assert mean == pytest.approx(1.0)
    assert variance == pytest.approx(2 / 3)


# --------------------------------------------------------------------------------------- cuts


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_very_short_history_is_one_stretch(count: int) -> None:
    found = segment(history(3, (count, 0.0), stray=0))

    assert found.cuts == ()
    assert len(found.y) == len(found.variance) == count
    assert np.isfinite(found.y).all()


def test_the_mean_of_a_stretch_is_that_of_its_levels() -> None:
    found = segment(history(4, (20, 0.0), (20, -0.1), boot=0.002, image=0.001, stray=0))

    assert found.cuts == (20,)
    assert found.mean(0, 20)[0] == pytest.approx(14, abs=0.002)
    assert found.mean(20, 40)[0] == pytest.approx(13.9, abs=0.002)


def test_an_image_of_two_boots_is_no_stretch() -> None:
    """Both may be stray; with three of them it is one."""
    rows: list[list[float]] = [[14.0, 14.003, 13.997]] * 21
    rows[10] = [13.8, 13.8]
    assert segment(nights(rows)).cuts == ()

    rows[10] = [13.8, 13.801, 13.799]
    assert segment(nights(rows)).cuts == (10, 11)


def test_a_step_that_is_expected_takes_less_to_be_seen() -> None:
    """Of 30 histories with a faint one, it is found in more; elsewhere nothing is found."""
    expected = np.full(16, segments.STEP_CHANCE)
    expected[10] = 0.9
    alone = told = 0
    for seed in range(30):
        levels = history(seed, (10, 0.0), (6, -0.015), stray=0)
        alone += segment(levels).cuts == (10,)
        told += segment(levels, chances=expected).cuts == (10,)

    assert 0 < alone < told


def test_a_step_that_is_all_but_ruled_out_is_not_seen() -> None:
    levels = history(5, (10, 0.0), (6, -0.05))

    assert segment(levels).cuts == (10,)
    assert segment(levels, chances=np.full(16, 1e-30)).cuts == ()


def test_the_usual_chance_need_not_be_told() -> None:
    levels = history(6, (30, 0.0), (30, -0.05), (30, 0.0))
    found = segment(levels), segment(levels, chances=np.full(90, segments.STEP_CHANCE))

    assert found[0].cuts == found[1].cuts == (30, 60)


@given(st.integers(0, 10**6), st.floats(-5, 5))
@settings(max_examples=20)
def test_another_unit_gives_the_same_cuts(seed: int, by: float) -> None:
    levels = history(seed, (30, 0.0), (30, -0.06), (20, -0.03))
    one, other = segment(levels), segment(moved(levels, by))

    assert one.cuts == other.cuts
    assert other.y == pytest.approx(one.y + by)
    assert other.noise.image == pytest.approx(one.noise.image)
    assert other.noise.boot == pytest.approx(one.noise.boot)


def test_known_modes_are_part_of_the_noise() -> None:
    boots = boots_of(history(7, (30, 0.0), share=0.3, boot=0.004, stray=0))
    noise = segment_boots(boots, Modes(0.3, 0.12, 0.004)).noise

    assert (noise.slow_share, noise.slow_gap, noise.boot) == (0.3, 0.12, 0.004)


# ------------------------------------------------------------------------------ long histories


def every_place(monkeypatch: pytest.MonkeyPatch, levels: list[Level]) -> tuple[int, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(segments, "_ALL_TRIED", 10**9)
        return segment(levels).cuts


@pytest.mark.parametrize("seed", range(8))
def test_clear_steps_of_a_long_history_are_cut_as_if_every_place_were_tried(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside the seams of what PELT sees at a time."""
    shape = ((100 + seed, 0.0), (249, -0.08), (1 + seed, 0.05), (50, -0.1), (40, 0.0), (9, 0.3))
    levels = history(seed, *shape)
    found = segment(levels).cuts

    assert found == every_place(monkeypatch, levels)
    assert set(np.cumsum([count for count, _ in shape[:-1]])) <= set(found)


def test_faint_steps_of_long_histories_are_cut_nearly_as_if_every_place_were_tried(
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
def test_a_history_may_have_any_length(count: int) -> None:
    """However few levels are left over for the last window of PELT."""
    levels = history(8, (30, 0.0), (count - 30, -0.2), stray=0)

    assert 30 in segment(levels).cuts


def test_a_long_history_that_never_differs_is_one_stretch() -> None:
    assert segment(nights([[14.0]] * 500)).cuts == ()


def test_few_places_of_a_long_flat_history_are_tried() -> None:
    """That is what makes ten years fast."""
    rng = np.random.default_rng(9)
    y = rng.normal(14, 0.01, 2000)

    assert len(segments._places(y, np.full(2000, 0.005**2))) < 200


# ------------------------------------------------------------------------- where they may begin


def squares(y: list[float], cuts: list[int]) -> float:
    """Squares of all stretches about their means, and a penalty for each of them."""
    edges = [0, *cuts, len(y)]
    parts = [np.array(y[a:b]) for a, b in itertools.pairwise(edges)]
    return sum(float(((part - part.mean()) ** 2).sum()) + segments._PROPOSED for part in parts)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-9.0, 9.0), min_size=4, max_size=9))
def test_no_other_partition_has_less_squares_and_penalties(y: list[float]) -> None:
    cuts = sorted(segments._partition(np.array(y)))
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
def test_a_long_history_is_partitioned_as_pelt_does_it(seed: int, n: int) -> None:
    """Window by window; PELT leaves out only what cannot be best."""
    chance = np.random.default_rng(seed)
    y = chance.normal(0, 1, n)
    for place in chance.integers(0, n, 6):
        y[place:] += chance.normal(0, 3)
    windows = [
        (start, y[start : start + segments._WINDOW, None])
        for start in range(0, n, segments._WINDOW - segments._OVERLAP)
    ]
    found = [
        start + place
        for start, window in windows
        if len(window) >= 4
        for place in ruptures.KernelCPD(kernel="linear", min_size=2)
        .fit(window)
        .predict(pen=segments._PROPOSED)[:-1]
    ]

    assert sorted(segments._partition(y)) == sorted(found)
