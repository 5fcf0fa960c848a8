"""Changes of requests within a transaction; each has an audit entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from netbisect.bisect.model.mail import Mail
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import (
    AuditEntry,
    JobRecord,
    JobState,
    Request,
    RequestJob,
    RequestState,
)
from netbisect.store.db.sessions import WriteTransaction, get_row
from netbisect.store.repositories.outbox import post_mail


def add_audit_entry(
    writing: WriteTransaction,
    what: str,
    *,
    who: str,
    via: str,
    data: dict[str, Any],
    request: int | None = None,
) -> None:
    """Adds an audit entry and an event."""
    writing.session.add(
        AuditEntry(
            at=writing.now,
            who=who,
            via=via,
            what=what,
            request=request,
            data=dict(data),
            origin=writing.origin,
        )
    )
    writing.note("request", request=request, what=what, who=who)


def job_rows(session: Session, request: int) -> Sequence[JobRecord]:
    """The jobs of a request, oldest first."""
    return (
        session.scalars(
            select(JobRecord)
            .join(RequestJob, RequestJob.job == JobRecord.id)
            .where(RequestJob.request == request)
            .order_by(JobRecord.id)
        )
        .unique()
        .all()
    )


def cancel(
    writing: WriteTransaction, request: int, *, who: str, via: str, why: str, mail: Mail
) -> Request:
    """Cancels a request until it is resumed. Raises StoreError if there is none, or it is over."""
    row = get_row(writing.session, Request, request)
    if row.state != RequestState.OPEN:
        raise StoreError(f"request {request} is {row.state}: there is nothing to cancel")
    for job in job_rows(writing.session, request):
        if job.state == JobState.OPEN:
            job.state, job.closed_at = JobState.HELD, writing.now
    row.state, row.why, row.closed_at = RequestState.CANCELLED, why, writing.now
    return audited(writing, row, "cancel", who, via, {"why": why}, mail)


def end(
    writing: WriteTransaction,
    request: int,
    *,
    state: RequestState,
    verdict: str,
    why: str,
    mail: Mail,
) -> Request:
    """Closes a request with its result, and mails it to the requester. Raises NotFoundError."""
    row = get_row(writing.session, Request, request)
    row.state, row.verdict, row.why = state, verdict, why
    row.closed_at = writing.now
    data = {"verdict": verdict, "why": why}
    add_audit_entry(writing, "answer", who="netbisect", via="service", data=data, request=request)
    mail_requester(writing, row, mail)
    return row


def audited(
    writing: WriteTransaction,
    row: Request,
    what: str,
    who: str,
    via: str,
    data: dict[str, Any],
    mail: Mail,
) -> Request:
    """Adds the audit entry of a change, and mails the requester a change by another user."""
    add_audit_entry(writing, what, who=who, via=via, data=data, request=row.id)
    if who != row.who:
        mail_requester(writing, row, mail)
    return row


def mail_requester(writing: WriteTransaction, row: Request, mail: Mail) -> None:
    """Mails the requester in the thread of the request, if there is an address."""
    if not row.address:
        return
    thread = f"request:{row.id}:"
    entries = (
        select(AuditEntry.id).where(AuditEntry.request == row.id).order_by(AuditEntry.id.desc())
    )
    last = writing.session.scalars(entries.limit(1)).first()
    post_mail(writing, f"{thread}{last}", mail, [row.address], thread=thread)
