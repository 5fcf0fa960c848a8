"""The results of all runs: kinds of steps, hits and violations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.audit import Answer
from benchmarks.chaos.script import FAULTS, general

_CHANCES = 2
"""Runs with violations after which a common hit is excluded."""


@dataclass
class Run:
    """A run of a story."""

    story: str
    group: list[str]
    """Its faults."""
    hits: list[tuple[str, str]]
    """Steps and faults."""
    seconds: float
    restarts: int
    wrong: list[str]
    """Violations; with any, no hit counts as survived."""
    new: int = 0
    """New kinds of steps and faults among its hits."""


@dataclass
class Tally:
    """All results, printed and read again as JSON."""

    answers: dict[str, Answer] = field(default_factory=dict)
    """Results without faults by story."""
    seen: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Possible faults by story and kind of step."""
    runs: list[Run] = field(default_factory=list)

    def see(self, story: str, steps: dict[str, set[str]]) -> None:
        """Adds the steps of a run."""
        known = self.seen.setdefault(story, {})
        for step, faults in steps.items():
            kind = general(step)
            known[kind] = sorted({*known.get(kind, ()), *faults})

    def possible(self) -> set[tuple[str, str]]:
        """Kinds of steps and their possible faults."""
        kinds = [item for steps in self.seen.values() for item in steps.items()]
        return {(kind, fault) for kind, faults in kinds for fault in faults}

    def hit(self) -> set[tuple[str, str]]:
        """All hits."""
        return _kinds(self.runs)

    def survived(self) -> set[tuple[str, str]]:
        """Hits of runs without violations."""
        return _kinds(run for run in self.runs if not run.wrong)

    def spared(self) -> set[tuple[str, str]]:
        """Excluded hits."""
        failed = Counter(one for run in self.runs if run.wrong for one in _kinds([run]))
        return self.survived() | {one for one, times in failed.items() if times >= _CHANCES}

    def add(self, run: Run) -> None:
        """Adds a run."""
        run.new = len(_kinds([run]) - self.spared())
        self.runs.append(run)

    def left_in(self, story: str, group: Iterable[str]) -> int:
        """Number of remaining hits of a group in a story."""
        wanted = {
            (kind, fault)
            for kind, faults in self.seen.get(story, {}).items()
            for fault in {*faults} & {*group}
        }
        return len(wanted - self.spared())


def _kinds(runs: Iterable[Run]) -> set[tuple[str, str]]:
    return {(general(step), fault) for run in runs for step, fault in run.hits}


def read(path: Path) -> Tally:
    """Reads the output of an earlier call."""
    told: dict[str, Any] = json.loads(path.read_text())
    answers = {
        story: Answer(**{name: _tuples(value) for name, value in answer.items()})
        for story, answer in told["answers"].items()
    }
    runs = [Run(**run) for run in told["runs"]]
    for run in runs:
        run.hits = [(step, fault) for step, fault in run.hits]
    return Tally(answers, told["seen"], runs)


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def as_text(tally: Tally) -> str:
    """The results as a table."""
    kinds = {kind for steps in tally.seen.values() for kind in steps}
    possible, hit, survived = tally.possible(), tally.hit(), tally.survived()
    heads = ("possible", "hit", "survived", "left", "hits", "runs")
    lines = [
        f"{len(kinds)} kinds of steps",
        " ".join([f"{'':10}", *(f"{one:>9}" for one in heads)]),
    ]
    for name in FAULTS:
        own = [{one for one in which if one[1] == name} for which in (possible, hit, survived)]
        runs = [run for run in tally.runs if any(fault == name for _, fault in run.hits)]
        hits = sum(fault == name for run in runs for _, fault in run.hits)
        numbers = (*map(len, own), len(own[0] - own[2]), hits, len(runs))
        lines.append(" ".join([f"{name:10}", *(f"{number:9,}" for number in numbers)]))
    for run in tally.runs:
        lines += [f"{run.story}, {', '.join(run.group)}: {one}" for one in run.wrong]
    return "\n".join(lines)
