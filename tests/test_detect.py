"""Steps are found in histories, and a night is suspicious when its baseline says so."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.detect import Step, noise_of, steps
from netbisect.bisect.family import suspicion
from netbisect.bisect.screen import screen
from netbisect.bisect.model import Level, Night

MEASURED = Path(__file__).resolve().parents[2] / "shared" / "netbenches" / "histories.jsonl"


def history(
    seed: int,
    *shape: tuple[int, float],
    boot: float = 0.009,
    image: float = 0.008,
    boots: int = 5,
    stray: float = 0.02,
) -> list[Level]:
    """Levels of `count` images each at 14 + `shift`, for every (count, shift); seeded."""
    rng = np.random.default_rng(seed)
    levels = []
    for count, shift in shape:
        for _ in range(count):
            mean = 14 + shift + rng.normal(0, image)
            values = mean + rng.normal(0, boot, boots) - 0.08 * (rng.random(boots) < stray)
            name = f"r{len(levels)}"
            levels.append(Level(name, f"kernel {name}", float(len(levels)), tuple(values)))
    return levels


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
    scaled = [
        Level(one.revision, one.identity, one.at, tuple(x + factor for x in one.ln_pps))
        for one in levels
    ]

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


# ------------------------------------------------------------------------------------ screen


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


# --------------------------------------------------------------------------------- suspicion

NIGHT = Night("main", "apu", "r10", ("inet4", "inet6", "pf"), 5)


def test_the_scenario_that_fell_most_leads_the_retest() -> None:
    series = {
        "inet4": history(19, (10, 0.0), (1, -0.06)),
        "inet6": history(20, (10, 0.0), (1, -0.2)),
        "pf": history(21, (10, 0.0), (1, 0.0)),
    }

    question = suspicion(NIGHT, series)

    assert question is not None
    assert (question.lead, question.good, question.bad) == ("inet6", "r9", "r10")
    assert (question.branch, question.testbed) == ("main", "apu")
    assert question.scenarios == NIGHT.scenarios
    assert question.suspected == pytest.approx(-0.2, abs=0.03)


def test_a_quiet_night_asks_nothing() -> None:
    assert suspicion(NIGHT, {name: history(22, (11, 0.0)) for name in NIGHT.scenarios}) is None


def test_a_night_without_a_history_or_a_sample_asks_nothing() -> None:
    alone = history(23, (11, 0.0))[-1:]
    not_measured = history(24, (9, 0.0), (1, -0.2))

    assert suspicion(NIGHT, {}) is None
    assert suspicion(NIGHT, {"inet4": alone, "inet6": [], "pf": not_measured}) is None


# ------------------------------------------------------------------------------ measured data


def measured(hardware: str, config: str, kind: str) -> list[Level]:
    if not MEASURED.exists():
        pytest.skip(f"the measurements are not there: {MEASURED}")
    for line in MEASURED.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == kind and record["hw"].startswith(hardware) and record["cfg"] == config:
            return [
                Level(
                    f"r{point['rev']}{point.get('patch', '')}",
                    "",
                    float(i),
                    tuple(math.log(pps) for pps in point["v"] if pps > 0),
                )
                for i, point in enumerate(record["points"])
                # The driver's import was also measured on the revision before it.
                if point.get("patch") != "iflib"
            ]
    pytest.fail(f"no {kind} of {hardware} {config} in {MEASURED}")


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
    [("fastforwarding", -12, 28), ("ipfw-statefull", -5, 13), ("pf-statefull", -4, 9)],
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


@pytest.mark.data
def test_a_year_of_nights_asks_few_questions() -> None:
    """The drop at r303643 is seen in the night it happens; the other nights hardly ask."""
    levels = measured("Atom_C2558", "ipfw-statefull", "history")
    asked = [
        levels[i].revision
        for i in range(1, len(levels))
        if screen(levels[:i], levels[i]).suspicious
    ]

    assert "r303643" in asked
    assert len(asked) <= 5
