"""The package git_bayesect: Beta-Bernoulli posterior of pass and fail, least expected entropy."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np

from benchmarks.engine import Engine, Task, Verdict

SURE = 0.99
"""The default of git_bayesect is 0.95."""


def missing() -> str:
    """Reason why git_bayesect cannot run here; empty if it can."""
    if find_spec("git_bayesect") is None:
        return "git_bayesect is not installed: pip install 'netbisect[bench]'"
    return ""


class Bayesect(Engine):
    """Index 0 is the newest revision; the good end is also a candidate, as in git_bayesect."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        weights = [*reversed(task.weights), min(task.weights)]
        self._search = import_module("git_bayesect").Bisector(weights)
        for position, values in zip((0, task.commits), task.known, strict=True):
            for pps in values:
                self.observe(position, pps)

    def next(self) -> int | Verdict:
        """Returns the choice of git_bayesect until one candidate has probability `SURE`."""
        with np.errstate(divide="ignore", invalid="ignore"):  # git_bayesect takes logarithms of 0
            chances = self._search.distribution
            choice = int(self._search.select())
        best = int(chances.argmax())
        if chances[best] < SURE:
            wanted = self.task.commits - choice
            position = self.nearest(wanted, 0, self.task.commits)
            return Verdict() if position is None else position
        culprit = self.task.commits - best
        named = (culprit,) if culprit else ()
        return Verdict(named, none=not culprit, posterior=float(chances[best]))

    def observe(self, position: int, pps: float) -> None:
        """Records a pass or a failure."""
        self._search.record(self.task.commits - position, pps < self.task.threshold)

    def skip(self, position: int) -> None:
        """Records a skip; git_bayesect may still choose the revision again."""
        super().skip(position)
        self._search.record(self.task.commits - position, None)
