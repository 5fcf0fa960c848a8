"""How the ledger speaks with its database: short transactions, and a record of what happened."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from netbisect.store.database import AbsentError, StoreError, settle, speaking, writer
from netbisect.store.records import Event
from netbisect.store.tables import Base, EventRow

_Row = TypeVar("_Row", bound=Base)


@dataclass(frozen=True, slots=True)
class Writing:
    """A transaction that writes."""

    session: Session
    now: float
    """The time of everything that happens in it."""
    domain: str
    origin: str = ""
    """From where somebody makes it happen: an address of the network, "" for this host."""

    def note(self, kind: str, question: int | None = None, /, **data: object) -> None:
        """Adds the event that tells of what happens here."""
        self.session.add(EventRow(at=self.now, kind=kind, question_id=question, data=data))
        # At once: events are numbered in the order in which they are noted.
        self.session.flush()


def get_row(session: Session, table: type[_Row], identifier: int) -> _Row:
    """The row of that number.

    Raises:
        AbsentError: there is none; the message calls it as the table's class does, less `Row`.
    """
    row = session.get(table, identifier)
    if row is None:
        noun = table.__name__.removesuffix("Row").lower()
        raise AbsentError(f"there is no {noun} {identifier}")
    return row


class Sessions:
    """Opens a session for every call, so that threads and processes may share a database."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float] = time.time,
        domain: str = "netbisect.invalid",
    ) -> None:
        """Uses a database that has been migrated.

        Args:
            engine: From `open_database`.
            clock: Gives seconds since the epoch.
            domain: What stands behind the @ of the Message-IDs made here.
        """
        self.engine = engine
        self.clock = clock
        self.domain = domain
        self._writer = writer(engine)
        self._thread = threading.local()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that sees the database as it is at one moment.

        Raises:
            StoreError: the database refused.
        """
        with speaking(self.engine), Session(self.engine) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writing]:
        """A transaction during which nobody else writes; an exception undoes all of it.

        Raises:
            LostError: the database is away; nothing was kept.
            StoreError: the database refused, or this thread is within such a transaction
                already and would wait for itself.
        """
        if getattr(self._thread, "writing", False):
            raise StoreError(
                "the ledger cannot be written from within `closing`: "
                "what belongs to the closing goes through its own methods, the rest after it"
            )
        self._thread.writing = True
        try:
            with speaking(self.engine), Session(self._writer) as session:
                session.connection()  # its turn begins before its time
                origin = getattr(self._thread, "origin", "")
                yield Writing(session, self.clock(), self.domain, origin)
                settle(session)
        finally:
            self._thread.writing = False

    @contextlib.contextmanager
    def acting(self, origin: str) -> Iterator[None]:
        """What this thread writes meanwhile was asked for from `origin`, as the audit log says."""
        before = getattr(self._thread, "origin", "")
        self._thread.origin = origin
        try:
            yield
        finally:
            self._thread.origin = before


class Events(Sessions):
    """What has happened, in order."""

    def events_since(self, marker: int, limit: int = 1000) -> tuple[list[Event], int]:
        """What happened after `marker`, oldest first, and the marker for the next call.

        0 is the marker of the beginning. Nothing is ever missed or told twice, for events get
        their numbers in the order in which they can be seen.
        """
        query = select(EventRow).where(EventRow.id > marker).order_by(EventRow.id).limit(limit)
        with self.reading() as session:
            events = [
                Event(row.id, row.at, row.kind, row.question_id, dict[str, Any](row.data))
                for row in session.scalars(query)
            ]
        return events, events[-1].id if events else marker

    def last_event(self) -> int:
        """The marker of now: from here on, `events_since` tells only what is new."""
        with self.reading() as session:
            return session.scalar(select(func.max(EventRow.id))) or 0
