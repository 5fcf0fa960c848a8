"""Steps are found in histories, alone or together with those of other series."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.detect import Step, noise_of, steps, steps_of_many
from netbisect.bisect.model import Level

made = runpy.run_path(str(Path(__file__).with_name("histories.py")))
history, measured, moved, shuffled = (
    made[name] for name in ("history", "measured", "moved", "shuffled")
)


def at(found: list[Step]) -> list[str]:
    return [step.at for step in found]


# ------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize("shift", [-0.12, -0.05, 0.05, 0.3])
def test_a_planted_step_is_found_where_it_is(shift: float) -> None:
    (step,) = steps(history(1, (15, 0.0), (15, shift)))

    assert (step.before, step.at) == ("r14", "r15")
    assert step.low < shift < step.high
    assert step.low < step.ln_ratio < step.high
    assert (step.levels_before, step.levels_after) == (15, 15)
    assert (step.boots_before, step.boots_after) == (75, 75)
    assert step.score > 5


def test_several_steps_of_either_sign_are_found() -> None:
    assert at(steps(history(2, (12, 0.0), (9, -0.08), (14, 0.05), (5, -0.1)))) == [
        "r12",
        "r21",
        "r35",
    ]


def test_a_step_after_the_first_level_is_found() -> None:
    """One level of five boots that agree is enough to step down from."""
    assert at(steps(history(3, (1, 0.0), (6, -0.11)))) == ["r1"]


def test_histories_without_a_step_have_none() -> None:
    """Two hundred of them, with stray boots and unlike images: four false steps are allowed."""
    false = [
        step
        for seed in range(200)
        for step in steps(history(seed, (40, 0.0), image=(0.0, 0.01, 0.02)[seed % 3]))
    ]

    assert len(false) <= 4


def test_the_yardstick_is_the_spread_between_images() -> None:
    """Boots that agree on a shift prove nothing where images scatter as much."""
    levels = history(4, (30, 0.0), boot=0.002, image=0.03)

    assert steps(levels) == []


def test_a_step_that_is_too_small_to_matter_is_left_out() -> None:
    levels = history(5, (30, 0.0), (30, -0.012), boot=0.002, image=0.001)

    assert steps(levels) == []
    assert at(steps(levels, min_effect=0.005)) == ["r30"]


def test_a_single_stray_boot_is_no_step() -> None:
    """A revision that was booted once, on the way of a search, and 10 % low."""
    levels = history(6, (20, 0.0))
    levels.insert(10, Level("odd", "kernel odd", 10.5, (14 - 0.1,)))

    assert steps(levels) == []


def test_one_kernel_under_two_revisions_is_one_image() -> None:
    """The last revision before a step and the first after it are told, whatever they build."""
    before, after = history(7, (8, 0.0), (8, -0.06))[7:9]
    levels = [
        *history(7, (7, 0.0)),
        before,
        Level("same as before", before.identity, 9.0, before.ln_pps),
        after,
        Level("same as after", after.identity, 10.0, after.ln_pps),
        *history(7, (8, 0.0), (8, -0.06))[9:],
    ]

    (step,) = steps(levels)

    assert (step.before, step.at) == ("same as before", after.revision)
    assert (step.levels_before, step.levels_after) == (8, 8)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_short_histories_have_no_steps(count: int) -> None:
    assert steps(history(8, (count, 0.0))) == []


@given(st.integers(0, 10**6), st.floats(-3, 3))
@settings(max_examples=30)
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    """Packets or kilopackets: the same steps of the same size."""
    levels = history(seed, (8, 0.0), (8, -0.06))
    scaled = moved(levels, factor)

    assert [(s.at, round(s.ln_ratio, 9)) for s in steps(scaled)] == [
        (s.at, round(s.ln_ratio, 9)) for s in steps(levels)
    ]


# ------------------------------------------------------------------------------------- noise


def test_noise_is_measured_without_the_steps() -> None:
    noise = noise_of(history(9, (30, 0.0), (30, -0.2), (30, 0.1), boot=0.012, image=0.02))

    assert noise.boot == pytest.approx(0.012, rel=0.2)
    assert noise.image == pytest.approx(0.02, rel=0.3)


def test_images_that_do_not_scatter_have_no_noise() -> None:
    """What boots explain is not counted again."""
    assert noise_of(history(10, (60, 0.0), boot=0.006, image=0.0)).image < 0.004


def test_without_a_history_noise_is_what_is_usual() -> None:
    noise = noise_of([])

    assert (noise.boot, noise.image) == (0.009, 0.01)


def test_stray_boots_do_not_inflate_the_noise() -> None:
    assert noise_of(history(11, (40, 0.0), stray=0.04)).boot == pytest.approx(0.009, rel=0.25)


# ------------------------------------------------------------------------- what is no history


@pytest.mark.parametrize("boots", [1, 5])
def test_levels_that_never_differ_have_no_steps_and_little_noise(boots: int) -> None:
    """A simulated router repeats itself to the last digit."""
    same = [Level(f"r{i}", f"kernel {i}", float(i), (14.0,) * boots) for i in range(80)]

    assert steps(same) == []
    assert noise_of(same).boot <= 0.009
    assert noise_of(same).image <= 0.01


def test_a_step_between_levels_that_never_differ_is_found() -> None:
    levels = [Level(f"r{i}", "", float(i), (14.0 - 0.05 * (i > 9),) * 3) for i in range(20)]

    assert at(steps(levels)) == ["r10"]


def test_nights_of_one_boot_are_enough_for_a_large_step() -> None:
    assert at(steps(history(40, (12, 0.0), (12, -0.1), boots=1, stray=0))) == ["r12"]


def test_times_do_not_matter() -> None:
    """A gap of a year, or a clock that went backwards: the order of the branch decides."""
    levels = history(41, (10, 0.0), (10, -0.08))
    odd = [replace(one, at=float(abs(7 - i)) * 1e7) for i, one in enumerate(levels)]

    assert steps(odd) == steps(levels)


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_the_order_of_boots_does_not_matter(seed: int) -> None:
    """Of one image."""
    levels = history(seed, (8, 0.0), (8, -0.06), share=0.3)
    other = shuffled(levels, seed)

    assert at(steps(other)) == at(steps(levels))
    assert [one.ln_ratio for one in steps(other)] == pytest.approx(
        [one.ln_ratio for one in steps(levels)], abs=1e-9
    )


# ----------------------------------------------------------------------------------- two modes


def test_a_step_among_boots_of_two_modes_is_found() -> None:
    """It is a quarter of the distance of the modes."""
    (step,) = steps(history(42, (20, 0.0), (20, -0.03), share=0.3, boot=0.005, image=0.004))

    assert step.at == "r20"
    assert step.low < -0.03 < step.high


def test_two_modes_are_no_steps() -> None:
    """In 40 histories of 40 images, of which some had slow boots only: at most four steps."""
    false = [
        one for seed in range(40) for one in steps(history(seed, (40, 0.0), share=0.3, boot=0.005))
    ]

    assert len(false) <= 4


# --------------------------------------------------------------------------- series of a branch


def test_series_are_told_apart_by_their_keys() -> None:
    series = {
        "falls": history(43, (15, 0.0), (15, -0.1)),
        ("rises", 1): history(44, (15, 0.0), (15, 0.1)),
        "none": history(45, (30, 0.0)),
        "short": history(46, (1, 0.0)),
        "empty": [],
    }
    found = steps_of_many(series)

    assert list(found) == list(series)
    assert {key: at(its.steps) for key, its in found.items()} == {
        "falls": ["r15"],
        ("rises", 1): ["r15"],
        "none": [],
        "short": [],
        "empty": [],
    }
    assert steps_of_many({}) == {}


@pytest.mark.parametrize("seed", [47, 48])
def test_a_series_alone_is_cut_as_ever(seed: int) -> None:
    levels = history(seed, (15, 0.0), (9, -0.1), (9, -0.05))

    assert steps_of_many({"alone": levels})["alone"].steps == steps(levels)


def test_a_faint_step_is_found_where_another_series_has_a_clear_one() -> None:
    """At the same revision; elsewhere it would not help."""
    alone, beside, elsewhere = 0, 0, 0
    for seed in range(30):
        faint = history(seed, (10, 0.0), (4, -0.03))
        here = history(seed + 100, (10, 0.0), (10, -0.3))
        later = history(seed + 100, (12, 0.0), (10, -0.3))
        alone += at(steps(faint)) == ["r10"]
        beside += at(steps_of_many({1: faint, 2: here})[1].steps) == ["r10"]
        elsewhere += at(steps_of_many({1: faint, 2: later})[1].steps) == ["r10"]

    assert beside > alone
    assert elsewhere <= alone


def test_a_flat_series_beside_a_clear_step_stays_flat() -> None:
    """In 40 of them: at most two steps."""
    false = [
        one
        for seed in range(40)
        for one in steps_of_many(
            {1: history(seed, (20, 0.0)), 2: history(seed + 100, (10, 0.0), (10, -0.3))}
        )[1].steps
    ]

    assert len(false) <= 2


def test_a_faint_step_may_lie_an_image_away_and_a_clear_one_may_not() -> None:
    """The range of the clear one is a single image; that of the faint one holds the truth."""
    (clear,) = steps(history(51, (15, 0.0), (15, -0.2)))
    assert (clear.earliest, clear.latest) == (clear.before, clear.at) == ("r14", "r15")
    wide = held = 0
    for seed in range(30):
        levels = history(seed, (15, 0.0), (15, -0.03), image=0.012)
        place = {level.revision: i for i, level in enumerate(levels)}
        for step in steps(levels):
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
def test_the_iflib_migration_is_found(hardware: str, low: float, high: float) -> None:
    """r311849 made e1000 routers slower; seven revisions of five boots show it."""
    found = {step.at: step for step in steps(measured(hardware, "", "bisect-set"))}

    assert found["r311849"].before == "r311848"
    assert low < 100 * math.expm1(found["r311849"].ln_ratio) < high


@pytest.mark.data
@pytest.mark.parametrize(
    ("config", "backoff", "fib"),
    [("fastforwarding", -12, 27), ("ipfw-statefull", -5, 13), ("pf-statefull", -4, 9)],
)
def test_the_documented_steps_of_an_atom_are_found(config: str, backoff: int, fib: int) -> None:
    """r303643 and r309257, and at most one more in a year of 55 revisions."""
    levels = measured("Atom_C2558", config, "history")
    found = {step.at: round(100 * math.expm1(step.ln_ratio)) for step in steps(levels)}

    assert found["r303643"] == backoff
    assert found["r309257"] == fib
    assert len(found) <= 3


@pytest.mark.data
def test_the_documented_step_of_an_apu_is_found() -> None:
    """r309257 made it faster; in its other two series the images scatter by 3 and 4 %."""
    found = {s.at: s.ln_ratio for s in steps(measured("AMD_GX", "fastforwarding", "history"))}

    assert math.expm1(found["r309257"]) == pytest.approx(0.176, abs=0.02)
    assert noise_of(measured("AMD_GX", "pf-statefull", "history")).image > 0.02
    assert noise_of(measured("AMD_GX", "ipfw-statefull", "history")).image > 0.03
