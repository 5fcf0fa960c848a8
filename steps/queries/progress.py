"""Progress of open jobs and of the last night."""

from __future__ import annotations

from netbisect.bisect.model import serialization
from netbisect.bisect.model.detection_results import RETEST_BOOTS
from netbisect.bisect.model.entities import Boot
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.reports.render import words
from netbisect.reports.render.progress import Side
from netbisect.reports.site.overview import NightProgress, RunningJob
from netbisect.steps.queries import digest
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service.numeric import measurement, plan
from netbisect.store.db.records import Action, ActionStage, JobRecord
from netbisect.store.ledger import Ledger

NIGHT_SECONDS = 20 * 3600.0
"""Jobs opened within this time belong to one night."""


def last_night(ledger: Ledger, lab: LabContext) -> NightProgress:
    """The progress of the last night on all testbeds."""
    nights = ledger.nights.latest(NIGHT_SECONDS)
    missing = [one for night in nights for one in digest.missing_of(ledger, night, lab.title)]
    planned = sum(len(one.job.scenarios) for one in nights if isinstance(one.job, NightlyJob))
    ends = [one.closed_at for one in nights]
    return NightProgress(
        planned=planned,
        measured=planned - sum(len(one.scenarios) for one in missing),
        missing=tuple(missing),
        begun=min((one.opened_at for one in nights), default=None),
        finished=None if None in ends else max((one for one in ends if one), default=None),
    )


def progress_of(ledger: Ledger, lab: LabContext, record: JobRecord) -> RunningJob:
    """The progress of an open job."""
    job = record.job
    decisions = ledger.actions.of_job(record.id)
    prices = ledger.costs.prices(job.testbed)
    share: float | None
    left: float | None
    match job:
        case NightlyJob():
            done = _boots(ledger, record)
            share, left, progress = _of_boots(done, job.boots, prices, job.scenarios)
        case CompareJob():
            done = _boots(ledger, record)
            share, left, progress = _of_boots(
                done, RETEST_BOOTS, prices, job.scenarios, about="about "
            )
        case BisectJob():
            share, left, progress = _search(ledger, lab, record, job, prices)
        case ProfileJob():
            # Without a packet rate, a first boot per revision measures it.
            boots = len(job.revisions) * (1 if job.pps else 2)
            done = _boots(ledger, record)
            share, left, progress = _of_boots(done, boots, prices, job.scenarios)
        case MeasureJob():
            boots = len(job.revisions) * job.boots
            evidence = lab.evidence(ledger, record)
            done = boots - measurement.remaining_boots(job, evidence)
            share, left, progress = _of_boots(done, boots, prices, job.scenarios)
    working = [one for one in decisions if one.outcome is None]
    if left is not None:
        left = max(left, _least_left(working, prices, job.scenarios)) or None
    orders = working or decisions[-1:]
    order = "; ".join(_order(ledger, one, job.testbed) for one in orders) or "waits"
    return RunningJob(
        kind=serialization.tag_of(job),
        number=record.id,
        testbed=job.testbed,
        branch=job.branch,
        since=record.opened_at,
        done=share,
        left=left,
        progress=progress,
        now=order,
    )


def _search(
    ledger: Ledger, lab: LabContext, record: JobRecord, job: BisectJob, prices: Prices
) -> tuple[float | None, float | None, str]:
    evidence = lab.evidence(ledger, record)
    ahead = plan.forecast(job, evidence, prices)
    left, spent = 3600 * ahead.hours_left, ledger.costs.of_jobs([record.id]).seconds
    best, probability = max(ahead.belief.chances.items(), key=lambda one: one[1])
    progress = f"{words.count(len(job.candidates), 'commit')}; likeliest "
    if ahead.belief.none > probability:
        progress += f"no change, {words.certainty(ahead.belief.none)}"
    else:
        progress += f"{ledger.commits.label(best)}, {words.certainty(probability)}"
    return spent / (spent + left) if spent + left else None, left, progress


def _order(ledger: Ledger, decision: Action, own: str) -> str:
    """Describes an action, with its testbed if that is not the job's own."""
    guest = f" on {decision.testbed}" if decision.testbed != own else ""
    return (
        f"{decision.stage.value} {ledger.commits.label(decision.revision)}{guest}: {decision.why}"
    )


def _least_left(working: list[Action], prices: Prices, scenarios: tuple[str, ...]) -> float:
    """Seconds that the longest of these actions takes; 0.0 without any."""
    boot = prices.boot + prices.run * len(scenarios)
    return max(
        (prices.build if one.stage is ActionStage.KERNEL else boot for one in working), default=0.0
    )


def _boots(ledger: Ledger, record: JobRecord) -> int:
    return sum(isinstance(fact, Boot) for fact in ledger.facts.of_job(record.id))


def _of_boots(
    done: int, most: int, prices: Prices, scenarios: tuple[str, ...], about: str = ""
) -> tuple[float, float, str]:
    """Returns the completed share, the time left in seconds, and a text."""
    left = max(most - done, 0) * (prices.boot + prices.run * len(scenarios))
    progress = f"{done} of {about}{words.count(most, 'boot')}"
    return min(done / most, 1.0), left, progress


def measured_sides(ledger: Ledger, job: MeasureJob, evidence: Evidence, series: str) -> list[Side]:
    """The boots that count for a measurement, by revision; a revision may have a patch."""
    numbers = measurement.counted_numbers(job, evidence, series)
    return [Side(ledger.commits.label(name), tuple(own)) for name, own in numbers.items()]
