"""What did not move is told only where it would have been seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from netbisect.bisect.model import Boot, Commit, Fact, Kernel, Sample
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
        return unmoved(self.ledger, self.lab, ("main", HERE), ends, change)


@pytest.fixture
def bench(quiet_house: Path, tmp_path: Path) -> Iterator[Bench]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.learn(LINE, "main")
    yield Bench(ledger, load(quiet_house / control.SETTINGS)[1])
    ledger.engine.dispose()


def test_a_testbed_that_measured_both_ends_and_stayed_is_named(bench: Bench) -> None:
    bench.measure(range(1, 16))
    [name] = bench.unmoved(10, 14)

    assert name.startswith(f"{OTHER} (")


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
