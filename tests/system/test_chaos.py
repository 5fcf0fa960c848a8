"""A service that is hit at its steps: what is hit, and that it comes through."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import captured

from benchmarks.chaos import __main__ as benchmark
from benchmarks.chaos import script
from benchmarks.chaos.script import DATABASE, LAB, MASTER, TRIAL, Plan, Script
from benchmarks.chaos.tally import Run, Tally

ROOT = Path(__file__).resolve().parents[2]
Begin = Callable[..., Script]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """A script that hits nobody, and believes that everything runs."""
    monkeypatch.setattr(script, "_kill", lambda _: None)
    monkeypatch.setattr(script, "_alive", lambda _: True)
    monkeypatch.setattr(Script, "_commands", lambda *_: [1])

    def write(*faults: str, **more: Any) -> Script:
        Plan(faults, **more).write(tmp_path)
        return Script(tmp_path)

    return write


def hits(one: Script) -> list[list[str]]:
    lines = [json.loads(line) for line in one.journal.path.read_text().splitlines()]
    return [line[1:3] for line in lines if line[0] == "hit"]


def test_the_database_is_lost_in_a_commit(begin: Begin) -> None:
    """Of the ledger, and nowhere else."""
    one = begin(DATABASE)
    assert not one.point("before the order")
    assert one.point("before commit of night 1: boot")
    assert hits(one) == [["before commit of night 1: boot", DATABASE]]


@pytest.mark.parametrize("fault", script.FAULTS)
def test_every_fault_has_an_effect(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """It kills, takes the room of files, or has the commit fail."""
    done: list[object] = []
    monkeypatch.setattr(script, "_kill", done.append)
    monkeypatch.setattr(script, "limit_files", lambda *limit: done.append(limit))
    one = begin(fault)
    step = "before commit of night 1: while c2558-dut runs sysctl"

    assert one.point(step) == (fault == DATABASE)
    assert hits(one) == [[step, fault]]
    assert bool(done) == (fault != DATABASE)


def test_every_fault_has_its_runs() -> None:
    """Mixed or alone; the short form kills no lab."""
    faults = sorted(script.FAULTS)
    assert sorted((*benchmark._TOGETHER, *benchmark._APART)) == faults
    assert {fault for fault, _ in benchmark.SHORT} == {*faults} - {LAB}


def test_steps_of_a_failed_run_are_repeated() -> None:
    """It has not survived until then; only what is possible at a step is still to be hit there."""
    tally = Tally()
    tally.see("quiet", {"boot 1": {MASTER, TRIAL}, "boot 2": {DATABASE}, "end": {MASTER}})
    assert tally.left_in("quiet", [MASTER, LAB]) == 2
    failed = Run("quiet", [MASTER], [("boot 1", MASTER)], 1.0, 1, ["two mails came"])
    tally.runs.append(failed)
    assert (tally.survived(), tally.spared()) == (set(), set())
    tally.runs.append(failed)
    assert tally.spared() == {("boot N", MASTER)}
    tally.runs.append(Run("quiet", [MASTER], [("end", MASTER)], 1.0, 1, []))
    assert tally.survived() == {("end", MASTER)}
    assert tally.left_in("quiet", [MASTER]) == 0


@pytest.mark.long
@pytest.mark.xdist_group("service")
@pytest.mark.skipif(sys.platform != "linux", reason="what runs is looked up in /proc")
def test_a_night_survives_any_killed_process(tmp_path: Path) -> None:
    """Master, worker, visit, database and disk: the same answer, and nothing is left behind."""
    command = [sys.executable, "-m", "benchmarks.chaos", "--short"]
    done = captured([*command, "--keep", str(tmp_path)], cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert {fault for _, fault in report["hits"]} >= {*script.FAULTS} - {script.LAB}
