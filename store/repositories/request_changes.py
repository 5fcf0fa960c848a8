"""Changes of requests within a transaction; each has an audit entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from netbisect.store.db.database import StoreError
from netbisect.store.db.records import JobState, Request, RequestState
from netbisect.store.db.rows import record_of
from netbisect.store.db.sessions import WriteTransaction, get_row
from netbisect.store.db.tables import AuditRow, QuestionRow, RequestQuestionRow, RequestRow
from netbisect.store.repositories.outbox import post_mail

MailText: TypeAlias = tuple[str, str]
"""Subject and text."""


def add_audit_entry(
    writing: WriteTransaction,
    request: int | None,
    what: str,
    *,
    who: str,
    via: str,
    data: dict[str, Any] | None = None,
) -> None:
    """Adds an audit entry and an event."""
    writing.session.add(
        AuditRow(
            at=writing.now,
            who=who,
            via=via,
            what=what,
            request_id=request,
            data=dict(data or {}),
            origin=writing.origin,
        )
    )
    writing.note("request", request=request, what=what, who=who)


def job_rows(session: Session, request: int) -> Sequence[QuestionRow]:
    """The jobs of a request, oldest first."""
    return (
        session.scalars(
            select(QuestionRow)
            .join(RequestQuestionRow, RequestQuestionRow.question_id == QuestionRow.id)
            .where(RequestQuestionRow.request_id == request)
            .order_by(QuestionRow.id)
        )
        .unique()
        .all()
    )


def cancel(
    writing: WriteTransaction, request: int, *, who: str, via: str, why: str, letter: MailText
) -> Request:
    """Cancels a request until it is resumed.

    Raises:
        StoreError: there is none, or it is over.
    """
    row = get_row(writing.session, RequestRow, request)
    if row.state != RequestState.OPEN.value:
        raise StoreError(f"request {request} is {row.state}: there is nothing to cancel")
    for job in job_rows(writing.session, request):
        if job.state == JobState.OPEN.value:
            job.state = JobState.HELD.value
    row.state, row.why, row.closed_at = RequestState.CANCELLED.value, why, writing.now
    add_audit_entry(writing, request, "cancel", who=who, via=via, data={"why": why})
    mail_news(writing, row, who, letter)
    return record_of(Request, row)


def end(
    writing: WriteTransaction,
    request: int,
    *,
    state: RequestState,
    verdict: str,
    why: str,
    letter: MailText,
) -> Request:
    """Closes a request with its result, and mails it to the requester.

    Raises:
        StoreError: there is no such request.
    """
    row = get_row(writing.session, RequestRow, request)
    row.state, row.verdict, row.why = state.value, verdict, why
    row.closed_at = writing.now
    data = {"verdict": verdict, "why": why}
    add_audit_entry(writing, request, "answer", who="netbisect", via="service", data=data)
    mail(writing, row, letter)
    return record_of(Request, row)


def mail_news(writing: WriteTransaction, row: RequestRow, who: str, letter: MailText) -> None:
    """Mails the requester about a change by another user."""
    if who != row.who:
        mail(writing, row, letter)


def mail(writing: WriteTransaction, row: RequestRow, letter: MailText) -> None:
    """Mails the requester in the thread of the request, if there is an address."""
    if not row.address:
        return
    subject, body = letter
    thread = f"request:{row.id}:"
    deeds = select(AuditRow.id).where(AuditRow.request_id == row.id).order_by(AuditRow.id.desc())
    last = writing.session.scalars(deeds.limit(1)).first()
    post_mail(
        writing,
        f"{thread}{last}",
        subject=subject,
        recipients=[row.address],
        body=body,
        thread=thread,
    )
