"""A retest knows that boots may have two modes, and confirms gains as it confirms drops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.comparison import next_move
from netbisect.bisect.model import (
    Comparison,
    Confirmed,
    Evidence,
    Move,
    Noise,
    NotConfirmed,
    Reading,
    Visit,
)

LEAD = "inet4"
GAP = 0.12
MODES = Noise(boot=0.005, slow_share=0.3, slow_gap=GAP)
DROP = Comparison("main", "apu", "good", "bad", (LEAD,), LEAD, suspected=-0.1)
GAIN = replace(DROP, suspected=0.1)
FAST = (14.0, 14.004, 13.996, 14.001, 13.999, 14.003, 13.997, 14.002, 13.998)


def ask(question: Comparison, good: list[float], bad: list[float]) -> Move:
    readings = [
        Reading(f"{name} {i}", name, name, {LEAD: x})
        for name, side in (("good", good), ("bad", bad))
        for i, x in enumerate(side)
    ]
    return next_move(question, Evidence(tuple(readings)))


def side(boots: int, slow: int = 0, by: float = 0.0) -> list[float]:
    """The first `slow` of them came up slow."""
    return [x + by - GAP * (i < slow) for i, x in enumerate(FAST[:boots])]


# ------------------------------------------------------------------------------------ two modes


def test_three_slow_boots_are_not_confirmed_at_the_first_look() -> None:
    """They may all have come up in the slow mode; without modes they would be a drop."""
    question = replace(DROP, noise=MODES)

    assert isinstance(ask(DROP, side(3), side(3, 3)), Confirmed)
    assert isinstance(ask(question, side(3), side(3, 3)), Visit)


def test_three_slow_boots_of_the_good_side_make_no_gain() -> None:
    question = replace(GAIN, noise=MODES)

    assert isinstance(ask(GAIN, side(3, 3), side(3)), Confirmed)
    assert isinstance(ask(question, side(3, 3), side(3)), Visit)


def test_if_all_boots_stay_slow_it_is_a_drop_after_all() -> None:
    """Nine of nine, where three of ten are expected."""
    assert isinstance(ask(replace(DROP, noise=MODES), side(9), side(9, 9)), Confirmed)


def test_one_fast_boot_among_the_slow_ones_settles_it() -> None:
    """The two kernels are as fast as each other, in their fast mode."""
    ended = ask(replace(DROP, noise=MODES), side(6), side(6, 5))

    assert isinstance(ended, NotConfirmed)
    assert ended.effects[0].ln_ratio == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("good", "bad"), [(0, 2), (2, 0), (2, 1), (2, 2)])
def test_slow_boots_do_not_hide_a_drop(good: int, bad: int) -> None:
    """Of a third of the distance of the modes, whichever boots were slow."""
    ended = ask(replace(DROP, noise=MODES), side(3, good), side(3, bad, by=-0.04))

    assert isinstance(ended, Confirmed)
    assert ended.effects[0].ln_ratio == pytest.approx(-0.04, abs=0.005)


def test_a_drop_far_from_the_distance_of_the_modes_is_confirmed_at_once() -> None:
    """No mode explains it."""
    for drop in (-0.05, -0.2):
        question = replace(DROP, noise=MODES)
        assert isinstance(ask(question, side(3), side(3, by=drop)), Confirmed)


def test_modes_alone_are_never_a_drop() -> None:
    """In 200 retests of equal kernels none is confirmed."""
    question = replace(DROP, noise=MODES)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        boots = 14 + rng.normal(0, 0.005, (2, 9)) - GAP * (rng.random((2, 9)) < 0.3)
        for look in (3, 6, 9):
            ended = ask(question, list(boots[0, :look]), list(boots[1, :look]))
            assert not isinstance(ended, Confirmed)
            if isinstance(ended, NotConfirmed):
                break


def test_noise_without_modes_changes_nothing() -> None:
    question = replace(DROP, noise=Noise(0.005, 0.01))

    assert ask(question, side(3), side(3, 3)) == ask(DROP, side(3), side(3, 3))


# ---------------------------------------------------------------------------------------- gains


def test_a_gain_that_is_suspected_is_confirmed() -> None:
    ended = ask(GAIN, side(3), side(3, by=0.1))

    assert isinstance(ended, Confirmed)
    assert ended.effects[0].ln_ratio == pytest.approx(0.1)


def test_a_drop_is_no_gain() -> None:
    ended = ask(GAIN, side(3), side(3, by=-0.1))

    assert isinstance(ended, NotConfirmed)
    assert "no room for a gain of 2 %" in ended.why


def test_a_gain_below_the_least_effect_is_not_confirmed() -> None:
    ended = ask(GAIN, side(3), side(3, by=0.002))

    assert isinstance(ended, NotConfirmed)
    assert "gain" in ended.why


SIDE = st.lists(st.floats(13, 15), max_size=11)


@given(SIDE, SIDE)
def test_gains_are_judged_as_drops_are(good: list[float], bad: list[float]) -> None:
    """The other way round, the same."""
    drop = ask(DROP, good, bad)
    gain = ask(GAIN, [28 - x for x in good], [28 - x for x in bad])

    assert type(drop) is type(gain)
    if isinstance(drop, Visit):
        assert drop == gain
    if isinstance(drop, NotConfirmed) and isinstance(gain, NotConfirmed):
        assert drop.why.replace("drop", "gain") == gain.why
