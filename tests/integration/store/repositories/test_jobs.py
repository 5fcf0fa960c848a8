"""Jobs, their decisions, and their results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from ledger_facts import COMPARISON, NIGHT, POSTERIOR, decide

from netbisect.bisect.model.entities import SeriesName
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import NightlyResult, Unfinished
from netbisect.store.db.database import StoreError, open_database
from netbisect.store.db.records import JobState, Outcome, RequestState
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.jobs import StaleJobError
from netbisect.store.repositories.requests import TooManyError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    engine = open_database(url)
    yield Ledger(engine, itertools.count(1.8e9).__next__)
    engine.dispose()


def test_a_job_waits_for_one_decision_on_each_testbed(ledger: Ledger) -> None:
    record, another = (ledger.jobs.add(NIGHT, key=key) for key in ("night", "another night"))
    first, second = decide(ledger, record), decide(ledger, record, "r2", "c2558-2")
    other_job = decide(ledger, another)

    assert [first.external_id, second.external_id] == [f"nb:{record.id}:1:1", f"nb:{record.id}:2:1"]
    assert ledger.actions.all_open(record.id) == [first, second]
    assert ledger.actions.all_open() == [first, second, other_job]
    with pytest.raises(StoreError, match=f"still waits for nb:{record.id}:2:1; .* for c2558-2$"):
        decide(ledger, record, "r3", "c2558-2")
    ledger.actions.finish(second.id, Outcome.OK)
    assert ledger.actions.all_open(record.id) == [first]
    third = decide(ledger, record, "r3", "c2558-2")
    with pytest.raises(StoreError, match=f"gone on to {third.external_id}"):
        ledger.actions.retry(second.id)
    assert ledger.actions.retry(first.id).external_id == f"nb:{record.id}:1:2"


def test_a_decision_goes_from_intended_to_submitted_to_finished(ledger: Ledger) -> None:
    record = ledger.jobs.add(NIGHT, key="night")
    decision = decide(ledger, record)

    ledger.actions.submitted(decision.id, 17)
    ledger.actions.submitted(decision.id, 18)
    ledger.actions.finish(decision.id, Outcome.UNMEASURABLE, "no boot")
    done = ledger.actions.finish(decision.id, Outcome.OK, "repeated")

    assert (done.buildset, done.outcome, done.note) == (17, Outcome.UNMEASURABLE, "no boot")
    assert done.submitted_at is not None
    assert done.finished_at is not None
    assert decision.intended_at < done.submitted_at < done.finished_at
    assert ledger.actions.all_open(record.id) == []
    assert ledger.actions.of_job(record.id) == [done]
    assert ledger.actions.get(decision.id) == done


def test_an_attempt_has_one_successor(ledger: Ledger) -> None:
    record = ledger.jobs.add(NIGHT, key="night")
    first = decide(ledger, record)
    ledger.actions.submitted(first.id, 17)

    second = ledger.actions.retry(first.id, "the master was shut down")
    assert ledger.actions.retry(first.id) == second
    third = ledger.actions.retry(second.id)
    assert ledger.actions.retry(first.id) == third

    attempts = ledger.actions.of_job(record.id)
    assert [(one.seq, one.attempt, one.external_id, one.outcome) for one in attempts] == [
        (1, 1, f"nb:{record.id}:1:1", Outcome.RETRY),
        (1, 2, f"nb:{record.id}:1:2", Outcome.RETRY),
        (1, 3, f"nb:{record.id}:1:3", None),
    ]
    assert (third.buildset, third.posterior, third.why) == (None, POSTERIOR, first.why)


def test_result_and_follow_ups_are_one_transaction(ledger: Ledger) -> None:
    night = ledger.jobs.add(NIGHT, key="night")

    def write_within() -> None:
        with ledger.jobs.closing(night, NightlyResult(3)) as closing:
            closing.ask(COMPARISON, key="comparison")
            closing.post("mail", Mail("s", "b"), ["a@example.org"])
            ledger.jobs.add(COMPARISON, key="other")  # an error and not a deadlock

    with pytest.raises(StoreError, match="cannot be written from within `closing`"):
        write_within()
    assert ledger.jobs.all_open() == [night]
    assert ledger.mails.due(4e9) == []

    with ledger.jobs.closing(night, NightlyResult(3)) as closing:
        follow = closing.ask(COMPARISON, key="comparison", priority=50)

    closed = ledger.jobs.get(night.id)
    assert (closed.state, closed.result) == (JobState.CLOSED, NightlyResult(3))
    assert closed.closed_at is not None
    assert follow.parent == night.id
    assert ledger.jobs.all_open() == [follow]
    with pytest.raises(StoreError, match="is closed: nothing more is done for it"):
        decide(ledger, night)


def test_the_last_night_has_one_job_per_testbed_and_branch(ledger: Ledger) -> None:
    places = [("a", "main"), ("a", "main"), ("a", "stable/15"), ("b", "main")]
    jobs = [
        ledger.jobs.add(replace(NIGHT, testbed=testbed, branch=branch), key=f"{number}")
        for number, (testbed, branch) in enumerate(places)
    ]
    assert [one.id for one in ledger.nights.latest()] == [one.id for one in jobs[1:]]
    once = {SeriesName("a", "once", "main"), SeriesName("b", NIGHT.scenarios[0], "releng/15")}
    every = {SeriesName("a", NIGHT.scenarios[1], "main"), SeriesName("imported", "x", "main")}
    assert ledger.nights.outside(once | every) == once


def test_a_resumed_or_extended_request_counts_as_open(ledger: Ledger) -> None:
    mail = Mail("", "")
    change: dict[str, Any] = {"who": "ann", "via": "command"}
    opening = {"priority": 10, "most_open": 1, "address": "", "mail": lambda _: mail}
    answered = ledger.requests.open("series", {}, [COMPARISON], **change, **opening).id
    with ledger.jobs.closing(ledger.requests.jobs(answered)[0], Unfinished("")) as closing:
        closing.end_request(state=RequestState.FAILED, verdict="", why="", mail=mail)
    cancelled = ledger.requests.open("series", {}, [COMPARISON], **change, **opening).id
    at = ledger.requests.cancel(cancelled, **change, why="", mail=mail).closed_at
    [held] = ledger.requests.jobs(cancelled)
    assert (held.state, held.closed_at) == (JobState.HELD, at), "later boots do not count"
    ledger.requests.open("series", {}, [], **change, **opening)

    more = {**change, "most_open": 1, "mail": mail}
    with pytest.raises(TooManyError):
        ledger.requests.resume(cancelled, **more)
    with pytest.raises(TooManyError):
        ledger.requests.extend(answered, lambda job: job, data={}, **more)
    [before] = ledger.requests.jobs(answered)
    longer = replace(COMPARISON, commits=99)
    ledger.requests.extend(answered, lambda _: longer, data={}, **{**more, "most_open": 5})
    with pytest.raises(StaleJobError), ledger.jobs.closing(before, Unfinished("")):
        pass
    [record] = ledger.requests.jobs(answered)
    assert (record.job, record.state, record.result) == (longer, JobState.OPEN, None)
    ledger.requests.resume(cancelled, **{**more, "most_open": 5})
    [resumed] = ledger.requests.jobs(cancelled)
    assert (resumed.state, resumed.closed_at) == (JobState.OPEN, None)
