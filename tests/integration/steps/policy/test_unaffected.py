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
class Measurements:
    ledger: Ledger
    lab: Lab

    def measure(self, numbers: range, level: float = 1.0, testbed: str = OTHER) -> None:
        """Records five boots of each commit, in the first scenario, at `level` Mpps."""
        scenario = self.lab.testbed(testbed).scenarios[0]
        facts: list[Fact] = []
        for n in numbers:
            revision, key = f"{n:040x}", f"{testbed}{n}"
            facts.append(Kernel(revision, "G", "amd64", key, key, "v", 1, n, 60.0))
            for i, noise in enumerate((-0.002, 0.001, 0.0, 0.002, -0.001)):
                boot = f"{key}-{i}"
                pps = 1e6 * level * (1 + noise + 0.001 * (n % 3))
                facts += measured(boot, testbed, key, revision, n, {scenario: pps})
        self.ledger.facts.record_all(facts, "the test")

    def unaffected(self, good: int, bad: int, change: float = -0.1) -> tuple[str, ...]:
        ends = LINE[good - 1], LINE[bad - 1]
        return unaffected_testbeds(self.ledger, str.upper, ("main", HERE), ends, change)


@pytest.fixture
def measurements(service_folder: Path, empty_ledger: Ledger) -> Measurements:
    empty_ledger.commits.learn(LINE, "main")
    return Measurements(empty_ledger, load(service_folder / control.SETTINGS)[1])


def test_a_testbed_without_a_change_between_both_ends_is_unaffected(
    measurements: Measurements,
) -> None:
    """Later measurements do not count."""
    measurements.measure(range(1, 16))
    [name] = measurements.unaffected(10, 14)
    assert name == f"{OTHER} ({measurements.lab.testbed(OTHER).scenarios[0].upper()})"

    ends, places = (LINE[9], LINE[13]), ("main", HERE)
    assert unaffected_testbeds(measurements.ledger, str, places, ends, -0.1, until=14.0)
    assert unaffected_testbeds(measurements.ledger, str, places, ends, -0.1, until=13.0) == ()


@pytest.mark.parametrize("level", [0.9, 1.1])
def test_a_testbed_with_a_change_is_not_unaffected(
    measurements: Measurements, level: float
) -> None:
    measurements.measure(range(1, 14))
    measurements.measure(range(14, 16), level)

    assert measurements.unaffected(10, 14) == ()


def test_many_testbeds_take_no_more_statements_than_one(measurements: Measurements) -> None:
    names = [f"testbed-{i:02}" for i in range(50)]
    facts: list[Fact] = []
    for name in names:
        for n in range(5, 16):
            key, revision = f"{name}{n}", f"{n:040x}"
            facts += measured(key, name, key, revision, n, {f"s{i}": 1e6 for i in range(6)})
    measurements.ledger.facts.record_all(facts, "the test")
    statements: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(measurements.ledger.engine, "before_cursor_execute", listen)
    found = measurements.unaffected(10, 14)

    assert found == tuple(f"{name} (all 6 scenarios)" for name in names)
    assert len([text for text in statements if text.startswith("SELECT")]) == 4


def test_most_unchanged_series_and_few_changed_ones_are_unaffected() -> None:
    rng = np.random.default_rng(1)
    levels = rng.normal(13, 0.01, (600, 13))
    unchanged = np.mean([is_unaffected(tuple(row[:12]), row[12], 0.05) for row in levels])
    changed = np.mean([is_unaffected(tuple(row[:12]), row[12] - 0.05, 0.05) for row in levels])

    assert 0.85 < unchanged < 0.97
    assert changed < 0.02


def test_a_noisy_or_short_series_is_not_unaffected() -> None:
    quiet, noisy = (tuple(13 + size * (-1) ** i for i in range(12)) for size in (0.002, 0.03))

    assert is_unaffected(quiet, 13.0, 0.03)
    assert not is_unaffected(noisy, 13.0, 0.03)
    assert not is_unaffected(quiet[:3], 13.0, 0.03)
