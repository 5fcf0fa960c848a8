"""Quarantines in the ledger, and trials without valid samples."""

from __future__ import annotations

import pytest
from ledger_facts import intend, measured

from netbisect.bisect.model.faults import Fault
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.store.db.records import JobRecord, Outcome
from netbisect.store.ledger import Ledger

pytestmark = pytest.mark.both_databases

REVISION = "a" * 40


def test_a_release_may_be_rejected_and_stays_in_the_history(ledger: Ledger) -> None:
    quarantine = ledger.quarantines.start("c2558", why="too hot", fault=Fault.THROTTLING.value)
    ledger.quarantines.ask_release("c2558", by="ana")
    refused = ledger.quarantines.refuse_release(quarantine.id, "no link")
    assert (refused.wanted_at, refused.refused, refused.released_at) == (None, "no link", None)
    record = ledger.quarantines.ask_release("c2558", by="bo", note="new fans")
    assert record.wanted_at is not None
    ledger.quarantines.release(quarantine.id)

    assert ledger.quarantines.current() == {}
    (past,) = ledger.quarantines.of_testbed("c2558")
    assert (past.released_by, past.note, past.fault) == ("bo", "new fans", "throttling")
    assert past.released_at is not None
    assert ledger.quarantines.start("c2558", why="again").id != quarantine.id
    kinds = [event.kind for event in ledger.events.since(0)[0]]
    assert kinds == [
        *("learned", "quarantine", "release-asked", "release-refused"),
        *("release-asked", "released", "quarantine"),
    ]


def test_failed_trials_count_since_the_last_valid_sample_or_release(ledger: Ledger) -> None:
    night = NightlyJob("main", "c2558", REVISION, ("s",), 1)
    record, another = ledger.jobs.add(night, key="night"), ledger.jobs.add(night, key="another")

    def trial(outcome: Outcome, *, valid: bool | None = None, job: JobRecord = record) -> None:
        decision = intend(ledger, job, REVISION)
        name = f"{decision.id}"
        rates = {} if valid is None else {"s": 1.0}
        problems = () if valid else ("too slow",)
        for fact in measured(name, "c2558", "k", REVISION, 1.0, rates, problems=problems):
            ledger.facts.record(fact, decision.id)
        ledger.actions.finish(decision.id, outcome)

    trial(Outcome.UNMEASURABLE)
    trial(Outcome.UNMEASURABLE, valid=True)
    trial(Outcome.UNMEASURABLE, valid=False)
    trial(Outcome.WITHDRAWN)
    trial(Outcome.OK, valid=True, job=another)
    trial(Outcome.LOST)
    assert ledger.quarantines.failed_trials(record.id, "c2558") == 2
    assert ledger.quarantines.failed_trials(record.id, "e5-2650") == 0
    assert ledger.quarantines.failed_trials(another.id, "c2558") == 0
    quarantine = ledger.quarantines.start("c2558", why="too hot")
    ledger.quarantines.ask_release("c2558", by="ana")
    ledger.quarantines.release(quarantine.id)
    assert ledger.quarantines.failed_trials(record.id, "c2558") == 0
