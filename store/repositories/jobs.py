"""Jobs: added once, and closed together with all that follows from the result."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists, func, select

from netbisect.bisect.model import serialization
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.jobs import Job
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Effect, Result
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import (
    Action,
    Alert,
    JobRecord,
    JobState,
    Request,
    RequestJob,
    RequestState,
)
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row, transaction
from netbisect.store.db.tables import KernelRow, one_of
from netbisect.store.repositories import alert_changes, request_changes
from netbisect.store.repositories.evidence import scope_of
from netbisect.store.repositories.outbox import post_mail


class StaleJobError(StoreError):
    """The job is closed or held, or was extended since it was read."""


def add_job(
    writing: WriteTransaction,
    job: Job,
    *,
    key: str = "",
    parent: int | None = None,
    priority: int = 10,
    requested_by: str = "",
    request: tuple[int, int] | None = None,
) -> JobRecord:
    """Adds a job; returns the existing job for a known key.

    `request` are the number and run of its request, which also give the key; the other arguments
    are fields of `JobRecord`.
    """
    session = writing.session
    if request is not None:
        number, run = request
        key = f"request:{number}:{job.testbed}:{run}:{serialization.tag_of(job)}"
    known = session.scalar(select(JobRecord).where(JobRecord.key == key))
    if known is not None:
        return known
    if parent is not None:
        get_row(session, JobRecord, parent)
    row = JobRecord.of(
        job,
        parent=parent,
        key=key,
        priority=priority,
        requested_by=requested_by,
        opened_at=writing.now,
        # Set even to None, or else it would be loaded later, without a session.
        link=None if request is None else RequestJob(request=request[0], run=request[1]),
    )
    session.add(row)
    session.flush()
    writing.note("asked", row.id, key=key, kind=row.kind, branch=row.branch, testbed=row.testbed)
    return row


@dataclass(frozen=True, slots=True)
class JobClosing(WriteTransaction):
    """The transaction that closes a job; what follows from the result is stored with it."""

    record: JobRecord
    """The job to close."""

    open_candidate = alert_changes.open_candidate
    change_alert = alert_changes.change_alert
    join_same_culprit = alert_changes.join_same_culprit
    post = post_mail

    def open_alert(self, effects: Sequence[Effect], *, what: str) -> Alert:
        """Announces the change that the job to close has confirmed."""
        return alert_changes.open_alert(self, self.record, effects, what=what)

    def note_modes(self, effect: Effect, *, good: str, what: str) -> Alert | None:
        """Announces that the job to close has found more or fewer slow boots."""
        return alert_changes.note_modes(self, self.record, effect, good=good, what=what)

    def ask(self, job: Job, **more: Any) -> JobRecord:  # noqa: ANN401 - as of add_job
        """Adds a child of the job to close; see `add_job`."""
        return add_job(self, job, parent=self.record.id, **more)

    def ask_more(self, job: Job, *, run: int) -> JobRecord:
        """Adds a job to the request of the job to close; `run` is 2 for a repetition."""
        assert self.record.request is not None
        return self.ask(
            job,
            priority=self.record.priority,
            requested_by=self.record.requested_by,
            request=(self.record.request, run),
        )

    def end_request(self, *, state: RequestState, verdict: str, why: str, mail: Mail) -> Request:
        """Closes the request of the job as answered or failed, with a mail."""
        assert self.record.request is not None
        return request_changes.end(
            self, self.record.request, state=state, verdict=verdict, why=why, mail=mail
        )


class JobRepository(LedgerRepository):
    """Jobs and their results."""

    add = transaction(add_job)

    def all_open(self) -> list[JobRecord]:
        """Open jobs: by descending priority, then oldest first."""
        wanted = (
            select(JobRecord)
            .where(JobRecord.state == JobState.OPEN)
            .order_by(JobRecord.priority.desc(), JobRecord.id)
        )
        return self._all(wanted)

    def get(self, identifier: int) -> JobRecord:
        """The job with this id. Raises NotFoundError."""
        return self._get(JobRecord, identifier)

    def by_key(self, key: str) -> JobRecord | None:
        """The job with this key, or None."""
        return self._first(select(JobRecord).where(JobRecord.key == key))

    def children(self, identifier: int) -> list[JobRecord]:
        """Child jobs, oldest first."""
        following = select(JobRecord).where(JobRecord.parent == identifier).order_by(JobRecord.id)
        return self._all(following)

    @contextlib.contextmanager
    def closing(
        self, record: JobRecord, result: Result, *, unbegun: bool = False
    ) -> Iterator[JobClosing]:
        """Closes a job, or only an `unbegun` one, with its result and all that follows from it.

            with ledger.jobs.closing(record, result) as closing:
                alert = closing.open_alert(result.effects, what="confirmed")
                closing.post(f"alert:{alert.id}", ...)

        The block is one transaction and delays other writers; compute results before it.

        Raises:
            StaleJobError: the job is not open, has changed, or has begun; the block is not entered.
            StoreError: there is no such job, or the database failed.
        """
        with self.writing() as writing:
            row = get_row(writing.session, JobRecord, record.id)
            if row.state != JobState.OPEN or row.job_json != record.job_json:
                raise StaleJobError(f"job {record.id} ({record.key}) is {row.state} or has changed")
            if unbegun and writing.session.scalar(select(exists().where(Action.job == row.id))):
                raise StaleJobError(f"job {record.id} ({record.key}) has begun")
            row.state = JobState.CLOSED
            row.result_json = serialization.dumps(result)
            row.closed_at = writing.now
            writing.note(
                "closed", row.id, key=row.key, kind=row.kind, finding=serialization.tag_of(result)
            )
            yield JobClosing(writing.session, writing.now, writing.domain, writing.origin, row)

    def needed_kernels(self) -> set[str]:
        """Keys of the kernels that open jobs may boot: the newest builds of their revisions."""
        still_open = JobRecord.state == JobState.OPEN
        ordered = (
            select(Action.revision)
            .join(JobRecord, Action.job == JobRecord.id)
            .where(Action.outcome.is_(None), still_open)
        )
        with self.reading() as session:
            revisions = set(session.scalars(ordered))
            for row in session.scalars(select(JobRecord).where(still_open)):
                revisions.update(scope_of(row).revisions)
            relinked = KernelRow.revision.contains("#")
            built = select(KernelRow).where(one_of(KernelRow.revision, revisions) | relinked)
            newest = {
                (row.revision, row.config, row.arch): row.key
                for row in session.scalars(built.order_by(KernelRow.id))
                if not revisions.isdisjoint({row.revision, split_kernel_name(row.revision)[0]})
            }
        return set(newest.values())

    def of_kind(self, kind: str) -> list[JobRecord]:
        """All jobs of a kind, such as `comparison`, oldest first."""
        query = select(JobRecord).where(JobRecord.kind == kind).order_by(JobRecord.id)
        return self._all(query)

    def progress(self, jobs: Collection[int] | None = None) -> dict[int, tuple[int, int]]:
        """By job, by default for all: number of submitted attempts, and of finished ones."""
        query = select(Action.job, func.count(Action.buildset), func.count(Action.outcome))
        if jobs is not None:
            query = query.where(Action.job.in_(jobs))
        with self.reading() as session:
            found = session.execute(query.group_by(Action.job))
            return {job: (sent, over) for job, sent, over in found}
