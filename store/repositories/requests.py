"""Requests of people, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import func, select

from netbisect.bisect.model import serialization
from netbisect.bisect.model.jobs import Job
from netbisect.bisect.model.mail import Mail
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import (
    Action,
    AuditEntry,
    JobRecord,
    JobState,
    Request,
    RequestJob,
    RequestState,
)
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row, transaction
from netbisect.store.db.tables import BootRow
from netbisect.store.repositories import request_changes
from netbisect.store.repositories.jobs import add_job


class TooManyError(StoreError):
    """A user has reached the limit of open requests."""


class RequestRepository(LedgerRepository):
    """Reads and changes requests."""

    def open(
        self,
        kind: str,
        parameters: dict[str, Any],
        jobs: Sequence[Job],
        *,
        who: str,
        address: str,
        via: str,
        priority: int,
        most_open: int,
        mail: Callable[[int], Mail],
    ) -> Request:
        """Stores a request with its first jobs and a mail that confirms it, in one transaction.

        `mail` returns the mail for the id of the request; the other arguments are fields of
        `Request`. Raises TooManyError if the person has `most_open` open requests.
        """
        with self.writing() as writing:
            _check_open(writing, who, most_open)
            row = Request(
                kind=kind,
                parameters=parameters,
                who=who,
                address=address,
                via=via,
                priority=priority,
                opened_at=writing.now,
            )
            writing.session.add(row)
            writing.session.flush()
            request_changes.add_audit_entry(
                writing, "ask", who=who, via=via, data=parameters, request=row.id
            )
            for job in jobs:
                add_job(writing, job, priority=priority, requested_by=who, request=(row.id, 1))
            request_changes.mail_requester(writing, row, mail(row.id))
            return row

    def get(self, identifier: int) -> Request:
        """The request with this id. Raises NotFoundError."""
        return self._get(Request, identifier)

    def all(
        self, *, who: str | None = None, state: RequestState | None = None, last: int = 100
    ) -> list[Request]:
        """Requests of a user, or in a state, the newest first; at most `last`."""
        query = select(Request).order_by(Request.id.desc()).limit(last)
        if who is not None:
            query = query.where(Request.who == who)
        if state is not None:
            query = query.where(Request.state == state)
        return self._all(query)

    def jobs(self, request: int) -> list[JobRecord]:
        """The jobs of a request, oldest first."""
        with self.reading() as session:
            return list(request_changes.job_rows(session, request))

    def audit(
        self, *, request: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[AuditEntry]:
        """Entries of the audit log, of one request or all, oldest first; `after` is an id."""
        query = select(AuditEntry).where(AuditEntry.id > after).order_by(AuditEntry.id).limit(limit)
        if request is not None:
            query = query.where(AuditEntry.request == request)
        return self._all(query)

    def boots_for(self, who: str, since: float) -> int:
        """Number of boots for a user's requests since a time."""
        query = (
            select(func.count())
            .select_from(BootRow)
            .join(Action, BootRow.decision_id == Action.id)
            .join(RequestJob, RequestJob.job == Action.job)
            .join(Request, Request.id == RequestJob.request)
            .where(Request.who == who, Action.intended_at >= since)
        )
        with self.reading() as session:
            return session.scalar(query) or 0

    add_audit_entry = transaction(request_changes.add_audit_entry)

    # `mail` is mailed to the requester if another user changes the request.

    cancel = transaction(request_changes.cancel)

    def resume(self, request: int, *, who: str, via: str, most_open: int, mail: Mail) -> Request:
        """Resumes a cancelled request, with its measurements.

        Raises TooManyError if its requester has `most_open` open requests, StoreError if it was not
        cancelled or an action is still being cancelled.
        """
        with self.writing() as writing:
            row = get_row(writing.session, Request, request)
            if row.state != RequestState.CANCELLED:
                raise StoreError(
                    f"request {request} is {row.state}: only a cancelled request can be resumed"
                )
            _check_open(writing, row.who, most_open)
            jobs = request_changes.job_rows(writing.session, request)
            ordered = select(Action.external_id).where(
                Action.job.in_([one.id for one in jobs]),
                Action.outcome.is_(None),
            )
            pending = writing.session.scalars(ordered).first()
            if pending is not None:
                raise StoreError(
                    f"request {request} cannot be resumed yet: the service still has to cancel "
                    f"{pending}"
                )
            for job in jobs:
                if job.state == JobState.HELD:
                    job.state, job.closed_at = JobState.OPEN, None
            row.state, row.why, row.closed_at = RequestState.OPEN, "", None
            return request_changes.audited(writing, row, "resume", who, via, {}, mail)

    def extend(
        self,
        request: int,
        change: Callable[[Job], Job | None],
        *,
        who: str,
        via: str,
        most_open: int,
        data: dict[str, Any],
        mail: Mail,
    ) -> Request:
        """Changes jobs of an open or answered request, and reopens those that are closed.

        `change` returns the changed job, or None to leave it; `data` is that of the audit entry.
        Raises TooManyError as `resume`, StoreError if it was cancelled or no job was changed.
        """
        with self.writing() as writing:
            row = get_row(writing.session, Request, request)
            if row.state == RequestState.CANCELLED:
                raise StoreError(f"request {request} is cancelled: it must be resumed first")
            if row.state != RequestState.OPEN:
                _check_open(writing, row.who, most_open)
            changed = 0
            for job in request_changes.job_rows(writing.session, request):
                wanted = change(serialization.loads(job.job_json))
                if wanted is None:
                    continue
                changed += 1
                job.job_json = serialization.dumps(wanted)
                job.state = JobState.OPEN
                job.result_json = job.closed_at = None
            if not changed:
                raise StoreError(f"request {request} has no search whose hours could be extended")
            row.state, row.verdict, row.why = RequestState.OPEN, "", ""
            row.closed_at = None
            return request_changes.audited(writing, row, "extend", who, via, data, mail)

    def set_priority(
        self, request: int, priority: int, *, who: str, via: str, mail: Mail
    ) -> Request:
        """Changes the priority of a request and its jobs.

        Raises StoreError if there is none, or it is over.
        """
        with self.writing() as writing:
            row = get_row(writing.session, Request, request)
            if row.state not in {RequestState.OPEN, RequestState.CANCELLED}:
                raise StoreError(f"request {request} is {row.state}: it has no waiting job")
            row.priority = priority
            for job in request_changes.job_rows(writing.session, request):
                job.priority = priority
            data = {"priority": priority}
            return request_changes.audited(writing, row, "priority", who, via, data, mail)


def _check_open(writing: WriteTransaction, who: str, most: int) -> None:
    """Raises TooManyError if a user has as many open requests."""
    query = select(func.count()).select_from(Request)
    still = writing.session.scalar(
        query.where(Request.who == who, Request.state == RequestState.OPEN)
    )
    if (still or 0) >= most:
        raise TooManyError(
            f"{who} has {still} open requests, and may have {most}; "
            "one of them must end or be cancelled first"
        )
