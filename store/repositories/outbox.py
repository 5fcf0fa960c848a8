"""The outbox: mails are stored in the transaction of their cause, and sent later.

A crash between delivery and `sent` sends a mail again with the same Message-ID, so that mail
programs recognize duplicates.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.mail import Mail
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert, MailState, OutboxMail
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row, transaction

_FARTHEST = 86400.0
"""Maximum seconds until the next try; a later one was set by a wrong clock."""


def post_mail(
    writing: WriteTransaction,
    key: str,
    mail: Mail,
    recipients: Sequence[str],
    *,
    alert: int | None = None,
    thread: str = "",
    in_reply_to: str = "",
) -> OutboxMail:
    """Adds a mail; returns the existing mail for a known key.

    The mails of an `alert` form one thread, as do those whose keys begin with `thread`, such as
    `request:7:`. `in_reply_to` is the Message-ID of a received mail that this one answers.

    Raises:
        StoreError: there are no recipients, or no such alert.
    """
    session = writing.session
    known = session.scalar(select(OutboxMail).where(OutboxMail.key == key))
    if known is not None:
        return known
    if not recipients:
        raise StoreError(f"mail {key} has no recipients; at least one address is needed")
    row = OutboxMail(
        message_id=f"<{uuid.uuid4().hex}@{writing.domain}>",
        key=key,
        alert=alert,
        subject=mail.subject,
        recipients=tuple(recipients),
        body=mail.text,
        in_reply_to=in_reply_to,
        references=(in_reply_to,) if in_reply_to else (),
        next_try_at=writing.now,
        created_at=writing.now,
    )
    if alert is not None:
        _thread(session, row, alert)
    elif thread:
        _answer(session, row, OutboxMail.key.startswith(thread, autoescape=True))
    session.add(row)
    writing.note("mail", state=row.state, subject=row.subject, key=key)
    return row


class OutboxRepository(LedgerRepository):
    """Waiting, sent and failed mails."""

    post = transaction(post_mail)

    def due(self, now: float) -> list[OutboxMail]:
        """Mails to send at this time; those that failed before come last."""
        at = OutboxMail.next_try_at
        due = (
            select(OutboxMail)
            .where(OutboxMail.state == MailState.WAITING, (at <= now) | (at > now + _FARTHEST))
            .order_by(OutboxMail.next_try_at, OutboxMail.id)
        )
        return self._all(due)

    def get(self, identifier: int) -> OutboxMail:
        """The mail with this id. Raises NotFoundError."""
        return self._get(OutboxMail, identifier)

    def last(self, prefix: str) -> OutboxMail | None:
        """The newest mail whose key has this prefix, or None."""
        mails = select(OutboxMail).where(OutboxMail.key.startswith(prefix, autoescape=True))
        return self._first(mails.order_by(OutboxMail.id.desc()))

    def begin(self, identifier: int, next_try_at: float) -> None:
        """Records that a mail is about to be sent, and the time of the next try after a crash.

        If this fails, the mail must not be sent: its delivery could not be recorded either, and it
        would be sent again and again. Raises NotFoundError.
        """
        with self.writing() as writing:
            get_row(writing.session, OutboxMail, identifier).next_try_at = next_try_at

    def sent(self, identifier: int) -> None:
        """Records that the mail server accepted a mail. Raises NotFoundError."""
        with self.writing() as writing:
            row = get_row(writing.session, OutboxMail, identifier)
            if row.state == MailState.SENT:
                return
            row.attempts += 1
            row.state = MailState.SENT
            row.sent_at = writing.now
            writing.note("mail", state=row.state, subject=row.subject, key=row.key)

    def failed(
        self, identifier: int, why: str, next_try_at: float | None, left: Iterable[str] = ()
    ) -> None:
        """Records that a mail could not be sent, with the error `why` of the mail server.

        `next_try_at` None gives up. `left` are the recipients who have not got it (default: all).
        Raises NotFoundError.
        """
        with self.writing() as writing:
            row = get_row(writing.session, OutboxMail, identifier)
            if row.state != MailState.WAITING:
                return
            row.attempts += 1
            row.last_error = why
            row.recipients = tuple(left) or row.recipients
            if next_try_at is None:
                row.state = MailState.FAILED
            else:
                row.next_try_at = next_try_at
            writing.note("mail", state=row.state, subject=row.subject, key=row.key, why=why)

    def given_up(self) -> list[OutboxMail]:
        """Mails that were given up, oldest first."""
        return self._in_state(MailState.FAILED)

    def retry(self, identifier: int) -> OutboxMail:
        """Has a waiting or given-up mail sent as soon as possible.

        Raises:
            StoreError: there is no such mail, or it was sent.
        """
        with self.writing() as writing:
            row = get_row(writing.session, OutboxMail, identifier)
            if row.state == MailState.SENT:
                raise StoreError(f"mail {identifier} was sent already")
            row.state, row.attempts, row.next_try_at = MailState.WAITING, 0, writing.now
            writing.note("mail", state=row.state, subject=row.subject, key=row.key)
            return row

    def _in_state(self, state: MailState) -> list[OutboxMail]:
        mails = select(OutboxMail).where(OutboxMail.state == state)
        return self._all(mails.order_by(OutboxMail.id))

    def waiting(self) -> list[OutboxMail]:
        """Waiting mails, oldest first."""
        return self._in_state(MailState.WAITING)


def _thread(session: Session, row: OutboxMail, alert: int) -> None:
    """Makes a mail a reply to the latest mail of an alert, or the first of the thread."""
    about = session.get(Alert, alert)
    if about is None:
        raise StoreError(f"mail {row.key} is about alert {alert}, which does not exist")
    if not _answer(session, row, OutboxMail.alert == alert):
        about.thread = row.message_id


def _answer(session: Session, row: OutboxMail, condition: ColumnElement[bool]) -> bool:
    """Makes a mail a reply to the latest of these mails; False without one."""
    mails = select(OutboxMail).where(condition).order_by(OutboxMail.id.desc())
    earlier = session.scalars(mails.limit(1)).first()
    if earlier is None:
        return False
    row.in_reply_to = earlier.message_id
    row.references = (*earlier.references, earlier.message_id)
    return True
