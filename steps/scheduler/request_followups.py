"""Follow-ups of a request's jobs: the next job, or the answer."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    MeasureJob,
)
from netbisect.bisect.model.results import (
    Confirmed,
    MeasureResult,
    Result,
)
from netbisect.reports.pages import requests
from netbisect.steps.policy import bisections
from netbisect.steps.queries import request_answer, request_files
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import JobRecord, JobState, Request, RequestState
from netbisect.store.git.history import History
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

_HOUR = 3600.0


def conclude(
    ledger: Ledger,
    settings: Settings,
    lab: Lab,
    history: History,
    record: JobRecord,
    finding: Result,
) -> list[JobRecord]:
    """Closes a job of a request; returns the jobs that follow.

    With the last job, the answer of the request is recorded and mailed in the same transaction.
    """
    assert record.request is not None
    request = ledger.requests.get(record.request)
    parts = [
        replace(one, finding=finding, state=JobState.CLOSED) if one.id == record.id else one
        for one in ledger.requests.jobs(request.id)
    ]
    further, run = _further(ledger, lab, history, request, parts, record, finding)
    done = further is None and all(one.state is JobState.CLOSED for one in parts)
    answer = request_answer.answer(ledger, settings, lab, request, parts) if done else None
    with ledger.jobs.closing(record, finding) as closing:
        if further is not None:
            return [closing.ask_more(further, run=run)]
        if answer is not None:
            failed = answer.verdict == request_answer.FAILED
            closing.end_request(
                state=RequestState.FAILED if failed else RequestState.ANSWERED,
                verdict=answer.verdict,
                why=answer.sentence,
                letter=requests.mail(answer),
            )
    if answer is not None:
        with contextlib.suppress(OSError):  # the next start of the master writes the page
            request_files.write(ledger, settings, lab, history, ledger.requests.get(request.id))
    return []


def _further(
    ledger: Ledger,
    lab: Lab,
    history: History,
    request: Request,
    parts: list[JobRecord],
    record: JobRecord,
    finding: Result,
) -> tuple[Job | None, int]:
    """The next job or None, and its run."""
    job, testbed = record.job, record.job.testbed
    if isinstance(job, MeasureJob) and isinstance(finding, MeasureResult):
        asked_runs = {one.run for one in parts if one.job.testbed == testbed}
        if record.run < request.wish["runs"] and record.run + 1 not in asked_runs:
            return replace(job, shared_since=math.inf), record.run + 1
    if isinstance(job, CompareJob) and isinstance(finding, Confirmed):
        searched = any(
            isinstance(one.job, BisectJob) and one.job.testbed == testbed for one in parts
        )
        commits, _ = bisections.commits_between(ledger, history, job)
        search = bisections.bisect_job(ledger, lab.testbed(testbed), job, finding, commits)
        if search is not None and not searched:
            return replace(search, budget_seconds=request.wish["hours"] * _HOUR), record.run
    return None, record.run
