"""Estimates of the cost of jobs, before they are opened and while they run."""

from __future__ import annotations

import math

from netbisect.bisect.model.detection_results import RETEST_BOOTS
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.reports.documents.api import SearchEstimate, TestbedCost
from netbisect.steps.service.numeric import measurement
from netbisect.workers.config.scenario import settings_of

_SEARCH_BOOTS = 20
"""Boots of a search besides two per halving, for estimates."""


def price_of_trial(job: Job, prices: Prices) -> float:
    """Seconds of a trial, with a boot for each set of tunables."""
    tunables = (settings_of(name).tunables for name in job.scenarios)
    boots = len({tuple(sorted(one.items())) for one in tunables})
    return boots * prices.boot + prices.run * len(job.scenarios)


def boots_wanted(job: Job) -> int:
    """Upper limit of the boots of a job; an estimate for a retest or a search."""
    match job:
        case MeasureJob():
            return job.boots * len(job.revisions)
        case CompareJob():
            return RETEST_BOOTS
        case BisectJob():
            return _search_boots(len(job.candidates))
        case NightlyJob():
            return job.boots
        case ProfileJob():  # without a packet rate, a first boot per revision measures it
            return len(job.revisions) * (1 if job.pps else 2)


def _search_boots(commits: int) -> int:
    return _SEARCH_BOOTS + math.ceil(2 * math.log2(commits + 1))


def search_cost(commits: int, trial: float) -> SearchEstimate:
    """Estimated cost of a search, with the seconds per boot and its runs."""
    boots = _search_boots(commits)
    builds = min(math.ceil(math.log2(commits + 1)) + 1, max(commits - 1, 0))  # the end has one
    return SearchEstimate(commits, builds, boots, boots * trial)


def cost_of(
    job: MeasureJob | CompareJob | BisectJob, evidence: Evidence, prices: Prices
) -> TestbedCost:
    """Upper limit of the remaining cost of a job; of a search, with the kernels of its ends."""
    trial = price_of_trial(job, prices)
    ends = job.revisions if isinstance(job, MeasureJob) else (job.good, job.bad)
    builds = tuple(
        one for one in ends if one not in evidence.kernels and one not in evidence.skipped
    )
    wanted = boots_wanted(job)
    if isinstance(job, MeasureJob):
        left = measurement.remaining_boots(job, evidence)
        return TestbedCost(job.testbed, builds, left, wanted - left, left * trial)
    made = sum(observed.fresh for observed in evidence.observations)
    left = max(wanted - made, 0)
    return TestbedCost(job.testbed, builds, left, 0, left * trial)
