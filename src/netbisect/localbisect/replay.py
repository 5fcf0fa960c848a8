"""`netbisect bisect replay`: repeats the decisions of a log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from netbisect.bisect import plan
from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Failure, Kernel, Sample
from netbisect.bisect.model.in_flight import Wait
from netbisect.bisect.model.jobs import BisectJob, CompareJob, Job
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


def replay(entries: list[Entry]) -> Iterator[ReplayedEntry]:
    """Repeats all decisions of a log, each from the lines above it.

    Facts without a decision are differences, too.
    """
    spec = search.spec_of(entries)
    orders: dict[str, tuple[str, int]] = {}
    """By device: revision of the last trial, and its missing runs."""
    for place, entry in enumerate(entries):
        before = entries[:place]
        ordered, runs = orders.get(_dut(entry), ("", 0))
        match entry:
            case CompareJob() | BisectJob():
                yield _replay_job(spec, before, entry, place + 1)
            case _ if isinstance(entry, Move):
                yield _decision(spec, before, entry, place + 1)
                if isinstance(entry, Trial):
                    orders[entry.testbed] = entry.revision, entry.runs
                else:
                    orders.clear()
            case Kernel() | Boot() | Failure() if entry.revision != ordered:
                there = f"a fact of {label(spec, entry.revision)}"
                wanted = f"a fact of {label(spec, ordered)}" if ordered else "no fact"
                yield ReplayedEntry(place + 1, there, wanted, same=False)
            case Sample() if runs == 0:
                yield ReplayedEntry(place + 1, "an additional run", "no run", same=False)
            case Sample():
                orders[entry.testbed] = ordered, runs - 1
            case _:
                pass


def _dut(entry: Entry) -> str:
    """The device of an entry."""
    match entry:
        case Kernel():
            return entry.arch
        case Trial() | Boot() | Sample() | Failure():
            return entry.testbed
        case _:
            return ""


def _replay_job(
    spec: SearchSpec, before: list[Entry], logged: CompareJob | BisectJob, line: int
) -> ReplayedEntry:
    last = before[-1]
    now: CompareJob | BisectJob | None = search.comparison_of_ends(spec)
    if isinstance(last, Result):
        now = search.next_job(spec, last, before)
    return ReplayedEntry(
        line,
        _describe_job(logged),
        _describe_job(now),
        same=_same(_content(logged), _content(now)),
    )


def _describe_job(job: CompareJob | BisectJob | None) -> str:
    match job:
        case CompareJob():
            return f"compare {job.bad[:12]} with {job.good[:12]}"
        case BisectJob():
            effect, noise = (
                100 * math.expm1(job.effect),
                100 * math.sqrt(job.noise.variance_of_boot()),
            )
            return (
                f"search {len(job.candidates)} commits, effect {effect:+.3g} %, noise {noise:.3g} %"
            )
        case None:
            return "no job"


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


def _content(noun: Job | Move | None) -> dict[str, Any]:
    """The compared content, without reasons and posteriors."""
    if noun is None:
        return {}
    content: dict[str, Any] = json.loads(serialization.dumps(noun))
    content.pop("why", None)
    if isinstance(noun, Trial):
        content.pop("belief", None)
    return content


def _decision(spec: SearchSpec, before: list[Entry], logged: Move, line: int) -> ReplayedEntry:
    job = next(
        (entry for entry in reversed(before) if isinstance(entry, CompareJob | BisectJob)), None
    )
    if job is None:
        return ReplayedEntry(line, _describe_move(spec, logged), "nothing: no job", same=False)
    now = _next_move(spec, job, before, logged)
    if isinstance(now, Wait):
        return ReplayedEntry(
            line, _describe_move(spec, logged), "nothing: waiting for other devices", same=False
        )
    return ReplayedEntry(
        line,
        _describe_move(spec, logged),
        _describe_move(spec, now),
        same=_same(_content(logged), _content(now)),
    )


def _next_move(
    spec: SearchSpec, job: CompareJob | BisectJob, before: list[Entry], logged: Move
) -> Move | Wait:
    """The decision for the device of a trial, or for an idle device."""
    prices = search.prices(spec, before)
    if spec.duts == 1:
        return plan.next_move(job, search.evidence(spec, before), prices)
    busy = search.pending_trials(before)
    idle = next((name for name in spec.names if name not in busy), spec.names[0])
    dut = logged.testbed if isinstance(logged, Trial) else idle
    evidence, seen = search.evidence(spec, before, dut), search.in_flight(before, dut)
    return plan.next_move_on(job, evidence, prices, seen)


def _describe_move(spec: SearchSpec, move: Move) -> str:
    name = serialization.tag_of(move)
    match move:
        case Trial():
            runs = f", {move.runs} runs" if move.runs > 1 else ""
            there = f" on DUT {move.testbed}" if move.testbed else ""
            layout = f" in layout {move.layout}" if move.layout else ""
            what = f"{label(spec, move.revision)}{layout}{there}{runs}"
            return f"trial {what}: {in_user_terms(move.why)}"
        case Culprit():
            return f"{name} {label(spec, move.revision)}, {move.effects[0].percent:+.6g} %"
        case Confirmed():
            return f"{name}, {move.effects[0].percent:+.6g} %"
        case SeveralCulprits():
            return "; ".join(_describe_move(spec, one) for one in move.culprits)
        case Suspects():
            return f"{name} {', '.join(one[:12] for one in move.revisions)}"
        case _:
            return name


def as_data(made: list[ReplayedEntry]) -> dict[str, Any]:
    """A replay as JSON."""
    first = next((one.line for one in made if not one.same), None)
    return {
        "same": first is None,
        "first_difference": first,
        "lines": [asdict(one) for one in made],
    }
