"""A running demonstration with simulated operators, for chaos and soak."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any, TypeVar

from sqlalchemy import select

from netbisect.demo.play import DemoRun
from netbisect.store.db.records import Action, JobRecord, OutboxMail

Row = TypeVar("Row", JobRecord, Action, OutboxMail)


class ServiceRun(DemoRun):
    """A service, its jobs and its databases."""

    def rows(self, kind: type[Row]) -> list[Row]:
        """All rows of a table of the ledger, by id."""
        with self.ledger.jobs.reading() as session:
            return list(session.scalars(select(kind).order_by(kind.id)))

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
