"""The rule of robust-binary-search 0.1.1, written anew: it is a library for Rust.

Karp and Kleinberg's multiplicative weights, made deterministic: a vote multiplies the weights of
the side it speaks for by 1 + stiffness, where the stiffness follows from the flakiness, and that
from the share of votes that contradict each other. The next revision is at the median weight.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.engine import Skips, Task, Verdict

SURE = 0.99


class Robust:
    """Weights of the candidates 1 to n; the two ends are taken for granted."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._weights = np.full(task.commits, 1 / task.commits)
        self._votes = np.zeros((task.commits + 1, 2))
        self._skips = Skips()

    def next(self) -> int | Verdict:
        """Asks for the revision that parts the weights most evenly."""
        best = int(self._weights.argmax())
        if self._weights[best] > SURE:
            return Verdict((best + 1,), posterior=float(self._weights[best]))
        below = np.cumsum(self._weights)
        middle = 1 + int(np.abs(below[:-1] - 1 / 2).argmin())
        position = self._skips.nearest(middle, 1, self._task.commits - 1)
        return Verdict() if position is None else position

    def observe(self, position: int, pps: float) -> None:
        """Takes a vote: a failure speaks for the candidates up to here, a pass for the others."""
        failed = pps < self._task.threshold
        self._votes[position, int(failed)] += 1
        stiffness = _stiffness(self._flakiness())
        side = slice(None, position) if failed else slice(position, None)
        self._weights[side] *= 1 + stiffness
        self._weights /= self._weights.sum()

    def skip(self, position: int) -> None:
        """It knows no skips; it is sent to the nearest revision that may build."""
        self._skips.broken.add(position)

    def _flakiness(self) -> float:
        passes, failures = self._votes[:, 0], self._votes[:, 1]
        votes = passes + failures
        inverted = float((passes * np.cumsum(failures)).sum())
        at_random = float((votes * np.cumsum(votes)).sum())
        rest = 1 - (inverted + 1) / (at_random / 4 + 4 / 3)
        return 1.0 - math.sqrt(max(rest, 0.0))


def _stiffness(flakiness: float) -> float:
    """As tuned by its author in simulations."""
    tuned = ((2.6, 0.37), (0.58, 0.97), (0.19, 2.4))
    return min(factor / math.pow(flakiness, power) for factor, power in tuned)
