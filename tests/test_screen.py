"""A night is suspicious when its baseline says so: a drop, a gain, or other modes than before."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect import screen as screening
from netbisect.bisect.model import Level
from netbisect.bisect.modes import Modes
from netbisect.bisect.screen import MIN_EFFECT, Screen, screen
from netbisect.bisect.states import AlertKind

made = runpy.run_path(str(Path(__file__).with_name("histories.py")))
history, nights, measured, moved, shuffled = (
    made[name] for name in ("history", "nights", "measured", "moved", "shuffled")
)


def tonight(levels: list[Level], **known: Modes) -> Screen:
    """The last of them, held against the others."""
    return screen(levels[:-1], levels[-1], **known)


def test_a_drop_of_eleven_percent_is_seen_after_a_single_level() -> None:
    """In 38 of 40 seeded pairs of nights at least."""
    seen = [
        screen(levels[:1], levels[1]).suspicious
        for levels in (history(seed, (1, 0.0), (1, math.log(0.89))) for seed in range(40))
    ]

    assert sum(seen) >= 38


@pytest.mark.parametrize(("nights", "drop", "least"), [(7, 0.05, 35), (20, 0.03, 20)])
def test_smaller_drops_are_seen_once_there_is_a_history(
    nights: int, drop: float, least: int
) -> None:
    seen = [
        screen(levels[:nights], levels[nights]).suspicious
        for levels in (history(seed, (nights, 0.0), (1, math.log(1 - drop))) for seed in range(40))
    ]

    assert sum(seen) >= least


@pytest.mark.parametrize("nights", [1, 3, 7, 20])
@pytest.mark.parametrize("image", [0.0, 0.008, 0.015])
def test_nights_without_a_change_are_hardly_ever_suspicious(nights: int, image: float) -> None:
    """At most 3 of 100, where comparing with the night before would cry wolf for 30."""
    false = [
        screen(levels[:nights], levels[nights]).suspicious
        for levels in (history(seed, (nights + 1, 0.0), image=image) for seed in range(100))
    ]

    assert sum(false) <= 3


def test_a_gain_is_not_suspicious() -> None:
    levels = history(12, (10, 0.0), (1, 0.2))

    found = screen(levels[:-1], levels[-1])

    assert not found.suspicious
    assert found.score < 0 < found.ln_ratio


def test_the_baseline_starts_after_the_last_step() -> None:
    """What is 8 % below last year is not below last month; 8 % below that is."""
    levels = history(13, (20, 0.0), (10, -0.08), (1, -0.08))
    assert not screen(levels[:-1], levels[-1]).suspicious

    dropped = history(13, (20, 0.0), (10, -0.08), (1, -0.16))
    found = screen(dropped[:-1], dropped[-1])

    assert found.suspicious
    assert found.baseline == pytest.approx(14 - 0.08, abs=0.01)
    assert found.good == "r29"


def test_a_drop_stays_suspicious_until_it_has_settled() -> None:
    """A retest may come to nothing; the nights after ask again, against the level before."""
    levels = history(14, (10, 0.0), (2, -0.1))

    found = screen(levels[:-1], levels[-1])

    assert found.suspicious
    assert found.good == "r9"


def test_the_good_end_is_a_level_like_the_baseline() -> None:
    """An image that was low last night, for whatever reason, would make a poor good end."""
    levels = history(15, (10, 0.0), image=0.002)
    odd = Level("odd", "kernel odd", 10.0, tuple(x - 0.03 for x in levels[0].ln_pps))
    tonight = Level("tonight", "kernel tonight", 11.0, tuple(x - 0.05 for x in levels[1].ln_pps))

    assert screen([*levels, odd], tonight).good == "r9"


def test_a_kernel_is_not_slower_than_itself() -> None:
    """Tonight's revision builds what was measured before: there is no change to look for."""
    (level,) = history(16, (1, 0.0))
    tonight = Level("docs", level.identity, 2.0, tuple(x - 0.2 for x in level.ln_pps))

    assert not screen([level], tonight).suspicious


def test_suspicious_is_a_drop_beyond_the_threshold() -> None:
    for shift in (-0.15, -0.02, 0.0, 0.1):
        levels = history(17, (10, 0.0), (1, shift))
        found = screen(levels[:-1], levels[-1])

        assert found.suspicious == (-found.ln_ratio >= found.threshold)
        assert found.suspicious == (found.score >= 1)
        assert found.threshold > 0


