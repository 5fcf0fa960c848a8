"""A service that is hit at its steps: what is hit, and that it comes through."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # benchmarks/ is run from the checkout, and not installed

from benchmarks.chaos import script  # noqa: E402 - see above
from benchmarks.chaos.script import DATABASE, MASTER, VISIT, Plan, Script  # noqa: E402

Begin = Callable[..., Script]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """A script that hits nobody, and believes that everything runs."""
    monkeypatch.setattr(script, "_kill", lambda _: None)
    monkeypatch.setattr(script, "_alive", lambda _: True)
    monkeypatch.setattr(Script, "_visits", lambda _: [1])

    def write(*faults: str, **more: Any) -> Script:
        Plan(faults, **more).write(tmp_path)
        return Script(tmp_path)

    return write


def hits(one: Script) -> list[list[str]]:
    lines = [json.loads(line) for line in one.journal.read_text().splitlines()]
    return [line[1:] for line in lines if line[0] == "hit"]


def test_every_step_is_hit_once(begin: Begin) -> None:
    """Also when it comes again, as it does after a restart; a plan without faults only looks."""
    one = begin(MASTER)
    for step in ("a", "b", "a", "b", "c"):
        one.point(step)
    assert hits(one) == [["a", MASTER], ["b", MASTER], ["c", MASTER]]
    other = begin()
    other.point("d")
    assert len(hits(other)) == 3
    assert '["seen", "d"]' in other.journal.read_text()


def test_what_an_earlier_run_has_hit_is_spared_and_a_run_has_an_end(begin: Begin) -> None:
    one = begin(MASTER, spared=(("a", MASTER), ("b", VISIT)), most=2)
    for step in ("a", "b", "c", "d"):
        one.point(step)
    assert hits(one) == [["b", MASTER], ["c", MASTER]]


def test_one_of_each_kind_is_hit(begin: Begin) -> None:
    """Where that is wanted: names and numbers make no other kind, other faults do."""
    one = begin(MASTER, VISIT, kinds=True, patience=9)
    for number in range(4):
        one.point(f"before the order nb:{number}:1")
    assert sorted(fault for _, fault in hits(one)) == [MASTER, VISIT]


def test_an_order_that_is_given_up_in_the_end_is_hit_no_more_often(begin: Begin) -> None:
    one = begin(VISIT)
    one.point("a")
    one.point("b")
    one.progress()
    one.point("c")
    assert hits(one) == [["a", VISIT], ["c", VISIT]]


def test_the_database_is_lost_in_a_commit(begin: Begin) -> None:
    """Of the ledger, and nowhere else."""
    one = begin(DATABASE)
    assert not one.point("before the order")
    assert one.point("before commit of night 1: boot")
    assert hits(one) == [["before commit of night 1: boot", DATABASE]]


def test_faults_take_turns_at_their_places(begin: Begin) -> None:
    one = begin(MASTER, VISIT, at=("order", "runs sysctl"), most=2)
    for step in ("a", "dut runs sysctl -n", "an order", "b", "dut runs sysctl -n"):
        one.point(step)
    assert hits(one) == [["an order", MASTER], ["dut runs sysctl -n", VISIT]]


@pytest.mark.slow
@pytest.mark.xdist_group("service")
@pytest.mark.skipif(sys.platform != "linux", reason="what runs is looked up in /proc")
def test_a_night_comes_through_whatever_is_killed(tmp_path: Path) -> None:
    """Master, worker, visit, database and disk: the same answer, and nothing is left behind."""
    command = [sys.executable, "-m", "benchmarks.chaos", "--short", "--json"]
    done = subprocess.run(
        [*command, "--keep", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert {fault for _, fault in told["hits"]} >= {*script.FAULTS} - {script.LAB}
