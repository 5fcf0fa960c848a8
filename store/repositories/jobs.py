"""Jobs: added once, and closed together with all that follows from the result."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.jobs import Job
from netbisect.bisect.model.results import Effect, Result
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert, JobRecord, JobState, OutboxMail, Request, RequestState
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row
from netbisect.store.db.tables import DecisionRow, KernelRow, QuestionRow, RequestQuestionRow
from netbisect.store.repositories import alert_changes, request_changes
from netbisect.store.repositories.evidence import scope_of
from netbisect.store.repositories.outbox import post_mail


class AlreadyClosedError(StoreError):
    """The question has its answer; what follows from it has been done with it."""


@dataclass(frozen=True, slots=True)
class JobClosing:
    """What follows from an answer: kept with it, or not at all."""

    record: JobRecord
    """The job to close."""
    _writing: WriteTransaction

    def ask(
        self,
        job: Job,
        *,
        key: str,
        parent: int | None = None,
        priority: int = 10,
        requested_by: str = "",
    ) -> JobRecord:
        """Adds a child job of the job to close, or of `parent`."""
        return add_job(
            self._writing,
            job,
            key=key,
            parent=self.record.id if parent is None else parent,
            priority=priority,
            requested_by=requested_by,
        )

    def open_candidate(
        self, record: JobRecord, *, kind: AlertKind, what: str, who: str = "netbisect"
    ) -> Alert:
        """Opens a candidate for the compare job that is to confirm it.

        `open_alert` announces it when that comparison is closed; `change_alert` withdraws it.

        Raises:
            StoreError: the job is no compare job.
        """
        return alert_changes.open_candidate(self._writing, record, kind=kind, who=who, what=what)

    def open_alert(
        self,
        effects: Sequence[Effect],
        *,
        what: str,
        who: str = "netbisect",
        bisection: int | None = None,
        kind: AlertKind | None = None,
        ends: tuple[str, str] | None = None,
    ) -> Alert:
        """Announces a confirmed change.

        It is the candidate of this comparison; or an alert of the same testbed, branch and
        kind that ended at most 30 days ago, about the same leading scenario or range, which is
        opened again; or a new one.

        Args:
            effects: Leading scenario first, at least one.
            what: Reason, for the history of the alert.
            who: Author in the history.
            bisection: Existing job that searches for the culprit.
            kind: Kind of the change; from the sign of the leading effect by default.
            ends: Good and bad revision, if not those of the job.

        Raises:
            StoreError: the question is neither a comparison nor a bisection, or nothing was
                measured.
        """
        return alert_changes.open_alert(
            self._writing,
            self.record,
            effects,
            bisection=bisection,
            kind=kind,
            ends=ends,
            who=who,
            what=what,
        )

    def note_modes(
        self, effect: Effect, *, good: str, what: str, who: str = "netbisect"
    ) -> Alert | None:
        """Writes down that the slow mode occurs more or less often since this night's images.

        Args:
            effect: In which scenario, and how the mean of all boots moved.
            good: The last revision before.
            what: Reason, for the history of the alert.
            who: Author in the history.

        Returns:
            The alert; None when one about this series stands already.

        Raises:
            StoreError: the question is no night.
        """
        return alert_changes.note_modes(
            self._writing, self.record, effect=effect, good=good, who=who, what=what
        )

    def change_alert(
        self,
        alert: int,
        *,
        what: str,
        who: str = "netbisect",
        state: AlertState | None = None,
        culprit: str | None = None,
        comparison: int | None = None,
        bisection: int | None = None,
    ) -> Alert:
        """Changes what is given, and notes who did it and why, as `AlertRepository.change` does.

        With `comparison`, that is the one that is to confirm it now.

        Raises:
            StoreError: there is no such alert, or it cannot come to that state.
        """
        return alert_changes.change_alert(
            self._writing,
            alert,
            who=who,
            what=what,
            state=state,
            culprit=culprit,
            comparison=comparison,
            bisection=bisection,
        )

    def add_series(
        self,
        alert: int,
        *,
        testbed: str,
        scenario: str,
        branch: str,
        good: str,
        bad: str,
        effect: Effect | None = None,
        who: str = "netbisect",
    ) -> Alert:
        """Adds a series in which the alert was seen too; what is known of it already stays.

        Raises:
            StoreError: there is no such alert.
        """
        return alert_changes.add_series(
            self._writing,
            alert,
            testbed=testbed,
            scenario=scenario,
            branch=branch,
            good=good,
            bad=bad,
            effect=effect,
            who=who,
        )

    def join_same_culprit(self, alert: int, *, who: str = "netbisect") -> Alert:
        """Makes one event of all standing alerts with this one's culprit and kind.

        Returns:
            The alert that stands for it: the one that was announced first.

        Raises:
            StoreError: there is no such alert.
        """
        return alert_changes.join_same_culprit(self._writing, alert, who=who)

    def post(
        self,
        key: str,
        *,
        subject: str,
        recipients: Sequence[str],
        body: str,
        alert: int | None = None,
    ) -> OutboxMail:
        """Puts a mail into the outbox, as `OutboxRepository.post` does.

        Raises:
            StoreError: there are no recipients, or no such alert.
        """
        return post_mail(
            self._writing, key, subject=subject, recipients=recipients, body=body, alert=alert
        )

    def ask_more(self, job: Job, *, run: int | None = None) -> JobRecord:
        """Adds a job to the request of the job to close.

        Args:
            job: The job.
            run: 2 for what repeats the first; that of the question being closed when left out.
        """
        assert self.record.request is not None
        run = self.record.run if run is None else run
        kind = serialization.tag_of(job)
        return add_job(
            self._writing,
            job,
            key=f"request:{self.record.request}:{job.testbed}:{run}:{kind}",
            parent=self.record.id,
            priority=self.record.priority,
            requested_by=self.record.requested_by,
            request=(self.record.request, run),
        )

    def end_request(
        self, *, state: RequestState, verdict: str, why: str, letter: tuple[str, str]
    ) -> Request:
        """Closes the request of the job, with a mail.

        Args:
            state: Answered, or failed.
            verdict: In one word.
            why: In a sentence.
            letter: Subject and text of the mail.
        """
        assert self.record.request is not None
        return request_changes.end(
            self._writing,
            self.record.request,
            state=state,
            verdict=verdict,
            why=why,
            letter=letter,
        )


class JobRepository(LedgerRepository):
    """Jobs and their results."""

    def add(
        self,
        job: Job,
        *,
        key: str,
        parent: int | None = None,
        priority: int = 10,
        requested_by: str = "",
    ) -> JobRecord:
        """Adds a job; returns the existing job for a known key.

        Args:
            job: The job.
            key: Unique, such as `night:main:c2558:2026-11-21`.
            parent: Id of the parent job.
            priority: Higher ones run first.
            requested_by: Person; "" for the service.
        """
        with self.writing() as writing:
            return add_job(
                writing,
                job,
                key=key,
                parent=parent,
                priority=priority,
                requested_by=requested_by,
            )

    def all_open(self) -> list[JobRecord]:
        """Open jobs: by descending priority, then oldest first."""
        wanted = (
            select(QuestionRow)
            .where(QuestionRow.state == JobState.OPEN.value)
            .order_by(QuestionRow.priority.desc(), QuestionRow.id)
        )
        with self.reading() as session:
            return [job_of(row) for row in session.scalars(wanted)]

    def get(self, identifier: int) -> JobRecord:
        """The job with this id.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return job_of(get_row(session, QuestionRow, identifier))

    def by_key(self, key: str) -> JobRecord | None:
        """The job with this key, or None."""
        with self.reading() as session:
            row = session.scalar(select(QuestionRow).where(QuestionRow.key == key))
            return None if row is None else job_of(row)

    def children(self, identifier: int) -> list[JobRecord]:
        """Child jobs, oldest first."""
        following = (
            select(QuestionRow).where(QuestionRow.parent_id == identifier).order_by(QuestionRow.id)
        )
        with self.reading() as session:
            return [job_of(row) for row in session.scalars(following)]

    @contextlib.contextmanager
    def closing(self, record: JobRecord, finding: Result) -> Iterator[JobClosing]:
        """Closes a job with its result, and stores all that follows from it.

            with ledger.jobs.closing(record, finding) as closing:
                alert = closing.open_alert(finding.effects, what="confirmed")
                closing.post(f"alert:{alert.id}", ...)

        The block is one transaction and delays other writers; compute results before it.

        Raises:
            AlreadyClosedError: the job is closed already; the block is not entered.
            StoreError: there is no such job, or the database failed.
        """
        with self.writing() as writing:
            row = get_row(writing.session, QuestionRow, record.id)
            if row.state == JobState.CLOSED.value:
                raise AlreadyClosedError(f"question {record.id} ({record.key}) is closed already")
            row.state = JobState.CLOSED.value
            row.finding = serialization.dumps(finding)
            row.closed_at = writing.now
            writing.note(
                "closed", row.id, key=row.key, kind=row.kind, finding=serialization.tag_of(finding)
            )
            yield JobClosing(job_of(row), writing)

    def needed_kernels(self) -> set[str]:
        """Keys of the kernels that open questions may yet want to boot.

        Of each build of a revision that one of them is about, that is the newest; and what open
        decisions have ordered.
        """
        still_open = QuestionRow.state == JobState.OPEN.value
        ordered = (
            select(DecisionRow.revision)
            .join(QuestionRow, DecisionRow.question_id == QuestionRow.id)
            .where(DecisionRow.outcome.is_(None), still_open)
        )
        with self.reading() as session:
            revisions = set(session.scalars(ordered))
            for row in session.scalars(select(QuestionRow).where(still_open)):
                revisions.update(scope_of(job_of(row)).revisions)
            built = (
                select(KernelRow)
                .where(KernelRow.revision.in_(revisions))
                .order_by(KernelRow.at, KernelRow.id)
            )
            newest = {
                (row.revision, row.config, row.arch): row.key for row in session.scalars(built)
            }
            relinked = (
                select(KernelRow)
                .where(KernelRow.revision.contains("#"))
                .order_by(KernelRow.at, KernelRow.id)
            )
            newest |= {
                (row.revision, row.config, row.arch): row.key
                for row in session.scalars(relinked)
                if split_kernel_name(row.revision)[0] in revisions
            }
        return set(newest.values())

    def of_kind(self, kind: str) -> list[JobRecord]:
        """All questions of a kind, `comparison` or `bisection`, oldest first."""
        query = select(QuestionRow).where(QuestionRow.kind == kind).order_by(QuestionRow.id)
        with self.reading() as session:
            return [job_of(row) for row in session.scalars(query)]

    def progress(self, jobs: Collection[int] | None = None) -> dict[int, tuple[int, int]]:
        """By question: how many attempts there were, and how many of them are over.

        Args:
            jobs: Only of these; of all where they are not told.
        """
        query = select(DecisionRow.question_id, func.count(), func.count(DecisionRow.outcome))
        if jobs is not None:
            query = query.where(DecisionRow.question_id.in_(jobs))
        with self.reading() as session:
            found = session.execute(query.group_by(DecisionRow.question_id))
            return {job: (begun, over) for job, begun, over in found}


