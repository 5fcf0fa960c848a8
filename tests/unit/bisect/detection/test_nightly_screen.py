"""Nightly screen: drops, gains and changes of boot modes."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.detection import nightly_screen
from netbisect.bisect.detection.nightly_screen import screen
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import MIN_EFFECT, BootModes, ScreenResult
from netbisect.bisect.model.entities import Level

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "histories.py"))
history, nights, measured, moved, shuffled = (
    made[name] for name in ("history", "nights", "measured", "moved", "shuffled")
)


def tonight(levels: list[Level], **known: BootModes) -> ScreenResult:
    """Screens the last level against the others."""
    return screen(levels[:-1], levels[-1], **known)


def test_drop_of_11_percent_shows_after_one_level() -> None:
    """In 38 of 40 seeded pairs of nights at least."""
    seen = [
        screen(levels[:1], levels[1]).suspicious
        for levels in (history(seed, (1, 0.0), (1, math.log(0.89))) for seed in range(40))
    ]

    assert sum(seen) >= 38


@pytest.mark.parametrize(("nights", "drop", "least"), [(7, 0.05, 35), (20, 0.03, 20)])
def test_smaller_drops_show_with_a_history(nights: int, drop: float, least: int) -> None:
    seen = [
        screen(levels[:nights], levels[nights]).suspicious
        for levels in (history(seed, (nights, 0.0), (1, math.log(1 - drop))) for seed in range(40))
    ]

    assert sum(seen) >= least


@pytest.mark.long
@pytest.mark.parametrize("nights", [1, 3, 7, 20])
@pytest.mark.parametrize("image", [0.0, 0.008, 0.015])
def test_false_suspicions_are_rare(nights: int, image: float) -> None:
    """At most 3 of 100."""
    false = [
        screen(levels[:nights], levels[nights]).suspicious
        for levels in (history(seed, (nights + 1, 0.0), image=image) for seed in range(100))
    ]

    assert sum(false) <= 3


def test_baseline_starts_after_the_last_step() -> None:
    levels = history(13, (20, 0.0), (10, -0.08), (1, -0.08))
    assert not screen(levels[:-1], levels[-1]).suspicious

    dropped = history(13, (20, 0.0), (10, -0.08), (1, -0.16))
    found = screen(dropped[:-1], dropped[-1])

    assert found.suspicious
    assert found.baseline == pytest.approx(14 - 0.08, abs=0.01)
    assert found.good == "r29"


def test_second_night_of_a_drop_is_suspicious() -> None:
    levels = history(14, (10, 0.0), (2, -0.1))

    found = screen(levels[:-1], levels[-1])

    assert found.suspicious
    assert found.good == "r9"


def test_good_end_is_near_the_baseline() -> None:
    levels = history(15, (10, 0.0), image=0.002)
    odd = Level("odd", "kernel odd", 10.0, tuple(x - 0.03 for x in levels[0].ln_pps))
    tonight = Level("tonight", "kernel tonight", 11.0, tuple(x - 0.05 for x in levels[1].ln_pps))

    assert screen([*levels, odd], tonight).good == "r9"


def test_identical_kernel_is_not_suspicious() -> None:
    (level,) = history(16, (1, 0.0))
    tonight = Level("docs", level.identity, 2.0, tuple(x - 0.2 for x in level.ln_pps))

    assert not screen([level], tonight).suspicious


def test_screen_needs_a_history() -> None:
    with pytest.raises(ValueError, match="at least one earlier level"):
        screen([], history(18, (1, 0.0))[0])


# -------------------------------------------------------------------------- length of history


def test_suspects_are_the_latest_deviating_images() -> None:
    levels = history(30, (15, 0.0), (3, -0.06), image=0.002, stray=0)

    assert tonight(levels).suspects == ("r17", "r16", "r15")
    assert tonight(levels[:-1]).suspects == ("r16", "r15")
    assert tonight(levels[:-2]).suspects == ("r15",)


def test_single_outlier_does_not_shorten_the_baseline() -> None:
    levels = history(31, (30, 0.0), (1, -0.1), (2, 0.0), image=0.004, stray=0)
    without = [one for one in levels if one.revision != "r30"]

    assert tonight(levels).threshold == pytest.approx(tonight(without).threshold, rel=0.2)


@pytest.mark.parametrize("back", [1, 2, 3, 5])
def test_nights_after_a_fast_outlier_are_not_suspicious(back: int) -> None:
    levels = history(31, (30, 0.0), (1, 0.08), (back, 0.0), image=0.004, stray=0)

    assert not tonight(levels).suspicious


def test_good_images_are_sorted_by_distance_from_the_baseline() -> None:
    levels = history(31, (15, 0.0), (1, -0.1), stray=0)
    found = tonight(levels)
    off = {one.revision: abs(one.mean - found.baseline) for one in levels}

    assert len(found.goods) == 6
    assert set(found.goods) <= {f"r{i}" for i in range(15)}
    assert not set(found.goods) & set(found.suspects)
    assert [off[name] for name in found.goods] == pytest.approx(
        sorted(off[name] for name in found.goods), abs=2e-3
    )


def test_drop_becomes_the_baseline_after_seven_images() -> None:
    record = [
        tonight(history(32, (15, 0.0), (lower, -0.1), image=0.003, stray=0)).suspicious
        for lower in range(1, 12)
    ]
    settled = record.index(False)

    assert settled == nightly_screen._SETTLED
    assert record == [True] * settled + [False] * (11 - settled)


def test_only_the_latest_120_images_count() -> None:
    recent = history(33, (130, 0.0), (1, -0.06))
    before = [
        replace(one, revision=f"old {one.revision}", identity="")
        for one in history(34, (200, 0.7), share=0.4)
    ]

    assert tonight([*before, *recent]) == tonight(recent)


# ---------------------------------------------------------------------------------------- gains


def test_gain_is_an_improvement() -> None:
    found = tonight(history(35, (15, 0.0), (1, 0.08)))

    assert found.kind is AlertKind.IMPROVEMENT
    assert not found.suspicious
    assert found.p < 1e-3
    assert found.ln_ratio == pytest.approx(0.08, abs=0.02)
    assert found.suspects == ("r15",)


def test_p_values_without_a_change() -> None:
    """Below 2 % in at most 3 of 40 series."""
    p = [tonight(history(seed, (20, 0.0))).p for seed in range(40)]

    assert all(0 <= one <= 1 for one in p)
    assert sum(one < 0.02 for one in p) <= 3


# ------------------------------------------------------------------------------------ two modes


def test_slow_boots_of_a_known_mode_are_no_drop() -> None:
    """Three of five came up slow, in a series that is known for it."""
    for seed in range(20):
        levels = history(seed, (30, 0.0), share=0.3, boot=0.005, image=0.004, stray=0)
        fast = np.random.default_rng(seed).normal(14, 0.005, 5)
        night = Level("tonight", "its kernel", 30.0, tuple(fast - 0.12 * (np.arange(5) < 3)))

        assert not screen(levels, night).suspicious


def test_slow_boots_with_one_mode_are_a_drop() -> None:
    levels = history(37, (30, 0.0), boot=0.005, image=0.004, stray=0)
    night = Level("tonight", "its kernel", 30.0, (14.0, 14.0, 13.88, 13.88, 13.88))

    assert screen(levels, night).suspicious


def test_drop_with_two_modes_shows() -> None:
    """Of 4 %, a third of the distance of the modes, in 18 of 20 series at least."""
    seen = [
        tonight(history(seed, (30, 0.0), (1, -0.04), share=0.3, boot=0.005, image=0.004))
        for seed in range(20)
    ]

    assert sum(one.suspicious for one in seen) >= 18


@pytest.mark.long
def test_modes_from_the_first_night_are_not_suspicious() -> None:
    """All nights of 4 series, from the second on: at most four ask."""
    record = 0
    for seed in range(4):
        levels = history(seed, (40, 0.0), share=0.3, boot=0.005, image=0.004, stray=0)
        record += sum(screen(levels[:i], levels[i]).suspicious for i in range(1, 40))

    assert record <= 4


def test_known_modes_apply_from_the_second_night() -> None:
    levels = nights([[14.0, 14.001, 13.999], [14.001, 13.88, 13.88]])

    assert not tonight(levels, modes=BootModes(0.3, 0.12, 0.005)).suspicious
    assert tonight(levels, modes=None).suspicious


def test_vanished_slow_mode_is_of_kind_modes() -> None:
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


# ------------------------------------------------------------------------------- edge cases


def saturated(levels: list[Level], which: range | list[int]) -> list[Level]:
    """Marks levels as saturated."""
    return [replace(one, saturated=i in which) for i, one in enumerate(levels)]


def test_saturated_levels_are_not_suspicious() -> None:
    drop = saturated(history(50, (15, 0.0), (1, -0.1)), range(16))
    found = tonight(drop)

    assert not found.suspicious
    assert found.score < 1


def test_drop_out_of_saturation_is_suspicious() -> None:
    assert tonight(saturated(history(51, (15, 0.0), (1, -0.1)), range(15))).suspicious


def test_few_saturated_levels_do_not_hide_a_drop() -> None:
    assert tonight(saturated(history(52, (15, 0.0), (1, -0.1)), [3, 7, 15])).suspicious


@pytest.mark.parametrize("boots", [1, 5])
@pytest.mark.parametrize("count", [2, 50])
@pytest.mark.parametrize("value", [14.0, 0.0])
def test_constant_levels_are_not_suspicious(count: int, boots: int, value: float) -> None:
    found = tonight(nights([[value] * boots] * count))

    assert not found.suspicious
    assert found.ln_ratio == pytest.approx(0, abs=1e-9)
    assert found.p > 0.4
    assert found.kind is AlertKind.DROP


@pytest.mark.parametrize(("drop", "suspicious"), [(0.001, False), (0.03, True)])
def test_min_effect_decides_without_noise(drop: float, suspicious: bool) -> None:
    levels = nights([[14.0] * 3] * 30 + [[14 - drop] * 3])

    assert tonight(levels).suspicious == suspicious


def test_single_image_of_many_nights_is_not_suspicious() -> None:
    same = [replace(one, identity="same") for one in history(54, (9, 0.0), (1, -0.3))]
    found = tonight(same)

    assert not found.suspicious
    assert found.threshold == math.inf
    assert (found.good, found.suspects, found.score) == ("r8", (), 0)


def test_two_revisions_of_one_image_are_one_suspect() -> None:
    levels = history(55, (10, 0.0), (2, -0.1), stray=0)
    same = [replace(one, identity="bad") if one.at > 9 else one for one in levels]
    found = tonight(same)

    assert found.suspicious
    assert found.good == "r9"
    assert len(found.suspects) == 1


# ------------------------------------------------------------------------------------ invariance

SHAPES = st.sampled_from(
    [((1, 0.0), (1, -0.08)), ((12, 0.0), (1, 0.0)), ((12, 0.0), (2, -0.05)), ((12, 0.0), (1, 0.1))]
)


@given(st.integers(0, 10**6), SHAPES, st.floats(-5, 5), st.sampled_from([0.0, 0.3]))
@settings(max_examples=15)
def test_unit_does_not_matter(
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
@settings(max_examples=15)
def test_order_of_boots_does_not_matter(
    seed: int, shape: tuple[tuple[int, float], ...], share: float
) -> None:
    levels = history(seed, *shape, share=share, boot=0.005)
    one, other = tonight(levels), tonight(shuffled(levels, seed))

    assert other.ln_ratio == pytest.approx(one.ln_ratio, abs=1e-7)
    assert other.p == pytest.approx(one.p, rel=1e-5, abs=1e-9)
    for name in ("suspicious", "good", "suspects", "kind"):
        assert getattr(other, name) == getattr(one, name)


@given(st.integers(0, 10**6), st.floats(0, 0.05))
@settings(max_examples=12)
def test_larger_min_effect_is_not_more_suspicious(seed: int, more: float) -> None:
    levels = history(seed, (10, 0.0), (1, -0.03))
    one = tonight(levels)
    other = screen(levels[:-1], levels[-1], MIN_EFFECT + more)

    assert other.suspicious <= one.suspicious
    assert other.threshold >= one.threshold or other.ln_ratio != one.ln_ratio


# --------------------------------------------------------------------------------- measured data


@pytest.mark.data
def test_published_year_has_few_suspicious_nights() -> None:
    """The drop at r303643 shows at once; at most 8 of 54 nights are suspicious."""
    levels = measured("Atom_C2558", "ipfw-statefull", "history")
    record = [
        levels[i].revision
        for i in range(1, len(levels))
        if screen(levels[:i], levels[i]).suspicious
    ]

    assert "r303643" in record
    assert len(levels) == 55
    assert len(record) <= 8
