"""Sends the mails in the outbox of the ledger, with retries."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
import threading
import time
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from buildbot.util.service import BuildbotService
from buildbot.util.twisted import async_to_deferred
from twisted.internet import defer, task
from twisted.python import log

from netbisect.reports.mail import html
from netbisect.reports.mail.answers import INVITATION
from netbisect.steps.policy.alert_recovery import end_mutes
from netbisect.steps.policy.mail_answers import read_maildir, reply_address
from netbisect.steps.queries.digest import post_digest
from netbisect.steps.service.database_thread import DatabaseThread, database_thread
from netbisect.steps.service.secrets import read_password
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.steps.service.watchdog import run_in_thread
from netbisect.store.db.records import OutboxMail
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.toml import FileError

MAILER_NAME = "netbisect-post"
_TIMEOUT = 30
"""Seconds per answer of the mail server."""
_FIRST_WAIT = 60.0
_RETRY_AFTER_KILL = 60.0
"""Seconds until a mail is sent again whose result was lost in a kill of the master."""
_LONGEST_WAIT = 3600.0
"""Longest time between two tries in seconds; it doubles from the first wait."""
MOST_TRIES = 12
"""Tries, in about 6 hours, of a mail that the server refuses."""
MOST_TRIES_UNREACHED = 120
"""Tries, in about 5 days, of a mail while the server cannot be reached."""
_PERMANENT = 500
"""First SMTP code of a permanent failure."""
_LONGEST_REASON = 500
"""Longest error message that is stored."""


class _Connection(smtplib.SMTP):
    """A connection that ends after a time, even if the server keeps sending."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._end = threading.Timer(seconds, self._shut_down)
        self._end.daemon = True
        super().__init__(host, port, timeout=min(_TIMEOUT, seconds))

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        found: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]  # not in typeshed
        self._duplicate = found.dup()  # STARTTLS replaces the socket
        self._end.start()
        return found

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._end.cancel()
        self._duplicate.close()
        super().close()


class PartlyRefusedError(smtplib.SMTPRecipientsRefused):
    """The server accepted the mail for the other recipients."""


def compose(mail: OutboxMail, settings: MailSettings, page: str = "") -> EmailMessage:
    """The message of a mail in the outbox; the same for every try. Raises FileError."""
    domain = settings.sender.rpartition("@")[2]
    message = EmailMessage()
    message["Message-ID"] = mail.message_id
    message["Date"] = format_datetime(datetime.fromtimestamp(mail.created_at, UTC))
    message["From"] = settings.sender
    if reply_to := reply_address(settings, mail.alert):
        message["Reply-To"] = reply_to
    answerable = settings.answers and mail.alert is not None
    body = mail.body + (INVITATION if answerable else "")
    message["To"] = ", ".join(mail.recipients)
    message["Subject"] = mail.subject
    if mail.in_reply_to:
        message["In-Reply-To"] = mail.in_reply_to
        message["References"] = " ".join(mail.references)
    message["Auto-Submitted"] = "auto-generated"
    message["Precedence"] = "bulk"
    message["List-Id"] = f"netbisect <{settings.list_id or f'netbisect.{domain}'}>"
    message["List-Post"] = "NO"
    if page:
        message["List-Archive"] = f"<{page}>"
    if mail.alert is not None:
        message["X-Netbisect-Alert"] = str(mail.alert)
    message.set_content(body, cte="quoted-printable" if not body.isascii() else "7bit")
    if settings.html:
        message.add_alternative(
            html.as_html(mail.subject, body), subtype="html", cte="quoted-printable"
        )
    return message


def deliver(settings: MailSettings, message: EmailMessage, seconds: float) -> None:
    """Hands a message to the mail server, in this thread, in at most so many seconds.

    Raises OSError if the server cannot be reached or is slow, SMTPException if it refuses the mail.
    """
    began = time.monotonic()
    try:
        with contextlib.closing(_Connection(settings.server, settings.port, seconds)) as server:
            if settings.starttls:
                server.starttls(context=ssl.create_default_context())
            if settings.user and settings.password_file:
                password = read_password(settings.password_file, "mail.password_file")
                server.login(settings.user, password)
            refused = server.send_message(message)
            with contextlib.suppress(OSError):  # the mail is sent
                server.quit()
    except OSError as error:
        if time.monotonic() - began < seconds:
            raise
        raise TimeoutError(f"the mail server took longer than {seconds:g} s") from error
    if refused:
        raise PartlyRefusedError(refused)


