"""Takes mails from the outbox in the ledger to the mail server, as often as it needs."""

from __future__ import annotations

import smtplib
import ssl
import time
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from functools import partial
from typing import Any

from buildbot.util.service import BuildbotService
from twisted.internet import defer, task, threads
from twisted.python import log

from netbisect.reports import letter_html
from netbisect.steps.digest import post_digest
from netbisect.steps.memory import memory
from netbisect.steps.secret_files import read_password
from netbisect.steps.settings import MailSettings, Settings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Mail
from netbisect.workers.lab import Lab

NAME = "netbisect-post"
_TIMEOUT = 30
"""Seconds for each answer of the mail server."""
_FIRST_WAIT = 60.0
_UNHEARD = 10.0
"""Seconds after which a mail is sent again that nothing is known of: the master was killed."""
_LONGEST_WAIT = 3600.0
"""Seconds between two tries, doubled from the first to the longest."""


def compose(mail: Mail, settings: MailSettings, page: str = "") -> EmailMessage:
    """The message of a mail in the outbox; every try sends the same one.

    Args:
        mail: From the outbox.
        settings: Who sends it, and in which form.
        page: Address under which people see the service, if they do.
    """
    domain = settings.sender.rpartition("@")[2]
    message = EmailMessage()
    message["Message-ID"] = mail.message_id
    message["Date"] = format_datetime(datetime.fromtimestamp(mail.created_at, UTC))
    message["From"] = settings.sender
    if settings.reply_to:
        message["Reply-To"] = settings.reply_to
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
    message.set_content(mail.body, cte="quoted-printable" if not mail.body.isascii() else "7bit")
    if settings.html:
        message.add_alternative(
            letter_html.as_html(mail.subject, mail.body), subtype="html", cte="quoted-printable"
        )
    return message


def deliver(settings: MailSettings, message: EmailMessage) -> None:
    """Hands a message to the mail server, in this thread.

    Raises:
        OSError: it cannot be reached. smtplib.SMTPException: it refuses.
    """
    with smtplib.SMTP(settings.server, settings.port, timeout=_TIMEOUT) as server:
        if settings.starttls:
            server.starttls(context=ssl.create_default_context())
        if settings.user and settings.password_file:
            password = read_password(settings.password_file, "mail.password_file")
            server.login(settings.user, password)
        server.send_message(message)


def wait_after(attempts: int) -> float:
    """Seconds until the next try after so many that failed."""
    return float(min(_FIRST_WAIT * 2 ** min(attempts, 16), _LONGEST_WAIT))


class Post(BuildbotService):
    """Looks into the outbox again and again."""

    compare_attrs = ("settings", "lab")
    name = NAME

    def checkConfig(self, settings: Settings, lab: Lab | None = None, **kwargs: Any) -> None:
        super().checkConfig(**kwargs)

    def reconfigService(
        self,
        settings: Settings,
        lab: Lab | None = None,
        **kwargs: Any,
    ) -> defer.Deferred[None]:
        self.settings = settings
        self.lab = lab
        return super().reconfigService(**kwargs)

    def startService(self) -> defer.Deferred[None]:
        """Starts to look."""
        return defer.ensureDeferred(self._start())

    async def _start(self) -> None:
        await super().startService()
        self._busy = defer.DeferredLock()
        self._clock = task.LoopingCall(self.look)
        self._clock.clock = self.master.reactor
        self._clock.start(self.settings.tick, now=True)

    def stopService(self) -> defer.Deferred[None]:
        """Stops to look; a conversation with the server is finished first."""
        if self._clock.running:
            self._clock.stop()
        done = self._busy.run(lambda: None)
        return done.addCallback(lambda _: BuildbotService.stopService(self))

    def look(self) -> defer.Deferred[None]:
        """Sends what is due."""
        done: defer.Deferred[None] = self._busy.run(lambda: defer.ensureDeferred(self._look()))
        return done.addErrback(lambda failure: log.err(failure, "the outbox"))

    async def _look(self) -> None:
        store = memory(self.settings)
        # It goes by what the conductor has: two that try could end up in two masters.
        if not await store.do(Ledger.has_lead):
            return  # another master with this ledger sends them
        await self._write_digest()
        due = await store.do(lambda ledger: ledger.due_mails(time.time()))
        for mail in due:
            later = time.time() + _UNHEARD
            await store.do(partial(Ledger.mail_begins, identifier=mail.id, next_try_at=later))
            try:
                message = compose(mail, self.settings.mail, self.settings.web.url)
                await threads.deferToThread(deliver, self.settings.mail, message)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                later = time.time() + wait_after(mail.attempts)
                failed = partial(
                    Ledger.mail_failed, identifier=mail.id, why=str(error), next_try_at=later
                )
                await store.do(failed)
                log.msg(f"mail {mail.id} could not be sent ({error}); it will be tried again")
            else:
                await store.do(partial(Ledger.mail_sent, identifier=mail.id))

    async def _write_digest(self) -> None:
        """What goes wrong with it, such as a lab file in the making, holds up no other mail."""
        lab = self.lab
        if lab is None:
            return
        try:
            await memory(self.settings).do(lambda ledger: post_digest(ledger, self.settings, lab))
        except Exception:  # noqa: BLE001 - of whatever kind
            log.err(None, "the digest; it is tried again")
