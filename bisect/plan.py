"""What to do next for any question."""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from netbisect.bisect import ahead, comparison, search
from netbisect.bisect.ahead import Outlook
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Evidence,
    Move,
    Night,
    NightDone,
    Prices,
    Question,
    Unfinished,
    Visit,
)


def next_move(question: Question, evidence: Evidence, prices: Prices) -> Move:
    """Tells what to boot next for `question`, or its answer.

    Args:
        question: Any of the three.
        evidence: All facts that bear on it.
        prices: What actions cost, in seconds of the lab.
    """
    match question:
        case Night():
            return _night(question, evidence)
        case Comparison():
            return comparison.next_move(question, evidence)
        case Bisection():
            return search.next_move(question, evidence, prices)
        case _:
            assert_never(question)


def builds_ahead(
    question: Bisection,
    evidence: Evidence,
    prices: Prices,
    builders: int,
    building: Collection[str] = (),
) -> tuple[str, ...]:
    """Names the revisions worth building while the testbed measures.

    What is built already, or will be, cuts the posterior into pieces; the heaviest piece is cut
    in half, then the heaviest of what is left, and so on: with nothing built, one builder takes
    the median and three take the quartiles.

    Args:
        question: Which of these commits?
        evidence: All facts that bear on it.
        prices: What actions cost, in seconds of the lab.
        builders: How many revisions to name, at most.
        building: What is being built at this moment.
    """
    return ahead.builds_ahead(question, evidence, prices, builders, building)


def outlook(question: Bisection, evidence: Evidence, prices: Prices) -> Outlook:
    """Tells what is believed, what comes next, and what the search will still take."""
    return ahead.outlook(question, evidence, prices)


def _night(question: Night, evidence: Evidence) -> Move:
    boots = sum(reading.fresh for reading in evidence.of(question.revision))
    if boots >= question.boots:
        return NightDone(boots)
    if question.revision in evidence.skipped:
        return Unfinished(
            f"{question.revision[:12]} cannot be measured: {evidence.skipped[question.revision]}"
        )
    return Visit(question.revision, f"boot {boots + 1} of {question.boots} tonight")
