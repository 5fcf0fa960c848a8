"""git bisect, with a script that takes the mean of some runs and knows the right threshold."""

from __future__ import annotations

from benchmarks.engine import Skips, Task, Verdict


class GitBisect:
    """Halves what is left; revisions that do not build are passed by, the nearest other one first.

    It measures neither end and always names a commit.
    """

    def __init__(self, task: Task, runs: int) -> None:
        self._task = task
        self._runs = runs
        self._good, self._bad = 0, task.commits
        self._skips = Skips()
        self._values: list[float] = []

    def next(self) -> int | Verdict:
        """Asks for the middle of what is left."""
        middle = self._skips.nearest((self._good + self._bad) // 2, self._good + 1, self._bad - 1)
        if middle is not None:
            return middle
        if self._bad - self._good > 1:
            return Verdict()  # only skipped ones are left
        return Verdict((self._bad,))

    def observe(self, position: int, pps: float) -> None:
        """Judges a revision when it has run often enough."""
        self._values.append(pps)
        if len(self._values) < self._runs:
            return
        if sum(self._values) / self._runs < self._task.threshold:
            self._bad = position
        else:
            self._good = position
        self._values = []

    def skip(self, position: int) -> None:
        """Passes by it."""
        self._skips.broken.add(position)
