"""The outbox: mails are stored in the transaction of their cause, and sent later.

A crash between delivery and `sent` sends a mail again with the same Message-ID, by which mail
programs recognize duplicates.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from netbisect.store.db.database import StoreError
from netbisect.store.db.records import MailState, OutboxMail
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row
from netbisect.store.db.tables import AlertRow, MailRow


class OutboxRepository(LedgerRepository):
    """Waiting, sent and failed mails."""

    def post(
        self,
        key: str,
        *,
        subject: str,
        recipients: Sequence[str],
        body: str,
        alert: int | None = None,
        thread: str = "",
    ) -> OutboxMail:
        """Adds a mail; a known key adds nothing.

        Args:
            key: Unique, such as `alert:7:culprit`.
            subject: One line.
            recipients: Addresses.
            body: Plain text.
            alert: Alert whose mails form one thread.
            thread: So do mails whose keys begin so, such as `request:7:`.

        Returns:
            The mail, with its Message-ID; under a used key the earlier mail as it is.

        Raises:
            StoreError: there are no recipients, or no such alert.
        """
        with self.writing() as writing:
            return post_mail(
                writing,
                key,
                subject=subject,
                recipients=recipients,
                body=body,
                alert=alert,
                thread=thread,
            )

    def due(self, now: float) -> list[OutboxMail]:
        """Mails to be tried at this time; one whose try came to nothing is behind the others."""
        due = (
            select(MailRow)
            .where(MailRow.state == MailState.WAITING.value, MailRow.next_try_at <= now)
            .order_by(MailRow.next_try_at, MailRow.id)
        )
        with self.reading() as session:
            return [mail_of(row) for row in session.scalars(due)]

    def get(self, identifier: int) -> OutboxMail:
        """The mail.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return mail_of(get_row(session, MailRow, identifier))

    def last(self, prefix: str) -> OutboxMail | None:
        """The newest mail whose key begins so; None when there is none."""
        mails = select(MailRow).where(MailRow.key.startswith(prefix, autoescape=True))
        with self.reading() as session:
            row = session.scalars(mails.order_by(MailRow.id.desc()).limit(1)).first()
            return None if row is None else mail_of(row)

    def begin(self, identifier: int, next_try_at: float) -> None:
        """It is about to be given to the mail server.

        Whoever cannot write this down cannot write down either that it was sent, and must not send
        it: it would be sent again and again.

        Args:
            identifier: Of the mail.
            next_try_at: When to try again should nothing be heard of it.

        Raises:
            StoreError: there is no such mail.
        """
        with self.writing() as writing:
            get_row(writing.session, MailRow, identifier).next_try_at = next_try_at

    def sent(self, identifier: int) -> None:
        """The mail server has taken it.

        Raises:
            StoreError: there is no such mail.
        """
        with self.writing() as writing:
            row = get_row(writing.session, MailRow, identifier)
            if row.state == MailState.SENT.value:
                return
            row.attempts += 1
            row.state = MailState.SENT.value
            row.sent_at = writing.now
            writing.note("mail", state=row.state, subject=row.subject, key=row.key)

    def failed(self, identifier: int, why: str, next_try_at: float | None) -> None:
        """It could not be sent.

        Args:
            identifier: Of the mail.
            why: What the mail server said.
            next_try_at: When to try again; None gives it up.

        Raises:
            StoreError: there is no such mail.
        """
        with self.writing() as writing:
            row = get_row(writing.session, MailRow, identifier)
            if row.state != MailState.WAITING.value:
                return
            row.attempts += 1
            row.last_error = why
            if next_try_at is None:
                row.state = MailState.FAILED.value
            else:
                row.next_try_at = next_try_at
            writing.note("mail", state=row.state, subject=row.subject, key=row.key, why=why)

    def given_up(self) -> list[OutboxMail]:
        """Mails that are not tried any more, oldest first."""
        query = select(MailRow).where(MailRow.state == MailState.FAILED.value).order_by(MailRow.id)
        with self.reading() as session:
            return [mail_of(row) for row in session.scalars(query)]

    def retry(self, identifier: int) -> OutboxMail:
        """Has a mail that was given up, or that waits for its next try, sent as soon as possible.

        Raises:
            StoreError: there is no such mail, or it was sent.
        """
        with self.writing() as writing:
            row = get_row(writing.session, MailRow, identifier)
            if row.state == MailState.SENT.value:
                raise StoreError(f"mail {identifier} was sent; nothing is to be tried again")
            row.state, row.attempts, row.next_try_at = MailState.WAITING.value, 0, writing.now
            writing.note("mail", state=row.state, subject=row.subject, key=row.key)
            return mail_of(row)

    def waiting(self) -> list[OutboxMail]:
        """Mails that are not sent and not given up, oldest first."""
        query = select(MailRow).where(MailRow.state == MailState.WAITING.value).order_by(MailRow.id)
        with self.reading() as session:
            return [mail_of(row) for row in session.scalars(query)]


def post_mail(
    writing: WriteTransaction,
    key: str,
    *,
    subject: str,
    recipients: Sequence[str],
    body: str,
    alert: int | None,
    thread: str = "",
) -> OutboxMail:
    """As `OutboxRepository.post`, as part of a transaction."""
    session = writing.session
    known = session.scalar(select(MailRow).where(MailRow.key == key))
    if known is not None:
        return mail_of(known)
    if not recipients:
        raise StoreError(f"mail {key} has no recipients; at least one address is needed")
    row = MailRow(
        message_id=f"<{uuid.uuid4().hex}@{writing.domain}>",
        key=key,
        alert_id=alert,
        subject=subject,
        recipients=list(recipients),
        body=body,
        in_reply_to="",
        refers_to=[],
        state=MailState.WAITING.value,
        attempts=0,
        next_try_at=writing.now,
        last_error="",
        created_at=writing.now,
    )
    if alert is not None:
        _thread(session, row, alert)
    elif thread:
        _answer(session, row, MailRow.key.startswith(thread, autoescape=True))
    session.add(row)
    writing.note("mail", state=row.state, subject=subject, key=key)
    return mail_of(row)


def _thread(session: Session, row: MailRow, alert: int) -> None:
    """Makes it an answer to the alert's latest mail, or the first of its thread."""
    about = session.get(AlertRow, alert)
    if about is None:
        raise StoreError(f"mail {row.key} is about alert {alert}, which does not exist")
    if not _answer(session, row, MailRow.alert_id == alert):
        about.thread = row.message_id


def _answer(session: Session, row: MailRow, condition: ColumnElement[bool]) -> bool:
    """Makes it an answer to the latest of these mails; False where there is none."""
    mails = select(MailRow).where(condition).order_by(MailRow.id.desc())
    earlier = session.scalars(mails.limit(1)).first()
    if earlier is None:
        return False
    row.in_reply_to = earlier.message_id
    row.refers_to = [*earlier.refers_to, earlier.message_id]
    return True


def mail_of(row: MailRow) -> OutboxMail:
    """The record in this row."""
    return OutboxMail(
        id=row.id,
        key=row.key,
        message_id=row.message_id,
        alert=row.alert_id,
        subject=row.subject,
        recipients=tuple(row.recipients),
        body=row.body,
        in_reply_to=row.in_reply_to,
        references=tuple(row.refers_to),
        state=MailState(row.state),
        attempts=row.attempts,
        next_try_at=row.next_try_at,
        last_error=row.last_error,
        created_at=row.created_at,
        sent_at=row.sent_at,
    )
