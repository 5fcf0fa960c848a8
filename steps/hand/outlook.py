"""Where a search is: what it holds to be true, what it does next and why, what is left to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netbisect.bisect import plan
from netbisect.bisect.belief import believe
from netbisect.bisect.comparison import LOOKS
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Comparison,
    Evidence,
    Finding,
    Move,
    Prices,
    Sample,
    Visit,
)
from netbisect.bisect.verify import LEAST_BOOTS
from netbisect.reports import picture, words
from netbisect.reports.plaintext import wrap
from netbisect.steps.hand import search
from netbisect.steps.hand.machine import belief_data
from netbisect.steps.hand.report import Result, headline, label, plainly
from netbisect.steps.hand.search import Entry, Search

_HOUR = 3600.0
_INFLATED = 1.25
"""As the search itself does with the scatter of a run."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A search at one moment."""

    move: Move
    belief: Belief | None
    """None as long as only the ends are compared."""
    builds: float
    runs: float
    seconds: float
    """Expected, to the end."""


def _state(entries: Sequence[Entry]) -> tuple[Search, Comparison | Bisection, Evidence, Prices]:
    asked = entries[0]
    assert isinstance(asked, Search)
    question = next(
        (entry for entry in reversed(entries) if isinstance(entry, Comparison | Bisection)),
        None,
    )
    if isinstance(entries[-1], Finding):  # killed between an answer and the next question
        question = search.next_question(asked, entries[-1], entries) or question
    question = question or search.first_question(asked)
    return (
        asked,
        question,
        search.evidence(asked, entries),
        search.prices(asked, entries),
    )


def belief(entries: Sequence[Entry]) -> Belief | None:
    """What is held to be true; None as long as only the ends are compared."""
    _, question, evidence, _ = _state(entries)
    return believe(question, evidence) if isinstance(question, Bisection) else None


def look(entries: Sequence[Entry]) -> Outlook:
    """Looks at a search from its log alone."""
    asked, question, evidence, prices = _state(entries)
    move = plan.next_move(question, evidence, prices)
    if not isinstance(move, Visit):
        return Outlook(move, belief(entries), 0.0, 0.0, 0.0)
    if isinstance(question, Comparison):
        builds, runs = _left_of_comparison(question, evidence)
        more = math.log2(len(asked.line) + 1) + 2
        builds, runs = builds + more, runs + more + 2 * LEAST_BOOTS
        held = None
    else:
        held = believe(question, evidence)
        builds, runs = _left_of_search(question, held)
    return Outlook(move, held, builds, runs, builds * prices.build + runs * prices.boot)


def _left_of_comparison(question: Comparison, evidence: Evidence) -> tuple[float, float]:
    """Builds and runs to the next look at the two ends."""
    done = [len(evidence.of(revision)) for revision in (question.good, question.bad)]
    look = next((number for number in LOOKS if number > min(done)), LOOKS[-1])
    runs = sum(max(look - number, 0) for number in done)
    return math.ceil(runs / 2), runs


def _left_of_search(question: Bisection, held: Belief) -> tuple[float, float]:
    """Builds and runs: the bits that are missing, by what a run tells; then the verification.

    A run in the middle tells which of two normal laws it is from; of that bit, the overlap of the
    two leaves about 1 - log2(1 + exp(-d²/4)), where d is their distance in standard deviations.
    """
    chances = [*held.chances.values(), held.none]
    missing = -math.fsum(chance * math.log2(chance) for chance in chances if chance > 0)
    scatter = _INFLATED * math.hypot(question.noise.boot, question.noise.image)
    distance = abs(question.effect) / max(scatter, 1e-9)
    told = max(1 - math.log2(1 + math.exp(-(distance**2) / 4)), 1e-3)
    return missing + LEAST_BOOTS + 1, missing / told + 2 * LEAST_BOOTS


def text(entries: Sequence[Entry]) -> str:
    """The same for people."""
    asked, seen = _state(entries)[0], look(entries)
    lines = picture.posterior(seen.belief, lambda one: one[:12]) if seen.belief else []
    if not isinstance(seen.move, Visit):
        ended = headline(Result(entries, seen.move, Path()))
        return "\n".join([*lines, wrap(f"The search has ended. {ended}")])
    if seen.belief is None:
        lines.append("The two ends are being compared; nothing is searched yet.")
    lines.append(
        wrap(f"Next: a run of {label(asked, seen.move.revision)}. Why: {plainly(seen.move.why)}.")
    )
    builds = f"{words.count(math.ceil(seen.builds), 'set-up')}, " if asked.setup else ""
    lines.append(
        wrap(
            f"Left, about: {builds}{words.count(math.ceil(seen.runs), 'run')}, "
            f"{words.duration(seen.seconds)}."
        )
    )
    return "\n".join(lines)


def data(entries: Sequence[Entry]) -> dict[str, Any]:
    """The same as JSON has it."""
    seen = look(entries)
    visit = seen.move if isinstance(seen.move, Visit) else None
    return {
        "ended": type(seen.move).__name__.lower() if visit is None else None,
        "next": visit and {"revision": visit.revision, "why": plainly(visit.why)},
        "posterior": belief_data(seen.belief) if seen.belief else None,
        "left": {"builds": seen.builds, "boots": seen.runs, "hours": seen.seconds / _HOUR},
        "runs": sum(isinstance(entry, Sample) for entry in entries),
    }
