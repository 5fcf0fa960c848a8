"""Marks of the candidates of a search."""

from __future__ import annotations

import pytest
from alert_ledger import announce
from ledger_facts import bisect_job

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.marks import CommitMark, MarkVerdict
from netbisect.bisect.model.results import Unfinished
from netbisect.store.db.database import StoreError
from netbisect.store.ledger import Ledger


@pytest.fixture
def search(ledger: Ledger) -> int:
    """The number of the search of alert 1."""
    job = bisect_job([f"r{number}" for number in range(10, 21)], -0.1, Noise())
    record = ledger.jobs.add(job, key="search")
    announce(ledger)
    ledger.alerts.change(1, who="netbisect", what="the search begins", bisection=record.id)
    return record.id


def mark(ledger: Ledger, name: str, verdict: str = "good", why: str = "by hand") -> CommitMark:
    return ledger.marks.add(1, name, MarkVerdict(verdict), who="ann", why=why)


def test_a_mark_is_evidence_of_the_search_and_noted_in_the_alert(
    ledger: Ledger, search: int
) -> None:
    good, skip = mark(ledger, "r15"), mark(ledger, "r17", "skip", "it panics")

    assert ledger.marks.of_search(search) == [good, skip]
    evidence = ledger.evidence.gather(ledger.jobs.get(search), config="GENERIC", arch="amd64")
    assert evidence.marks == {"r15": good, "r17": skip}
    assert evidence.skipped == {"r17": "marked skip by ann: it panics"}
    last = ledger.alerts.changes(1)[-1]
    assert (last.who, last.what) == ("ann", "r17 was marked skip by ann: it panics")


def test_a_mark_needs_a_candidate_a_reason_and_a_running_search(
    ledger: Ledger, search: int
) -> None:
    """An alert may also have no search at all."""
    for name in ("r1", "r9", ""):
        with pytest.raises(StoreError, match="first digits of one of the 10 candidates"):
            mark(ledger, name)
    with pytest.raises(StoreError, match="needs a reason"):
        mark(ledger, "r15", why=" ")
    with ledger.jobs.closing(ledger.jobs.get(search), Unfinished("no power")):
        pass
    with pytest.raises(StoreError, match="alert 1 has no running search"):
        mark(ledger, "r15")
    assert not ledger.marks.of_search(search)
    other = announce(ledger, testbed="apu2").id
    with pytest.raises(StoreError, match=f"alert {other} has no running search"):
        ledger.marks.add(other, "r15", MarkVerdict.GOOD, who="ann", why="by hand")
