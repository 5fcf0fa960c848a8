"""Queries of the ledger have the same results on SQLite and PostgreSQL."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machine_fixtures import BAD, BRANCH, GOOD, LEAD, MIDDLE, TESTBED, fill

from netbisect.store.db.records import RequestState
from netbisect.store.ledger import Ledger

PLACE = TESTBED, LEAD, BRANCH
_BUILD = {"config": "G", "arch": "amd64"}


def _alerts(ledger: Ledger) -> list[Any]:
    """Alerts without the Message-IDs of their mails, which are random."""
    return [replace(one, thread="") for one in ledger.alerts.all(candidates=True)]


QUERIES: dict[str, Callable[[Ledger], Any]] = {
    "alerts": _alerts,
    "alerts of a job": lambda ledger: len(ledger.alerts.all_of_job(4)),
    "alert changes": lambda ledger: ledger.alerts.change_counts(),
    "levels around an alert": lambda ledger: ledger.series.around(ledger.alerts.get(1)),
    "infrastructure failures": lambda ledger: ledger.quarantines.infrastructure_failures(TESTBED),
    "neighbour series": lambda ledger: ledger.neighbour_series.around(
        BRANCH, "other", (302145, 302147), math.inf
    ),
    "boots for": lambda ledger: ledger.requests.boots_for("olga", 0.0),
    "changes": lambda ledger: ledger.alerts.changes(1),
    "commits": lambda ledger: ledger.commits.find([GOOD, BAD]),
    "conditions": lambda ledger: ledger.series.conditions(TESTBED, LEAD),
    "cost": lambda ledger: ledger.costs.of_jobs([1, 2, 3, 4]),
    "coverage": lambda ledger: ledger.samples.coverage(),
    "decisions": lambda ledger: [ledger.actions.of_job(number) for number in range(1, 5)],
    "due mails": lambda ledger: [one.subject for one in ledger.mails.due(9e9)],
    "events": lambda ledger: ledger.events.since(0),
    "evidence": lambda ledger: [
        ledger.evidence.gather(ledger.jobs.get(number), **_BUILD) for number in range(1, 5)
    ],
    "facts": lambda ledger: ledger.facts.of_job(4),
    "failed actions": lambda ledger: ledger.actions.failed(),
    "failed trials": lambda ledger: ledger.quarantines.failed_trials(4, TESTBED),
    "images": lambda ledger: ledger.series.of_revisions([GOOD, MIDDLE]),
    "label": lambda ledger: ledger.commits.label(BAD),
    "last boots": lambda ledger: ledger.facts.last_boots(),
    "last mail": lambda ledger: ledger.mails.last("al%ert:"),
    "last night": lambda ledger: ledger.nights.last(TESTBED, BRANCH),
    "last nights": lambda ledger: ledger.nights.latest(),
    "last repeat": lambda ledger: ledger.nights.last_repeat(TESTBED, BRANCH),
    "excluded samples": lambda ledger: ledger.samples.excluded(),
    "levels": lambda ledger: ledger.series.with_baseline(*PLACE),
    "names of series": lambda ledger: ledger.samples.names(),
    "measured revisions": lambda ledger: sorted(ledger.commits.booted()),
    "needed kernels": lambda ledger: ledger.jobs.needed_kernels(),
    "newest": lambda ledger: ledger.commits.newest(BRANCH),
    "sample counts": lambda ledger: ledger.samples.counts(),
    "nights since": lambda ledger: ledger.nights.since(0.0),
    "numbers": lambda ledger: ledger.commits.numbers(),
    "open": lambda ledger: (ledger.jobs.all_open(), ledger.actions.all_open()),
    "held actions": lambda ledger: ledger.actions.held(),
    "prices": lambda ledger: ledger.costs.prices(TESTBED),
    "progress": lambda ledger: ledger.jobs.progress(),
    "quarantined": lambda ledger: ledger.quarantines.current(),
    "jobs by kind": lambda ledger: (
        ledger.jobs.of_kind("comparison"),
        ledger.jobs.of_kind("bisection"),
    ),
    "repeated": lambda ledger: ledger.nights.repeated(*PLACE),
    "requests": lambda ledger: ledger.requests.all(who="olga", state=RequestState.OPEN),
    "audit": lambda ledger: ledger.requests.audit(after=0),
    "samples": lambda ledger: list(ledger.samples.select()),
    "series": lambda ledger: ledger.series.names(),
    "tokens": lambda ledger: ledger.tokens.all(),
    "series histories": lambda ledger: ledger.series.histories(TESTBED, LEAD),
}


@pytest.mark.xdist_group("postgresql")
def test_sqlite_and_postgresql_give_the_same_results(
    migrated: Path, tmp_path: Path, postgresql_url: str
) -> None:
    """Both ledgers have the same contents, including hostile text."""
    ledgers = [
        fill(url).ledger for url in (f"sqlite:///{shutil.copy(migrated, tmp_path)}", postgresql_url)
    ]
    for name, query in QUERIES.items():
        one, other = map(query, ledgers)
        assert one == other, name
    for ledger in ledgers:
        ledger.engine.dispose()
