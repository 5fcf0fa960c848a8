"""Mailer in a real master with a real SMTP server."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import sqlite3
import sys
import tempfile
import threading
import time
from dataclasses import replace
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any, Self

import pytest
from aiosmtpd.controller import Controller
from alert_ledger import announce
from real_master import IdleMaster, RealMaster, case

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.mail import Mail
from netbisect.demo.lab.setup import free_ports
from netbisect.demo.mailbox import MailKeeper, read
from netbisect.steps.master import mailer
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.store.db.records import MailState, OutboxMail
from netbisect.store.ledger import open_ledger
from netbisect.store.repositories.outbox import OutboxRepository
from netbisect.workers.config.toml import FileError

HOSTILE = ("&@[9", "6U@[C\\", "(m@):a")
"""Addresses that make `EmailMessage` raise AttributeError, IndexError or TypeError."""
MAIL = OutboxMail(
    id=1,
    key="one",
    message_id="<1@lab.invalid>",
    alert=None,
    subject="a drop",
    recipients=("people@lab.invalid",),
    body="a text",
    in_reply_to="",
    references=(),
    state=MailState.WAITING,
    attempts=0,
    next_try_at=0.0,
    last_error="",
    created_at=0.0,
    sent_at=None,
)


class EndlessServer:
    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._greet)
        self.client_closed = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._listener.close()

    def _greet(self) -> None:
        client, _ = self._listener.accept()
        with client, contextlib.suppress(ConnectionError):
            while not self._stop.wait(0.05):
                client.sendall(b"220-wait\r\n")
            return
        self.client_closed.set()


class MailerTest(IdleMaster):
    def setUp(self) -> Any:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.mails = self.folder / "mails"
        self.mails.mkdir()
        with free_ports(1) as [port]:
            pass
        self.settings = Settings(
            branches=("main",),
            mail=MailSettings(
                ("people@lab.invalid",), "netbisect@lab.invalid", digest=False, port=port
            ),
            database=f"sqlite:///{folder.name}/netbisect.sqlite",
            tick=0.1,
        )
        self.ledger = open_ledger(self.settings.database, "lab.invalid")
        self.server: Controller | None = None
        self.addCleanup(self.stop_server)
        return super().setUp()

    def start_server(self) -> None:
        self.server = Controller(MailKeeper(self.mails), "127.0.0.1", self.settings.mail.port)
        self.server.start()

    def stop_server(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    async def start_master(self) -> None:
        await self.start_idle(
            self.folder, services=[mailer.Mailer(settings=self.settings, lab=None, scheduler="")]
        )

    async def sent(self) -> None:
        await self.until(lambda: not self.ledger.mails.waiting())

    def put(self, key: str, body: str) -> None:
        self.ledger.mails.post(key, Mail("a drop", body), ["people@lab.invalid"])

    @case
    async def test_a_mail_waits_for_database_and_server_and_is_sent_once(self) -> None:
        """It has headers of a mailing list, text and HTML. A digest is written meanwhile."""
        digest_ends = threading.Event()
        self.patch(mailer, "post_digest", lambda *_: digest_ends.wait())
        self.addCleanup(digest_ends.set)
        self.settings = replace(
            self.settings, mail=replace(self.settings.mail, html=True, reply_to="perf@lab.invalid")
        )
        self.patch(mailer, "_FIRST_WAIT", 0.2)
        tries: list[int] = []

        def full(_: OutboxRepository, identifier: int, next_try_at: float) -> None:
            tries.append(identifier)
            raise sqlite3.OperationalError("database or disk is full")

        broken = self.patch(OutboxRepository, "begin", full)
        self.start_server()
        self.put("one", "A drop of 10 % of 1 µs.\n\nEverything\n\n  https://lab.invalid/1\n")
        await self.start_master()
        await self.until(lambda: len(tries) >= 3)
        assert not read(self.mails)
        self.stop_server()
        broken.restore()
        await self.until(lambda: self.ledger.mails.waiting()[0].attempts)
        assert "refused" in self.ledger.mails.waiting()[0].last_error
        assert self.flushLoggedErrors(sqlite3.OperationalError)
        self.start_server()
        await self.sent()
        await self.master.service_manager.namedServices[mailer.MAILER_NAME].look()
        (mail,) = read(self.mails)
        assert mail["To"] == "people@lab.invalid"
        assert mail["Auto-Submitted"] == "auto-generated"
        assert mail["Message-ID"].endswith("@lab.invalid>")
        assert mail["List-Id"] == "netbisect <netbisect.lab.invalid>"
        assert mail["List-Archive"] == "<http://127.0.0.1:8010/>"
        assert mail["Reply-To"] == "perf@lab.invalid"
        assert mail["Precedence"] == "bulk"
        plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
        assert plain is not None
        assert html is not None
        assert plain.get_content().startswith("A drop of 10 % of 1 µs.")
        assert "<p>A drop of 10 % of 1 µs.</p>" in html.get_content()
        assert '<a href="https://lab.invalid/1">' in html.get_content()

    @case
    async def test_a_reply_is_executed_and_answered_and_a_mute_ends(self) -> None:
        """The reply has the token of the mail. The mute ends without a night."""
        maildir = self.folder / "answers"
        for name in ("new", "cur"):
            (maildir / name).mkdir(parents=True)
        answers = {"answers": "reply@lab.invalid", "answers_maildir": maildir}
        key = self.folder / "answers.key"
        mail = replace(self.settings.mail, **answers, answers_key_file=key)
        self.settings = replace(self.settings, mail=mail)
        alert = announce(self.ledger)
        self.start_server()
        self.ledger.mails.post("alert", Mail("a drop", "-10 %\n"), mail.to, alert=alert.id)
        await self.start_master()
        await self.sent()
        [sent] = read(self.mails)
        reply = f"From: ann@lab.invalid\nTo: {sent['Reply-To']}\n\nack as agreed\n"
        (maildir / "new" / "1").write_text(reply)
        await self.until(lambda: len(read(self.mails)) == 2)  # the alert and the answer
        assert self.ledger.alerts.get(alert.id).state is AlertState.ACKNOWLEDGED
        answer = read(self.mails)[-1]
        assert answer["To"] == "ann@lab.invalid"
        assert answer.get_content().startswith("Alert 1 is acknowledged; the new level is")
        end = self.ledger.clock() + 0.5
        self.ledger.alerts.change(1, who="ann", what="wait", state=AlertState.MUTED, until=end)
        await self.until(lambda: len(read(self.mails)) == 3)
        assert self.ledger.alerts.get(alert.id).state is AlertState.REOPENED
        assert "its mute has ended" in read(self.mails)[-1].get_content()

    @pytest.mark.skipif(sys.version_info >= (3, 14), reason="email accepts these addresses")
    @case
    async def test_an_invalid_mail_blocks_no_other(self) -> None:
        """Refused recipients block no other either; both are given up after some tries."""
        self.patch(mailer, "_FIRST_WAIT", 0.05)
        self.patch(mailer, "MOST_TRIES", 3)
        refused = "nobody@refused.invalid"
        for key, to in (
            *((address, [address]) for address in HOSTILE),
            ("refused", [refused]),
            ("partly refused", [refused, "a@lab.invalid"]),
            ("good", ["b@c.invalid"]),
        ):
            self.ledger.mails.post(key, Mail(key, "a text\n"), to)
        self.start_server()
        await self.start_master()
        await self.sent()
        assert [mail["Subject"] for mail in read(self.mails)] == ["partly refused", "good"]
        *given_up, last, partly = self.ledger.mails.given_up()
        assert [mail.key for mail in given_up] == list(HOSTILE)
        assert {mail.last_error for mail in (last, partly)} == {f"{refused}: 550 no such user"}
        assert partly.recipients == (refused,)
        assert {mail.attempts for mail in (*given_up, last, partly)} == {3}
        assert all("Error(" in mail.last_error for mail in given_up)
        assert self.ledger.metrics.census()["mails"]["failed",] == 5

    @case
    async def test_an_endless_answer_of_the_server_times_out(self) -> None:
        """The limit is half of `stall_minutes`; no thread waits any longer."""
        self.settings = replace(self.settings, stall_minutes=0.02)
        self.put("one", "a text\n")
        with EndlessServer(self.settings.mail.port) as server:
            await self.start_master()
            await self.until(lambda: self.ledger.mails.waiting()[0].attempts)
            await self.until(server.client_closed.is_set)
        [mail] = self.ledger.mails.waiting()
        assert mail.last_error == "the mail server took longer than 0.6 s"


class DigestMailTest(RealMaster):
    @case
    async def test_the_master_writes_the_digest(self) -> None:
        """The job before it has no measurements; calculations run in another process."""
        self.ledger.clock = lambda: time.time() - 12 * 3600
        self.add_night()
        mail = replace(self.settings.mail, digest_hour=time.localtime().tm_hour)
        settings = replace(self.settings, mail=mail)
        mails = mailer.Mailer(settings=settings, lab=self.lab, scheduler="")
        await self.start(services=[mails])
        await self.until(lambda: bool(self.ledger.mails.last("digest:")))
        [subject] = [subject for subject, _ in self.mails()]
        assert "0 of 1 series" in subject


class Busy(MailKeeper):
    async def handle_QUIT(self, *_: object) -> str:  # noqa: N802 - aiosmtpd's name
        return "421 busy"


def test_a_mail_counts_as_sent_despite_an_error_at_the_end(tmp_path: Path) -> None:
    with free_ports(1) as [port]:
        pass
    server = Controller(Busy(tmp_path), "127.0.0.1", port)
    settings = MailSettings(("people@lab.invalid",), "netbisect@lab.invalid", port=port)
    server.start()
    mailer.deliver(settings, mailer.compose(MAIL, settings), 60.0)
    server.stop()
    assert [mail["Subject"] for mail in read(tmp_path)] == ["a drop"]


REFUSED = smtplib.SMTPRecipientsRefused({"a@b": (550, b"no such user")})
BUSY = smtplib.SMTPRecipientsRefused({"a@b": (550, b"no such user"), "c@d": (451, b"later")})


@pytest.mark.parametrize(
    ("error", "most"),
    [
        (IndexError("string index out of range"), mailer.MOST_TRIES),
        (UnicodeEncodeError("ascii", "ü", 0, 1, "no ASCII"), mailer.MOST_TRIES),
        (REFUSED, mailer.MOST_TRIES),
        (smtplib.SMTPDataError(554, b"no"), mailer.MOST_TRIES),
        (BUSY, mailer.MOST_TRIES_UNREACHED),
        (smtplib.SMTPDataError(452, b"disk full"), mailer.MOST_TRIES_UNREACHED),
        (smtplib.SMTPAuthenticationError(535, b"no"), mailer.MOST_TRIES_UNREACHED),
        (smtplib.SMTPServerDisconnected("gone"), mailer.MOST_TRIES_UNREACHED),
        (ConnectionRefusedError(111, "refused"), mailer.MOST_TRIES_UNREACHED),
        (FileError("mail.password_file: no such file"), mailer.MOST_TRIES_UNREACHED),
    ],
)
def test_temporary_errors_are_retried_longer(error: Exception, most: int) -> None:
    last = replace(MAIL, attempts=most - 1)

    assert mailer.next_try(replace(last, attempts=most - 2), error, 100.0) is not None
    assert mailer.next_try(last, error, 100.0) is None


@pytest.mark.parametrize(
    "subject",
    [
        "[netbisect] main: 3f1c9a2b7d e1000: Migrate igb(4) to iflib: forwarding -11.1 % on c2558",
        "[netbisect] main: 3f1c9a2b7d e1000: Åsa Ōno änderte 转发 🐡 " + "ü" * 70,
    ],
)
def test_the_header_keeps_any_subject_in_lines_of_at_most_78_characters(subject: str) -> None:
    before = {"in_reply_to": "<0@lab.invalid>", "references": ("<0@lab.invalid>",)}
    settings = MailSettings(("people@lab.invalid",), "netbisect@lab.invalid")
    sent = mailer.compose(replace(MAIL, subject=subject, **before), settings).as_bytes()
    head = sent.split(b"\n\n", 1)[0]
    received = message_from_bytes(sent, policy=policy.default)

    assert received["Subject"] == subject
    assert received["In-Reply-To"] == "<0@lab.invalid>"
    assert head.isascii()
    assert max(map(len, head.splitlines())) <= 78
