"""git bisect with a script that compares the mean of some runs with the right threshold."""

from __future__ import annotations

from benchmarks.engine import Engine, Task, Verdict


class GitBisect(Engine):
    """Bisects the range; skipped revisions are replaced by the nearest other one.

    It measures neither end, and names a commit unless only skipped revisions remain.
    """

    def __init__(self, task: Task, runs: int) -> None:
        super().__init__(task)
        self._runs = runs
        self._good, self._bad = 0, task.commits
        self._values: list[float] = []

    def next(self) -> int | Verdict:
        """Returns the middle of the remaining range."""
        middle = self.nearest((self._good + self._bad) // 2, self._good + 1, self._bad - 1)
        if middle is not None:
            return middle
        if self._bad - self._good > 1:
            return Verdict()  # only skipped revisions remain
        return Verdict((self._bad,))

    def observe(self, position: int, pps: float) -> None:
        """Marks a revision as good or bad after the last of its runs."""
        self._values.append(pps)
        if len(self._values) < self._runs:
            return
        if sum(self._values) / self._runs < self.task.threshold:
            self._bad = position
        else:
            self._good = position
        self._values = []
