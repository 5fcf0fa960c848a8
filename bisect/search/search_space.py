"""Search space: the good end and the candidates in commit order, with their evidence.

Position 0 is the good end, position k the k-th candidate. With culprit k, the positions below k
are fast and the positions from k on are slow.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation, kernel_name
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.marks import MarkVerdict
from netbisect.bisect.model.results import Effect
from netbisect.bisect.stats.effect import SpreadPrior, difference, sides, yields_no_sample
from netbisect.bisect.stats.robust import LEAST_BOOT_SD
from netbisect.bisect.stats.sequential import PRIOR_WEIGHT

_MARK_DOUBT = 1e-3
"""Factor of the prior of a candidate that a mark contradicts. Marks may be wrong, so that
measurements can outweigh them, and a culprit is verified by measurements in any case."""
_LEAST_SHIFT = 0.5
"""Minimum change of the good end, as a share of the searched effect."""


@dataclass(frozen=True, slots=True)
class MeasuredImage:
    """All boots of one kernel image, of one revision or several."""

    position: int
    """First position that builds it."""
    ln_pps: tuple[float, ...]
    """Leading scenario, one value per boot, sorted; at least one."""
    runs: tuple[int, ...]
    """Runs of each of these boots."""
    testbeds: tuple[int, ...]
    """Testbed of each of these boots, as an index into `SearchSpace.testbeds`."""


@dataclass(frozen=True, slots=True)
class TestbedOffset:
    """Difference between the levels of two testbeds of one model, ln ratio."""

    mean: float = 0.0
    sd: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """A bootable kernel, and the revision to request it by."""

    position: int
    """First position that builds it."""
    revision: str
    boots: int
    """With a valid sample of the leading scenario."""
    built: bool
    observations: tuple[Observation, ...]
    """Observations of this kernel, for any of its revisions."""
    layout: int = 0


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """n candidates and the good end, with their evidence."""

    job: BisectJob
    evidence: Evidence
    revisions: tuple[str, ...]
    """n + 1, the good end first."""
    possible: NDArray[np.bool_]
    """n + 1 values: whether the culprit can be there. Never at 0, nor between two positions with
    the same kernel."""
    images: tuple[MeasuredImage, ...]
    """In the order of their positions."""
    targets: tuple[Target, ...]
    """In the order of their positions, without skipped ones."""
    target_at: tuple[Target | None, ...]
    """n + 1: the target of each position; None if it cannot be measured."""
    testbeds: tuple[str, ...]
    """Testbeds with samples of the leading scenario, most boots first; without samples, the
    testbed of the job."""
    offsets: tuple[TestbedOffset, ...] = ()
    """From the first testbed, once inferred."""
    changed: bool = False
    """Whether a test of the ends has shown that they differ."""
    shift: Effect | None = None
    """Change of the good end since its inherited boots; these then do not count."""

    def on(self, target: Target, testbed: str) -> int:
        """Number of boots of a target on a testbed."""
        return sum(
            self.job.lead in observation.ln_pps and testbed_of(self.job, observation) == testbed
            for observation in target.observations
        )


def build_search_space(job: BisectJob, evidence: Evidence) -> SearchSpace:
    """Assigns the evidence to the positions of a job.

    Observations of other revisions count if their kernel is that of a position. Inherited boots do
    not count if the good end has changed since: they show the testbed as it was.

    Raises:
        ValueError: The job has no candidates, a duplicate revision, or an invalid weight or
            effect.
    """
    _check(job)
    keys = _kernel_keys(evidence)
    space = _space(job, evidence, keys)
    shift = _good_end_shift(space)
    if shift is None:
        return space
    today = replace(evidence, observations=tuple(r for r in evidence.observations if r.fresh))
    return replace(_space(job, today, keys), shift=shift)


def _space(job: BisectJob, evidence: Evidence, keys: Mapping[str, str]) -> SearchSpace:
    revisions = (job.good, *(candidate.revision for candidate in job.candidates))
    observations: dict[str, list[Observation]] = defaultdict(list)
    measured: dict[str, set[str]] = defaultdict(set)
    for observation in evidence.observations:
        own = kernel_name(keys.get(observation.revision, observation.revision), observation.layout)
        key = observation.identity or own
        observations[key].append(observation)
        measured[observation.revision].add(key)
    positions: dict[str, list[int]] = defaultdict(list)
    for position, revision in enumerate(revisions):
        for key in measured.get(revision, set()) | {keys.get(revision, revision)}:
            positions[key].append(position)
    possible = np.ones(len(revisions), dtype=np.bool_)
    possible[0] = False
    for where in positions.values():
        possible[where[0] + 1 : where[-1] + 1] = False
    testbeds = _testbeds(job, [r for key in positions for r in observations.get(key, [])])
    images = [
        _image(positions[key][0], found, job, testbeds)
        for key, found in observations.items()
        if key in positions and any(job.lead in r.ln_pps for r in found)
    ]
    targets = _targets(job, evidence, revisions, positions, observations, keys)
    return SearchSpace(
        _weighed_by_marks(job, evidence),
        evidence,
        revisions,
        possible,
        tuple(sorted(images, key=lambda image: (image.position, image.ln_pps))),
        tuple(sorted(targets.values(), key=lambda target: (target.position, target.revision))),
        tuple(targets.get(keys.get(revision, revision)) for revision in revisions),
        testbeds,
    )


def _good_end_shift(space: SearchSpace) -> Effect | None:
    """Significant change of the good end since its inherited boots, or None.

    It must have the sign of the searched effect and at least half its size.
    """
    target, job = space.target_at[0], space.job
    if target is None:
        return None
    before, today, strata = sides(
        [r for r in target.observations if not r.fresh],
        [r for r in target.observations if r.fresh],
        job.lead,
    )
    if min(len(before), len(today)) < 2:  # noqa: PLR2004 - a spread takes two values
        return None
    known = spread_of_boots(job.noise, target.observations)
    effect = difference(before, today, job.lead, known=known, strata=strata)
    share = effect.ln_ratio / job.effect
    return effect if effect.p < ALPHA and share >= _LEAST_SHIFT else None


def spread_of_boots(noise: Noise, boots: Sequence[Observation]) -> SpreadPrior:
    """The prior of the spread of these boots, by the noise of the job."""
    runs = min((observation.runs for observation in boots), default=1)
    return SpreadPrior(max(math.sqrt(noise.variance_of_boot(runs)), LEAST_BOOT_SD), PRIOR_WEIGHT)


def _weighed_by_marks(job: BisectJob, evidence: Evidence) -> BisectJob:
    """The job with lower weights of candidates up to a good and after a bad commit."""
    if not evidence.marks:
        return job
    marks = [evidence.marks.get(one.revision) for one in job.candidates]
    verdicts = [mark.verdict if mark else MarkVerdict.NONE for mark in marks]
    last_good = max((i for i, one in enumerate(verdicts) if one is MarkVerdict.GOOD), default=-1)
    first_bad = min(
        (i for i, one in enumerate(verdicts) if one is MarkVerdict.BAD), default=len(verdicts)
    )
    return replace(
        job,
        candidates=tuple(
            one if last_good < i <= first_bad else replace(one, weight=one.weight * _MARK_DOUBT)
            for i, one in enumerate(job.candidates)
        ),
    )


def testbed_of(job: BisectJob, observation: Observation) -> str:
    """Testbed of the observation."""
    return observation.testbed or job.testbed


def _testbeds(job: BisectJob, observations: list[Observation]) -> tuple[str, ...]:
    counts = Counter(testbed_of(job, r) for r in observations if job.lead in r.ln_pps)
    return tuple(sorted(counts, key=lambda name: (-counts[name], name))) or (job.testbed,)


def _image(
    position: int, observations: list[Observation], job: BisectJob, testbeds: tuple[str, ...]
) -> MeasuredImage:
    lead = job.lead
    boots = sorted(
        (r.ln_pps[lead], r.runs, testbeds.index(testbed_of(job, r)))
        for r in observations
        if lead in r.ln_pps
    )
    levels, runs, measured_on = zip(*boots, strict=True)
    return MeasuredImage(position, levels, runs, measured_on)


def _targets(
    job: BisectJob,
    evidence: Evidence,
    revisions: tuple[str, ...],
    positions: dict[str, list[int]],
    observations: dict[str, list[Observation]],
    keys: Mapping[str, str],
) -> dict[str, Target]:
    """Bootable kernels; the revision is a measured one, else a built one, else the first."""
    targets: dict[str, Target] = {}
    for key, where in positions.items():
        found = observations.get(key, [])
        names = [
            name
            for name in (revisions[i] for i in where)
            if name not in evidence.skipped and keys.get(name, name) == key
        ]
        if not names or yields_no_sample(found, job.lead):
            continue
        measured = {observation.revision for observation in found}
        name = min(names, key=lambda name: (name not in measured, name not in evidence.kernels))
        boots = sum(job.lead in observation.ln_pps for observation in found)
        targets[key] = Target(where[0], name, boots, name in evidence.kernels, tuple(found))
    return targets


def _check(job: BisectJob) -> None:
    revisions = [job.good, *(candidate.revision for candidate in job.candidates)]
    if len(revisions) == 1:
        raise ValueError(f"a search from {job.good} needs at least one candidate")
    if len(set(revisions)) < len(revisions):
        twice = next(name for name in revisions if revisions.count(name) > 1)
        raise ValueError(f"a revision may occur once in a search, found {twice} twice")
    if not all(0 < candidate.weight < math.inf for candidate in job.candidates):
        raise ValueError("the weight of a candidate must be above 0")
    if not 0 < abs(job.effect) < math.inf:
        raise ValueError(f"the effect to search for must not be 0, found {job.effect}")


def _kernel_keys(evidence: Evidence) -> dict[str, str]:
    """Identity of the kernel by revision; a revision without an entry is its own key."""
    ordinary = [r for r in evidence.observations if r.identity and not r.layout]
    read = sorted({(r.revision, r.identity) for r in ordinary}, reverse=True)
    built = {name: kernel.identity for name, kernel in evidence.kernels.items() if kernel.identity}
    return dict(read) | built
