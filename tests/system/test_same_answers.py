"""Whatever is asked of the ledger has one answer, on either database."""

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
    """Without the names of mails, which are drawn."""
    return [replace(one, thread="") for one in ledger.alerts(candidates=True)]


LOOKS: dict[str, Callable[[Ledger], Any]] = {
    "alerts": _alerts,
    "alerts about": lambda ledger: len(ledger.alerts_about(4)),
    "alert news": Ledger.alert_news,
    "around": lambda ledger: ledger.around(ledger.alert(1)),
    "bad visits": lambda ledger: ledger.infrastructure_failures(TESTBED),
    "beside": lambda ledger: ledger.neighbour_series(BRANCH, "other", (302145, 302147), math.inf),
    "boots for": lambda ledger: ledger.boots_for("olga", 0.0),
    "changes": lambda ledger: ledger.alert_changes(1),
    "commits": lambda ledger: ledger.commits([GOOD, BAD]),
    "conditions": lambda ledger: ledger.conditions(TESTBED, LEAD),
    "cost": lambda ledger: ledger.cost([1, 2, 3, 4]),
    "coverage": Ledger.coverage,
    "decisions": lambda ledger: [ledger.decisions(number) for number in range(1, 5)],
    "due": lambda ledger: [one.subject for one in ledger.due_mails(9e9)],
    "events": lambda ledger: ledger.events_since(0),
    "evidence": lambda ledger: [
        ledger.evidence(ledger.job(number), **_BUILD) for number in range(1, 5)
    ],
    "facts": lambda ledger: ledger.facts_of(4),
    "failed": Ledger.failed_decisions,
    "fruitless": lambda ledger: ledger.failed_trials(4, TESTBED),
    "images": lambda ledger: ledger.images([GOOD, MIDDLE]),
    "label": lambda ledger: ledger.label(BAD),
    "last boots": Ledger.last_boots,
    "last mail": lambda ledger: ledger.last_mail("al%ert:"),
    "last night": lambda ledger: ledger.last_night(TESTBED, BRANCH),
    "last nights": lambda ledger: ledger.last_nights(9e9),
    "last repeat": lambda ledger: ledger.last_repeat(TESTBED),
    "left out": Ledger.excluded,
    "levels": lambda ledger: ledger.levels(*PLACE),
    "measured": Ledger.measured,
    "measured revisions": lambda ledger: sorted(ledger.measured_revisions()),
    "needed kernels": Ledger.needed_kernels,
    "newest": lambda ledger: ledger.newest(BRANCH),
    "counted": Ledger.counted,
    "nights since": lambda ledger: ledger.nights_since(0.0),
    "numbers": Ledger.numbers,
    "open": lambda ledger: (ledger.open_jobs(), ledger.open_decisions()),
    "held": Ledger.held_decisions,
    "prices": lambda ledger: ledger.prices(TESTBED),
    "progress": Ledger.progress,
    "quarantined": Ledger.quarantined,
    "questions": lambda ledger: (ledger.jobs("comparison"), ledger.jobs("bisection")),
    "repeated": lambda ledger: ledger.repeated(*PLACE),
    "requests": lambda ledger: ledger.requests(who="olga", state=RequestState.OPEN),
    "audit": lambda ledger: ledger.audit(after=0),
    "samples": lambda ledger: list(ledger.samples()),
    "series": Ledger.known_series,
    "tokens": Ledger.tokens,
    "trails": lambda ledger: ledger.series_histories(TESTBED, LEAD),
}


@pytest.mark.xdist_group("postgresql")
def test_both_databases_give_the_same_answers(
    migrated: Path, tmp_path: Path, postgresql_url: str
) -> None:
    """Of a ledger that was filled alike, with words that no database likes."""
    ledgers = [
        fill(url).ledger for url in (f"sqlite:///{shutil.copy(migrated, tmp_path)}", postgresql_url)
    ]
    for what, look in LOOKS.items():
        one, other = map(look, ledgers)
        assert one == other, what
    for ledger in ledgers:
        ledger.engine.dispose()
