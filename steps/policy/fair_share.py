"""Fair share: limits the work queued per user, so that users take turns within a priority.

A user has one trial in the queue of a testbed, and as many builds as there are builders. A request
waits while a job of higher priority has a trial in the queue.
"""

from __future__ import annotations

from netbisect.bisect.model.jobs import MeasureJob
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import ActionStage, JobRecord
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

_DAY = 86400.0


def why_waiting(
    ledger: Ledger, settings: Settings, lab: Lab, record: JobRecord, stage: ActionStage
) -> str:
    """Reason to delay a decision of this stage for a job of a request, or ""."""
    who = record.requested_by
    testbed = lab.testbed(record.job.testbed)
    jobs = {one.id: one for one in ledger.jobs.all_open() if one.id != record.id}
    same = [one for one in ledger.actions.all_open() if one.job in jobs and one.stage is stage]
    theirs = [
        one
        for one in same
        if jobs[one.job].request is not None and jobs[one.job].requested_by == who
    ]
    if stage is ActionStage.KERNEL:
        builders = sum(builder.arch == testbed.arch for builder in lab.builders)
        building = sum(one.arch == testbed.arch for one in theirs)
        return f"other kernels are built for {who}" if building >= builders else ""
    if any(one.target == testbed.name for one in theirs):
        return f"another request of {who} is on {testbed.name}"
    # Otherwise they would take turns. A search does not delay requests on the testbeds of peers.
    if any(
        one.target == testbed.name == jobs[one.job].job.testbed
        and jobs[one.job].priority > record.priority
        for one in same
    ):
        return f"a job of higher priority is on {testbed.name}"
    most = settings.requests.boots_per_day
    if ledger.requests.boots_for(who, ledger.clock() - _DAY) >= most:
        return f"{who} had {most} boots in 24 hours"
    return ""


def is_in_flight(ledger: Ledger, record: JobRecord, revision: str) -> bool:
    """Whether the next boot of a measurement is in flight for another one, and counts."""
    job = record.job
    if not isinstance(job, MeasureJob):
        return False
    for decision in ledger.actions.all_open():
        if decision.stage is not ActionStage.TRIAL or decision.job == record.id:
            continue
        if (decision.target, decision.revision) != (job.testbed, revision):
            continue
        other = ledger.jobs.get(decision.job)
        if (
            isinstance(other.job, MeasureJob)
            and other.request != record.request
            and other.priority >= record.priority
            and set(job.scenarios) <= set(other.job.scenarios)
            and decision.intended_at >= job.shared_since
        ):
            return True
    return False
