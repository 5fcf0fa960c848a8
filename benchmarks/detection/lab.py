"""A simulated lab of many series; all engines get the same random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks import corpus

Floats = NDArray[np.float64]

BOOTS = 5
"""Boots per night and series."""
LEARNING = 30
"""Initial nights without drops, in which alerts do not count."""
WITHIN = 14
"""Nights within which a drop must be found."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Noise of one series; standard deviations of ln pps."""

    boot: float = 0.01
    """Boots within a mode, Student's t with 5 degrees of freedom."""
    image: float = 0.008
    night: float = 0.006
    """Common to all boots of a night."""
    slow_share: float = 0.0
    slow_gap: float = 0.0
    stray: float = 0.02
    """Share of boots that are outliers, 3 to 15 % low."""


UNIMODAL = Scatter()
BIMODAL = Scatter(slow_share=0.3, slow_gap=-math.log(0.88))


@dataclass(frozen=True, slots=True)
class Change:
    """A drop in a series."""

    night: int
    """First slower night."""
    ln_ratio: float


def plan_changes(
    random: np.random.Generator, nights: int, count: int, drops: Sequence[float]
) -> dict[int, Change]:
    """Drops (ratios) of the first `count` series, in random nights."""
    found = {}
    for i in range(count):
        night = int(random.integers(LEARNING, nights - WITHIN))
        found[i] = Change(night, math.log1p(-drops[i % len(drops)]))
    return found


class Lab:
    """A lab whose random numbers depend on the seed, and not on the order of calls."""

    def __init__(self, kind: str, seed: int, series: int, nights: int, changed: int) -> None:
        random = np.random.default_rng([seed, 1])
        self.nights = nights
        self.scatters = [self._scatter(kind, random) for _ in range(series)]
        self.changes = plan_changes(random, nights, changed, (0.02, 0.03, 0.05, 0.10))
        self.image = np.array([random.normal(0, s.image, nights) for s in self.scatters])
        self.night = np.array([random.normal(0, s.night, nights) for s in self.scatters])
        self._seed = seed

    @staticmethod
    def _scatter(kind: str, random: np.random.Generator) -> Scatter:
        if kind == "unimodal":
            return UNIMODAL
        if kind == "bimodal":
            return BIMODAL
        router = corpus.draw(random)
        return Scatter(
            boot=router.boot.sd,
            image=router.image_sd,
            night=0.0,
            slow_share=router.boot.low_share,
            slow_gap=-math.log1p(-router.boot.low_gap),
            stray=router.boot.outlier_share,
        )

    def level(self, series: int, revision: int) -> float:
        """True ln pps of the kernel of a night, with the offset of its image."""
        change = self.changes.get(series)
        step = change.ln_ratio if change and revision >= change.night else 0.0
        return 14.0 + step + float(self.image[series, revision])

    def boots(self, series: int, revision: int, night: int, turn: int, count: int) -> Floats:
        """Boots the kernel of night `revision` in `night`, `count` times; ln pps of each."""
        scatter = self.scatters[series]
        random = np.random.default_rng([self._seed, 2, series, revision, night, turn])
        level = self.level(series, revision) + self.night[series, night]
        noise = random.standard_t(5, count) * scatter.boot / math.sqrt(5 / 3)
        slow = random.random(count) < scatter.slow_share
        stray = random.random(count) < scatter.stray
        depth = -np.log1p(-random.uniform(0.03, 0.15, count))
        values: Floats = level + noise - slow * scatter.slow_gap - stray * depth
        return values