def test_a_screen_needs_a_history() -> None:
    with pytest.raises(ValueError, match="at least one earlier level"):
        screen([], history(18, (1, 0.0))[0])


# -------------------------------------------------------------------------- how long it has been


def test_a_small_drop_is_seen_once_there_are_more_nights_of_it() -> None:
    """2.5 % among images that differ by 0.8 %: in most of 30 series after five nights."""
    first = sum(tonight(history(seed, (20, 0.0), (1, -0.025))).suspicious for seed in range(30))
    fifth = sum(tonight(history(seed, (20, 0.0), (5, -0.025))).suspicious for seed in range(30))

    assert first < fifth
    assert fifth >= 25


def test_the_suspects_are_the_latest_images_that_are_off() -> None:
    """The newest first, as long as there was no way back."""
    levels = history(30, (15, 0.0), (3, -0.06), image=0.002, stray=0)

    assert tonight(levels).suspects == ("r17", "r16", "r15")
    assert tonight(levels[:-1]).suspects == ("r16", "r15")
    assert tonight(levels[:-2]).suspects == ("r15",)


def test_an_odd_image_does_not_shorten_the_baseline() -> None:
    """One night was low, the next was not: what was known before is still known."""
    levels = history(31, (30, 0.0), (1, -0.1), (2, 0.0), image=0.004, stray=0)
    without = [one for one in levels if one.revision != "r30"]

    assert tonight(levels).threshold == pytest.approx(tonight(without).threshold, rel=0.2)


@pytest.mark.parametrize("back", [1, 2, 3, 5])
def test_nights_after_an_odd_fast_image_are_not_suspicious(back: int) -> None:
    """They are held against what was before it too, not against that image alone."""
    levels = history(31, (30, 0.0), (1, 0.08), (back, 0.0), image=0.004, stray=0)

    assert not tonight(levels).suspicious


def test_the_goods_are_of_the_baseline_and_nearest_to_its_level_first() -> None:
    levels = history(31, (15, 0.0), (1, -0.1), stray=0)
    found = tonight(levels)
    off = {one.revision: abs(one.mean - found.baseline) for one in levels}

    assert len(found.goods) == 6
    assert set(found.goods) <= {f"r{i}" for i in range(15)}
    assert not set(found.goods) & set(found.suspects)
    assert [off[name] for name in found.goods] == pytest.approx(
        sorted(off[name] for name in found.goods), abs=2e-3
    )


def test_more_nights_settle_a_drop() -> None:
    """After some of them it is the baseline, and nights like it ask nothing."""
    asked = [
        tonight(history(32, (15, 0.0), (lower, -0.1), image=0.003, stray=0)).suspicious
        for lower in range(1, 12)
    ]
    settled = asked.index(False)

    assert settled == screening._SETTLED
    assert asked == [True] * settled + [False] * (11 - settled)


def test_a_long_history_is_cut_short_without_a_change() -> None:
    """Two years ago counts no more: what lies before 120 images may be anything."""
    recent = history(33, (130, 0.0), (1, -0.06))
    before = [
        replace(one, revision=f"old {one.revision}", identity="")
        for one in history(34, (200, 0.7), share=0.4)
    ]

    assert tonight([*before, *recent]) == tonight(recent)


# ---------------------------------------------------------------------------------------- gains


def test_a_gain_is_told_as_a_gain() -> None:
    """It is not suspicious for a drop; its p is that of the gain."""
    found = tonight(history(35, (15, 0.0), (1, 0.08)))

    assert found.kind is AlertKind.IMPROVEMENT
    assert not found.suspicious
    assert found.p < 1e-3
    assert found.ln_ratio == pytest.approx(0.08, abs=0.02)
    assert found.suspects == ("r15",)


def test_a_drop_is_told_as_a_drop() -> None:
    found = tonight(history(36, (15, 0.0), (1, -0.08)))

    assert (found.kind, found.suspicious) == (AlertKind.DROP, True)
    assert found.p < 1e-3


def test_p_is_no_surprise_without_a_change() -> None:
    """Below 2 % in at most 4 of 80 series."""
    p = [tonight(history(seed, (20, 0.0))).p for seed in range(80)]

    assert all(0 <= one <= 1 for one in p)
    assert sum(one < 0.02 for one in p) <= 4


# ------------------------------------------------------------------------------------ two modes


