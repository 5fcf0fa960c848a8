"""The next move of any job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from netbisect.bisect import measurement
from netbisect.bisect.detection import retest
from netbisect.bisect.model.detection_results import SearchForecast
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.bisect.model.results import (
    Move,
    NightlyResult,
    ProfileResult,
    Trial,
    Unfinished,
)
from netbisect.bisect.search import engine
from netbisect.bisect.search.prefetch import forecast, revisions_to_prefetch

__all__ = ["SearchForecast", "forecast", "next_move", "next_move_on", "revisions_to_prefetch"]


def next_move(
    job: Job,
    evidence: Evidence,
    prices: Prices,
    building: Mapping[str, float] | None = None,
) -> Move:
    """The next trial of a job, or its result."""
    match job:
        case NightlyJob():
            return _night(job, evidence)
        case CompareJob():
            move = retest.next_move(job, evidence, prices)
            assert not isinstance(move, Wait), "no trial to wait for"
            return move
        case BisectJob():
            return engine.next_move(job, evidence, prices, building)
        case ProfileJob():
            return _profiling(job, evidence)
        case MeasureJob():
            return measurement.next_move(job, evidence)
        case _:
            assert_never(job)


def next_move_on(
    job: CompareJob | BisectJob, evidence: Evidence, prices: Prices, in_flight: InFlight
) -> Move | Wait:
    """As `next_move`, for one of several testbeds while the others measure."""
    if isinstance(job, CompareJob):
        return retest.next_move(job, evidence, prices, in_flight)
    return engine.next_move_on(job, evidence, prices, in_flight)


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
