"""Progress of open jobs and of the last night."""

from __future__ import annotations

from collections.abc import Callable

from netbisect.bisect.model.entities import Boot
from netbisect.bisect.model.evidence import Evidence, Prices, split_kernel_name
from netbisect.bisect.model.jobs import BisectJob, CompareJob, Job, MeasureJob, NightlyJob
from netbisect.reports.model.compared import Set
from netbisect.reports.render import words
from netbisect.reports.site.overview import NightProgress, RunningJob
from netbisect.steps.policy.request_cost import boots_wanted, price_of_trial
from netbisect.steps.queries import digest
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service.numeric import measurement, plan
from netbisect.store.db.records import Action, ActionStage, JobRecord
from netbisect.store.db.tables import record_of
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
    if isinstance(job, BisectJob):
        share, left, progress = _search(ledger, lab, record, job, prices)
    else:
        done, most = boots_of(ledger, record, lab.evidence)
        share, left = done / max(most, 1), (most - done) * price_of_trial(job, prices)
        progress = words.boots_of(done, most, estimated=isinstance(job, CompareJob))
    working = [one for one in decisions if one.outcome is None]
    left = max(left, _least_left(working, job, prices))
    orders = working or decisions[-1:]
    order = "; ".join(_order(ledger, lab, one, job.testbed) for one in orders) or "waits"
    return record_of(
        RunningJob,
        record,
        number=record.id,
        since=record.opened_at,
        done=share,
        left=left or None,
        progress=progress,
        now=order,
    )


def _search(
    ledger: Ledger, lab: LabContext, record: JobRecord, job: BisectJob, prices: Prices
) -> tuple[float | None, float, str]:
    """The completed share, the seconds left, and a text."""
    evidence = lab.evidence(ledger, record)
    ahead = plan.forecast(job, evidence, prices)
    left, spent = 3600 * ahead.hours_left, ledger.costs.of_jobs([record.id]).seconds
    commits = words.count(len(job.candidates), "commit")
    progress = f"{commits}; likeliest {words.likeliest(ahead.posterior, ledger.commits.label)}"
    return spent / (spent + left) if spent + left else None, left, progress


def _order(ledger: Ledger, lab: LabContext, decision: Action, own: str) -> str:
    """Describes an action, with its testbed if that is not the job's own."""
    peer = f" on {decision.testbed}" if decision.testbed != own else ""
    why = lab.why_waiting(ledger, decision) or decision.why
    return f"{decision.stage.value} {ledger.commits.label(decision.revision)}{peer}: {why}"


def _least_left(working: list[Action], job: Job, prices: Prices) -> float:
    """Seconds that the longest of these actions takes; 0.0 without any."""
    trial = price_of_trial(job, prices)
    kernels = [one for one in working if one.stage is ActionStage.KERNEL]
    links = (prices.of_kernel(split_kernel_name(one.revision)[1]) for one in kernels)
    return max(0.0, *links, trial if len(kernels) < len(working) else 0.0)


def boots_of(
    ledger: Ledger, record: JobRecord, evidence_of: Callable[[Ledger, JobRecord], Evidence]
) -> tuple[int, int]:
    """Boots of a job so far, of a measurement those that count; and as many as it may need."""
    job = record.job
    if isinstance(job, MeasureJob):
        evidence = evidence_of(ledger, record)
        done = measurement.counted_boots(job, evidence)
        return done, done + measurement.remaining_boots(job, evidence)
    done = sum(isinstance(fact, Boot) for fact in ledger.facts.of_job(record.id))
    return done, max(done, boots_wanted(job))


def measured_sides(ledger: Ledger, job: MeasureJob, evidence: Evidence, series: str) -> list[Set]:
    """The boots that count for a measurement, by revision; a revision may have a patch."""
    numbers = measurement.counted_numbers(job, evidence, series)
    return [Set(ledger.commits.label(name), tuple(own)) for name, own in numbers.items()]
