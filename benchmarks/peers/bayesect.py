"""git_bayesect's own code: Beta-Bernoulli posterior over pass and fail, least expected entropy."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np

from benchmarks.engine import Skips, Task, Verdict

SURE = 0.99
"""Its own default is 0.95."""


def missing() -> str:
    """Tells why it cannot be played; empty if it can."""
    if find_spec("git_bayesect") is None:
        return "git_bayesect is not installed: pip install 'netbisect[bench]'"
    return ""


class Bayesect:
    """Index 0 is the newest revision; the good end is a candidate too, as in its command line."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._skips = Skips()
        weights = [*reversed(task.weights), min(task.weights)]
        self._search = import_module("git_bayesect").Bisector(weights)
        for position, values in zip((0, task.commits), task.known, strict=True):
            for pps in values:
                self.observe(position, pps)

    def next(self) -> int | Verdict:
        """Asks for its choice until one candidate is sure."""
        with np.errstate(divide="ignore", invalid="ignore"):  # it takes logarithms of 0
            chances = self._search.distribution
            choice = int(self._search.select())
        best = int(chances.argmax())
        if chances[best] < SURE:
            wanted = self._task.commits - choice
            position = self._skips.nearest(wanted, 0, self._task.commits)
            return Verdict() if position is None else position
        culprit = self._task.commits - best
        named = (culprit,) if culprit else ()
        return Verdict(named, none=not culprit, posterior=float(chances[best]))

    def observe(self, position: int, pps: float) -> None:
        """Counts a pass or a failure."""
        self._search.record(self._task.commits - position, pps < self._task.threshold)

    def skip(self, position: int) -> None:
        """Tells it; it takes the revision off the candidates, but may ask for it again."""
        self._skips.broken.add(position)
        self._search.record(self._task.commits - position, None)
