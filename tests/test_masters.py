"""Several masters with one ledger: one of them gives orders, and nothing is ordered twice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from netbisect.bisect.model import Night
from netbisect.store.database import open_database
from netbisect.store.ledger import Ledger

# A file of SQLite has one master.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("postgresql"),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True),
]
NIGHTS, BOOTS = 4, 4

_MASTER = """
import os, sys, time
from netbisect.store.database import StoreError, open_database, patiently
from netbisect.store.ledger import Ledger
from netbisect.store.records import DecisionStage, Outcome
url, name, lead, falls_after = sys.argv[1], sys.argv[2], sys.argv[3] == "lead", int(sys.argv[4])
ledger = Ledger(open_database(url))
given = 0
while waiting := patiently(ledger.open_questions):
    if lead and not patiently(ledger.leads):
        time.sleep(0.01)
        continue
    for asked in waiting:
        for order in ledger.open_decisions(asked.id):
            ledger.finish(order.id, Outcome.OK)
        if len(ledger.decisions(asked.id)) >= asked.question.boots:
            continue
        try:
            order = ledger.intend(asked.id, DecisionStage.TRIAL, "b", asked.question.testbed,
                                  config="G", arch="amd64", why=name)
        except StoreError:
            continue  # the other one was quicker
        given += 1
        if ledger.submitted(order.id, hash((name, given)) % 10**6).why == name:
            print(order.id, flush=True)
        if given == falls_after:
            os.kill(os.getpid(), 9)
    if all(len(ledger.decisions(asked.id)) >= asked.question.boots for asked in waiting):
        break
"""


@pytest.fixture
def ledger(url: str) -> Ledger:
    ledger = Ledger(open_database(url))
    for number in range(NIGHTS):
        night = Night("main", f"testbed{number}", "b", ("inet4-forwarding",), BOOTS)
        ledger.ask(night, key=f"night {number}")
    return ledger


def master(url: str, name: str, how: str, falls_after: int = 0) -> subprocess.Popen[str]:
    """A process that orders what is missing; it says which orders are its own."""
    command = [sys.executable, "-c", _MASTER, url, name, how, str(falls_after)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def orders_of(running: subprocess.Popen[str], status: int = 0) -> list[int]:
    said, _ = running.communicate(timeout=120)
    assert running.returncode == status
    return [int(order) for order in said.split()]


def test_two_that_both_give_orders_never_order_a_visit_twice(ledger: Ledger, url: str) -> None:
    """The database lets none wait for two visits, and gives each a number of its own."""
    running = [master(url, name, "both") for name in ("one", "two")]
    told = [order for one in running for order in orders_of(one)]

    assert Counter(told) == Counter(set(told))
    for asked in ledger.open_questions():
        ordered = ledger.decisions(asked.id)
        assert [order.seq for order in ordered] == list(range(1, len(ordered) + 1))
        assert BOOTS <= len(ordered) <= BOOTS + 1  # both may have seen that one was missing
        assert len([order for order in ordered if order.outcome is None]) <= 1
    ledger.engine.dispose()


def test_when_the_one_that_leads_is_killed_the_other_goes_on(ledger: Ledger, url: str) -> None:
    """Its lock ends with it."""
    first = master(url, "one", "lead", falls_after=3)
    assert first.stdout is not None
    leads = int(first.stdout.readline())
    second = master(url, "two", "lead")
    told = [leads, *orders_of(first, status=-9), *orders_of(second)]

    assert len(set(told)) == len(told) == NIGHTS * BOOTS
    for asked in ledger.open_questions():
        assert [order.seq for order in ledger.decisions(asked.id)] == [1, 2, 3, 4]
    ledger.engine.dispose()


def test_the_lead_is_had_only_by_who_asks_for_it(ledger: Ledger, url: str) -> None:
    """A master's outbox goes by what its conductor has, and takes nothing from another's."""
    other = Ledger(open_database(url))
    assert not other.has_lead()
    assert ledger.leads()
    assert ledger.has_lead()
    assert not other.has_lead()
    assert not other.leads()
    ledger.give_up_lead()
    assert not ledger.has_lead()
    assert not other.has_lead(), "it was not asked for"
    assert other.leads()
    other.give_up_lead()
    for one in (ledger, other):
        one.engine.dispose()