def test_a_night_of_some_slow_boots_is_no_drop() -> None:
    """Three of five came up slow, in a series that is known for it."""
    for seed in range(20):
        levels = history(seed, (30, 0.0), share=0.3, boot=0.005, image=0.004, stray=0)
        fast = np.random.default_rng(seed).normal(14, 0.005, 5)
        night = Level("tonight", "its kernel", 30.0, tuple(fast - 0.12 * (np.arange(5) < 3)))

        assert not screen(levels, night).suspicious


def test_the_same_night_is_a_drop_where_boots_have_one_mode() -> None:
    levels = history(37, (30, 0.0), boot=0.005, image=0.004, stray=0)
    night = Level("tonight", "its kernel", 30.0, (14.0, 14.0, 13.88, 13.88, 13.88))

    assert screen(levels, night).suspicious


def test_a_drop_of_a_series_with_two_modes_is_seen() -> None:
    """Of 4 %, a third of the distance of the modes, in 18 of 20 series at least."""
    seen = [
        tonight(history(seed, (30, 0.0), (1, -0.04), share=0.3, boot=0.005, image=0.004))
        for seed in range(20)
    ]

    assert sum(one.suspicious for one in seen) >= 18


def test_modes_from_the_first_night_on_are_no_suspicion() -> None:
    """All nights of 4 series, from the second on: at most four ask."""
    asked = 0
    for seed in range(4):
        levels = history(seed, (40, 0.0), share=0.3, boot=0.005, image=0.004, stray=0)
        asked += sum(screen(levels[:i], levels[i]).suspicious for i in range(1, 40))

    assert asked <= 4


def test_modes_that_are_known_need_not_be_learned() -> None:
    """In the second night of a series nobody could; with None there is one mode only."""
    levels = nights([[14.0, 14.001, 13.999], [14.001, 13.88, 13.88]])

    assert not tonight(levels, modes=Modes(0.3, 0.12, 0.005)).suspicious
    assert tonight(levels, modes=None).suspicious


def test_a_slow_mode_that_comes_no_more_is_an_event_of_its_own() -> None:
    """Half of the boots were slow, and none of the latest three images."""
    shape = {"boot": 0.005, "image": 0.004, "stray": 0.0}
    before = history(38, (40, 0.0), share=0.5, boots=8, **shape)
    after = [
        replace(one, revision=f"new {one.revision}", identity=f"new {one.identity}")
        for one in history(39, (3, 0.0), boots=8, **shape)
    ]
    found = tonight([*before, *after])

    assert found.suspicious
    assert found.kind is AlertKind.MODES
    assert not tonight(before).suspicious


# --------------------------------------------------------------------- nothing that can be known


def limited(levels: list[Level], which: range | list[int]) -> list[Level]:
    """Those of them as the generator limits them."""
    return [replace(one, saturated=i in which) for i, one in enumerate(levels)]


def test_between_levels_that_the_generator_limits_nothing_is_suspicious() -> None:
    """Neither a drop nor a change of modes: it was the generator that changed."""
    drop = limited(history(50, (15, 0.0), (1, -0.1)), range(16))
    found = tonight(drop)

    assert not found.suspicious
    assert found.score < 1


def test_a_drop_out_of_saturation_is_suspicious() -> None:
    """Tonight the router is the limit: it has become slower than the generator."""
    assert tonight(limited(history(51, (15, 0.0), (1, -0.1)), range(15))).suspicious


def test_a_few_limited_levels_of_the_past_do_not_hide_a_drop() -> None:
    assert tonight(limited(history(52, (15, 0.0), (1, -0.1)), [3, 7, 15])).suspicious


@pytest.mark.parametrize("boots", [1, 2, 5])
@pytest.mark.parametrize("count", [2, 3, 10, 50])
@pytest.mark.parametrize("value", [14.0, 13.7, 0.0])
def test_nights_that_never_differ_are_not_suspicious(count: int, boots: int, value: float) -> None:
    found = tonight(nights([[value] * boots] * count))

    assert not found.suspicious
    assert found.ln_ratio == pytest.approx(0, abs=1e-9)
    assert found.p > 0.4
    assert found.kind is AlertKind.DROP


@pytest.mark.parametrize(("drop", "suspicious"), [(0.001, False), (0.03, True)])
def test_without_any_scatter_the_least_effect_decides(drop: float, suspicious: bool) -> None:
    levels = nights([[14.0] * 3] * 30 + [[14 - drop] * 3])

    assert tonight(levels).suspicious == suspicious


