"""Ends a master that cannot write Buildbot's database; its supervisor starts it again.

Buildbot does not repeat a write that failed, such as the end of a build: it would wait for that
build forever. After a restart, the master continues as after a kill.
"""

from __future__ import annotations

from buildbot.util.service import BuildbotService
from twisted.internet import defer

from netbisect.steps.service.watchdog import exit_for_restart
from netbisect.store.db.database import on_write_error


class FullDiskExit(BuildbotService):
    """Ends the process on the first write error of Buildbot's SQLite database."""

    name = "netbisect-full-disk"

    def startService(self) -> defer.Deferred[None]:
        self._stop_listening = on_write_error(self.master.db.pool.engine, _exit)
        return super().startService()

    def stopService(self) -> defer.Deferred[None]:
        self._stop_listening()
        return super().stopService()


def _exit(message: str) -> None:
    exit_for_restart(f"the master's database cannot be written ({message})")
