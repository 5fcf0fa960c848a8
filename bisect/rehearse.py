"""A laboratory on paper: plays a question to its end without a machine.

For tests, benchmarks and anyone who wants to know what a search would cost before it is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from netbisect.bisect import plan
from netbisect.bisect.model import (
    Evidence,
    Finding,
    Kernel,
    Noise,
    Prices,
    Question,
    Reading,
    Visit,
)

_OUTLIER = (0.08, 0.03)
"""How far below an outlier lies, ln pps: mean and standard deviation."""


@dataclass(slots=True)
class PaperLab:
    """Revisions with known levels, on a testbed with known noise.

    Kernels get an offset of their own when they are first built, boots a scatter of their own.
    """

    levels: Mapping[str, float]
    """By revision: true ln pps, the same in every scenario."""
    noise: Noise
    random: np.random.Generator
    outliers: float = 0.0
    """Chance of a boot to be a low outlier, by about 8 %."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """By revision: why it does not build."""
    twins: Mapping[str, str] = field(default_factory=dict)
    """By revision: another one that builds the same kernel."""
    prices: Prices = field(default_factory=Prices)
    seconds: float = 0.0
    """Of the laboratory, spent so far."""
    builds: int = 0
    """Tried so far, failed ones among them."""
    boots: int = 0
    _offsets: dict[str, float] = field(default_factory=dict)

    def build(self, evidence: Evidence, revision: str) -> Evidence:
        """Returns the evidence with the kernel of `revision`, or with why there is none."""
        self.builds += 1
        self.seconds += self.prices.build
        return self.with_built(evidence, revision)

    def with_built(self, evidence: Evidence, revision: str) -> Evidence:
        """As `build`, but it had been built before: it costs nothing."""
        if revision in self.broken:
            skipped = evidence.skipped | {revision: self.broken[revision]}
            return Evidence(evidence.readings, evidence.kernels, skipped)
        identity = f"kernel of {self.twins.get(revision, revision)}"
        kernel = Kernel(
            revision=revision,
            config="PAPER",
            arch="paper",
            identity=identity,
            key=f"{identity}, from {revision}",
            version=revision,
            size=0,
            at=self.seconds,
            seconds=self.prices.build,
        )
        return Evidence(evidence.readings, evidence.kernels | {revision: kernel}, evidence.skipped)

    def boot(
        self, evidence: Evidence, revision: str, scenarios: tuple[str, ...], *, fresh: bool = True
    ) -> Evidence:
        """Returns the evidence with one more boot of a built kernel."""
        identity = evidence.kernels[revision].identity
        if identity not in self._offsets:
            self._offsets[identity] = float(self.random.normal(0, self.noise.image))
        level = self.levels[revision] + self._offsets[identity]
        level += float(self.random.normal(0, self.noise.boot))
        if self.random.random() < self.outliers:
            level -= float(self.random.normal(*_OUTLIER))
        self.boots += 1
        self.seconds += self.prices.boot + self.prices.run * len(scenarios)
        reading = Reading(
            f"boot {self.boots}", revision, identity, dict.fromkeys(scenarios, level), fresh
        )
        return Evidence((*evidence.readings, reading), evidence.kernels, evidence.skipped)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How a question ended, and what it took."""

    finding: Finding
    evidence: Evidence
    visits: tuple[Visit, ...]
    builds: int
    boots: int
    seconds: float


def play(question: Question, lab: PaperLab, evidence: Evidence | None = None) -> Rehearsal:
    """Plays a question to its end.

    As in a real laboratory, a kernel that had to be built is looked at before it is booted: the
    next move may be another one then.

    Args:
        question: Any question about revisions of `lab`.
        lab: It is changed: its counters go on, and so does its generator.
        evidence: What is known before; nothing if left out.
    """
    evidence = evidence or Evidence()
    start = lab.builds, lab.boots, lab.seconds
    visits: list[Visit] = []
    while isinstance(move := plan.next_move(question, evidence, lab.prices), Visit):
        if move.revision not in evidence.kernels:
            evidence = lab.build(evidence, move.revision)
            continue
        visits.append(move)
        evidence = lab.boot(evidence, move.revision, question.scenarios)
    return Rehearsal(
        move,
        evidence,
        tuple(visits),
        lab.builds - start[0],
        lab.boots - start[1],
        lab.seconds - start[2],
    )
