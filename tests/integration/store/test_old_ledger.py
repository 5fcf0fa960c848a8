"""A ledger of the previous release: all objects load, and work continues."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from ledger_facts import intend
from sqlalchemy import inspect

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.jobs import BisectJob, NightlyJob
from netbisect.bisect.model.results import NightlyResult, Result
from netbisect.store.db.database import open_database
from netbisect.store.db.records import ActionStage, Outcome
from netbisect.store.db.schema import migrate
from netbisect.store.ledger import Ledger

DUMP = Path(__file__).parents[2] / "fixtures/ledger_b418c32.sql"
MAIN, TESTBED, SCENARIO = "main", "c2558", "inet4-forward"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(DUMP.read_text())
    connection.close()
    engine = open_database(f"sqlite:///{path}")
    migrate(engine)
    yield Ledger(engine)
    engine.dispose()


def test_every_row_of_an_old_ledger_loads_and_work_continues(ledger: Ledger) -> None:
    with ledger.reading() as session:
        rows = {
            name: session.connection().exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one()  # noqa: S608
            for name in inspect(ledger.engine).get_table_names()
        }
    jobs = [ledger.jobs.get(number + 1) for number in range(rows["questions"])]
    assert Counter(job.state.value for job in jobs) == {"open": 11, "closed": 34, "held": 1}
    assert {type(job.result) for job in jobs} == {*get_args(Result), type(None)}
    attempts = [one for job in jobs for one in ledger.actions.of_job(job.id)]
    assert len(attempts) == rows["decisions"]
    assert {one.stage for one in attempts} == {*ActionStage}
    assert {one.outcome for one in attempts} > {Outcome.OK, Outcome.UNMEASURABLE, Outcome.RETRY}
    kinds = Counter(type(fact).__name__ for job in jobs for fact in ledger.facts.of_job(job.id))
    assert kinds["Sample"] == rows["samples"]
    assert len(kinds) == 5
    requests = ledger.requests.all()
    assert {request.kind for request in requests} == {"compare", "bisect", "series"}
    assert all(ledger.requests.jobs(request.id) for request in requests)
    assert len(ledger.requests.audit()) == rows["audit"]
    assert len(ledger.tokens.all()) == rows["tokens"]
    assert [ledger.mails.get(number + 1).id for number in range(rows["mails"])][-1] == rows["mails"]
    assert {*ledger.quarantines.current()} == {"c2558-3"}
    assert len(ledger.quarantines.of_testbed("c2558-2")) == 1
    events, _ = ledger.events.since(0)
    assert len(events) == rows["events"]

    # Work continues.
    [bisection] = [job for job in ledger.jobs.all_open() if job.key == "open:bisection"]
    assert isinstance(bisection.job, BisectJob)
    [pending] = ledger.actions.all_open(bisection.id)
    assert pending.posterior is not None
    ledger.actions.finish(pending.id, Outcome.OK)
    night = NightlyJob(MAIN, TESTBED, "a" * 40, (SCENARIO,), 1)
    job = ledger.jobs.add(night, key="night:new")
    trial = intend(ledger, job, "a" * 40)
    ledger.actions.finish(trial.id, Outcome.OK)
    with ledger.jobs.closing(job, NightlyResult(1)):
        pass
    assert ledger.jobs.get(job.id).result == NightlyResult(1)
    [first, *_] = ledger.alerts.all_open()
    changed = ledger.alerts.change(
        first.id, who="requester", what="accepted", state=AlertState.ACKNOWLEDGED
    )
    assert changed.state is AlertState.ACKNOWLEDGED
