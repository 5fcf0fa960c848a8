"""Reimplementation of the rule of psect-core 0.1.0, a Rust library.

Bayes' rule over pass and fail with known failure rates of both sides, here the true ones; the next
revision is that of least expected entropy.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from benchmarks.engine import Engine, Task, Verdict

SURE = 0.99
"""The default of psect is 0.95."""
_LEAST_RATE = 0.001


class Psect(Engine):
    """Probabilities of the candidates 1 to n, with a uniform prior; index 0 is the good end.

    Skipped revisions are excluded; psect itself has no skips.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._chances = np.full(task.commits + 1, 1 / task.commits)
        self._chances[0] = 0
        rates = np.clip([task.false_failures, task.true_failures], _LEAST_RATE, 1 - _LEAST_RATE)
        self._rates = np.array([1 - rates, rates])
        """By outcome (pass, fail) and side (good, bad)."""

    def next(self) -> int | Verdict:
        """Returns the position of least expected entropy."""
        best = int(self._chances.argmax())
        if self._chances[best] >= SURE:
            return Verdict((best,), posterior=float(self._chances[best]))
        expected = self._expected_entropy()
        expected[list(self.broken)] = np.inf
        return int(expected.argmin())

    def _expected_entropy(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """In nats by position: sum over outcomes of S ln S - sum w ln w with joint weights w."""
        slow = np.cumsum(self._chances)
        fast = 1 - slow
        plain = np.cumsum(-special.entr(self._chances))
        total = np.zeros(len(slow))
        for good, bad in self._rates:
            both = bad * slow + good * fast
            inner = bad * plain + good * (plain[-1] - plain)
            inner += special.xlogy(bad, bad) * slow + special.xlogy(good, good) * fast
            total += -special.entr(both) - inner
        return total

    def observe(self, position: int, pps: float) -> None:
        """Applies Bayes' rule."""
        good, bad = self._rates[int(pps < self.task.threshold)]
        self._chances[: position + 1] *= bad
        self._chances[position + 1 :] *= good
        self._chances /= self._chances.sum()
