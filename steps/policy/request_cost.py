"""Estimates of the cost of jobs, before they are opened and while they run."""

from __future__ import annotations

import math

from netbisect.bisect.model.detection_results import LOOKS
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

_SEARCH_BOOTS = 20
"""Boots of a search besides two per halving, for estimates."""


def boots_wanted(question: Job) -> int:
    """Upper limit of the boots of a job; an estimate for a search."""
    match question:
        case MeasureJob():
            return question.boots * len(question.revisions)
        case CompareJob():
            return 2 * LOOKS[-1]
        case BisectJob():
            return _search_boots(len(question.candidates))
        case NightlyJob():
            return question.boots
        case ProfileJob():
            return len(question.revisions) * (1 if question.pps else 2)


def _search_boots(commits: int) -> int:
    return _SEARCH_BOOTS + math.ceil(2 * math.log2(commits + 1))


def search_cost(commits: int, visit: float) -> SearchEstimate:
    """Estimated cost of a search, with the seconds per boot and its runs."""
    boots = _search_boots(commits)
    builds = min(math.ceil(math.log2(commits + 1)) + 1, max(commits - 1, 0))  # the end has one
    return SearchEstimate(commits, builds, boots, boots * visit)


def ends_of(question: Job) -> tuple[str, ...]:
    """The revisions that a job measures in any case."""
    match question:
        case MeasureJob() | ProfileJob():
            return question.revisions
        case CompareJob():
            return question.good, question.bad
        case BisectJob():
            return question.good, question.candidates[-1].revision
        case NightlyJob():
            return (question.revision,)


def cost_of(question: Job, evidence: Evidence, prices: Prices) -> TestbedCost:
    """Upper limit of the remaining cost of a job."""
    visit = prices.boot + prices.run * len(question.scenarios)
    builds = tuple(
        one
        for one in ends_of(question)
        if one not in evidence.kernels and one not in evidence.skipped
    )
    wanted = boots_wanted(question)
    if isinstance(question, MeasureJob):
        left = measurement.remaining_boots(question, evidence)
        return TestbedCost(question.testbed, builds, left, wanted - left, left * visit)
    made = sum(reading.fresh for reading in evidence.observations)
    left = max(wanted - made, 0)
    return TestbedCost(question.testbed, builds, left, 0, left * visit)
