"""Unaffected testbeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ledger_facts import measured
from sqlalchemy import event

from netbisect.bisect.model.entities import Commit, Fact, Kernel
from netbisect.bisect.stats.unaffected import is_unaffected
from netbisect.steps.policy.unaffected import unaffected_testbeds
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

HERE, OTHER = "c2558", "e5-2650"
LINE = [Commit(f"{n:040x}", n, "", "", "", "", float(n)) for n in range(1, 20)]


@dataclass
class Bench:
    """A ledger with commits."""

    ledger: Ledger
    lab: Lab

    def measure(self, numbers: range, ln_pps: float = 1.0, testbed: str = OTHER) -> None:
        """Five boots of the kernels of these commits, in the first scenario."""
        scenario = self.lab.testbed(testbed).scenarios[0]
        facts: list[Fact] = []
        for n in numbers:
            revision, key = f"{n:040x}", f"{testbed}{n}"
            facts.append(Kernel(revision, "G", "amd64", key, key, "v", 1, n, 60.0))
            for i, luck in enumerate((-0.002, 0.001, 0.0, 0.002, -0.001)):
                boot = f"{key}-{i}"
                pps = 1e6 * ln_pps * (1 + luck + 0.001 * (n % 3))
                facts += measured(boot, testbed, key, revision, n, {scenario: pps})
        self.ledger.facts.record_all(facts, "the test")

    def unaffected(self, good: int, bad: int, change: float = -0.1) -> tuple[str, ...]:
        ends = LINE[good - 1], LINE[bad - 1]
        return unaffected_testbeds(self.ledger, str.upper, ("main", HERE), ends, change)


@pytest.fixture
def bench(service_folder: Path, empty_ledger: Ledger) -> Bench:
    empty_ledger.commits.learn(LINE, "main")
    return Bench(empty_ledger, load(service_folder / control.SETTINGS)[1])


def test_a_testbed_without_a_change_between_both_ends_is_named(bench: Bench) -> None:
    bench.measure(range(1, 16))
    [name] = bench.unaffected(10, 14)

    assert name == f"{OTHER} ({bench.lab.testbed(OTHER).scenarios[0].upper()})"


@pytest.mark.parametrize("level", [0.9, 1.1])
def test_a_testbed_with_a_change_is_not_named(bench: Bench, level: float) -> None:
    bench.measure(range(1, 14))
    bench.measure(range(14, 16), level)

    assert bench.unaffected(10, 14) == ()


def test_later_measurements_do_not_count(bench: Bench) -> None:
    bench.measure(range(1, 16))
    ends = LINE[9], LINE[13]
    places = ("main", HERE)

    assert unaffected_testbeds(bench.ledger, str, places, ends, -0.1, until=14.0)
    assert unaffected_testbeds(bench.ledger, str, places, ends, -0.1, until=13.0) == ()


def test_many_testbeds_take_no_more_statements_than_one(bench: Bench) -> None:
    names = [f"testbed-{i:02}" for i in range(50)]
    facts: list[Fact] = []
    for name in names:
        for n in range(5, 16):
            key, revision = f"{name}{n}", f"{n:040x}"
            facts += measured(key, name, key, revision, n, {f"s{i}": 1e6 for i in range(6)})
    bench.ledger.facts.record_all(facts, "the test")
    statements: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(bench.ledger.engine, "before_cursor_execute", listen)
    found = bench.unaffected(10, 14)

    assert found == tuple(f"{name} (all 6 scenarios)" for name in names)
    assert len([one for one in statements if one.startswith("SELECT")]) == 4


def test_unchanged_levels_are_recognized_and_changed_ones_are_not() -> None:
    luck = np.random.default_rng(1)
    levels = luck.normal(13, 0.01, (2000, 13))
    still = np.mean([is_unaffected(tuple(row[:12]), row[12], 0.05) for row in levels])
    moved = np.mean([is_unaffected(tuple(row[:12]), row[12] - 0.05, 0.05) for row in levels])

    assert 0.85 < still < 0.97
    assert moved < 0.02


def test_a_series_too_noisy_for_the_change_is_not_unaffected() -> None:
    quiet, loud = (tuple(13 + size * (-1) ** i for i in range(12)) for size in (0.002, 0.03))

    assert is_unaffected(quiet, 13.0, 0.03)
    assert not is_unaffected(loud, 13.0, 0.03)
    assert not is_unaffected(quiet[:3], 13.0, 0.03)
