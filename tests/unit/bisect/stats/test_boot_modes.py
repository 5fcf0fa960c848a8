"""Boot modes: learning, levels and shifts."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.stats.boot_modes import (
    Floats,
    fast_levels,
    learn_modes,
    modes_of,
    slow_boots,
    to_fast_mode,
)
from netbisect.bisect.stats.changepoints import boot_matrix

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "histories.py"))
history = made["history"]

KNOWN = BootModes(share=0.3, gap=0.12, boot=0.005)


def two_modes(seed: int, images: int = 40, *, boots: int = 5, share: float = 0.3) -> Floats:
    return boot_matrix(
        history(seed, (images, 0.0), share=share, boots=boots, boot=0.005, image=0.005, stray=0.01)
    )


# ------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("share", [0.15, 0.3, 0.5, 0.7, 0.85])
@pytest.mark.parametrize("boots", [3, 5])
def test_two_modes_are_learned(share: float, boots: int) -> None:
    found = learn_modes(two_modes(1, 60, boots=boots, share=share))

    assert found is not None
    # Of few boots, all of an image may have been slow, and are taken for fast ones.
    assert found.share == pytest.approx(share, abs=0.18 if boots == 3 else 0.1)
    assert found.gap == pytest.approx(0.12, rel=0.1)
    assert found.boot == pytest.approx(0.005, rel=0.3)


def test_few_nights_are_enough_for_clear_modes() -> None:
    found = learn_modes(two_modes(2, 10))

    assert found is not None
    assert found.gap == pytest.approx(0.12, rel=0.1)


@pytest.mark.parametrize(("stray", "most"), [(0.0, 0), (0.02, 0), (0.04, 2)])
def test_one_mode_is_rarely_taken_for_two(stray: float, most: int) -> None:
    """In none of 40 histories or so, with stray boots and steps, unlike images and odd numbers."""
    taken = 0
    for seed in range(40):
        scatter = (0.0, 0.008, 0.03)[seed % 3]
        shape = ((30, 0.0), (30, -0.1), (1 + seed % 5, 0.2))
        boots = boot_matrix(history(seed, *shape, image=scatter, stray=0, boots=3 + seed % 4))
        rng = np.random.default_rng(seed)
        astray = rng.random(boots.shape) < stray
        taken += learn_modes(boots - astray * rng.uniform(0.03, 0.15, boots.shape)) is not None

    assert taken <= most


def test_two_levels_are_no_modes() -> None:
    rng = np.random.default_rng(3)
    image = 14 - 0.12 * (rng.random((60, 1)) < 0.4)

    assert learn_modes(image + rng.normal(0, 0.005, (60, 5))) is None


def test_outliers_are_no_mode() -> None:
    """They are as frequent as some modes, but each lies elsewhere."""
    rng = np.random.default_rng(4)
    boots = 14 + rng.normal(0, 0.005, (60, 5))
    boots -= (rng.random((60, 5)) < 0.05) * rng.uniform(0.03, 0.3, (60, 5))

    assert learn_modes(boots) is None


def test_two_mixed_images_are_not_enough() -> None:
    """However far apart they are; those of a few more are."""
    rng = np.random.default_rng(5)
    boots = 14 + rng.normal(0, 0.002, (30, 5))
    boots[:2, :2] -= 0.2
    assert learn_modes(boots) is None

    boots[:8, :2] -= 0.2
    assert learn_modes(boots) is not None


def test_modes_within_the_noise_are_not_learned() -> None:
    rng = np.random.default_rng(6)
    boots = 14 + rng.normal(0, 0.01, (60, 5)) - 0.02 * (rng.random((60, 5)) < 0.3)

    assert learn_modes(boots) is None


def test_old_modes_are_forgotten() -> None:
    """With a driver, for good: the latest 60 images count."""
    before, after = two_modes(7, 60), two_modes(8, 60, share=0)

    assert learn_modes(before) is not None
    assert learn_modes(np.concatenate([before, after])) is None


@pytest.mark.parametrize("value", [0.0, 14.0])
@pytest.mark.parametrize("shape", [(0, 1), (0, 5), (1, 1), (1, 5), (40, 1), (40, 5)])
def test_constant_boots_have_one_mode(shape: tuple[int, int], value: float) -> None:
    assert learn_modes(np.full(shape, value)) is None


def test_single_boots_have_no_modes() -> None:
    assert learn_modes(two_modes(9, boots=1)) is None


def test_modes_without_noise_are_learned() -> None:
    """A simulated router: the scatter stays above 0."""
    boots = 14 - 0.1 * (np.random.default_rng(10).random((40, 5)) < 0.3)
    found = learn_modes(boots)

    assert found is not None
    assert found.gap == pytest.approx(0.1)
    assert found.boot > 0


def test_images_with_fewer_boots_count() -> None:
    boots = two_modes(11)
    boots[::3, 3:] = np.nan
    boots[::7, 1:] = np.nan
    found = learn_modes(boots)

    assert found is not None
    assert found.gap == pytest.approx(0.12, rel=0.1)


def test_modes_are_learned_across_a_step() -> None:
    found = learn_modes(boot_matrix(history(12, (20, 0.0), (20, -0.12), share=0.3, boot=0.005)))

    assert found is not None
    assert found.gap == pytest.approx(0.12, rel=0.1)
    assert found.share == pytest.approx(0.3, abs=0.1)


@given(st.integers(0, 10**6), st.floats(-5, 5))
@settings(max_examples=7)
def test_unit_and_order_of_boots_do_not_matter(seed: int, by: float) -> None:
    boots = two_modes(seed, 25)
    one, other = learn_modes(boots), learn_modes(boots[:, ::-1] + by)

    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert other.share == pytest.approx(one.share)
        assert other.gap == pytest.approx(one.gap, abs=1e-9)
        assert other.boot == pytest.approx(one.boot, abs=1e-9)


def test_modes_of_a_noise() -> None:
    assert modes_of(Noise(0.005, slow_share=0.3, slow_gap=0.12)) == KNOWN
    assert modes_of(Noise(0.005)) is None
    assert modes_of(Noise(0.005, slow_share=0.3)) is None
    assert modes_of(Noise(0.005, slow_gap=0.12)) is None


# -------------------------------------------------------------------------------------- levels


@pytest.mark.parametrize("slow", [0, 1, 2, 3, 4])
def test_level_is_that_of_the_fast_mode(slow: int) -> None:
    """With any number of slow boots but all."""
    boots = np.array([[14.0, 14.004, 13.996, 14.001, 13.999]])
    boots[0, :slow] -= 0.12
    level = fast_levels(boots, KNOWN)

    assert level == pytest.approx([14.0], abs=0.003)
    assert slow_boots(boots, level, KNOWN).sum() == slow


def test_outlier_is_in_neither_mode() -> None:
    """Far below both of them it moves the level by less than its scatter."""
    assert fast_levels(np.array([[14.0, 14.001, 13.88, 13.999, 13.4]]), KNOWN) == pytest.approx(
        [14.0], abs=0.005
    )


def test_levels_with_different_numbers_of_boots() -> None:
    boots = np.array([[14.0, np.nan, np.nan], [13.88, 14.0, np.nan], [14.0, 13.88, 13.88]])
    level = fast_levels(boots, KNOWN)

    assert level == pytest.approx([14.0] * 3)
    np.testing.assert_array_equal(
        slow_boots(boots, level, KNOWN), [[0, 0, 0], [1, 0, 0], [0, 1, 1]]
    )


def test_no_images_have_no_levels() -> None:
    assert fast_levels(np.empty((0, 5)), KNOWN).shape == (0,)


def test_mostly_slow_series_keeps_its_level() -> None:
    """It is that of the fast mode, seen or not."""
    always = BootModes(share=0.999, gap=0.12, boot=0.005)

    assert fast_levels(np.array([[13.88, 13.881, 13.879]]), always) == pytest.approx(
        [14.0], abs=0.002
    )


# -------------------------------------------------------------------------------------- lifting


def test_slow_boots_are_shifted() -> None:
    assert to_fast_mode([13.88, 14.0, 13.881], KNOWN) == pytest.approx([14.0, 14.0, 14.001])


@given(
    st.lists(st.floats(-0.003, 0.003), min_size=1, max_size=5),
    st.lists(st.floats(-0.003, 0.003), max_size=4),
)
def test_shifted_boots_agree(fast: list[float], slow: list[float]) -> None:
    slow = slow[: len(fast)]
    values = [14 + off for off in fast] + [14 - KNOWN.gap + off for off in slow]

    assert to_fast_mode(values, KNOWN) == pytest.approx([14 + off for off in fast + slow])


def test_drop_is_not_shifted() -> None:
    values = [14 - 0.06, 14 - 0.061, 14 - 0.059]

    assert to_fast_mode(values, KNOWN) == values
    assert math.fsum(to_fast_mode(values, KNOWN)) / 3 == pytest.approx(13.94)
