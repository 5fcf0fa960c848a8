"""The outbox reaches the mail server, however long that takes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from buildbot.plugins import util, worker
from buildbot.test.util.integration import RunMasterBase
from twisted.internet import defer, reactor, task

from netbisect.demo.lab.setup import free_ports
from netbisect.demo.mailbox import read
from netbisect.steps import post
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import MailSettings, Settings
from netbisect.store.ledger import Ledger


class Outbox(RunMasterBase):
    """A real master with the post, and a real SMTP server."""

    timeout = 60
    proto = "null"

    def setUp(self) -> Any:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.mails = self.folder / "mails"
        with free_ports(1) as [port]:
            pass
        self.settings = Settings(
            branches=("main",),
            mail=MailSettings(("people@lab.invalid",), "netbisect@lab.invalid", port=port),
            database=f"sqlite:///{folder.name}/netbisect.sqlite",
            tick=0.2,
        )
        self.ledger = open_ledger(self.settings.database, "lab.invalid")
        self.server: subprocess.Popen[bytes] | None = None
        self.addCleanup(self.stop_server)
        return super().setUp()

    def start_server(self) -> None:
        command = [sys.executable, "-m", "netbisect.demo.mailbox"]
        command += [str(self.settings.mail.port), str(self.mails)]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == b"ready\n"
        self.server.stdout.close()

    def stop_server(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait()
            self.server = None

    async def start_master(self) -> None:
        config = {
            "workers": [worker.LocalWorker("one", missing_timeout=0)],
            "protocols": {"null": {}},
            "builders": [
                util.BuilderConfig("none", workernames=["one"], factory=util.BuildFactory())
            ],
            "schedulers": [],
            "services": [post.Post(settings=self.settings)],
            "multiMaster": True,  # no scheduler drives the builder that a master must have
        }
        await self.setup_master(config, startWorker=False, basedir=str(self.folder / "master"))

    async def sent(self) -> None:
        while self.ledger.waiting_mails():
            await task.deferLater(reactor, 0.05)

    def put(self, key: str, body: str) -> None:
        self.ledger.post(key, subject="a drop", recipients=["people@lab.invalid"], body=body)

    def test_what_waits_is_sent_once(self) -> defer.Deferred[None]:
        """The text arrives as it was written, beyond ASCII too."""

        async def work() -> None:
            self.start_server()
            self.put("one", "-10.9 % of 1 µs, as measured\n")
            await self.start_master()
            await self.sent()
            await task.deferLater(reactor, 4 * self.settings.tick)
            (mail,) = read(self.mails)
            assert mail["To"] == "people@lab.invalid"
            assert mail["Auto-Submitted"] == "auto-generated"
            assert mail["Message-ID"].endswith("@lab.invalid>")
            body = mail.get_body()
            assert body is not None
            assert body.get_content().splitlines() == ["-10.9 % of 1 µs, as measured"]

        return defer.ensureDeferred(work())

    def test_the_headers_are_those_of_a_list(self) -> defer.Deferred[None]:
        """And where people want HTML, it is beside the text and says the same."""
        self.settings = replace(
            self.settings,
            mail=replace(self.settings.mail, html=True, reply_to="perf@lab.invalid"),
        )

        async def work() -> None:
            self.start_server()
            self.put("one", "A drop of 10 %.\n\nEverything\n\n  https://lab.invalid/1\n")
            await self.start_master()
            await self.sent()
            (mail,) = read(self.mails)
            assert mail["List-Id"] == "netbisect <netbisect.lab.invalid>"
            assert mail["List-Archive"] == "<http://127.0.0.1:8010/>"
            assert mail["Reply-To"] == "perf@lab.invalid"
            assert mail["Precedence"] == "bulk"
            plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
            assert plain is not None
            assert html is not None
            assert plain.get_content().startswith("A drop of 10 %.")
            assert "<p>A drop of 10 %.</p>" in html.get_content()
            assert '<a href="https://lab.invalid/1">' in html.get_content()

        return defer.ensureDeferred(work())

    def test_a_server_that_is_down_only_delays(self) -> defer.Deferred[None]:
        """The mail stays in the outbox with the reason, and goes when the server is back."""
        self.patch(post, "_FIRST_WAIT", 0.2)

        async def work() -> None:
            self.put("one", "a text\n")
            await self.start_master()
            while not self.ledger.waiting_mails()[0].attempts:
                await task.deferLater(reactor, 0.05)
            assert "refused" in self.ledger.waiting_mails()[0].last_error
            self.start_server()
            await self.sent()
            assert len(read(self.mails)) == 1

        return defer.ensureDeferred(work())

    def test_what_cannot_be_noted_is_not_sent(self) -> defer.Deferred[None]:
        """It would be sent again at every look; when it can be noted it goes, once."""
        tries: list[int] = []

        def full(_: Ledger, identifier: int, next_try_at: float) -> None:
            tries.append(identifier)
            raise sqlite3.OperationalError("database or disk is full")

        broken = self.patch(Ledger, "mail_begins", full)

        async def work() -> None:
            self.start_server()
            self.put("one", "a text\n")
            await self.start_master()
            while len(tries) < 3:
                await task.deferLater(reactor, 0.05)
            assert not read(self.mails)
            broken.restore()
            await self.sent()
            assert len(read(self.mails)) == 1
            assert self.flushLoggedErrors(sqlite3.OperationalError)

        return defer.ensureDeferred(work())


def test_the_wait_between_tries_grows_to_an_hour() -> None:
    """A server that is down for a weekend is not asked every second."""
    waits = [post.wait_after(attempts) for attempts in (0, 1, 5, 6, 1000)]

    assert waits == [60, 120, 1920, 3600, 3600]
