"""Profile jobs: which are opened, at which load and priority, and where profiles are stored."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from netbisect.bisect.model import profile_stacks, serialization
from netbisect.bisect.model.entities import Profile
from netbisect.bisect.model.jobs import NightlyJob, ProfileJob
from netbisect.bisect.model.metric import scenario_of
from netbisect.bisect.model.results import Result, Unfinished, culprits_of
from netbisect.reports.model.profiles import ProfilePair, StoredProfile
from netbisect.store.db.records import ActionStage, Alert, JobRecord, Outcome
from netbisect.store.ledger import Ledger

PRIORITY_CULPRIT = 50
"""Below nightly jobs."""
PRIORITY_REQUEST = 150
"""Above nightly jobs, below searches."""
_PATIENCE = 86400.0
"""Seconds until a profile no longer waits for nightly jobs."""
_LOAD = 0.7
"""Share of the slowest side's rate: shows every function, and leaves room for pmcstat."""


def key_of(job: ProfileJob) -> str:
    """Key of the one job for these kernels, testbed and scenario."""
    names = ":".join(job.revisions)
    return f"profile:{job.branch}:{job.testbed}:{job.scenarios[0]}:{names}"


def profile_jobs(ledger: Ledger, search: JobRecord, result: Result) -> list[ProfileJob]:
    """Profile jobs for every culprit of a search and its parent."""
    return [with_load(ledger, one) for one in _of_culprits(search, result)]


def _of_culprits(search: JobRecord, result: Result | None) -> list[ProfileJob]:
    where = (search.job.branch, search.job.testbed)
    return [
        ProfileJob(*where, (one.parent, one.revision), (scenario_of(one.effects[0].scenario),))
        for one in culprits_of(result)
    ]


def with_load(ledger: Ledger, job: ProfileJob) -> ProfileJob:
    """The job with a load, a share of the slowest known rate of its revisions, if known."""
    [scenario] = job.scenarios
    rates = ledger.series.rates(job.testbed, scenario, job.revisions)
    if not rates:
        return job
    return replace(job, pps=float(math.floor(_LOAD * min(rates.values()))))


def must_wait(ledger: Ledger, record: JobRecord) -> bool:
    """Whether the testbed has a job of higher priority, after a day other than a nightly one.

    Nights that take longer than a day leave no pause between them.
    """
    waited = ledger.clock() - record.opened_at >= _PATIENCE
    return any(
        other.priority > record.priority and not (waited and isinstance(other.job, NightlyJob))
        for other in ledger.jobs.all_open()
        if other.job.testbed == record.job.testbed
    )


def profiles_of_search(ledger: Ledger, logs: Path, search: JobRecord) -> tuple[ProfilePair, ...]:
    """Profiles of the culprits of a search and their parents, as far as their jobs have ended."""
    found = (ledger.jobs.by_key(key_of(one)) for one in _of_culprits(search, search.result))
    return tuple(
        compared(ledger, logs, record)
        for record in found
        if record is not None and record.result is not None
    )


def alerts_with_profiles(ledger: Ledger, record: JobRecord) -> list[Alert]:
    """The alerts whose pages show these profiles."""
    job = record.job
    assert isinstance(job, ProfileJob)
    alert = ledger.alerts.of_job(record.parent) if record.parent is not None else None
    if alert is not None:
        return [alert]
    return [
        one
        for one in ledger.alerts.of_culprit(job.revisions[-1])
        if (one.testbed, one.branch) == (job.testbed, job.branch)
    ]


def compared(ledger: Ledger, logs: Path, record: JobRecord) -> ProfilePair:
    """The profiles of a job, or the reason why there are none."""
    job, result = record.job, record.result
    assert isinstance(job, ProfileJob)
    if isinstance(result, Unfinished):
        return ProfilePair(job.revisions, (), result.why)
    found = taken(ledger, logs, record)
    if len(found) < len(job.revisions):
        return ProfilePair(job.revisions, (), "its files were removed")
    return ProfilePair(job.revisions, tuple(found))


def taken(ledger: Ledger, logs: Path, record: JobRecord) -> list[StoredProfile]:
    """The stored profiles of a job, in the order of its revisions."""
    job = record.job
    assert isinstance(job, ProfileJob)
    folders = {
        one.revision: logs / str(one.id)
        for one in ledger.actions.of_job(record.id)
        if one.stage is ActionStage.PROFILE and one.outcome is Outcome.OK
    }
    found = (
        read(folders[revision], job.scenarios[0])
        for revision in job.revisions
        if revision in folders
    )
    return [one for one in found if one is not None]


def read(folder: Path, scenario: str) -> StoredProfile | None:
    """The profile in the folder of a trial; None if missing or damaged."""
    try:
        profile = serialization.loads_as(
            (folder / profile_stacks.file_name(scenario, "json")).read_text(), Profile
        )
        text = (folder / profile_stacks.file_name(scenario, "folded")).read_text(errors="replace")
        return StoredProfile(profile, profile_stacks.parse(text))
    except (OSError, serialization.WireError, profile_stacks.StacksError):
        return None
