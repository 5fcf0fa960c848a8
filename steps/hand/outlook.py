"""Where a search is: what it holds to be true, what it does next and why, what is left to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
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
from netbisect.reports import words
from netbisect.reports.plaintext import wrap
from netbisect.steps.hand import search
from netbisect.steps.hand.machine import belief_data
from netbisect.steps.hand.report import overlay_sentences
from netbisect.steps.hand.search import Entry, Search
from netbisect.steps.hand.verdict import Result, drawn, headline, label, plainly

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """A search at one moment.

    The engine's own outlook counts a build for every kernel that is new, and knows none of a
    comparison. A search by hand has one worktree, so that what is measured in turns is set up
    again and again, at every second visit; and before it searches it compares the ends.
    """

    move: Move
    belief: Belief | None
    """None as long as only the ends are compared."""
    setups: float
    runs: float
    seconds: float
    """Expected, to the end; of all devices together."""


def _state(entries: Sequence[Entry]) -> tuple[Search, Comparison | Bisection, Evidence, Prices]:
    asked = entries[0]
    assert isinstance(asked, Search)
    question = search.last_question(entries)
    if isinstance(entries[-1], Finding):  # killed between an answer and the next question
        question = search.next_question(asked, entries[-1], entries) or question
    question = question or search.first_question(asked)
    assert isinstance(question, Comparison | Bisection)
    return asked, question, search.evidence(asked, entries), search.prices(asked, entries)


def belief(entries: Sequence[Entry]) -> Belief | None:
    """What is held to be true; None as long as only the ends are compared."""
    _, question, evidence, _ = _state(entries)
    return believe(question, evidence) if isinstance(question, Bisection) else None


def look(entries: Sequence[Entry]) -> Outlook:
    """Looks at a search from its log alone."""
    asked, question, evidence, prices = _state(entries)
    if isinstance(question, Bisection):
        return _searching(question, evidence, prices)
    move = plan.next_move(question, evidence, prices)
    if not isinstance(move, Visit):
        return Outlook(move, None, 0.0, 0.0, 0.0)
    follows = search.which(asked, _expected(question, evidence), entries)
    known = replace(evidence, readings=tuple(replace(r, fresh=False) for r in evidence.readings))
    after = _searching(follows, known, prices)
    runs = _left_of_comparison(question, evidence)
    setups = math.ceil(runs / 2)
    return Outlook(
        move,
        None,
        setups + after.setups,
        runs + after.runs,
        setups * prices.build + runs * prices.run + after.seconds,
    )


def _expected(question: Comparison, evidence: Evidence) -> float:
    """The ln ratio to search for, if it comes to that: what the ends show, or what is worth it."""
    good, bad = (
        [reading.ln_pps[search.METRIC] for reading in evidence.of(revision)]
        for revision in (question.good, question.bad)
    )
    if not good or not bad:
        return question.suspected
    return min(question.suspected, fmean(bad) - fmean(good))


def _searching(question: Bisection, evidence: Evidence, prices: Prices) -> Outlook:
    seen = plan.outlook(question, evidence, prices)
    if not isinstance(seen.move, Visit):
        return Outlook(seen.move, seen.belief, 0.0, 0.0, 0.0)
    again = max(0.0, seen.boots_left - seen.builds_left) / 2
    return Outlook(
        seen.move,
        seen.belief,
        seen.builds_left + again,
        max(1.0, seen.boots_left) * seen.move.runs,
        seen.hours_left * _HOUR + again * prices.build,
    )


def _left_of_comparison(question: Comparison, evidence: Evidence) -> float:
    """Runs to the next look at the two ends."""
    done = [len(evidence.of(revision)) for revision in (question.good, question.bad)]
    look = next((number for number in LOOKS if number > min(done)), LOOKS[-1])
    return float(sum(max(look - number, 0) for number in done))


def text(entries: Sequence[Entry]) -> str:
    """The same for people."""
    asked, seen = _state(entries)[0], look(entries)
    lines = drawn(seen.belief) if seen.belief else []
    lines += map(wrap, overlay_sentences(entries))
    if not isinstance(seen.move, Visit):
        ended = headline(Result(entries, seen.move, Path()))
        return "\n".join([*lines, wrap(f"The search has ended. {ended}")])
    if seen.belief is None:
        lines.append("The two ends are being compared; nothing is searched yet.")
    runs = "a run" if seen.move.runs == 1 else words.count(seen.move.runs, "run")
    busy = search.under_way(entries) if asked.duts > 1 else {}
    for name, order in busy.items():
        there, why = label(asked, order.visit.revision), plainly(order.visit.why)
        lines.append(wrap(f"DUT {name}: {there}. Why: {why}."))
    if len(busy) < asked.duts:
        what, why = label(asked, seen.move.revision), plainly(seen.move.why)
        lines.append(wrap(f"Next: {runs} of {what}. Why: {why}."))
    setups = f"{words.count(math.ceil(seen.setups), 'set-up')}, " if asked.setup else ""
    differ = ", if the ends differ" if seen.belief is None else ""
    lines.append(
        wrap(
            f"Left, about: {setups}{words.count(math.ceil(seen.runs), 'run')}, "
            f"{words.duration(seen.seconds)}{differ}."
        )
    )
    return "\n".join(lines)


def data(entries: Sequence[Entry]) -> dict[str, Any]:
    """The same as JSON has it."""
    seen = look(entries)
    visit = seen.move if isinstance(seen.move, Visit) else None
    return {
        "ended": type(seen.move).__name__.lower() if visit is None else None,
        "next": visit
        and {
            "revision": visit.revision,
            "why": plainly(visit.why),
            "runs": visit.runs,
            **({"layout": visit.layout} if visit.layout else {}),
        },
        "under_way": [
            {"dut": name, "revision": order.visit.revision, "why": plainly(order.visit.why)}
            for name, order in search.under_way(entries).items()
            if name
        ],
        "posterior": belief_data(seen.belief) if seen.belief else None,
        "left": {"setups": seen.setups, "runs": seen.runs, "hours": seen.seconds / _HOUR},
        "runs": sum(isinstance(entry, Sample) for entry in entries),
    }
