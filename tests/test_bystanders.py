"""What did not move is told only where it would have been seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from netbisect.bisect.model import Boot, Commit, Fact, Kernel, Sample
from netbisect.bisect.stood import stood
from netbisect.steps import control
from netbisect.steps.bystanders import unmoved
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import load
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Lab

HERE, OTHER = "c2558", "e5-2650"
LINE = [Commit(f"{n:040x}", n, "", "", "", "", float(n)) for n in range(1, 20)]


@dataclass
class Bench:
    """A ledger that knows a line of commits."""

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
                facts += [
                    Boot(boot, testbed, key, revision, n, 60.0),
                    Sample(boot, boot, testbed, scenario, pps, 1.4e6, (), (), (), "", n, 30.0),
                ]
        self.ledger.record_all(facts, "the test")

    def unmoved(self, good: int, bad: int, change: float = -0.1) -> tuple[str, ...]:
        ends = LINE[good - 1], LINE[bad - 1]
        return unmoved(self.ledger, str.upper, ("main", HERE), ends, change)


@pytest.fixture
def bench(quiet_house: Path, tmp_path: Path) -> Iterator[Bench]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.learn(LINE, "main")
    yield Bench(ledger, load(quiet_house / control.SETTINGS)[1])
    ledger.engine.dispose()


def test_a_testbed_that_measured_both_ends_and_stayed_is_named(bench: Bench) -> None:
    bench.measure(range(1, 16))
    [name] = bench.unmoved(10, 14)

    assert name == f"{OTHER} ({bench.lab.testbed(OTHER).scenarios[0].upper()})"


def test_the_testbed_that_changed_is_not(bench: Bench) -> None:
    bench.measure(range(1, 16), testbed=HERE)

    assert bench.unmoved(10, 14) == ()


@pytest.mark.parametrize("level", [0.9, 1.1])
def test_one_that_moved_too_is_not(bench: Bench, level: float) -> None:
    """Neither down nor up."""
    bench.measure(range(1, 14))
    bench.measure(range(14, 16), level)

    assert bench.unmoved(10, 14) == ()


@pytest.mark.parametrize("measured", [range(1, 14), range(11, 16), range(0)])
def test_one_that_has_no_level_of_either_end_is_not(bench: Bench, measured: range) -> None:
    bench.measure(measured)

    assert bench.unmoved(10, 14) == ()


def test_one_that_could_not_have_seen_it_is_not(bench: Bench) -> None:
    """Of a drop of 0.3 % a few nights say nothing."""
    bench.measure(range(1, 16))

    assert bench.unmoved(10, 14, -0.003) == ()


def test_what_was_measured_later_is_left_out(bench: Bench) -> None:
    """So that the page of what is over does not change any more."""
    bench.measure(range(1, 16))
    ends = LINE[9], LINE[13]
    places = ("main", HERE)

    assert unmoved(bench.ledger, str, places, ends, -0.1, until=14.0)
    assert unmoved(bench.ledger, str, places, ends, -0.1, until=13.0) == ()


def test_many_testbeds_take_no_more_statements_than_one(bench: Bench) -> None:
    """Fifty of them, each with more scenarios than are named."""
    names = [f"testbed-{i:02}" for i in range(50)]
    facts: list[Fact] = []
    for name in names:
        for n in range(5, 16):
            key, revision = f"{name}{n}", f"{n:040x}"
            facts.append(Boot(key, name, key, revision, n, 60.0))
            facts += [
                Sample(f"{key}-{i}", key, name, f"s{i}", 1e6, 1e9, (), (), (), "", n, 1.0)
                for i in range(6)
            ]
    bench.ledger.record_all(facts, "the test")
    said: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    event.listen(bench.ledger.engine, "before_cursor_execute", listen)
    found = bench.unmoved(10, 14)

    assert found == tuple(f"{name} (all 6 scenarios)" for name in names)
    assert len([one for one in said if one.startswith("SELECT")]) == 4


def test_levels_that_did_not_move_are_seldom_taken_for_moved() -> None:
    """And those that moved as far as the other series hardly ever for unmoved."""
    luck = np.random.default_rng(1)
    levels = luck.normal(13, 0.01, (2000, 13))
    still = np.mean([stood(tuple(row[:12]), row[12], 0.05) for row in levels])
    moved = np.mean([stood(tuple(row[:12]), row[12] - 0.05, 0.05) for row in levels])

    assert 0.85 < still < 0.97
    assert moved < 0.02


def test_a_series_that_scatters_more_than_the_change_says_nothing() -> None:
    quiet, loud = (tuple(13 + size * (-1) ** i for i in range(12)) for size in (0.002, 0.03))

    assert stood(quiet, 13.0, 0.03)
    assert not stood(loud, 13.0, 0.03)
    assert not stood(quiet[:3], 13.0, 0.03)
