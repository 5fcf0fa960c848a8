"""Steps and noise of histories."""

from __future__ import annotations

import math

import pytest
from histories import history, measured

from netbisect.bisect.detection.histories import analyze, analyze_jointly, estimate_noise
from netbisect.bisect.model.detection_results import LevelStep
from netbisect.bisect.model.entities import Level, SeriesName

KEY, OTHER = SeriesName("apu2", "inet4", "main"), SeriesName("apu2", "inet6", "main")


def at(found: list[LevelStep]) -> list[str]:
    return [step.at for step in found]


@pytest.mark.parametrize("shift", [-0.12, -0.05, 0.05, 0.3])
def test_step_is_found_at_its_position(shift: float) -> None:
    (step,) = analyze(history(1, (15, 0.0), (15, shift))).steps

    assert (step.before, step.at) == ("r14", "r15")
    assert step.low < shift < step.high
    assert step.score > 5


def test_intervals_of_noisy_images_include_the_shift() -> None:
    found = [analyze(history(seed, (6, 0.0), (6, -0.4), image=0.03)).steps for seed in range(40)]

    assert sum(steps[0].low < -0.4 < steps[0].high for steps in found) >= 36


def test_false_steps_are_rare() -> None:
    for seed in range(30):
        levels = history(seed, (40, 0.0), image=(0.0, 0.01, 0.02)[seed % 3])

        assert analyze(levels).steps == []


def test_step_below_min_effect_is_ignored() -> None:
    levels = history(5, (30, 0.0), (30, -0.012), boot=0.002, image=0.001)

    assert analyze(levels).steps == []
    assert at(analyze(levels, min_effect=0.005).steps) == ["r30"]


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

    (step,) = analyze(levels).steps

    assert (step.before, step.at) == ("same as before", after.revision)
    assert (step.levels_before, step.levels_after) == (8, 8)


@pytest.mark.parametrize(("boots", "right"), [(1, 9), (5, 10)])
def test_modes_are_not_steps(boots: int, right: int) -> None:
    steady, slower = (40, 0.0), (20, -0.3)
    series = [history(i, steady, slower, share=0.3, boot=0.005, boots=boots) for i in range(10)]
    assert sum(at(analyze_jointly({KEY: one})[KEY].steps) == ["r40"] for one in series) >= right
    assert not any(analyze(history(i, steady, share=0.3, boot=0.005)).steps for i in range(10))


@pytest.mark.long
def test_clear_step_in_another_series_reveals_a_faint_one() -> None:
    alone, same_place, other_place = 0, 0, 0
    for seed in range(12):
        faint = history(seed, (10, 0.0), (4, -0.03))
        here = history(seed + 100, (10, 0.0), (10, -0.3))
        later = history(seed + 100, (12, 0.0), (10, -0.3))
        alone += at(analyze(faint).steps) == ["r10"]
        same_place += at(analyze_jointly({KEY: faint, OTHER: here})[KEY].steps) == ["r10"]
        other_place += at(analyze_jointly({KEY: faint, OTHER: later})[KEY].steps) == ["r10"]

    assert same_place > alone
    assert other_place <= alone


def test_similar_noisy_series_have_few_false_steps() -> None:
    """Every fourth of 16 series of eight images has a drop at r4; they share a testbed, or not."""
    hits, false = {}, {}
    for shared in (True, False):
        series = {
            SeriesName("" if shared else f"{seed}", f"{seed}", "main"): history(
                seed, (4, 0.0), (4, 0.0 if seed % 4 else -0.4), boot=0.05 / 3, image=0.05, stray=0
            )
            for seed in range(16)
        }
        found = {int(key.scenario): at(own.steps) for key, own in analyze_jointly(series).items()}
        hits[shared] = sum("r4" in steps for i, steps in found.items() if i % 4 == 0)
        false[shared] = sum(map(len, found.values())) - hits[shared]

    assert hits[True] == 4
    assert false[True] <= 1
    assert false[False] > 5


def test_rounding_of_small_numbers_hides_no_step_of_large_ones() -> None:
    counts = [3] * 45 + [200] * 15 + [220] * 20
    levels = [Level(f"r{i}", f"{i}", i, (math.log(one),)) for i, one in enumerate(counts)]
    key = SeriesName("ci", "default~small.count", "main")
    assert at(analyze_jointly({key: levels})[key].steps) == ["r45", "r60"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("hardware", "documented"), [("Atom_C2558", -0.112), ("AMD_GX-412TC", -0.255)]
)
def test_iflib_migration_is_found(hardware: str, documented: float) -> None:
    """r311849 made e1000 routers slower; the series has seven revisions of five boots."""
    found = {step.at: step for step in analyze(measured(hardware, "", "bisect-set")).steps}

    assert found["r311849"].before == "r311848"
    assert found["r311849"].low < math.log1p(documented) < found["r311849"].high < 0


def test_weight_of_the_noise_grows_with_the_boots() -> None:
    """The weight is the number of boots beyond the first of each image."""
    assert estimate_noise([]).boot_weight == 0
    assert estimate_noise([]).image_weight == 4
    assert estimate_noise(history(1, (3, 0.0))).boot_weight == 12
