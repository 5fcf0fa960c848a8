"""Steps and noise of histories."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.detection.histories import analyze_jointly, estimate_noise, find_steps
from netbisect.bisect.model.detection_results import LevelStep
from netbisect.bisect.model.entities import Level

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "histories.py"))
history, measured, moved, shuffled = (
    made[name] for name in ("history", "measured", "moved", "shuffled")
)


def at(found: list[LevelStep]) -> list[str]:
    return [step.at for step in found]


# ------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize("shift", [-0.12, -0.05, 0.05, 0.3])
def test_step_is_found_at_its_position(shift: float) -> None:
    (step,) = find_steps(history(1, (15, 0.0), (15, shift)))

    assert (step.before, step.at) == ("r14", "r15")
    assert step.low < shift < step.high
    assert step.low < step.ln_ratio < step.high
    assert (step.levels_before, step.levels_after) == (15, 15)
    assert (step.boots_before, step.boots_after) == (75, 75)
    assert step.score > 5


def test_several_steps_are_found() -> None:
    assert at(find_steps(history(2, (12, 0.0), (9, -0.08), (14, 0.05), (5, -0.1)))) == [
        "r12",
        "r21",
        "r35",
    ]


def test_false_steps_are_rare() -> None:
    """At most two in 60 histories with outliers."""
    false = [
        step
        for seed in range(60)
        for step in find_steps(history(seed, (40, 0.0), image=(0.0, 0.01, 0.02)[seed % 3]))
    ]

    assert len(false) <= 2


def test_image_noise_is_no_step() -> None:
    levels = history(4, (30, 0.0), boot=0.002, image=0.03)

    assert find_steps(levels) == []


def test_step_below_min_effect_is_ignored() -> None:
    levels = history(5, (30, 0.0), (30, -0.012), boot=0.002, image=0.001)

    assert find_steps(levels) == []
    assert at(find_steps(levels, min_effect=0.005)) == ["r30"]


def test_single_outlier_is_no_step() -> None:
    levels = history(6, (20, 0.0))
    levels.insert(10, Level("odd", "kernel odd", 10.5, (14 - 0.1,)))

    assert find_steps(levels) == []


def test_revisions_with_one_kernel_are_one_image() -> None:
    before, after = history(7, (8, 0.0), (8, -0.06))[7:9]
    levels = [
        *history(7, (7, 0.0)),
        before,
        Level("same as before", before.identity, 9.0, before.ln_pps),
        after,
        Level("same as after", after.identity, 10.0, after.ln_pps),
        *history(7, (8, 0.0), (8, -0.06))[9:],
    ]

    (step,) = find_steps(levels)

    assert (step.before, step.at) == ("same as before", after.revision)
    assert (step.levels_before, step.levels_after) == (8, 8)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_short_histories_have_no_steps(count: int) -> None:
    assert find_steps(history(8, (count, 0.0))) == []


@given(st.integers(0, 10**6), st.floats(-3, 3))
@settings(max_examples=12)
def test_unit_does_not_matter(seed: int, factor: float) -> None:
    levels = history(seed, (8, 0.0), (8, -0.06))
    scaled = moved(levels, factor)

    assert [(s.at, round(s.ln_ratio, 9)) for s in find_steps(scaled)] == [
        (s.at, round(s.ln_ratio, 9)) for s in find_steps(levels)
    ]


# ------------------------------------------------------------------------------------- noise


def test_steps_do_not_count_as_noise() -> None:
    noise = estimate_noise(history(9, (30, 0.0), (30, -0.2), (30, 0.1), boot=0.012, image=0.02))

    assert noise.boot == pytest.approx(0.012, rel=0.2)
    assert noise.image == pytest.approx(0.02, rel=0.3)


def test_boot_noise_does_not_count_as_image_noise() -> None:
    assert estimate_noise(history(10, (60, 0.0), boot=0.006, image=0.0)).image < 0.004


def test_noise_without_a_history_is_the_prior() -> None:
    noise = estimate_noise([])

    assert (noise.boot, noise.image) == (0.009, 0.01)


# -------------------------------------------------------------------------------- edge cases


@pytest.mark.parametrize("boots", [1, 5])
def test_constant_levels_have_no_steps(boots: int) -> None:
    same = [Level(f"r{i}", f"kernel {i}", float(i), (14.0,) * boots) for i in range(80)]

    assert find_steps(same) == []
    assert estimate_noise(same).boot <= 0.009
    assert estimate_noise(same).image <= 0.01


def test_step_without_noise_is_found() -> None:
    levels = [Level(f"r{i}", "", float(i), (14.0 - 0.05 * (i > 9),) * 3) for i in range(20)]

    assert at(find_steps(levels)) == ["r10"]


def test_times_do_not_matter() -> None:
    levels = history(41, (10, 0.0), (10, -0.08))
    odd = [replace(one, at=float(abs(7 - i)) * 1e7) for i, one in enumerate(levels)]

    assert find_steps(odd) == find_steps(levels)


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_order_of_boots_does_not_matter(seed: int) -> None:
    levels = history(seed, (8, 0.0), (8, -0.06), share=0.3)
    other = shuffled(levels, seed)

    assert at(find_steps(other)) == at(find_steps(levels))
    assert [one.ln_ratio for one in find_steps(other)] == pytest.approx(
        [one.ln_ratio for one in find_steps(levels)], abs=1e-9
    )


# ----------------------------------------------------------------------------------- two modes


def test_step_with_two_modes_is_found() -> None:
    (step,) = find_steps(history(42, (20, 0.0), (20, -0.03), share=0.3, boot=0.005, image=0.004))

    assert step.at == "r20"
    assert step.low < -0.03 < step.high


def test_modes_are_no_steps() -> None:
    """At most two in 20 histories."""
    false = [
        one
        for seed in range(20)
        for one in find_steps(history(seed, (40, 0.0), share=0.3, boot=0.005))
    ]

    assert len(false) <= 2


# --------------------------------------------------------------------------- series of a branch


def test_joint_analysis_keeps_keys() -> None:
    series = {
        "falls": history(43, (15, 0.0), (15, -0.1)),
        ("rises", 1): history(44, (15, 0.0), (15, 0.1)),
        "none": history(45, (30, 0.0)),
        "short": history(46, (1, 0.0)),
        "empty": [],
    }
    found = analyze_jointly(series)

    assert list(found) == list(series)
    assert {key: at(its.steps) for key, its in found.items()} == {
        "falls": ["r15"],
        ("rises", 1): ["r15"],
        "none": [],
        "short": [],
        "empty": [],
    }
    assert analyze_jointly({}) == {}


def test_clear_step_in_another_series_reveals_a_faint_one() -> None:
    alone, beside, elsewhere = 0, 0, 0
    for seed in range(30):
        faint = history(seed, (10, 0.0), (4, -0.03))
        here = history(seed + 100, (10, 0.0), (10, -0.3))
        later = history(seed + 100, (12, 0.0), (10, -0.3))
        alone += at(find_steps(faint)) == ["r10"]
        beside += at(analyze_jointly({1: faint, 2: here})[1].steps) == ["r10"]
        elsewhere += at(analyze_jointly({1: faint, 2: later})[1].steps) == ["r10"]

    assert beside > alone
    assert elsewhere <= alone


def test_clear_step_in_another_series_adds_no_false_steps() -> None:
    """At most one in 20 series."""
    false = [
        one
        for seed in range(20)
        for one in analyze_jointly(
            {1: history(seed, (20, 0.0)), 2: history(seed + 100, (10, 0.0), (10, -0.3))}
        )[1].steps
    ]

    assert len(false) <= 1


def test_range_of_a_faint_step_is_wider() -> None:
    (clear,) = find_steps(history(51, (15, 0.0), (15, -0.2)))
    assert (clear.earliest, clear.latest) == (clear.before, clear.at) == ("r14", "r15")
    wide = held = 0
    for seed in range(30):
        levels = history(seed, (15, 0.0), (15, -0.03), image=0.012)
        place = {level.revision: i for i, level in enumerate(levels)}
        for step in find_steps(levels):
            assert place[step.earliest] <= place[step.before] < place[step.at] <= place[step.latest]
            wide += step.earliest != step.before or step.latest != step.at
            held += place[step.earliest] < 15 <= place[step.latest]
    assert wide >= 10
    assert held >= 25


# ------------------------------------------------------------------------------ measured data


@pytest.mark.data
@pytest.mark.parametrize(
    ("hardware", "low", "high"), [("Atom_C2558", -14, -9), ("AMD_GX-412TC", -29, -22)]
)
def test_iflib_migration_is_found(hardware: str, low: float, high: float) -> None:
    """r311849 made e1000 routers slower; seven revisions of five boots show it."""
    found = {step.at: step for step in find_steps(measured(hardware, "", "bisect-set"))}

    assert found["r311849"].before == "r311848"
    assert low < 100 * math.expm1(found["r311849"].ln_ratio) < high


@pytest.mark.data
@pytest.mark.parametrize(
    ("config", "backoff", "fib"),
    [("fastforwarding", -12, 27), ("ipfw-statefull", -5, 13), ("pf-statefull", -4, 9)],
)
def test_documented_steps_of_an_atom_are_found(config: str, backoff: int, fib: int) -> None:
    """r303643 and r309257, and at most one more in a year of 55 revisions."""
    levels = measured("Atom_C2558", config, "history")
    found = {step.at: round(100 * math.expm1(step.ln_ratio)) for step in find_steps(levels)}

    assert found["r303643"] == backoff
    assert found["r309257"] == fib
    assert len(found) <= 3


@pytest.mark.data
def test_documented_step_of_an_apu_is_found() -> None:
    """r309257 made it faster; in its other two series the images scatter by 3 and 4 %."""
    found = {s.at: s.ln_ratio for s in find_steps(measured("AMD_GX", "fastforwarding", "history"))}

    assert math.expm1(found["r309257"]) == pytest.approx(0.176, abs=0.02)
    assert estimate_noise(measured("AMD_GX", "pf-statefull", "history")).image > 0.02
    assert estimate_noise(measured("AMD_GX", "ipfw-statefull", "history")).image > 0.03
