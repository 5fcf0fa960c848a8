"""Simulated lab: runs a job to its result without hardware, for tests and benchmarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from netbisect.bisect import plan
from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.evidence import (
    Evidence,
    Observation,
    Prices,
    kernel_name,
    split_kernel_name,
)
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob, Job
from netbisect.bisect.model.results import Result, Trial

_OUTLIER = (0.08, 0.03)
"""Mean and standard deviation of an outlier's drop, ln pps."""


@dataclass(slots=True)
class LabSimulation:
    """Revisions with known levels, on testbeds with known noise.

    Each kernel has a random offset, and each boot random noise.
    """

    levels: Mapping[str, float]
    """By revision: true ln pps, in every scenario."""
    noise: Noise
    random: np.random.Generator
    outliers: float = 0.0
    """Probability of a low outlier, by about 8 %."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """By revision: reason of its build failure."""
    same_kernel: Mapping[str, str] = field(default_factory=dict)
    """By revision: another revision with the same kernel."""
    prices: Prices = field(default_factory=Prices)
    offsets: Mapping[str, float] = field(default_factory=dict)
    """By testbed: offset, ln ratio; 0 by default."""
    seconds: float = 0.0
    """The simulated clock."""
    builds: int = 0
    """Including failed ones."""
    boots: int = 0
    runs: int = 0
    _offsets: dict[str, float] = field(default_factory=dict)

    def with_built(self, evidence: Evidence, revision: str, layout: int = 0) -> Evidence:
        """The evidence with the kernel of `revision`, or with its build failure, at no cost."""
        if revision in self.broken:
            skipped = evidence.skipped | {revision: self.broken[revision]}
            return replace(evidence, skipped=skipped)
        identity = f"kernel of {kernel_name(self.same_kernel.get(revision, revision), layout)}"
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
        return replace(evidence, kernels=kernels)

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
        order: str = "",
    ) -> Evidence:
        """The evidence with one more boot of a built kernel."""
        identity = evidence.kernels[kernel_name(revision, layout)].identity
        level = self.measure(revision, layout, identity, testbed, runs)
        self.boots += 1
        self.runs += runs
        self.seconds += self.prices.boot + self.prices.run * runs * len(scenarios)
        values = dict.fromkeys(scenarios, level)
        boot = f"boot {self.boots}", revision, identity
        observation = Observation(*boot, values, fresh, runs, testbed, layout, order)
        return replace(evidence, observations=(*evidence.observations, observation))

    def measure(self, revision: str, layout: int, identity: str, testbed: str, runs: int) -> float:
        """Mean ln pps of the runs of a new boot."""
        del layout
        if identity not in self._offsets:
            self._offsets[identity] = float(self.random.normal(0, self.noise.image))
        level = self.levels[revision] + self._offsets[identity] + self.offsets.get(testbed, 0.0)
        level += float(self.random.normal(0, self.noise.boot))
        if self.random.random() < self.outliers:
            level -= float(self.random.normal(*_OUTLIER))
        if self.noise.slow_share and self.random.random() < self.noise.slow_share:
            level -= self.noise.slow_gap
        if self.noise.run:
            level += float(self.random.normal(0, self.noise.run / math.sqrt(runs)))
        return level


@dataclass(frozen=True, slots=True)
class JobSimulation:
    """Result and cost of a simulated job."""

    result: Result
    evidence: Evidence
    trials: tuple[Trial, ...]
    builds: int
    boots: int
    seconds: float
    """Elapsed: with several builders, building and measuring overlap."""
    runs: int = 0


@dataclass(frozen=True, slots=True)
class _RunningTrial:
    """A trial on a testbed, and its observation."""

    trial: Trial
    ends: float
    """Simulated time of its end, or that of the build it waits for."""
    observation: Observation | None = None
    """None until its kernel is built."""


def simulate_job(
    job: Job, lab: LabSimulation, evidence: Evidence | None = None, builders: int = 1
) -> JobSimulation:
    """Runs a job to its result.

    A testbed that waits for a kernel chooses its move again when the kernel is built; if the job
    has several testbeds, after every new fact. Trials running at the end are discarded, but their
    boots count.

    Args:
        job: Any job about revisions of `lab`.
        lab: Its counters, clock and generator advance.
        evidence: Earlier evidence; none by default.
        builders: More than one prefetch kernels.
    """
    evidence = evidence or Evidence()
    before = copy(lab)
    trials: list[Trial] = []
    queue = _Builders(lab, builders)
    running: dict[str, _RunningTrial] = {}
    testbeds = job.testbeds if isinstance(job, BisectJob) and job.others else ("",)
    while True:
        for testbed in testbeds:
            if testbed in running and running[testbed].observation is not None:
                continue
            running.pop(testbed, None)
            others = tuple(current.trial for current in running.values())
            room = len(testbeds) == 1 or queue.has_room(others=bool(others))
            seen = InFlight(queue.left(), room, testbed, others)
            move = plan.next_move(job, evidence, lab.prices, seen)
            if isinstance(move, Wait):
                continue
            if not isinstance(move, Trial):
                return _played(move, evidence, trials, before, lab)
            if kernel_name(move.revision, move.layout) in evidence.kernels:
                running[testbed] = _boot(job, lab, evidence, move)
                trials.append(move)
            else:
                running[testbed] = _RunningTrial(move, queue.order(move.revision, move.layout))
        queue.prefetch(job, evidence)
        facts = [current.ends for current in running.values()]
        if len(testbeds) > 1:
            facts += queue.done.values()
        lab.seconds = min(facts)
        evidence = queue.collect(evidence)
        for testbed, current in list(running.items()):
            if current.observation is not None and current.ends <= lab.seconds:
                observations = (*evidence.observations, current.observation)
                evidence = replace(evidence, observations=observations)
                del running[testbed]


def _boot(job: Job, lab: LabSimulation, evidence: Evidence, trial: Trial) -> _RunningTrial:
    """Starts a trial whose kernel is built; its observation is hidden until it ends."""
    now = lab.seconds
    seen = lab.boot(
        evidence,
        trial.revision,
        job.scenarios,
        runs=trial.runs,
        testbed=trial.testbed,
        layout=trial.layout,
        order=trial.why,
    )
    ends, lab.seconds = lab.seconds, now
    return _RunningTrial(trial, ends, seen.observations[-1])


def _played(
    result: Result,
    evidence: Evidence,
    trials: Sequence[Trial],
    before: LabSimulation,
    lab: LabSimulation,
) -> JobSimulation:
    return JobSimulation(
        result,
        evidence,
        tuple(trials),
        lab.builds - before.builds,
        lab.boots - before.boots,
        lab.seconds - before.seconds,
        lab.runs - before.runs,
    )


@dataclass(slots=True)
class _Builders:
    """The builders of a lab, and the ends of their builds."""

    lab: LabSimulation
    builders: int
    done: dict[str, float] = field(default_factory=dict)
    """By `kernel_name`: end of its build."""

    def left(self) -> dict[str, float]:
        """By `kernel_name`: seconds until ready."""
        return {name: max(0.0, at - self.lab.seconds) for name, at in self.done.items()}

    def has_room(self, *, others: bool) -> bool:
        """Whether a kernel may be ordered; `others` reserve the last builder."""
        return len(self.done) + (others and self.builders == 1) < self.builders

    def order(self, revision: str, layout: int = 0) -> float:
        """Starts a build, unless it runs, as soon as a builder is free; returns its end."""
        name = kernel_name(revision, layout)
        if name not in self.done:
            ends = sorted(self.done.values())
            begin = self.lab.seconds
            if len(ends) >= self.builders:
                begin = max(begin, ends[-self.builders])
            self.lab.builds += 1
            self.done[name] = begin + self.lab.prices.of_kernel(layout)
        return self.done[name]

    def prefetch(self, job: Job, evidence: Evidence) -> None:
        """Prefetches a kernel on every idle one of several builders."""
        idle = self.builders - len(self.done)
        if self.builders > 1 and idle > 0 and isinstance(job, BisectJob):
            wanted = plan.revisions_to_prefetch(
                job, evidence, self.lab.prices, idle, tuple(self.done)
            )
            for revision in wanted:
                self.order(revision)

    def collect(self, evidence: Evidence) -> Evidence:
        """The evidence with all finished kernels."""
        for name in [name for name, at in self.done.items() if at <= self.lab.seconds]:
            del self.done[name]
            evidence = self.lab.with_built(evidence, *split_kernel_name(name))
        return evidence