def is_refused(error: Exception) -> bool:
    """Whether an error of `compose` or `deliver` is permanent for this mail."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= _PERMANENT for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPDataError):
        return int(error.smtp_code) >= _PERMANENT
    return not isinstance(error, OSError | FileError)


def next_try(mail: OutboxMail, error: Exception, now: float) -> float | None:
    """Time of the next try after an error, seconds since the epoch; None to give up."""
    most = MOST_TRIES if is_refused(error) else MOST_TRIES_UNREACHED
    wait = min(_FIRST_WAIT * 2 ** min(mail.attempts, 16), _LONGEST_WAIT)
    return now + wait if mail.attempts + 1 < most else None


def _reason(error: Exception) -> str:
    """The error as ASCII, such as `a@example.org: 550 no such user`."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            text = "; ".join(f"{to}: {_answer(*one)}" for to, one in error.recipients.items())
        case smtplib.SMTPResponseException():
            text = _answer(error.smtp_code, error.smtp_error)
        case OSError() | FileError():
            text = str(error)
        case _:
            text = repr(error)
    return text.encode("ascii", "backslashreplace").decode()[:_LONGEST_REASON]


def _answer(code: int, text: bytes | str) -> str:
    lines = text.decode("ascii", "backslashreplace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(lines.split())}"


class Mailer(BuildbotService):
    """Sends due mails at every tick."""

    compare_attrs = ("settings", "lab", "scheduler")
    name = MAILER_NAME

    def reconfigService(
        self, settings: Settings, lab: Lab, scheduler: str, **kwargs: Any
    ) -> defer.Deferred[None]:
        """Takes new settings; the master that runs `scheduler` sends the mails."""
        self.settings = settings
        self.lab = lab
        self.scheduler = scheduler
        return super().reconfigService(**kwargs)

    @async_to_deferred
    async def startService(self) -> None:
        await super().startService()
        self._busy = defer.DeferredLock()
        self._digest = defer.DeferredLock()
        self._clock = task.LoopingCall(self.look)
        self._clock.clock = self.master.reactor
        self._clock.start(self.settings.tick, now=True)

    @async_to_deferred
    async def stopService(self) -> None:
        """Stops the clock; finishes a mail that is being sent."""
        if self._clock.running:
            self._clock.stop()
        await self._busy.run(lambda: None)
        await super().stopService()

    def look(self) -> defer.Deferred[None]:
        done: defer.Deferred[None] = self._busy.run(self._look)
        return done.addErrback(lambda failure: log.err(failure, "the outbox"))

    @async_to_deferred
    async def _look(self) -> None:
        store = database_thread(self.settings)
        scheduler = self.master.scheduler_manager.namedServices.get(self.scheduler)
        if scheduler is not None and not await scheduler.is_leader():
            return  # another master is active
        await self._read_answers()
        for mail in await store.do(lambda ledger: ledger.mails.due(time.time())):
            await self._attempt(store, mail)
        await store.do(end_mutes)
        if not self._digest.locked:
            # Takes minutes in a large lab; other mails do not wait for it.
            self._digest.run(self._write_digest)

    async def _attempt(self, store: DatabaseThread, mail: OutboxMail) -> None:
        later = time.time() + _RETRY_AFTER_KILL
        await store.do(lambda ledger: ledger.mails.begin(mail.id, later))
        try:
            await run_in_thread("the mail server", self._deliver, mail)
        except Exception as error:  # noqa: BLE001 - the other mails are sent
            when, why = next_try(mail, error, time.time()), _reason(error)
            left = error.recipients if isinstance(error, PartlyRefusedError) else mail.recipients
            await store.do(lambda ledger: ledger.mails.failed(mail.id, why, when, left))
            then = "it will not be retried" if when is None else "it will be retried"
            log.msg(f"mail {mail.id} could not be sent ({why}); {then}")
        else:
            await store.do(lambda ledger: ledger.mails.sent(mail.id))

    def _deliver(self, mail: OutboxMail) -> None:
        """Sends one mail within half of the stall limit; raises as `compose` and `deliver`."""
        message = compose(mail, self.settings.mail, self.settings.web.url)
        deliver(self.settings.mail, message, self.settings.stall_seconds / 2)

    async def _read_answers(self) -> None:
        """Executes the commands in new mails; an error in one delays no mail."""
        try:
            lines = await database_thread(self.settings).do(
                lambda ledger: read_maildir(ledger, self.settings)
            )
        except Exception:  # noqa: BLE001
            log.err(None, "the maildir of answers; it is read again")
            return
        for line in lines:
            log.msg(line)

    @async_to_deferred
    async def _write_digest(self) -> None:
        """Puts the digest into the outbox if it is due; the next tick sends it."""
        try:
            await database_thread(self.settings, "digest").do(
                lambda ledger: post_digest(ledger, self.settings, self.lab)
            )
        except Exception:  # noqa: BLE001
            log.err(None, "the digest; it is retried")
