"""Attempts at a decision, and the pause between two of them."""

from __future__ import annotations

from netbisect.reports.render import words
from netbisect.store.db.records import Action
from netbisect.store.ledger import Ledger

PAUSE_SECONDS = 600.0
"""Seconds before a further attempt where the lab file is wrong or build hosts fail."""


def earlier(ledger: Ledger, decision: Action) -> list[Action]:
    """Earlier attempts at a decision, oldest first."""
    attempts = [one for one in ledger.actions.of_job(decision.job) if one.seq == decision.seq]
    return [one for one in attempts if one.attempt < decision.attempt]


def pauses(decision: Action, now: float) -> bool:
    """Whether an attempt waits. A longer wait comes from a clock that was ahead."""
    again = decision.attempt > 1 and decision.buildset is None and decision.outcome is None
    return again and 0 < decision.intended_at - now <= PAUSE_SECONDS


def pause_of(ledger: Ledger, decision: Action) -> str:
    """Until when and why an attempt waits; "" if it does not."""
    if not pauses(decision, ledger.clock()):
        return ""
    return f"waits until {words.moment(decision.intended_at)}: {earlier(ledger, decision)[-1].note}"
