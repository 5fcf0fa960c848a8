"""The simulated lab: the same truth, prices and random numbers for all engines.

The k-th boot and run of a revision are the same for all engines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.model.evidence import Prices

PRICES = Prices(build=600.0, boot=180.0, run=30.0)


@dataclass(frozen=True, slots=True)
class BootNoise:
    """Noise within and between boots of one image; ratios."""

    sd: float = 0.0
    low_share: float = 0.0
    """Share of boots in the slow mode."""
    low_gap: float = 0.0
    """Gap of the slow mode."""
    outlier_share: float = 0.0
    outlier_depth: float = 0.0
    """Mean depth of an outlier; exponential."""

    @property
    def whole_sd(self) -> float:
        """Standard deviation of boots with modes, without outliers."""
        return math.hypot(self.sd, self.low_gap * math.sqrt(self.low_share * (1 - self.low_share)))


@dataclass(frozen=True, slots=True)
class World:
    """The truth of a trial, for positions 0 (the good end) to n."""

    levels: NDArray[np.float64]
    """n + 1, pps."""
    run_sd: NDArray[np.float64]
    """n + 1, pps: standard deviation of runs."""
    culprits: tuple[int, ...]
    suspected: float
    """Reported effect, ln ratio."""
    image: NDArray[np.intp]
    """n + 1: the first position that builds the same kernel."""
    weights: NDArray[np.float64]
    """n: prior weights of the commits."""
    boot: BootNoise = field(default_factory=BootNoise)
    image_sd: float = 0.0
    """Ratio: image noise."""
    broken: frozenset[int] = frozenset()
    """Unbuildable positions."""
    known: int = 0
    """Earlier boots of each end."""
    builders: int = 1
    offsets: tuple[float, ...] = (0.0,)
    """Ratio: offset of each machine under test from the first."""
    layouts: int = 0
    """Maximum further layouts of a revision, each with its own offset."""
    wander: tuple[float, float] = (0.0, 3600.0)
    """Standard deviation (ratio) and correlation time (seconds) of noise common to all boots."""
    retest: bool = False
    """Whether the search begins with a retest of the ends, instead of a confirmed effect."""
    prices: Prices = PRICES
    drifts: bool = False
    """Whether the drop is gradual; then no culprit is the right verdict."""

    @property
    def commits(self) -> int:
        """Number of candidates."""
        return len(self.levels) - 1


class Lab:
    """Machines under test in one world, with their costs."""

    def __init__(self, world: World, key: Sequence[int]) -> None:
        self.world = world
        self.builds = 0
        self.boots = 0
        self.runs = 0
        self.seconds = 0.0
        self.deployed: int | None = None
        self.built = {0, world.commits}
        self.failed: set[int] = set()
        self._key = tuple(key)
        self._offset = 0.0
        self._machine = 0
        self._layout = 0
        self._streams: dict[tuple[int, int, int], np.random.Generator] = {}
        self._offsets: dict[tuple[int, int], float] = {}
        self._wander = (0.0, 0.0)
        """Time and value of the last draw."""

    def build(self, position: int) -> bool:
        """Builds a revision if needed and returns success; failures cost as much."""
        assert position not in self.failed, f"the build of position {position} failed before"
        if position not in self.built:
            self.builds += 1
            self.seconds += self.world.prices.build
            if position in self.world.broken:
                self.failed.add(position)
                return False
            self.built.add(position)
        return True

    def boot(self, position: int, machine: int = 0, layout: int = 0) -> None:
        """Boots a built revision on a machine; its boot noise lasts until the next boot."""
        self.boots += 1
        self.seconds += self.world.prices.boot
        self.deployed = position
        self._layout = layout
        self._offset = self._draw_boot(position)
        self._machine = machine

    def run(self) -> float:
        """Runs the benchmark once on the deployed revision, pps."""
        assert self.deployed is not None, "nothing is deployed"
        self.runs += 1
        self.seconds += self.world.prices.run
        return self._draw_run(self.deployed)

    def earlier_boots(self, position: int) -> tuple[float, ...]:
        """Draws the earlier boots of an end, at no cost."""
        values = []
        for _ in range(self.world.known):
            self._offset = self._draw_boot(position)
            values.append(self._draw_run(position))
        return tuple(values)

    def _stream(self, kind: int, image: int) -> np.random.Generator:
        where = (kind, image, self._layout)
        if where not in self._streams:
            layout = [self._layout] if self._layout else []
            self._streams[where] = np.random.default_rng([*self._key, kind, image, *layout])
        return self._streams[where]

    def _draw_boot(self, position: int) -> float:
        image, noise = int(self.world.image[position]), self.world.boot
        if (image, self._layout) not in self._offsets:
            normal = self._stream(0, image).standard_normal()
            self._offsets[image, self._layout] = float(self.world.image_sd * normal)
        random = self._stream(1, image)
        # A constant number of draws, so that later boots do not depend on this one.
        normal, mode, odd, depth = (
            random.standard_normal(),
            random.random(),
            random.random(),
            random.exponential(),
        )
        offset = self._offsets[image, self._layout] + noise.sd * normal
        offset -= noise.low_gap * (mode < noise.low_share)
        return float(offset - noise.outlier_depth * depth * (odd < noise.outlier_share))

    def _draw_run(self, position: int) -> float:
        normal = self._stream(2, int(self.world.image[position])).standard_normal()
        level = self.world.levels[position] * (1 + self._offset)
        level *= 1 + self.world.offsets[self._machine]
        level *= math.exp(self._draw_wander())
        # Positive, because callers take the logarithm.
        return float(max(level + self.world.run_sd[position] * normal, 1.0))

    def _draw_wander(self) -> float:
        """AR(1) noise in time, at the end of this run (Ornstein-Uhlenbeck)."""
        sd, scale = self.world.wander
        if not sd:
            return 0.0
        before, value = self._wander
        correlation = math.exp((before - self.seconds) / scale) if before else 0.0
        normal = float(self._stream(3, 0).standard_normal())
        value = correlation * value + sd * math.sqrt(1 - correlation**2) * normal
        self._wander = (self.seconds, value)
        return value
