"""Reimplementation of Pinpoint's comparison of neighbours, from Chromium's public sources.

Two revisions differ if the smaller p of Kolmogorov-Smirnov and Mann-Whitney is at most 1 %. They
are equal if it exceeds a threshold that follows from the expected difference. Otherwise they are
run again, the one with fewer runs first, 10, 20, 40, 80 and 160 times. The comparison starts with
the ends, and adds a revision between neighbours that differ.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np
from scipy import special, stats

from benchmarks.engine import Engine, Task, Verdict

LOW = 0.01
FIRST, MOST = 10, 160
_QUANTILE = 2.576
"""Standard deviations that fit the published table of thresholds best."""


class Pinpoint(Engine):
    """Positions under comparison, oldest first, and their values."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._compared = [0, task.commits]
        self._values: dict[int, list[float]] = defaultdict(list)
        for position, values in zip(self._compared, task.known, strict=True):
            self._values[position].extend(values)
        self._wanted: dict[int, int] = defaultdict(lambda: FIRST)
        self._judged: dict[tuple[int, int, int, int], bool | None] = {}

    def next(self) -> int | Verdict:
        """Completes the runs that are due, then compares neighbours."""
        while True:
            due = [i for i in self._compared if len(self._values[i]) < self._wanted[i]]
            if due:
                return due[0]
            if not (self._repeat() or self._refine()):
                break
        named = tuple(bad for good, bad in pairwise(self._compared) if self._differ(good, bad))
        if any(bad - good > 1 for good, bad in pairwise(self._compared) if bad in named):
            return Verdict()  # the revisions between them do not build
        return Verdict(named, none=not named)

    def observe(self, position: int, pps: float) -> None:
        """Stores the value."""
        self._values[position].append(pps)

    def skip(self, position: int) -> None:
        """Removes the revision; a neighbour replaces it."""
        super().skip(position)
        self._compared.remove(position)

    def _repeat(self) -> bool:
        """Doubles the runs of one side of each unclear pair; returns whether there is one."""
        unclear = [pair for pair in pairwise(self._compared) if self._differ(*pair) is None]
        for pair in unclear:
            fewer = min(pair, key=lambda i: self._wanted[i])
            self._wanted[fewer] = min(2 * self._wanted[fewer], MOST)
        return bool(unclear)

    def _refine(self) -> bool:
        """Adds a revision between neighbours that differ; returns whether one was added."""
        added = []
        for good, bad in pairwise(self._compared):
            if self._differ(good, bad):
                middle = self.nearest((good + bad) // 2, good + 1, bad - 1)
                added += [] if middle is None else [middle]
        self._compared = sorted([*self._compared, *added])
        return bool(added)

    def _differ(self, good: int, bad: int) -> bool | None:
        """Whether two revisions differ; None if more runs are needed and allowed."""
        one, other = self._values[good], self._values[bad]
        key = (good, bad, len(one), len(other))
        if key not in self._judged:
            self._judged[key] = self._compare(np.array(one), np.array(other))
        return self._judged[key]

    def _compare(
        self,
        one: np.ndarray[tuple[int], np.dtype[np.float64]],
        other: np.ndarray[tuple[int], np.dtype[np.float64]],
    ) -> bool | None:
        smirnov = float(stats.ks_2samp(one, other).pvalue)
        mann = float(stats.mannwhitneyu(one, other, method="asymptotic").pvalue)
        p = min(smirnov, mann)
        if p <= LOW:
            return True
        spread = max(float(stats.iqr(one)), float(stats.iqr(other)))
        boots = min(len(one), len(other)) >= MOST
        high = _high(self.task.drop / spread, (len(one) + len(other)) // 2)
        return None if p <= high and not boots else False


def _high(magnitude: float, runs: int) -> float:
    """The p of Mann-Whitney that a true difference exceeds once in a hundred times.

    Mean and variance: J. A. Hanley and B. J. McNeil (Radiology 143, 1982).

    Args:
        magnitude: Difference in interquartile ranges of a normal distribution.
        runs: Runs per side.
    """
    area = float(special.ndtr(1.349 * magnitude / math.sqrt(2)))
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    pairs = (runs - 1) * (first + second - 2 * area**2)
    sd = math.sqrt(max(area * (1 - area) + pairs, 0.0)) / runs
    null = math.sqrt((2 * runs + 1) / 12) / runs
    z = max((area - 1 / 2 - _QUANTILE * sd) / null, 0.0)
    return float(2 * special.ndtr(-z))
