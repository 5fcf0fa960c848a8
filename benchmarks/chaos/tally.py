"""The results of all runs: kinds of steps, hits and violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.chaos.audit import Answer
from benchmarks.chaos.script import general

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
    """All results."""

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
