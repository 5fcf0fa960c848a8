"""The scatter of a testbed, measured with one kernel."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scipy import stats

from netbisect.bisect import anova, wire
from netbisect.bisect.model import Boot, Kernel, Sample
from netbisect.workers import calibrate, cli, scatter
from netbisect.workers.calibrate import CalibrationError, Plan, Runs
from netbisect.workers.lab import load_scenario

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

NAME = "inet4-forwarding"
KERNEL = Kernel("r" * 40, "GENERIC", "amd64", "i", "k" * 64, "n1-rrr", 1, 0.0, 600.0)


def drawn(boots: int, runs: int, boot_sd: float, run_sd: float, slow: tuple[int, ...] = ()) -> Runs:
    """Normal luck of a seed, spread so that its own scatter does not matter."""
    luck = random.Random(7)
    found = Runs()
    for boot in range(boots):
        found.add(Boot(f"b{boot}", "c2558", KERNEL.key, KERNEL.revision, 0.0, 120.0))
        level = math.log(1e6) + luck.gauss(0, boot_sd) - (0.07 if boot in slow else 0.0)
        for run in range(runs):
            pps = math.exp(level + luck.gauss(0, run_sd))
            found.add(
                Sample(
                    *(f"{boot}.{run}", f"b{boot}", "c2558", NAME, pps, 1.488e6, (), (), ()),
                    *("same", 0.0, 40.0),
                )
            )
    return found


def plan(image_sd: float | None = None, **changes: Any) -> Plan:
    made = Plan(
        lab=None,  # type: ignore[arg-type]
        testbed=replace_nothing("c2558"),
        kernel=KERNEL,
        archive=Path(),
        boots=8,
        runs=3,
        scenarios=[load_scenario(NAME)],
        logs=Path(),
        say=print,
        image_sd=image_sd,
    )
    return replace(made, **changes)


def replace_nothing(name: str) -> Any:
    """A testbed of which only the name is asked."""

    class Named:
        pass

    bed = Named()
    bed.name = name  # type: ignore[attr-defined]
    return bed


def test_boots_and_runs_are_told_apart() -> None:
    """Both true values lie in their intervals, of many boots closely."""
    (one,) = scatter.found(plan(), drawn(200, 3, 0.009, 0.002))
    assert one.boot is not None
    assert one.run is not None
    assert one.boot.low < 0.009 < one.boot.high
    assert one.run.sd == pytest.approx(0.002, rel=0.1)
    assert one.single == pytest.approx(math.hypot(0.009, 0.002), rel=0.1)
    assert one.level == pytest.approx(1e6, rel=0.01)


def test_one_run_per_boot_tells_no_scatter_of_runs() -> None:
    runs = drawn(8, 1, 0.009, 0.002)
    (one,) = scatter.found(plan(), runs)
    assert one.boot is None
    assert one.run is None
    assert 0.004 < one.single < 0.02
    assert "run_noise_percent needs several runs" in scatter.as_text(plan(), runs)


def test_the_smallest_drop_shrinks_with_boots_and_grows_with_image_noise() -> None:
    runs = drawn(8, 3, 0.009, 0.002)
    (plain,) = scatter.found(plan(), runs)
    (noisy,) = scatter.found(plan(image_sd=0.016), runs)
    assert plain.drops[10] < plain.drops[5] < noisy.drops[10]
    assert noisy.drops[10] > 2.4 * math.sqrt(2) * 0.016


def test_two_groups_of_boots_are_told_from_eight_boots_on() -> None:
    (one,) = scatter.found(plan(), drawn(12, 3, 0.003, 0.001, slow=(1, 4, 5, 9)))
    assert one.gap is not None
    assert (one.gap.slow, one.gap.fast) == (4, 8)
    assert one.gap.ln_ratio == pytest.approx(0.07, abs=0.005)
    text = scatter.as_text(plan(), drawn(12, 3, 0.003, 0.001, slow=(1, 4, 5, 9)))
    assert "perhaps: 4 of 12 boots (33 %) are 7." in text
    assert "stray or a mode" in scatter.as_text(plan(), drawn(12, 3, 0.003, 0.001, slow=(3,)))
    assert "not told: 8 boots" in scatter.as_text(plan(), drawn(6, 3, 0.003, 0.001, slow=(1, 4)))
    assert "none seen in 8 boots" in scatter.as_text(plan(), drawn(8, 3, 0.003, 0.001))


def test_few_boots_are_called_a_guess() -> None:
    assert "a first guess" in scatter.as_text(plan(), drawn(3, 3, 0.009, 0.002))
    assert "a first guess" not in scatter.as_text(plan(), drawn(8, 3, 0.009, 0.002))


@pytest.mark.parametrize(("boot_sd", "run_sd", "advised"), [(0.009, 0.002, 0), (0.004, 0.008, 0.8)])
def test_several_runs_are_advised_only_where_they_pay(
    boot_sd: float, run_sd: float, advised: float
) -> None:
    runs = drawn(100, 3, boot_sd, run_sd)
    percent = scatter.advice(scatter.found(plan(), runs), scatter.cost(plan(), runs))
    assert percent == pytest.approx(advised, rel=0.15)


def test_costs_are_those_of_the_kernel_the_boots_and_the_runs() -> None:
    assert scatter.cost(plan(), drawn(3, 2, 0.01, 0.01)) == scatter.Cost(600.0, 120.0, 40.0)


def test_one_boot_tells_nothing() -> None:
    with pytest.raises(CalibrationError, match="1 boot gave a sample; two are needed"):
        scatter.found(plan(), drawn(1, 3, 0.01, 0.01))


@pytest.mark.parametrize("free", [4, 8, 18, 100])
@pytest.mark.parametrize("chance", [0.8, 0.95, 0.99])
def test_the_quantile_of_student_is_close(chance: float, free: int) -> None:
    assert anova._student(chance, free) == pytest.approx(stats.t.ppf(chance, free), rel=0.005)


def test_the_smallest_drop_is_seen_as_often_as_it_says() -> None:
    """Four times of five, by the pooled t test that a comparison of five boots a side makes."""
    drop = anova.detectable(0.0, 0.01, 5)
    free = 8
    apart = drop / (0.01 * math.sqrt(2 / 5))
    power = stats.nct.sf(stats.t.ppf(0.95, free), free, apart)
    assert power == pytest.approx(0.8, abs=0.02)
    with pytest.raises(ValueError, match="1 boots a side"):
        anova.detectable(0.0, 0.01, 1)


# ------------------------------------------------------------------------------ in the lab


Run = Callable[..., int]


@pytest.fixture
def run(running_lab: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    kernel, _ = running_lab.kernel(10)
    kernels = str(running_lab.lab.builders[0].kernels)

    def run(*arguments: str) -> int:
        return cli.main(
            [
                *("--lab", str(running_lab.files.lab), "calibrate", "--testbed", "c2558"),
                *("--kernel", kernel.key, "--kernels", kernels, "--scenario", NAME),
                *("--runs", "2", *arguments),
            ]
        )

    return run


def test_a_calibration_goes_on_where_it_was_stopped(
    run: Run, running_lab: RunningLab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also in the middle of a line; boots that are there are not made again."""
    file = tmp_path / "c2558.jsonl"
    before = running_lab.boots("c2558-dut")
    assert run("--boots", "2", "-o", str(file)) == 0
    said = capfd.readouterr()
    assert "boot 2 of 2" in said.err
    assert f"{NAME}: 2 boots, 4 runs, " in said.out
    whole = file.read_text()
    file.write_text(whole + whole[:50])

    assert run("--boots", "3", "-o", str(file), "--json", "--image-noise", "1.5") == 0
    said = capfd.readouterr()
    assert "boot 3 of 3" in said.err
    assert "boot 2 of" not in said.err
    assert running_lab.boots("c2558-dut") == before + 3
    told = json.loads(said.out)
    assert [len(boot) for boot in told["scenarios"][NAME]["samples"]] == [2, 2, 2]
    assert told["image_noise_percent"] == 1.5
    assert told["scenarios"][NAME]["smallest_drop_percent"]["10"] > 4
    assert file.read_text().startswith(whole)
    assert all(wire.loads(line) for line in file.read_text().splitlines())


