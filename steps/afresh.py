"""A master whose database could not be written begins afresh when there is room again.

What Buildbot cannot write down, such as the end of a build, it does not write down later: it would
wait for that build for ever. Begun afresh, it finds what it was doing as after a kill, and does it
again; nothing is lost by that (docs/architecture.md).
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from buildbot.util.service import BuildbotService
from twisted.internet import defer, task, threads
from twisted.python import log

from netbisect.reports.owner import begun_afresh
from netbisect.steps.memory import memory
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.store.room import listen

NAME = "netbisect-afresh"
_TICK = 5.0
_LEAST_SECONDS = 20.0
"""Which a master runs before it begins afresh, whatever happens."""
_ROOM = 16 << 20
"""Bytes that must be free."""
_DAY = 86_400.0
_KEY = "master:afresh:"
_TWISTD = "from twisted.scripts import twistd; twistd.run()"


def begin(folder: Path) -> NoReturn:
    """Makes this process a new master of that folder; for an init system it is the same one."""
    os.chdir(folder)
    Path("twistd.pid").unlink(missing_ok=True)
    options = ["--nodaemon", "--no_save", "--python=buildbot.tac"]
    os.execv(sys.executable, [sys.executable, "-c", _TWISTD, *options])  # noqa: S606 - no shell is wanted


class Afresh(BuildbotService):
    """Listens to errors of Buildbot's database, and looks whether it can be written again."""

    compare_attrs = ("settings",)
    name = NAME

    def checkConfig(self, settings: Settings, **kwargs: Any) -> None:
        super().checkConfig(**kwargs)

    def reconfigService(self, settings: Settings, **kwargs: Any) -> defer.Deferred[None]:
        self.settings = settings
        return super().reconfigService(**kwargs)

    def startService(self) -> defer.Deferred[None]:
        """Starts to listen."""
        self._began = time.monotonic()
        self._said = ""
        self._end_listening = listen(self.master.db.pool.engine, self._heard)
        self._clock = task.LoopingCall(self.look)
        self._clock.clock = self.master.reactor
        self._clock.start(_TICK, now=False)
        return super().startService()

    def stopService(self) -> defer.Deferred[None]:
        """Stops to listen."""
        if self._clock.running:
            self._clock.stop()
        self._end_listening()
        return super().stopService()

    def _heard(self, said: str) -> None:
        self._said = said

    def look(self) -> defer.Deferred[None]:
        """Begins afresh when that is needed and will do."""
        done: defer.Deferred[None] = defer.ensureDeferred(self._look())
        return done.addErrback(lambda failure: log.err(failure, "the master's database"))

    async def _look(self) -> None:
        said = self._said
        if not said or time.monotonic() < self._began + _LEAST_SECONDS:
            return
        try:
            await threads.deferToThread(_write_a_file, self.master.basedir)
        except OSError as error:
            log.msg(f"the master's database could not be written ({said}), nor can now: {error}")
            return
        await self.master.db.pool.do_with_transaction(self._write_a_row)
        await memory(self.settings).do(lambda ledger: self._tell(ledger, said))
        log.msg(f"the master's database could not be written ({said}): it begins afresh")
        begin(Path(self.master.basedir))

    def _write_a_row(self, connection: Any) -> None:
        masters = self.master.db.model.masters
        connection.execute(masters.update().values(active=masters.c.active))

    def _tell(self, ledger: Ledger, said: str) -> None:
        """Once a day: a disk that is filled by the master itself is full again and again."""
        last = ledger.last_mail(_KEY)
        if last is None or ledger.clock() - last.created_at > _DAY:
            letter = begun_afresh(socket.gethostname(), self.master.basedir, said)
            ledger.post(
                f"{_KEY}{int(ledger.clock())}",
                subject=letter.subject,
                recipients=self.settings.mail.to,
                body=letter.text,
            )


def _write_a_file(folder: str) -> None:
    with tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(bytes(_ROOM))
        stream.flush()
        os.fsync(stream.fileno())
