"""`netbisect bisect replay`: repeats the decisions of a log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Failure, Kernel, Sample
from netbisect.bisect.model.in_flight import Wait
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Move,
    Result,
    SeveralCulprits,
    Suspects,
    Trial,
)
from netbisect.localbisect import search
from netbisect.localbisect.result import in_user_terms, label
from netbisect.localbisect.search import Entry, SearchSpec

_EXACT = 1e-6
"""Relative tolerance; floating-point sums differ between machines."""


@dataclass(frozen=True, slots=True)
class ReplayedEntry:
    """A job or decision of the log, and its repetition."""

    line: int
    logged: str
    now: str
    same: bool


def replay(entries: Sequence[Entry]) -> Iterator[ReplayedEntry]:
    """Repeats all decisions of a log, each from the lines above it.

    Facts without a decision are differences, too.
    """
    spec = search.spec_of(entries)
    for place, entry in enumerate(entries):
        line, before = place + 1, entries[:place]
        dut = entry.arch if isinstance(entry, Kernel) else getattr(entry, "testbed", "")
        trial, _ = search.pending_trials(before).get(dut, (None, 0))
        ordered = trial.revision if trial else ""
        match entry:
            case Kernel() | Boot() | Failure() if entry.revision != ordered:
                there = f"a fact of {label(spec, entry.revision)}"
                wanted = f"a fact of {label(spec, ordered)}" if ordered else "no fact"
                yield ReplayedEntry(line, there, wanted, same=False)
            case Sample() if trial is None:
                yield ReplayedEntry(line, "an additional run", "no run", same=False)
            case _:
                pass
        if isinstance(entry, CompareJob | BisectJob | Move):
            now = _repeated(spec, before, entry)
            same = _same(_content(entry), _content(now))
            yield ReplayedEntry(line, _describe(spec, entry), _describe(spec, now), same)


def _repeated(
    spec: SearchSpec, before: Sequence[Entry], logged: CompareJob | BisectJob | Move
) -> CompareJob | BisectJob | Move | Wait | None:
    """The job or the decision that follows the lines above."""
    job = search.last_job(before)
    if isinstance(logged, CompareJob | BisectJob):
        last = before[-1]
        following = search.next_job(spec, last, before) if isinstance(last, Result) else None
        return following if job else search.comparison_of_ends(spec)
    if job is None:
        return None
    busy = search.pending_trials(before)
    idle = next((name for name in spec.names if name not in busy), spec.names[0])
    dut = logged.testbed if isinstance(logged, Trial) else idle
    return search.next_move(spec, job, before, dut)


def _same(one: object, other: object) -> bool:
    """Equality with a tolerance for numbers."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case float(), float():
            return math.isclose(one, other, rel_tol=_EXACT, abs_tol=_EXACT)
        case _:
            return one == other


def _content(noun: object) -> dict[str, Any]:
    """The compared content, without reasons and posteriors of trials."""
    if noun is None or isinstance(noun, Wait):
        return {}
    content: dict[str, Any] = json.loads(serialization.dumps(noun))
    content.pop("why", None)
    if isinstance(noun, Trial):
        content.pop("posterior", None)
    return content


def _describe(spec: SearchSpec, noun: object) -> str:
    """A job or a decision in a line."""
    match noun:
        case CompareJob():
            text = f"compare {noun.bad[:12]} with {noun.good[:12]}"
        case BisectJob():
            effect = 100 * math.expm1(noun.effect)
            noise = 100 * math.sqrt(noun.noise.variance_of_boot())
            size = len(noun.candidates)
            text = f"search {size} commits, effect {effect:+.3g} %, noise {noise:.3g} %"
        case Trial():
            runs = f", {noun.runs} runs" if noun.runs > 1 else ""
            there = f" on DUT {noun.testbed}" if noun.testbed else ""
            layout = f" in layout {noun.layout}" if noun.layout else ""
            what = f"{label(spec, noun.revision)}{layout}{there}{runs}"
            text = f"trial {what}: {in_user_terms(noun.why)}"
        case Culprit():
            percent = f"{noun.effects[0].percent:+.6g} %"
            text = f"culprit {label(spec, noun.revision)}, {percent}"
        case Confirmed():
            text = f"confirmed, {noun.effects[0].percent:+.6g} %"
        case SeveralCulprits():
            text = "; ".join(_describe(spec, one) for one in noun.culprits)
        case Suspects():
            text = f"suspects {', '.join(one[:12] for one in noun.revisions)}"
        case None | Wait():
            text = "nothing: waiting for other devices" if noun else "nothing: no job"
        case _:
            text = serialization.tag_of(noun)
    return text


def as_data(made: Sequence[ReplayedEntry]) -> dict[str, Any]:
    """A replay as JSON."""
    first = next((one.line for one in made if not one.same), None)
    return {
        "same": first is None,
        "first_difference": first,
        "lines": [asdict(one) for one in made],
    }
