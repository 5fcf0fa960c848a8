"""What questions cost: before they are asked, and what is left of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from netbisect.bisect import measurement
from netbisect.bisect.comparison import LOOKS
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Evidence,
    Measurement,
    Night,
    Prices,
    Profiling,
    Question,
)

_SEARCH_BOOTS = 20
"""About what a search takes besides two boots for each halving; for estimates before it begins."""


@dataclass(frozen=True, slots=True)
class OnTestbed:
    """What a question costs on its testbed, at most."""

    testbed: str
    builds: tuple[str, ...]
    """Revisions whose kernels are not built; of a search only those of its ends."""
    boots: int
    shared: int
    """Boots that were made already, and count."""
    seconds: float
    """Of the testbed."""


def boots_wanted(question: Question) -> int:
    """Boots that a question takes in all, at most; of a search about."""
    match question:
        case Measurement():
            return question.boots * len(question.revisions)
        case Comparison():
            return 2 * LOOKS[-1]
        case Bisection():
            return _SEARCH_BOOTS + math.ceil(2 * math.log2(len(question.candidates) + 1))
        case Night():
            return question.boots
        case Profiling():
            return len(question.revisions) * (1 if question.pps else 2)


def ends_of(question: Question) -> tuple[str, ...]:
    """The revisions that are measured in any case."""
    match question:
        case Measurement() | Profiling():
            return question.revisions
        case Comparison():
            return question.good, question.bad
        case Bisection():
            return question.good, question.candidates[-1].revision
        case Night():
            return (question.revision,)


def cost_of(question: Question, evidence: Evidence, prices: Prices) -> OnTestbed:
    """What is left to be done for a question, at most."""
    visit = prices.boot + prices.run * len(question.scenarios)
    builds = tuple(
        one
        for one in ends_of(question)
        if one not in evidence.kernels and one not in evidence.skipped
    )
    wanted = boots_wanted(question)
    if isinstance(question, Measurement):
        left = measurement.remaining(question, evidence)
        return OnTestbed(question.testbed, builds, left, wanted - left, left * visit)
    made = sum(reading.fresh for reading in evidence.readings)
    left = max(wanted - made, 0)
    return OnTestbed(question.testbed, builds, left, 0, left * visit)
