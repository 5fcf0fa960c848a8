"""A laboratory on paper: plays a question to its end without a machine.

For tests, benchmarks and anyone who wants to know what a search would cost before it is started.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from netbisect.bisect import plan, search
from netbisect.bisect.meanwhile import Meanwhile, Wait
from netbisect.bisect.model import (
    Bisection,
    Evidence,
    Finding,
    Kernel,
    Move,
    Noise,
    Prices,
    Question,
    Reading,
    Visit,
    kernel_name,
    split_kernel_name,
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
    scatter: Mapping[str, float] = field(default_factory=dict)
    """By revision: between its runs, where it is not that of `noise`, ln pps."""
    apart: Mapping[str, float] = field(default_factory=dict)
    """By testbed: how far it lies from the others, ln ratio; 0 where it is not named."""
    seconds: float = 0.0
    """The clock of the laboratory."""
    builds: int = 0
    """Begun so far, failed ones among them."""
    boots: int = 0
    runs: int = 0
    _offsets: dict[str, float] = field(default_factory=dict)

    def build(self, evidence: Evidence, revision: str, layout: int = 0) -> Evidence:
        """Returns the evidence with the kernel of `revision`, or with why there is none."""
        self.builds += 1
        self.seconds += self.prices.of_kernel(layout)
        return self.with_built(evidence, revision, layout)

    def with_built(self, evidence: Evidence, revision: str, layout: int = 0) -> Evidence:
        """As `build`, but it had been built before: it costs nothing."""
        if revision in self.broken:
            skipped = evidence.skipped | {revision: self.broken[revision]}
            return Evidence(evidence.readings, evidence.kernels, skipped)
        identity = f"kernel of {kernel_name(self.twins.get(revision, revision), layout)}"
        kernel = Kernel(
            revision=revision,
            config="PAPER",
            arch="paper",
            identity=identity,
            key=f"{identity}, from {revision}",
            version=revision,
            size=0,
            at=self.seconds,
            seconds=self.prices.of_kernel(layout),
            layout=layout,
        )
        kernels = evidence.kernels | {kernel_name(revision, layout): kernel}
        return Evidence(evidence.readings, kernels, evidence.skipped)

    def boot(
        self,
        evidence: Evidence,
        revision: str,
        scenarios: tuple[str, ...],
        *,
        fresh: bool = True,
        runs: int = 1,
        testbed: str = "",
        layout: int = 0,
    ) -> Evidence:
        """Returns the evidence with one more boot of a built kernel, of so many runs."""
        identity = evidence.kernels[kernel_name(revision, layout)].identity
        if identity not in self._offsets:
            self._offsets[identity] = float(self.random.normal(0, self.noise.image))
        level = self.levels[revision] + self._offsets[identity] + self.apart.get(testbed, 0.0)
        level += float(self.random.normal(0, self.noise.boot))
        if self.random.random() < self.outliers:
            level -= float(self.random.normal(*_OUTLIER))
        if self.noise.slow_share and self.random.random() < self.noise.slow_share:
            level -= self.noise.slow_gap
        if spread := self.scatter.get(revision, self.noise.run):
            level += float(self.random.normal(0, spread / math.sqrt(runs)))
        self.boots += 1
        self.runs += runs
        self.seconds += self.prices.boot + self.prices.run * runs * len(scenarios)
        values = dict.fromkeys(scenarios, level)
        boot = f"boot {self.boots}"
        reading = Reading(boot, revision, identity, values, fresh, runs, testbed, layout)
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
    """By the clock: with several builders, building and measuring overlap."""
    runs: int = 0


@dataclass(frozen=True, slots=True)
class _Bench:
    """A visit on one of several testbeds, and what will come of it."""

    visit: Visit
    ends: float = math.inf
    """When, by the clock of the laboratory; never as long as its kernel is built."""
    reading: Reading | None = None


def play_together(
    question: Bisection, lab: PaperLab, evidence: Evidence | None = None, builders: int = 1
) -> Rehearsal:
    """As `play`, with all testbeds of the question at work.

    A testbed that waits for a kernel looks for its move again whenever something is known that
    was not, or a kernel is built. What is under way at the end is given up; it has cost its boots.
    """
    evidence = evidence or Evidence()
    start = lab.builds, lab.boots, lab.runs, lab.seconds
    visits: list[Visit] = []
    yard = _Yard(lab, builders)
    benches: dict[str, _Bench] = {}
    while True:
        for testbed in question.testbeds:
            bench = benches.get(testbed)
            if bench is not None and bench.reading is not None:
                continue
            others = tuple(one.visit for name, one in benches.items() if name != testbed)
            benches.pop(testbed, None)
            seen = Meanwhile(yard.left(), yard.has_room(others=bool(others)), testbed, others)
            move = search.next_together(question, evidence, lab.prices, seen)
            if isinstance(move, Wait):
                continue
            if not isinstance(move, Visit):
                return Rehearsal(
                    move,
                    evidence,
                    tuple(visits),
                    lab.builds - start[0],
                    lab.boots - start[1],
                    lab.seconds - start[3],
                    lab.runs - start[2],
                )
            benches[testbed] = _begin(question, lab, evidence, move)
            if benches[testbed].reading is None:
                yard.order(move.revision, move.layout)
            else:
                visits.append(move)
        if builders > 1:
            yard.order_ahead(question, evidence)
        lab.seconds = min([*yard.done.values(), *(bench.ends for bench in benches.values())])
        evidence = yard.collect(evidence)
        for testbed, bench in list(benches.items()):
            if bench.reading is not None and bench.ends <= lab.seconds:
                readings = (*evidence.readings, bench.reading)
                evidence = Evidence(readings, evidence.kernels, evidence.skipped)
                del benches[testbed]


def _begin(question: Bisection, lab: PaperLab, evidence: Evidence, visit: Visit) -> _Bench:
    """Begins a visit whose kernel is built; its reading is not to be looked at before it ends."""
    if kernel_name(visit.revision, visit.layout) not in evidence.kernels:
        return _Bench(visit)
    now = lab.seconds
    told = lab.boot(
        evidence,
        visit.revision,
        question.scenarios,
        runs=visit.runs,
        testbed=visit.testbed,
        layout=visit.layout,
    )
    ends, lab.seconds = lab.seconds, now
    return _Bench(visit, ends, told.readings[-1])


def play(
    question: Question,
    lab: PaperLab,
    evidence: Evidence | None = None,
    builders: int = 1,
    *,
    verify: bool = True,
) -> Rehearsal:
    """Plays a question to its end.

    As in a real laboratory, a kernel that had to be built is looked at before it is booted: the
    next move may be another one then. With one builder nothing is built before it is asked for.

    Args:
        question: Any question about revisions of `lab`.
        lab: It is changed: its counters go on, and so does its generator.
        evidence: What is known before; nothing if left out.
        builders: More than one build ahead, while the testbed measures or waits.
        verify: As in `search.next_move`.
    """
    evidence = evidence or Evidence()
    start = lab.builds, lab.boots, lab.runs, lab.seconds
    visits: list[Visit] = []
    yard = _Yard(lab, builders)
    while isinstance(move := _move(question, evidence, lab, yard, verify=verify), Visit):
        if kernel_name(move.revision, move.layout) not in evidence.kernels:
            yard.order(move.revision, move.layout)
            if builders > 1:
                yard.order_ahead(question, evidence)
            evidence = yard.wait(evidence, kernel_name(move.revision, move.layout))
            continue
        if builders > 1:
            yard.order_ahead(question, evidence)
        visits.append(move)
        evidence = lab.boot(
            evidence, move.revision, question.scenarios, runs=move.runs, layout=move.layout
        )
        evidence = yard.collect(evidence)
    return Rehearsal(
        move,
        evidence,
        tuple(visits),
        lab.builds - start[0],
        lab.boots - start[1],
        lab.seconds - start[3],
        lab.runs - start[2],
    )


def _move(
    question: Question, evidence: Evidence, lab: PaperLab, yard: _Yard, *, verify: bool
) -> Move:
    if isinstance(question, Bisection):
        return search.next_move(question, evidence, lab.prices, yard.left(), verify=verify)
    return plan.next_move(question, evidence, lab.prices)


@dataclass(slots=True)
class _Yard:
    """The builders of a laboratory, and when they are done."""

    lab: PaperLab
    builders: int
    done: dict[str, float] = field(default_factory=dict)
    """By `kernel_name`: when its build ends."""

    def left(self) -> dict[str, float]:
        """By `kernel_name`: seconds until it is built."""
        return {name: max(0.0, at - self.lab.seconds) for name, at in self.done.items()}

    def has_room(self, *, others: bool) -> bool:
        """Whether a kernel may be ordered; the last builder is kept for what `others` will want."""
        return len(self.done) + (others and self.builders == 1) < self.builders

    def order(self, revision: str, layout: int = 0) -> None:
        """Begins a build as soon as a builder is free."""
        name = kernel_name(revision, layout)
        if name in self.done:
            return
        ends = sorted(self.done.values())
        begin = self.lab.seconds
        if len(ends) >= self.builders:
            begin = max(begin, ends[-self.builders])
        self.lab.builds += 1
        self.done[name] = begin + self.lab.prices.of_kernel(layout)

    def order_ahead(self, question: Question, evidence: Evidence) -> None:
        """Gives every idle builder what is most likely to be wanted next."""
        idle = self.builders - len(self.done)
        if idle > 0 and isinstance(question, Bisection):
            ahead = plan.builds_ahead(question, evidence, self.lab.prices, idle, tuple(self.done))
            for revision in ahead:
                self.order(revision)

    def wait(self, evidence: Evidence, name: str) -> Evidence:
        """Moves the clock until that build ends."""
        self.lab.seconds = max(self.lab.seconds, self.done[name])
        return self.collect(evidence)

    def collect(self, evidence: Evidence) -> Evidence:
        """Returns the evidence with all kernels that are built by now."""
        for name in [name for name, at in self.done.items() if at <= self.lab.seconds]:
            del self.done[name]
            evidence = self.lab.with_built(evidence, *split_kernel_name(name))
        return evidence
