"""Calibration: noise of a testbed, measured with one kernel."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from lab_fixtures import LabCommand, RunningLab

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Kernel, Sample
from netbisect.workers.cli import output
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.measure import noise_report
from netbisect.workers.measure.calibrate import CalibrationPlan, NoiseRuns
from netbisect.workers.transport.errors import NoiseError

NAME = "inet4-forwarding"
KERNEL = Kernel("r" * 40, "GENERIC", "amd64", "i", "k" * 64, "n1-rrr", 1, 0.0, 600.0)


def drawn(
    boots: int, runs: int, boot_sd: float, run_sd: float, slow: tuple[int, ...] = ()
) -> NoiseRuns:
    """Simulated runs with normal noise; the boots in `slow` are in a slow mode."""
    rng = random.Random(7)
    found = NoiseRuns()
    for boot in range(boots):
        found.add(Boot(f"b{boot}", "c2558", KERNEL.key, KERNEL.revision, 0.0, 120.0))
        level = math.log(1e6) + rng.gauss(0, boot_sd) - (0.07 if boot in slow else 0.0)
        for run in range(runs):
            pps = math.exp(level + rng.gauss(0, run_sd))
            found.add(
                Sample(
                    *(f"{boot}.{run}", f"b{boot}", "c2558", NAME, pps, 1.488e6, (), (), ()),
                    *("same", 0.0, 40.0),
                )
            )
    return found


def plan() -> CalibrationPlan:
    return CalibrationPlan(
        lab=None,  # type: ignore[arg-type]
        testbed=SimpleNamespace(name="c2558"),  # type: ignore[arg-type]  # the only attribute used
        kernel=KERNEL,
        archive=Path(),
        boots=8,
        runs=3,
        scenarios=[load_scenario(NAME)],
        logs=Path(),
        say=print,
    )


@pytest.mark.long
def test_calibration_separates_boots_and_runs() -> None:
    """The estimates of 200 boots agree with the true values."""
    (one,) = noise_report.scenario_noise(plan(), drawn(200, 3, 0.009, 0.002))
    assert one.boot.low < 0.009 < one.boot.high
    assert one.run.sd == pytest.approx(0.002, rel=0.1)
    assert one.single == pytest.approx(math.hypot(0.009, 0.002), rel=0.1)
    assert one.level == pytest.approx(1e6, rel=0.01)


def test_one_run_per_boot_gives_no_run_noise() -> None:
    runs = drawn(8, 1, 0.009, 0.002)
    (one,) = noise_report.scenario_noise(plan(), runs)
    assert one.boot is None
    assert one.run is None
    assert 0.004 < one.single < 0.02
    assert "run_noise_percent needs several runs" in noise_report.as_text(plan(), runs)
    with pytest.raises(NoiseError, match="1 boot gave a sample; two are needed"):
        noise_report.scenario_noise(plan(), drawn(1, 3, 0.01, 0.01))


def test_boot_modes_need_eight_boots() -> None:
    (one,) = noise_report.scenario_noise(plan(), drawn(12, 3, 0.003, 0.001, slow=(1, 4, 5, 9)))
    assert (one.gap.slow, one.gap.fast) == (4, 8)
    assert one.gap.ln_ratio == pytest.approx(0.07, abs=0.005)
    for boots, slow, words in (
        (12, (1, 4, 5, 9), "perhaps: 4 of 12 boots (33 %) are 7."),
        (12, (3,), "outlier or a mode"),
        (6, (1, 4), "unknown: 8 boots"),
        (8, (), "none seen in 8 boots"),
    ):
        assert words in noise_report.as_text(plan(), drawn(boots, 3, 0.003, 0.001, slow))


@pytest.fixture
def run(running_lab: RunningLab, lab_command: LabCommand) -> LabCommand:
    kernels = str(running_lab.lab.builders[0].kernels)
    command = ["calibrate", "--testbed", "c2558", "--kernel", running_lab.kernel(10)[0].key]
    command += ["--kernels", kernels, "--scenario", NAME, "--runs", "2"]
    return partial(lab_command, running_lab.files.lab, *command)


@pytest.mark.long
def test_calibration_resumes(run: LabCommand, running_lab: RunningLab, tmp_path: Path) -> None:
    """The last line may be incomplete; recorded boots are not repeated."""
    file = tmp_path / "c2558.jsonl"
    before = running_lab.boots("c2558-dut")
    status, out, _ = run("--boots", "2", "-o", str(file))
    assert status == 0
    assert f"{NAME}: 2 boots, 4 runs, " in out
    whole = file.read_text()
    file.write_text(whole + whole[:50])

    _, out, err = run("--boots", "3", "-o", str(file), "--json", "--image-noise", "1.5")
    assert "boot 3 of 3" in err
    assert "boot 2 of" not in err
    assert running_lab.boots("c2558-dut") == before + 3
    report = json.loads(out)
    assert [len(boot) for boot in report["scenarios"][NAME]["samples"]] == [2, 2, 2]
    assert report["image_noise_percent"] == 1.5
    assert report["scenarios"][NAME]["smallest_drop_percent"]["10"] > 4
    assert file.read_text().startswith(whole)
    assert all(serialization.loads(line) for line in file.read_text().splitlines())


@pytest.mark.long
def test_every_metric_of_a_scenario_is_calibrated(run: LabCommand) -> None:
    status, out, _ = run("--scenario", "inet4-cpu", "--boots", "2", "--json")
    assert status == 0
    found = json.loads(out)["scenarios"]
    assert {name: (one["unit"], one["better"]) for name, one in found.items()} == {
        NAME: ("pps", "higher"),
        "inet4-cpu~cpu.percent.lower": ("%", "lower"),
        "inet4-cpu": ("pps", "higher"),
    }
    assert 1 < found["inet4-cpu~cpu.percent.lower"]["level"] < 95


def test_other_facts_are_rejected(run: LabCommand, running_lab: RunningLab, tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    boot = Boot("b0", "c2558", "f" * 64, "r" * 40, 0.0, 1.0)
    mine = replace(boot, kernel=running_lab.kernel(10)[0].key), *drawn(1, 1, 0.0, 0.0).samples
    for text, message in (
        (serialization.dumps(boot), ", line 1: a boot of ffffffffffff on c2558; expected "),
        ("\n".join(map(serialization.dumps, mine)), "; expected another file, in which all boots"),
        ("{}", ", line 1: expected a JSON object"),
    ):
        file.write_text(f"{text}\n")
        status, _, errors = run("--boots", "2", "-o", str(file))
        assert status == output.EXIT_LAB
        assert f"{file}{message}" in errors


def test_faults_of_the_lab_end_the_calibration(run: LabCommand, c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "new-host-key")
    status, _, errors = run("--boots", "2")
    assert status == output.EXIT_LAB
    assert "c2558 needs repair: c2558-dut: the host key" in errors
