"""Two nights of one kernel differ by luck, and by whatever the lab does from night to night."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model import Level
from netbisect.bisect.screen import MIN_EFFECT
from netbisect.bisect.selfcheck import (
    RETEST_CHANCE,
    SCREEN_CHANCE,
    Repeat,
    Repeats,
    repeat,
    repeats,
    surprise,
)

history = runpy.run_path(str(Path(__file__).with_name("histories.py")))["history"]


def again(level: Level, seed: int, by: float = 0.0, boot: float = 0.009) -> Level:
    """Another night of the same image, whose own level is the mean of this one."""
    rng = np.random.default_rng(seed)
    mean = np.mean(level.ln_pps) + by
    return replace(level, ln_pps=tuple(float(x) for x in mean + rng.normal(0, boot, 5)))


def pairs(count: int, by: float = 0.0) -> list[Repeat]:
    """Repeated nights, each after a history of its own."""
    found = []
    for seed in range(count):
        *levels, first = history(seed, (21, 0.0), stray=0)
        found.append(repeat(levels, first, again(first, seed + 1000, by)))
    return found


def test_a_lab_that_is_the_same_every_night_is_hardly_ever_called() -> None:
    """No more often than the screen and the retest promise for two images."""
    found = repeats(pairs(150))

    assert found.nights == 150
    assert surprise(found.screened, 150, SCREEN_CHANCE) > 0.05
    assert surprise(found.retested, 150, RETEST_CHANCE) > 0.05
    assert found.night_sd is not None
    assert found.night_sd < 0.005


def test_a_lab_that_was_slower_the_second_night_is_called() -> None:
    """Every time, by both; and the distance is told as what boots do not explain."""
    found = repeats(pairs(10, by=-0.1))

    assert (found.screened, found.retested) == (10, 10)
    assert found.night_sd == pytest.approx(0.1 / np.sqrt(2), rel=0.1)


def test_what_was_suspicious_the_first_night_is_no_call_of_the_second() -> None:
    """The code was slower in both, which is no fault of the lab."""
    *levels, last = history(1, (21, 0.0), stray=0)
    first = again(last, 2, by=-0.15)

    assert not repeat(levels, first, again(first, 3)).screened


def test_a_difference_too_small_for_an_alert_is_no_call_of_a_retest() -> None:
    *levels, first = history(1, (21, 0.0), boot=0.0005)
    found = repeat(levels, first, again(first, 2, by=-MIN_EFFECT / 2, boot=0.0005))

    assert abs(found.ln_ratio) > 0.4 * MIN_EFFECT
    assert not found.retested


def test_slow_boots_of_a_router_with_two_modes_are_no_difference() -> None:
    """Most of the second night came up in the slow mode that the history knows."""
    *levels, first = history(5, (41, 0.0), share=0.3, stray=0)
    luck = np.random.default_rng(6).normal(0, 0.009, (2, 10))
    luck[1, 2:] -= 0.12
    fast, mixed = (replace(first, ln_pps=tuple(float(x) for x in 14 + row)) for row in luck)
    found = repeat(levels, fast, mixed)

    assert not found.retested
    assert abs(found.ln_ratio) < 0.02
    assert repeat([], fast, mixed).retested, "with a history that knows no modes it is one"


def test_without_a_history_two_nights_can_be_compared() -> None:
    """Of an image that was the first of its series; nights of one boot cannot be retested."""
    [first] = history(1, (1, 0.0))
    short = replace(first, ln_pps=first.ln_pps[:1])

    assert repeat([], first, again(first, 2, by=-0.3)).screened
    assert not repeat([], short, replace(short, ln_pps=(13.0,))).retested


def test_without_a_repeated_night_nothing_is_known() -> None:
    assert repeats([]) == Repeats(0, 0, 0, None)


def test_many_false_calls_are_a_surprise() -> None:
    """One of ten thousand where one in a hundred may be called; five of ten; none of any."""
    assert surprise(1, 10000, 0.01) == pytest.approx(1)
    assert surprise(5, 10, 0.01) < 1e-6
    assert surprise(0, 10, 0.01) == 1
    assert surprise(0, 0, 0.01) == 1


@given(st.integers(0, 50), st.integers(0, 50), st.floats(0.001, 0.5))
def test_more_calls_are_never_less_of_a_surprise(called: int, others: int, chance: float) -> None:
    tried = called + others + 1

    assert 0 <= surprise(called + 1, tried, chance) <= surprise(called, tried, chance) <= 1
