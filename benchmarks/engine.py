"""What an engine is to the benchmark: it asks for runs, is told their values, and ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.lab import Lab

MOST_RUNS = 1000
"""After which a search that has not ended is ended without a name."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a search ended. Positions count from 0, the good end."""

    culprits: tuple[int, ...] = ()
    """Named; nobody if empty."""
    none: bool = False
    """It says that nothing changed."""
    suspects: tuple[int, ...] = ()
    """A range that is said to hold the culprit, where nobody is named."""
    posterior: float | None = None
    """Of the verdict, by the engine's own account; None when it gives no such number."""


@dataclass(frozen=True, slots=True)
class Task:
    """What an engine is told: more than it would know, where it needs that to work at all."""

    commits: int
    weights: tuple[float, ...]
    """Prior weight of each commit, from position 1 on."""
    threshold: float
    """Midway between the true means of the two ends, pps; a run below it is a failure."""
    drop: float
    """True distance of these means, pps, whether there is one or it is only suspected."""
    false_failures: float
    """True chance of a run of the good end to fall below the threshold."""
    true_failures: float
    """The same of the bad end, if the suspected drop is real."""
    known: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Values known before, pps: of the good end, of the bad end."""


class Engine(Protocol):
    """A search that asks for one run at a time."""

    def next(self) -> int | Verdict:
        """Tells the position to run next, or how the search ends."""
        ...

    def observe(self, position: int, pps: float) -> None:
        """Takes the value of a run."""
        ...

    def skip(self, position: int) -> None:
        """Learns that this position does not build; it must not be asked for again."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """A played search."""

    verdict: Verdict
    builds: int
    boots: int
    runs: int
    hours: float


def play(engine: Engine, lab: Lab) -> Outcome:
    """Plays an engine to its end: builds what is new, boots what is not deployed, runs once."""
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
    return outcome(move, lab)


def outcome(verdict: Verdict, lab: Lab) -> Outcome:
    """Closes the account of a lab."""
    return Outcome(verdict, lab.builds, lab.boots, lab.runs, lab.seconds / 3600)


@dataclass(slots=True)
class Skips:
    """For engines that know no skips: sends them to the nearest position that may build."""

    broken: set[int] = field(default_factory=set)

    def nearest(self, position: int, low: int, high: int) -> int | None:
        """Finds the position next to `position`, from `low` to `high`; None if there is none."""
        left = (i for i in range(low, high + 1) if i not in self.broken)
        return min(left, key=lambda i: (abs(i - position), i), default=None)
