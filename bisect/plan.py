"""The next move of any job."""

from __future__ import annotations

from typing import assert_never

from netbisect.bisect import measurement
from netbisect.bisect.detection import retest
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight, Wait
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.bisect.model.results import Move, NightlyResult, ProfileResult, Trial, Unfinished
from netbisect.bisect.search import engine
from netbisect.bisect.search.prefetch import forecast, revisions_to_prefetch

__all__ = ["forecast", "next_move", "revisions_to_prefetch"]


def next_move(
    job: Job,
    evidence: Evidence,
    prices: Prices,
    in_flight: InFlight = NOTHING_IN_FLIGHT,
) -> Move | Wait:
    """The next trial of a job, or its result; `Wait` for the trials of other testbeds.

    Jobs of one testbed never wait.
    """
    match job:
        case NightlyJob():
            return _night(job, evidence)
        case CompareJob():
            return retest.next_move(job, evidence, prices, in_flight)
        case BisectJob():
            return engine.next_move(job, evidence, prices, in_flight)
        case ProfileJob():
            return _profiling(job, evidence)
        case MeasureJob():
            return measurement.next_move(job, evidence)
        case _:
            assert_never(job)


def _night(job: NightlyJob, evidence: Evidence) -> Move:
    boots = sum(observation.fresh for observation in evidence.of(job.revision))
    if boots >= job.boots:
        return NightlyResult(boots)
    if job.revision in evidence.skipped:
        return Unfinished(
            f"{job.revision[:12]} cannot be measured: {evidence.skipped[job.revision]}"
        )
    return Trial(job.revision, f"boot {boots + 1} of {job.boots} tonight")


def _profiling(job: ProfileJob, evidence: Evidence) -> Move:
    """One trial each; one failed profile ends the job."""
    for revision in job.revisions:
        why = evidence.profiled.get(revision, evidence.skipped.get(revision))
        if why:
            return Unfinished(f"no profile of {revision[:12]}: {why}")
    missing = [one for one in job.revisions if one not in evidence.profiled]
    if not missing:
        return ProfileResult(job.revisions)
    return Trial(missing[0], "to see in which functions it spends its time")
