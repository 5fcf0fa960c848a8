"""A ledger with an alert about hostile commits, for tests of what programs are told.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from netbisect.bisect.model import (
    Belief,
    Bisection,
    Boot,
    Candidate,
    Commit,
    Comparison,
    Conditions,
    Confirmed,
    Culprit,
    Effect,
    Kernel,
    Night,
    NightDone,
    Noise,
    Sample,
)
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.steps.memory import open_ledger
from netbisect.store.ledger import Ledger
from netbisect.store.records import DecisionStage, Outcome

NOW = 1.79e9
DAY = 86400.0
HOSTILE = '=HYPERLINK("x") ]]> <script>alert(1)</script> & \x00\x07\x1b[31m \ud800 \u202e "\''
GOOD, MIDDLE, BAD = (f"{letter}" * 40 for letter in "abc")
TESTBED, LEAD, BRANCH = "c2558", "inet4-forwarding", "stable/15"


@dataclass
class Filled:
    """The ledger, and the numbers of what is in it."""

    ledger: Ledger
    url: str
    alert: int
    comparison: int
    bisection: int


def effect(ln_ratio: float = -0.1) -> Effect:
    return Effect(LEAD, ln_ratio, ln_ratio - 0.01, math.inf, 1e-9, 5, 5)


def measure(ledger: Ledger, question: int, revision: str, pps: float, **changes: Any) -> None:
    """A boot with one sample."""
    decision = ledger.intend(
        question, DecisionStage.TRIAL, revision, TESTBED, config="G", arch="amd64", why=HOSTILE
    )
    key = f"{question}-{decision.seq}"
    now = ledger.clock()
    ledger.record(
        Kernel(revision, "G", "amd64", f"i{revision}", key, "v", 1, now, 60.0), decision.id
    )
    ledger.record(Boot(key, TESTBED, key, revision, now, 60.0), decision.id)
    conditions = Conditions.of(TESTBED, LEAD, {"nic": "=1+1"})
    ledger.record(conditions, decision.id)
    given: dict[str, Any] = {"problems": (), "id": f"s{key}"} | changes
    ledger.record(
        Sample(
            boot=key, testbed=TESTBED, scenario=LEAD, pps=pps, offered_pps=2e6, received=(),
            offered=(), conditions=conditions.digest, at=now, seconds=30.0, **given,
        ),
        decision.id,
    )  # fmt: skip
    ledger.finish(decision.id, Outcome.OK, HOSTILE)


@pytest.fixture
def filled_ledger(url: str) -> Filled:
    """Nights, a comparison that was confirmed, an alert, and a search that named a commit."""
    return fill(url)


def fill(url: str) -> Filled:
    ledger = open_ledger(url)
    times = [NOW - 3 * DAY]
    ledger.clock = lambda: times[0]
    commits = [
        Commit(name, number, HOSTILE, HOSTILE, HOSTILE, "a@b.invalid", NOW - 9 * DAY)
        for number, name in enumerate((GOOD, MIDDLE, BAD), 302145)
    ]
    ledger.learn(commits, BRANCH)
    for number, (revision, pps) in enumerate(((GOOD, 1e6), (BAD, 9e5))):
        night = ledger.ask(Night(BRANCH, TESTBED, revision, (LEAD,), 1), key=f"night {number}")
        measure(ledger, night.id, revision, pps)
        with ledger.closing(night, NightDone(1)) as closing:
            if revision == BAD:
                comparison = closing.ask(
                    Comparison(BRANCH, TESTBED, GOOD, BAD, (LEAD,), LEAD, -0.1), key="compare"
                )
                closing.open_candidate(comparison, kind=AlertKind.DROP, what=HOSTILE)
    for revision, pps in ((GOOD, 1e6), (BAD, 9e5)):
        measure(ledger, comparison.id, revision, pps)
    with ledger.closing(comparison, Confirmed((effect(),))) as closing:
        alert = closing.open_alert((effect(),), what=HOSTILE)
        candidates = (Candidate(MIDDLE), Candidate(BAD))
        bisection = closing.ask(
            Bisection(BRANCH, TESTBED, GOOD, candidates, (LEAD,), LEAD, -0.1, Noise()),
            key="bisect",
        )
        closing.change_alert(
            alert.id, what=HOSTILE, bisection=bisection.id, state=AlertState.BISECTING
        )
    measure(ledger, bisection.id, MIDDLE, 1e6, problems=("=2+3", HOSTILE))
    belief = Belief({MIDDLE: 0.01, BAD: 0.98}, 0.005, 0.005)
    culprit = Culprit(BAD, MIDDLE, belief, (effect(),), 0.99)
    with ledger.closing(bisection, culprit) as closing:
        closing.change_alert(alert.id, what=HOSTILE, culprit=BAD, state=AlertState.CULPRIT_FOUND)
    times[0] = NOW
    return Filled(ledger, url, alert.id, comparison.id, bisection.id)