def test_facts_of_another_kernel_are_refused(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(wire.dumps(Boot("b", "c2558", "f" * 64, "r" * 40, 0.0, 1.0)) + "\n")
    assert run("-o", str(file)) == cli.EXIT_LAB
    said = capfd.readouterr().err
    assert f"{file}, line 1: a boot of ffffffffffff on c2558; expected " in said
    file.write_text("{}\n")
    assert run("-o", str(file)) == cli.EXIT_LAB
    assert f"{file}, line 1: a JSON object whose `is`" in capfd.readouterr().err


def test_boots_that_give_nothing_end_it(
    run: Run, c2558: RunningLab, capfd: pytest.CaptureFixture[str]
) -> None:
    c2558.control("break", "c2558-gen", "slow-sender")
    assert run("--boots", "2") == cli.EXIT_LAB
    assert (
        "3 boots in a row gave nothing: no sample: the generator offered" in capfd.readouterr().err
    )


def test_a_testbed_that_needs_its_owner_ends_it(
    run: Run, c2558: RunningLab, capfd: pytest.CaptureFixture[str]
) -> None:
    c2558.control("break", "c2558-dut", "new-host-key")
    assert run("--boots", "2") == cli.EXIT_LAB
    assert "c2558 needs its owner: c2558-dut: the host key" in capfd.readouterr().err


def test_noise_that_is_no_noise_is_refused(run: Run) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("--image-noise", "60")


def test_a_sample_whose_boot_is_not_kept_does_not_count(tmp_path: Path) -> None:
    runs = drawn(2, 2, 0.01, 0.01)
    facts = [runs.boots["b1"], *runs.samples]
    (tmp_path / "kept").write_text("".join(f"{wire.dumps(fact)}\n" for fact in facts))
    bed = replace_nothing("c2558")
    again = calibrate._kept(plan(kept=tmp_path / "kept", testbed=bed))
    assert [len(boot) for boot in again.of(NAME)] == [2]