def test_one_boot_a_night_is_enough_for_a_large_drop() -> None:
    levels = history(53, (20, 0.0), (1, -0.1), boots=1, stray=0)

    assert tonight(levels).suspicious
    assert not tonight(levels[:-1]).suspicious


def test_one_image_of_many_nights_is_no_baseline_for_itself() -> None:
    """Every revision built the same kernel: an infinite threshold, and the last night's name."""
    same = [replace(one, identity="same") for one in history(54, (9, 0.0), (1, -0.3))]
    found = tonight(same)

    assert not found.suspicious
    assert found.threshold == math.inf
    assert (found.good, found.suspects, found.score) == ("r8", (), 0)


def test_a_kernel_that_was_off_yesterday_is_one_suspect_with_tonights() -> None:
    """Both revisions build it: the older one is the one that may have changed something."""
    levels = history(55, (10, 0.0), (2, -0.1), stray=0)
    same = [replace(one, identity="bad") if one.at > 9 else one for one in levels]
    found = tonight(same)

    assert found.suspicious
    assert found.good == "r9"
    assert len(found.suspects) == 1


def test_a_night_after_a_gap_of_a_year_is_held_against_what_there_is() -> None:
    levels = history(56, (10, 0.0), (1, -0.1))
    late = [*levels[:-1], replace(levels[-1], at=levels[-1].at + 365 * 86400)]

    assert tonight(late) == tonight(levels)


# ------------------------------------------------------------------------------------ invariance

SHAPES = st.sampled_from(
    [((1, 0.0), (1, -0.08)), ((12, 0.0), (1, 0.0)), ((12, 0.0), (2, -0.05)), ((12, 0.0), (1, 0.1))]
)


@given(st.integers(0, 10**6), SHAPES, st.floats(-5, 5), st.sampled_from([0.0, 0.3]))
@settings(max_examples=40)
def test_the_unit_of_the_levels_does_not_matter(
    seed: int, shape: tuple[tuple[int, float], ...], by: float, share: float
) -> None:
    levels = history(seed, *shape, share=share, boot=0.005)
    one, other = tonight(levels), tonight(moved(levels, by))

    assert other.baseline == pytest.approx(one.baseline + by, abs=1e-6)
    for name in ("ln_ratio", "threshold", "score", "p"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-5, abs=1e-6)
    for name in ("suspicious", "good", "suspects", "kind"):
        assert getattr(other, name) == getattr(one, name)


@given(st.integers(0, 10**6), SHAPES, st.sampled_from([0.0, 0.3]))
@settings(max_examples=40)
def test_the_order_of_the_boots_of_an_image_does_not_matter(
    seed: int, shape: tuple[tuple[int, float], ...], share: float
) -> None:
    levels = history(seed, *shape, share=share, boot=0.005)
    one, other = tonight(levels), tonight(shuffled(levels, seed))

    assert other.ln_ratio == pytest.approx(one.ln_ratio, abs=1e-7)
    assert other.p == pytest.approx(one.p, rel=1e-5, abs=1e-9)
    for name in ("suspicious", "good", "suspects", "kind"):
        assert getattr(other, name) == getattr(one, name)


@given(st.integers(0, 10**6), st.floats(0, 0.05))
@settings(max_examples=30)
def test_a_larger_least_effect_makes_nothing_more_suspicious(seed: int, more: float) -> None:
    levels = history(seed, (10, 0.0), (1, -0.03))
    one = tonight(levels)
    other = screen(levels[:-1], levels[-1], MIN_EFFECT + more)

    assert other.suspicious <= one.suspicious
    assert other.threshold >= one.threshold or other.ln_ratio != one.ln_ratio


# --------------------------------------------------------------------------------- measured data


@pytest.mark.data
def test_a_year_of_nights_asks_few_questions() -> None:
    """The drop at r303643 is seen in the night it happens; of 54 nights at most 8 ask.

    A drop stays suspicious until several images have shown it.
    """
    levels = measured("Atom_C2558", "ipfw-statefull", "history")
    asked = [
        levels[i].revision
        for i in range(1, len(levels))
        if screen(levels[:i], levels[i]).suspicious
    ]

    assert "r303643" in asked
    assert len(levels) == 55
    assert len(asked) <= 8
