"""What to do next for any question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from netbisect.bisect import comparison, search
from netbisect.bisect.ahead import Outlook, builds_ahead, outlook
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Evidence,
    Move,
    Night,
    NightDone,
    Prices,
    Profiled,
    Profiling,
    Question,
    Unfinished,
    Visit,
)

__all__ = ["Outlook", "builds_ahead", "next_move", "outlook"]


def next_move(
    question: Question,
    evidence: Evidence,
    prices: Prices,
    building: Mapping[str, float] | None = None,
) -> Move:
    """Tells what to boot next for `question`, or its answer.

    Args:
        question: Any of the four.
        evidence: All facts that bear on it.
        prices: What actions cost, in seconds of the lab.
        building: What is being built ahead, and for how many seconds still; a search may wait.
    """
    match question:
        case Night():
            return _night(question, evidence)
        case Comparison():
            return comparison.next_move(question, evidence)
        case Bisection():
            return search.next_move(question, evidence, prices, building)
        case Profiling():
            return _profiling(question, evidence)
        case _:
            assert_never(question)


def _night(question: Night, evidence: Evidence) -> Move:
    boots = sum(reading.fresh for reading in evidence.of(question.revision))
    if boots >= question.boots:
        return NightDone(boots)
    if question.revision in evidence.skipped:
        return Unfinished(
            f"{question.revision[:12]} cannot be measured: {evidence.skipped[question.revision]}"
        )
    return Visit(question.revision, f"boot {boots + 1} of {question.boots} tonight")


def _profiling(question: Profiling, evidence: Evidence) -> Move:
    """One visit each; where one has no profile there is nothing to hold the other against."""
    for revision in question.revisions:
        why = evidence.profiled.get(revision, evidence.skipped.get(revision))
        if why:
            return Unfinished(f"no profile of {revision[:12]}: {why}")
    missing = [one for one in question.revisions if one not in evidence.profiled]
    if not missing:
        return Profiled(question.revisions)
    return Visit(missing[0], "to see in which functions it spends its time")
