"""The watch tells what it can see, and whether what it says looks like the truth."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model import Noise
from netbisect.bisect.screen import MIN_EFFECT, SCREEN_SD, screen
from netbisect.bisect.segments import segment
from netbisect.bisect.selfcheck import (
    AgainstItself,
    against_itself,
    one_sided,
    overlap,
    smallest_drop,
)

made = runpy.run_path(str(Path(__file__).with_name("histories.py")))
history, nights = made["history"], made["nights"]

NOISE = Noise(boot=0.009, image=0.008)


# ------------------------------------------------------------------------- the smallest drop


@pytest.mark.parametrize("images", [10, 30])
def test_the_smallest_drop_is_seen_four_times_out_of_five(images: int) -> None:
    """By the screen, with the noise that the screen finds; somewhat more or less."""
    seen = []
    for seed in range(120):
        *levels, last = history(seed, (images + 1, 0.0), stray=0)
        drop = smallest_drop(segment(levels, SCREEN_SD).noise, images, boots=5)
        lower = replace(last, ln_pps=tuple(x - drop for x in last.ln_pps))
        seen.append(screen(levels, lower).suspicious)

    assert np.mean(seen) == pytest.approx(0.8, abs=0.12)


def test_it_is_never_below_what_is_worth_an_alert() -> None:
    """A share of the least effect has to be seen however quiet a series is."""
    assert smallest_drop(Noise(1e-6), 40, boots=5) == pytest.approx(0.75 * MIN_EFFECT, rel=1e-3)
    assert smallest_drop(Noise(1e-6), 40, boots=5, min_effect=0.1) == pytest.approx(0.075, rel=1e-3)


@given(
    st.floats(0.001, 0.03),
    st.floats(0, 0.03),
    st.integers(1, 60),
    st.integers(1, 9),
    st.integers(1, 8),
)
def test_more_of_anything_but_noise_makes_it_smaller(
    boot: float, image: float, images: int, boots: int, latest: int
) -> None:
    noise = Noise(boot, image)
    drop = smallest_drop(noise, images, boots=boots, nights=latest)

    assert drop > 0
    assert smallest_drop(noise, images + 1, boots=boots, nights=latest) <= drop
    assert smallest_drop(noise, images, boots=boots + 1, nights=latest) <= drop
    assert smallest_drop(noise, images, boots=boots, nights=latest + 1) <= drop
    assert smallest_drop(noise, images, boots=boots, nights=latest, chance=0.2) <= drop
    assert smallest_drop(Noise(2 * boot, image), images, boots=boots, nights=latest) >= drop
    assert smallest_drop(Noise(boot, image + 0.01), images, boots=boots, nights=latest) >= drop


def test_boots_do_not_average_the_noise_of_images_out() -> None:
    assert smallest_drop(NOISE, 30, boots=10**6) > 2 * NOISE.image


# ---------------------------------------------------------------------------- against itself


def test_an_image_held_against_itself_hardly_ever_differs() -> None:
    """Of 400: ministat calls about 5 % of them, a retest 0.3 %."""
    found = against_itself(history(1, (400, 0.0), boots=12, stray=0))

    assert found.images == 400
    assert found.ministat == pytest.approx(20, abs=12)
    assert found.called <= 5


def test_the_level_and_the_steps_of_a_history_do_not_matter() -> None:
    """Each image is held against itself alone."""
    flat = history(2, (50, 0.0), boots=6)
    steep = history(2, (25, 0.0), (25, -0.5), boots=6)

    assert against_itself(flat) == against_itself(steep)


def test_a_drift_within_a_night_is_called() -> None:
    """Later boots were slower: something is wrong in the lab."""
    rows = 14 + np.random.default_rng(3).normal(0, 0.001, (20, 6))
    rows[:, 3:] -= 0.05

    assert against_itself(nights(rows)) == AgainstItself(20, 20, 20)


@pytest.mark.parametrize("boots", [1, 2, 5])
def test_images_of_few_boots_are_passed_over(boots: int) -> None:
    assert against_itself(history(4, (9, 0.0), boots=boots)) == AgainstItself(0, 0, 0)


def test_nothing_held_against_itself_is_nothing() -> None:
    assert against_itself([]) == AgainstItself(0, 0, 0)


def test_boots_that_never_differ_are_not_called() -> None:
    assert against_itself(nights([[14.0] * 7] * 5)) == AgainstItself(5, 0, 0)


# ------------------------------------------------------------------------------ drops and gains


def test_as_many_gains_as_drops_are_no_surprise() -> None:
    assert one_sided(0, 0) == 1
    assert one_sided(7, 7) == pytest.approx(1)
    assert one_sided(1, 0) == pytest.approx(1)


def test_drops_alone_are_one() -> None:
    """Ten of ten: twice one in 1024."""
    assert one_sided(10, 0) == pytest.approx(2 / 1024)


@given(st.integers(0, 60), st.integers(0, 60))
def test_both_sides_are_alike(drops: int, gains: int) -> None:
    assert one_sided(drops, gains) == pytest.approx(one_sided(gains, drops))
    assert 0 < one_sided(drops, gains) <= 1


# -------------------------------------------------------------------------------------- overlap


def test_the_same_series_every_night_overlap_wholly() -> None:
    assert overlap([frozenset("ab")] * 4) == 1


def test_other_series_every_night_do_not_overlap() -> None:
    assert overlap([frozenset("a"), frozenset("b"), frozenset("c")]) == 0


def test_the_overlap_is_the_mean_over_pairs_of_nights() -> None:
    """Two of three, none of two, and a pair of quiet nights that does not count."""
    quiet: frozenset[str] = frozenset()
    suspicious = [frozenset("ab"), frozenset("abc"), quiet, quiet]

    assert overlap(suspicious) == pytest.approx((2 / 3 + 0) / 2)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_without_a_pair_of_nights_there_is_no_overlap(count: int) -> None:
    assert overlap([frozenset()] * count) is None
