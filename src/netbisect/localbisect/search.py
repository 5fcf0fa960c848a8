"""The engine's view of a local search; pure functions of the log.

A kernel of the engine is a tree that is checked out and set up; commits with equal trees are
measured as one. A boot is one run of the user's command, or several if a set-up takes much longer
than a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from netbisect.bisect import plan
from netbisect.bisect.model.entities import Boot, Fact, Failure, Kernel, Noise, Reaction, Sample
from netbisect.bisect.model.evidence import Evidence, Observation, Prices, kernel_name
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob, Candidate, CompareJob, Job
from netbisect.bisect.model.marks import CommitMark, MarkVerdict
from netbisect.bisect.model.results import (
    Confirmed,
    Move,
    NotReproduced,
    Posterior,
    Result,
    Trial,
)
from netbisect.bisect.stats.robust import scale

METRIC = "number"
"""Scenario name of the printed number."""
_NOISE, _NOISE_WEIGHT = 0.009, 2
"""Prior standard deviation of ln between runs, and its degrees of freedom."""
_GIVEN_WEIGHT = 8
"""Degrees of freedom of a standard deviation given by the user."""
_LONG_SETUP = 4.0
"""Ratio of set-up to run from which several runs per trial are cheaper."""
_TRIAL_SHARE = 0.1
"""Share of the variance that all runs of a trial have in common."""
_IMAGE_SHARE, _IMAGE_MOST = 0.1, 0.005
"""Standard deviation between equivalent builds: share of the effect, and maximum."""
_IMAGE_SHUFFLED, _IMAGE_WEIGHT = 0.01, 4.0
"""The same with --layouts, and its degrees of freedom."""


@dataclass(frozen=True, slots=True)
class CandidateCommit:
    """A candidate commit."""

    revision: str
    subject: str
    weight: float


@dataclass(frozen=True, slots=True)
class OverlaySpec:
    """A patch for revisions that lack it."""

    name: str
    """File name without the folder."""
    digest: str
    """SHA-256 of its content."""
    first: str = ""
    """First revision; empty for the good end."""
    last: str = ""
    """Last revision; empty for the bad end."""

    def __str__(self) -> str:
        """Name, abbreviated digest and range."""
        stretch = f" for {self.first[:12]}..{self.last[:12]}" if self.first else ""
        return f"{self.name} ({self.digest[:12]}){stretch}"


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """The options of a search and its commits."""

    good: str
    bad: str
    command: tuple[str, ...]
    line: tuple[CandidateCommit, ...]
    """Oldest first, with distinct trees; the last has the tree of `bad`."""
    commits: int
    """Number of commits after `good` up to `bad`."""
    good_subject: str = ""
    metric: str = ""
    """Regular expression; empty for the last number."""
    direction: str = "higher"
    """Better numbers: `higher` or `lower`."""
    min_effect: float = 2.0
    """Percent."""
    effect: float | None = None
    """Percent; None to measure it at the ends. They are also used if they exclude it."""
    setup: str = ""
    noise: float | None = None
    """Percent."""
    paths: tuple[str, ...] = ()
    overlays: tuple[OverlaySpec, ...] = ()
    duts: int = 1
    """Number of devices; their levels may differ."""
    layouts: int = 0
    """Number of additional layouts."""
    image_noise: float | None = None
    """Standard deviation between equivalent builds in percent."""

    @property
    def names(self) -> tuple[str, ...]:
        """Device names; a single device has an empty name."""
        if self.duts == 1:
            return ("",)
        return tuple(str(number) for number in range(1, self.duts + 1))

    @property
    def sign(self) -> int:
        """Factor from ln of the number to the ln pps of the engine, where more is better."""
        return -1 if self.direction == "lower" else 1

    def drop(self, percent: float) -> float:
        """A deterioration in percent as a positive ln ratio of the engine."""
        return self.sign * -math.log1p(-self.sign * percent / 100)

    @property
    def series(self) -> str:
        """Series of the printed number, whose name tells the engine its direction."""
        return METRIC if self.sign > 0 else f"{METRIC}~{METRIC}.{METRIC}.lower"

    @property
    def expected(self) -> float | None:
        """The expected change as an ln ratio of the engine; None to measure it."""
        return None if self.effect is None else -self.drop(self.effect)

    @property
    def subjects(self) -> dict[str, str]:
        """Subjects by revision."""
        return {self.good: self.good_subject} | {one.revision: one.subject for one in self.line}

    def is_for(self, overlay: OverlaySpec, revision: str) -> bool:
        """Whether a patch covers a revision."""
        order = [self.good, *(one.revision for one in self.line)]
        first, last = overlay.first or order[0], overlay.last or order[-1]
        return order.index(first) <= order.index(revision) <= order.index(last)


EQUAL_ENDS = NotReproduced(
    Posterior({}, 1.0), "good and bad have the same tree: every change between them was reverted"
)
"""The result of a search without commits, which is not in its log."""

Entry: TypeAlias = SearchSpec | Job | Move | Fact | CommitMark


def spec_of(entries: Sequence[Entry]) -> SearchSpec:
    """The search of a log, its first entry."""
    spec = entries[0]
    assert isinstance(spec, SearchSpec)
    return spec


def last_job(entries: Sequence[Entry]) -> CompareJob | BisectJob | None:
    """The last job of the log."""
    jobs = (entry for entry in reversed(entries) if isinstance(entry, CompareJob | BisectJob))
    return next(jobs, None)


def comparison_of_ends(spec: SearchSpec) -> CompareJob:
    """The comparison of the two ends."""
    return CompareJob(
        branch="",
        testbed=spec.names[0],
        good=spec.good,
        bad=spec.line[-1].revision,
        scenarios=(spec.series,),
        lead=spec.series,
        suspected=-spec.drop(spec.effect or spec.min_effect),
        min_effect=spec.drop(spec.min_effect),
        noise=_noise(spec, (spec.noise or 100 * _NOISE) / 100, several_runs=bool(spec.setup)),
        commits=len(spec.line),
    )


def next_job(spec: SearchSpec, finding: Result, entries: Sequence[Entry]) -> BisectJob | None:
    """The bisection that follows a confirmed difference of the ends, else None.

    The entries end with the finding, the result of the last job.
    """
    if not isinstance(finding, Confirmed):
        return None
    ends, given = finding.effects[0], spec.expected
    # A search finds only changes of about its effect.
    if given is None or not ends.low <= given <= ends.high:
        given = ends.ln_ratio
    return bisection_for(spec, given, entries)


def bisection_for(spec: SearchSpec, effect: float, entries: Sequence[Entry]) -> BisectJob:
    """The bisection for an effect: an ln ratio, negative for a deterioration."""
    known = prices(spec, entries)
    several_runs = bool(spec.setup) and known.build > _LONG_SETUP * known.run
    noise = _noise(spec, _scatter(spec, entries), several_runs=several_runs)
    noise = replace(noise, **_image_noise(spec, effect))
    return BisectJob(
        branch="",
        testbed=spec.names[0],
        good=spec.good,
        candidates=tuple(Candidate(one.revision, one.weight) for one in spec.line),
        scenarios=(spec.series,),
        lead=spec.series,
        effect=effect,
        noise=noise,
        others=dict.fromkeys(spec.names[1:], noise),
        layouts=spec.layouts,
    )


def _noise(spec: SearchSpec, scatter: float, *, several_runs: bool) -> Noise:
    """The noise between trials, and between the runs of a trial if it may have several.

    With short set-ups, single runs are better: a decision follows each.

    Args:
        spec: The search.
        scatter: Standard deviation of ln between runs of different trials.
        several_runs: Whether trials may have several runs.
    """
    share = _TRIAL_SHARE if several_runs else 1.0
    noise = Noise(math.sqrt(share) * scatter, run=math.sqrt(1 - share) * scatter)
    return noise if spec.noise else replace(noise, boot_weight=0)


def _image_noise(spec: SearchSpec, effect: float) -> dict[str, float]:
    """The noise between equivalent builds, as fields of `Noise`."""
    if spec.image_noise is not None:
        return {"image": spec.image_noise / 100}
    if spec.layouts:
        return {"image": _IMAGE_SHUFFLED, "image_weight": _IMAGE_WEIGHT}
    return {"image": min(_IMAGE_MOST, _IMAGE_SHARE * abs(effect))}


def _scatter(spec: SearchSpec, entries: Sequence[Entry]) -> float:
    """Standard deviation of ln between runs of one revision: prior and measured, pooled."""
    seen: dict[tuple[str, str], list[float]] = {}
    for boot, numbers in measured_boots(entries):
        seen.setdefault((boot.kernel, boot.testbed), []).extend(map(math.log, numbers))
    given = spec.noise is not None
    weight = _GIVEN_WEIGHT if given else _NOISE_WEIGHT
    freedom = sum(len(values) - 1 for values in seen.values())
    squares = weight * ((spec.noise or 0) / 100 if given else _NOISE) ** 2
    squares += freedom * scale(seen.values()) ** 2
    return math.sqrt(squares / (weight + freedom))


def measured_boots(entries: Sequence[Entry]) -> list[tuple[Boot, list[float]]]:
    """All boots with runs, and the numbers of their runs."""
    boots = {entry.id: entry for entry in entries if isinstance(entry, Boot)}
    numbers: dict[str, list[float]] = {}
    for entry in entries:
        if isinstance(entry, Sample):
            numbers.setdefault(entry.boot, []).append(entry.pps)
    return [(boots[boot], found) for boot, found in numbers.items()]


def evidence(spec: SearchSpec, entries: Sequence[Entry], dut: str = "") -> Evidence:
    """The evidence of a log for its last job, as for the device of a worktree.

    Only the checked-out revision counts as built: a device has one worktree. Runs of earlier jobs
    are not fresh. The runs of a trial form one observation. Where the effect was measured, the runs
    of the bad end behind it are no evidence of the search too.
    """
    reasons: dict[str, str] = {}
    orders: dict[str, str] = {}
    """By fresh boot."""
    kernels: dict[str, Kernel] = {}
    layouts: dict[str, int] = {}
    skipped: dict[str, str] = {}
    for entry in entries:
        match entry:
            case CompareJob() | BisectJob():
                orders.clear()
            case Kernel():
                layouts[entry.key] = entry.layout
                if entry.arch == dut:
                    kernels = {kernel_name(entry.revision, entry.layout): entry}
            case Boot():
                orders[entry.id] = reasons.get(entry.testbed, "")
            case Trial():
                reasons[entry.testbed] = entry.why
            case Failure(reaction=Reaction.SKIP):
                skipped[kernel_name(entry.revision, entry.layout)] = entry.why
            case _:
                pass
    readings = []
    job = last_job(entries)
    measured = isinstance(job, BisectJob) and job.effect != spec.expected
    for boot, numbers in measured_boots(entries):
        fresh = boot.id in orders
        if measured and not fresh and boot.revision == spec.line[-1].revision:
            continue
        # After an interruption there may be fewer runs than planned.
        mean = fmean(spec.sign * math.log(number) for number in numbers)
        means = {job.lead if job else spec.series: mean}
        of_boot = (boot.id, boot.revision, boot.kernel, means, fresh, len(numbers), boot.testbed)
        layout, order = layouts.get(boot.kernel, 0), orders.get(boot.id, "")
        readings.append(Observation(*of_boot, layout, order))
    marks = [entry for entry in entries if isinstance(entry, CommitMark)]
    return Evidence(tuple(readings), kernels, skipped).with_marks(marks)


def pending_trials(entries: Sequence[Entry]) -> dict[str, tuple[Trial, int]]:
    """The trials in progress by device, oldest first, with the numbers of their completed runs.

    A result or a new job ends all trials, and a mark to skip a commit those of this commit.
    """
    pending: dict[str, tuple[Trial, int]] = {}
    for entry in entries:
        match entry:
            case Trial():
                pending[entry.testbed] = entry, 0
            case Sample() if entry.testbed in pending:
                trial, runs = pending[entry.testbed]
                pending[entry.testbed] = trial, runs + 1
                if runs + 1 >= trial.runs:
                    del pending[entry.testbed]
            case Failure(reaction=Reaction.SKIP):
                pending.pop(entry.testbed, None)
            case CommitMark(verdict=MarkVerdict.SKIP, revision=skipped):
                pending = {k: one for k, one in pending.items() if one[0].revision != skipped}
            case _ if isinstance(entry, Job | Result):
                pending.clear()
            case _:
                pass
    return pending


def next_move(
    spec: SearchSpec, job: CompareJob | BisectJob, entries: Sequence[Entry], dut: str
) -> Move | Wait:
    """The next trial of a device, or the result of the job."""
    pending = pending_trials(entries).items()
    others = tuple(trial for name, (trial, _) in pending if name != dut)
    in_flight = InFlight(testbed=dut, under_way=others)
    return plan.next_move(job, evidence(spec, entries, dut), prices(spec, entries), in_flight)


def prices(spec: SearchSpec, entries: Sequence[Entry]) -> Prices:
    """Mean durations of set-ups and runs so far."""
    kernels = [entry for entry in entries if isinstance(entry, Kernel)]
    builds = [kernel.seconds for kernel in kernels if not kernel.layout]
    relinks = [kernel.seconds for kernel in kernels if kernel.layout]
    runs = [entry.seconds for entry in entries if isinstance(entry, Sample)]
    return Prices(
        build=fmean(builds) if builds else float(bool(spec.setup)),
        boot=0.0,
        run=fmean(runs) if runs else 1.0,
        relink=fmean(relinks) if relinks else None,
    )


def runs_done(entries: Sequence[Entry]) -> int:
    """Number of completed runs."""
    return sum(isinstance(entry, Sample) for entry in entries)


def seconds_spent(entries: Sequence[Entry]) -> float:
    """Duration of all attempts, including failed ones."""
    return math.fsum(e.seconds for e in entries if isinstance(e, Kernel | Sample | Failure))
