"""Goes through a log once more, and asks the engine again at every decision in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from netbisect.bisect import plan, wire
from netbisect.bisect.meanwhile import Wait
from netbisect.bisect.model import (
    Bisection,
    Boot,
    Comparison,
    Confirmed,
    Culprit,
    Dud,
    Finding,
    Kernel,
    Move,
    Question,
    Sample,
    Several,
    Suspects,
    Visit,
)
from netbisect.steps.hand import search
from netbisect.steps.hand.search import Entry, Search
from netbisect.steps.hand.verdict import label, plainly

_EXACT = 1e-6
"""Difference of numbers that are the same but for the last digits: machines add differently."""


@dataclass(frozen=True, slots=True)
class Again:
    """A line of the log that says what was decided or asked, and what is decided today."""

    line: int
    logged: str
    """For people."""
    now: str
    """For people; what the engine decides today, with its reason."""
    same: bool


def replay(entries: list[Entry]) -> Iterator[Again]:
    """Repeats all decisions of a log, oldest first.

    Each is made anew from the lines above it. Facts that no decision asked for are a difference
    too.
    """
    asked = entries[0]
    assert isinstance(asked, Search)
    orders: dict[str, tuple[str, int]] = {}
    """By device: the revision that was ordered last, and runs that are missing."""
    for place, entry in enumerate(entries):
        before = entries[:place]
        ordered, runs = orders.get(_dut(entry), ("", 0))
        match entry:
            case Comparison() | Bisection():
                yield _question(asked, before, entry, place + 1)
            case _ if isinstance(entry, Move):
                yield _decision(asked, before, entry, place + 1)
                if isinstance(entry, Visit):
                    orders[entry.testbed] = entry.revision, entry.runs
                else:
                    orders.clear()
            case Kernel() | Boot() | Dud() if entry.revision != ordered:
                there = f"a fact of {label(asked, entry.revision)}"
                wanted = f"a fact of {label(asked, ordered)}" if ordered else "no fact"
                yield Again(place + 1, there, wanted, same=False)
            case Sample() if runs == 0:
                yield Again(place + 1, "a run more than was ordered", "no run", same=False)
            case Sample():
                orders[entry.testbed] = ordered, runs - 1
            case _:
                pass


def _dut(entry: Entry) -> str:
    """The device that a line is about."""
    match entry:
        case Kernel():
            return entry.arch
        case Visit() | Boot() | Sample() | Dud():
            return entry.testbed
        case _:
            return ""


def _question(
    asked: Search, before: list[Entry], logged: Comparison | Bisection, line: int
) -> Again:
    last = before[-1]
    now: Comparison | Bisection | None = search.first_question(asked)
    if isinstance(last, Finding):
        now = search.next_question(asked, last, before)
    return Again(line, _asks(logged), _asks(now), same=_same(_content(logged), _content(now)))


def _asks(question: Comparison | Bisection | None) -> str:
    match question:
        case Comparison():
            return f"asks whether {question.bad[:12]} is worse than {question.good[:12]}"
        case Bisection():
            effect, noise = (
                100 * math.expm1(question.effect),
                100 * math.sqrt(question.noise.variance_of_boot()),
            )
            return (
                f"asks which of {len(question.candidates)} commits did it, effect {effect:+.3g} %, "
                f"noise {noise:.3g} %"
            )
        case None:
            return "asks nothing more"


def _same(one: object, other: object) -> bool:
    """Whether two nouns, or parts of them, say the same, but for the last digits of numbers."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case float(), float():
            return math.isclose(one, other, rel_tol=_EXACT, abs_tol=_EXACT)
        case _:
            return one == other


def _content(noun: Question | Move | None) -> dict[str, Any]:
    """What counts of it: not the words of a reason, nor the belief that goes with a visit."""
    if noun is None:
        return {}
    content: dict[str, Any] = json.loads(wire.dumps(noun))
    content.pop("why", None)
    if isinstance(noun, Visit):
        content.pop("belief", None)
    return content


def _decision(asked: Search, before: list[Entry], logged: Move, line: int) -> Again:
    question = next(
        (entry for entry in reversed(before) if isinstance(entry, Comparison | Bisection)), None
    )
    if question is None:
        return Again(line, _says(asked, logged), "nothing, for nothing was asked", same=False)
    now = _now(asked, question, before, logged)
    if isinstance(now, Wait):
        return Again(line, _says(asked, logged), "nothing, as long as others measure", same=False)
    return Again(
        line, _says(asked, logged), _says(asked, now), same=_same(_content(logged), _content(now))
    )


def _now(
    asked: Search, question: Comparison | Bisection, before: list[Entry], logged: Move
) -> Move | Wait:
    """What is decided today; an answer is found by a device that is idle."""
    prices = search.prices(asked, before)
    if asked.duts == 1:
        return plan.next_move(question, search.evidence(asked, before), prices)
    busy = search.under_way(before)
    idle = next((name for name in asked.names if name not in busy), asked.names[0])
    dut = logged.testbed if isinstance(logged, Visit) else idle
    evidence, seen = search.evidence(asked, before, dut), search.meanwhile(before, dut)
    return plan.next_together(question, evidence, prices, seen)


def _says(asked: Search, move: Move) -> str:
    name = type(move).__name__.lower()
    match move:
        case Visit():
            runs = f", {move.runs} runs" if move.runs > 1 else ""
            there = f" on DUT {move.testbed}" if move.testbed else ""
            layout = f" in layout {move.layout}" if move.layout else ""
            what = f"{label(asked, move.revision)}{layout}{there}{runs}"
            return f"visit {what}: {plainly(move.why)}"
        case Culprit():
            return f"{name} {label(asked, move.revision)}, {move.effects[0].percent:+.6g} %"
        case Confirmed():
            return f"{name}, {move.effects[0].percent:+.6g} %"
        case Several():
            return "; ".join(_says(asked, one) for one in move.culprits)
        case Suspects():
            return f"{name} {', '.join(one[:12] for one in move.revisions)}"
        case _:
            return name


def data(made: list[Again]) -> dict[str, Any]:
    """A replay as JSON has it."""
    first = next((one.line for one in made if not one.same), None)
    return {
        "same": first is None,
        "first_difference": first,
        "lines": [asdict(one) for one in made],
    }