def job_of(row: QuestionRow) -> JobRecord:
    """The record in this row."""
    job: Job = serialization.loads(row.noun)
    finding: Result | None = None if row.finding is None else serialization.loads(row.finding)
    return JobRecord(
        id=row.id,
        key=row.key,
        job=job,
        parent=row.parent_id,
        priority=row.priority,
        requested_by=row.requested_by,
        state=JobState(row.state),
        finding=finding,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        request=None if row.link is None else row.link.request_id,
        run=1 if row.link is None else row.link.run,
    )


def add_job(
    writing: WriteTransaction,
    job: Job,
    *,
    key: str,
    parent: int | None = None,
    priority: int,
    requested_by: str,
    request: tuple[int, int] | None = None,
) -> JobRecord:
    """As `JobRepository.ask`, as part of a transaction.

    Args:
        writing: The transaction.
        job: The job.
        key: Unique.
        parent: Id of the parent job.
        priority: Higher ones run first.
        requested_by: Person.
        request: Number and run of the request that it is asked for.
    """
    session = writing.session
    known = session.scalar(select(QuestionRow).where(QuestionRow.key == key))
    if known is not None:
        return job_of(known)
    if parent is not None:
        get_row(session, QuestionRow, parent)
    row = QuestionRow(
        kind=serialization.tag_of(job),
        noun=serialization.dumps(job),
        parent_id=parent,
        key=key,
        branch=job.branch,
        testbed=job.testbed,
        priority=priority,
        requested_by=requested_by,
        state=JobState.OPEN.value,
        opened_at=writing.now,
    )
    if request is not None:
        row.link = RequestQuestionRow(request_id=request[0], run=request[1])
    session.add(row)
    session.flush()
    writing.note("asked", row.id, key=key, kind=row.kind, branch=row.branch, testbed=row.testbed)
    return job_of(row)
