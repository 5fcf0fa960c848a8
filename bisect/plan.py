"""What to do next for any question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from netbisect.bisect import comparison, measurement, pairs, search
from netbisect.bisect.ahead import Outlook, builds_ahead, outlook
from netbisect.bisect.meanwhile import Meanwhile, Wait
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Evidence,
    Measurement,
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

__all__ = ["Outlook", "builds_ahead", "next_move", "next_together", "outlook"]


def next_move(
    question: Question,
    evidence: Evidence,
    prices: Prices,
    building: Mapping[str, float] | None = None,
) -> Move:
    """Tells what to boot next for `question`, or its answer.

    Args:
        question: Any of the five.
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
        case Measurement():
            return measurement.next_move(question, evidence)
        case _:
            assert_never(question)


def next_together(
    question: Comparison | Bisection, evidence: Evidence, prices: Prices, meanwhile: Meanwhile
) -> Move | Wait:
    """As `next_move`, for one of several testbeds while the others measure.

    They are of one make: each has a level of its own, and the same change shows on all of them.

    Args:
        question: Either of those that several testbeds can share.
        evidence: All facts that bear on it; each reading names its testbed.
        prices: What actions cost, in seconds of the lab.
        meanwhile: Which testbed is idle, and what goes on elsewhere.
    """
    if isinstance(question, Comparison):
        return pairs.next_together(question, evidence, meanwhile)
    return search.next_together(question, evidence, prices, meanwhile)


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
