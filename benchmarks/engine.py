"""A search engine: it requests runs, receives their values, and ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from benchmarks.lab import Lab

MOST_RUNS = 1000
"""Maximum runs of a search."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of a search. Positions count from 0, the good end."""

    culprits: tuple[int, ...] = ()
    """Named culprits."""
    none: bool = False
    """Whether the verdict is no change."""
    suspects: tuple[int, ...] = ()
    """Range of suspects, without a culprit."""
    posterior: float | None = None
    """Probability claimed by the engine, or None."""


@dataclass(frozen=True, slots=True)
class Task:
    """Parameters of an engine; some engines need true values."""

    commits: int
    weights: tuple[float, ...]
    """Prior weights of commits, from position 1."""
    threshold: float
    """Mean of both ends in pps; a run below it fails."""
    drop: float
    """True or suspected difference of these means, pps."""
    false_failures: float
    """True probability of a run of the good end below the threshold."""
    true_failures: float
    """The same for the bad end, if the suspected drop is real."""
    known: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Known values in pps: good end, bad end."""


class Engine(ABC):
    """A search that requests one run at a time."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.broken: set[int] = set()

    @abstractmethod
    def next(self) -> int | Verdict:
        """The position to run next, or the verdict."""

    @abstractmethod
    def observe(self, position: int, pps: float) -> None:
        """Receives the value of a run."""

    def skip(self, position: int) -> None:
        """Marks a position as not building."""
        self.broken.add(position)

    def nearest(self, position: int, low: int, high: int) -> int | None:
        """Nearest position between `low` and `high` that may build, or None."""
        candidates = (i for i in range(low, high + 1) if i not in self.broken)
        return min(candidates, key=lambda i: (abs(i - position), i), default=None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished search."""

    verdict: Verdict
    builds: int
    boots: int
    runs: int
    hours: float


def play(engine: Engine, lab: Lab) -> Outcome:
    """Runs an engine to its verdict: builds, boots and runs as needed."""
    while not isinstance(move := engine.next(), Verdict):
        if lab.runs >= MOST_RUNS:
            move = Verdict()
            break
        if lab.deployed != move:
            if not lab.build(move):
                engine.skip(move)
                continue
            lab.boot(move)
        engine.observe(move, lab.run())
    return Outcome(move, lab.builds, lab.boots, lab.runs, lab.seconds / 3600)
