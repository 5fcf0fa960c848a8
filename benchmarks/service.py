"""A running demonstration with simulated operators, for chaos and soak."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from netbisect.demo.play import DemoRun
from netbisect.store.db.database import NotFoundError
from netbisect.store.db.records import JobRecord

COMPRESSION = 1500.0
"""Compression of time; machines boot in a tenth of a second."""


class ServiceRun(DemoRun):
    """A service, its jobs and its databases."""

    def jobs(self) -> list[JobRecord]:
        """All jobs in order."""
        found: list[JobRecord] = []
        with contextlib.suppress(NotFoundError):
            while True:
                found.append(self.ledger.jobs.get(len(found) + 1))
        return found

    def release(self) -> None:
        """Releases testbeds from quarantine, like their owners."""
        for quarantine in self.ledger.quarantines.current().values():
            if quarantine.wanted_at is None:
                self.ledger.quarantines.ask_release(quarantine.testbed, by="owner", note="repaired")

    def is_idle(self) -> bool:
        """Whether no job, mail or build is open."""
        return not (
            self.ledger.jobs.all_open() or self.ledger.mails.waiting() or self.open_buildsets()
        )

    def open_buildsets(self) -> int:
        """Number of open buildsets."""
        return int(self.buildbot("SELECT count(*) FROM buildsets WHERE complete = 0")[0][0])

    def buildbot(self, query: str) -> list[tuple[Any, ...]]:
        """Reads the database of Buildbot."""
        path = (self.service.place / "state.sqlite").as_uri()
        with contextlib.closing(sqlite3.connect(f"{path}?mode=ro", uri=True, timeout=30)) as one:
            return one.execute(query).fetchall()
