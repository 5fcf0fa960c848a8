"""Series as a whole: the same levels and baselines as one at a time, and earlier epochs too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model.entities import Boot, Commit, Conditions, Kernel, Level, Sample
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series import EndedChange, EndedChanges


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    engine = open_database(url)
    yield Ledger(engine)
    engine.dispose()


def test_trails_are_the_series_and_their_baselines(filled: Path, site_plan: Any) -> None:
    """Of every series; with alerts that stand and such as are over."""
    ledger = Ledger(open_database(f"sqlite:///{filled}"))
    seen = set()
    for testbed, scenario in ledger.samples.counts():
        for trail in ledger.series_histories.of(testbed, scenario):
            name = (trail.name.testbed, trail.name.scenario, trail.name.branch)
            known = ledger.series.with_baseline(*name)

            assert list(trail.epochs[-1].levels) == known.whole
            assert list(trail.baseline) == known.baseline
            seen.add(len(known.whole) - len(known.baseline) > 0)
    assert len(ledger.samples.counts()) == site_plan.testbeds * site_plan.scenarios
    assert seen == {True, False}


def put(ledger: Ledger, number: int, at: float, conditions: Conditions, pps: float = 1e6) -> None:
    one = f"{number:040x}"
    boot = Boot(f"{number}-{at}", "t", f"k{number}", one, at, 1.0)
    kernel = Kernel(one, "G", "amd64", f"id{number}", f"k{number}", "v", 1, at, 1.0)
    sample = Sample(boot.id, boot.id, "t", "fwd", pps, 1e7, (), (), (), conditions.digest, at, 1.0)
    ledger.facts.record_all([kernel, boot, conditions, sample], "test")


@pytest.mark.both_databases
def test_epochs_are_in_the_order_of_their_newest_samples(ledger: Ledger) -> None:
    """What is measured under the newest conditions is compared; samples of nothing are none."""
    ledger.commits.learn([Commit(f"{i:040x}", i, "s", "", "a", "e", 0.0) for i in range(4)], "main")
    ledger.commits.learn(
        [Commit(f"{i:040x}", i, "s", "", "a", "e", 0.0) for i in range(2)], "stable"
    )
    old, new = (Conditions.of("t", "fwd", {"flows": flows}) for flows in ("1", "2"))
    put(ledger, 0, 1.0, old)
    put(ledger, 2, 2.0, new)
    put(ledger, 1, 3.0, new)
    put(ledger, 3, 4.0, new, pps=0.0)
    main, stable = ledger.series_histories.of("t", "fwd")

    assert [epoch.values["flows"] for epoch in main.epochs] == ["1", "2"]
    assert [one.identity for one in main.epochs[-1].levels] == ["id1", "id2"]
    assert [len(epoch.levels) for epoch in stable.epochs] == [1, 1]
    assert ledger.samples.counts() == {("t", "fwd"): (3, 3.0)}
    assert ledger.series_histories.of("t", "other") == []


@pytest.mark.both_databases
def test_images_of_some_revisions_are_found_in_all_series(ledger: Ledger) -> None:
    """Under the newest conditions only."""
    old, new = (Conditions.of("t", "fwd", {"flows": flows}) for flows in ("1", "2"))
    put(ledger, 0, 1.0, old)
    put(ledger, 1, 2.0, new)
    put(ledger, 2, 3.0, new)
    found = ledger.series.of_revisions([f"{i:040x}" for i in (0, 1)])

    assert [*found["t", "fwd"]] == [f"{1:040x}"]
    assert sorted(ledger.commits.booted()) == [f"{i:040x}" for i in range(3)]


_FEW = st.integers(0, 12)


@given(st.lists(st.builds(EndedChange, _FEW, st.none() | _FEW, _FEW)), _FEW, _FEW)
def test_a_level_is_kept_unless_a_change_that_is_over_was_there(
    gaps: list[EndedChange], number: int, at: int
) -> None:
    """From the commit with which it came to that with which it went, or until it was over."""

    def there(gap: EndedChange) -> bool:
        gone = at >= gap.closed_at if gap.end is None else number >= gap.end
        return number >= gap.start and not gone

    level = Level("r", "k", float(at), (0.0,), saturated=False)
    assert EndedChanges(gaps).keep(number, level) is not any(map(there, gaps))
