"""Short transactions of the ledger, and its events."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine, Select, func, select
from sqlalchemy.orm import Session, sessionmaker

from netbisect.store.db.database import NotFoundError, StoreError, commit, translated_errors, writer
from netbisect.store.db.records import LedgerEvent
from netbisect.store.db.tables import Base

P = ParamSpec("P")
R = TypeVar("R")
_Row = TypeVar("_Row", bound=Base)

_NOUNS = {"questions": "job", "decisions": "action"}
"""Nouns that are not the name of the table."""
_BEYOND = 2**31
"""Databases raise an error of their own for a larger id."""


@dataclass(frozen=True, slots=True)
class WriteTransaction:
    """A write transaction."""

    session: Session
    now: float
    """Time of all its changes."""
    domain: str
    origin: str
    """Network address of the person; "" for this host."""

    def note(self, kind: str, job: int | None = None, /, **data: object) -> None:
        """Adds an event."""
        self.session.add(LedgerEvent(at=self.now, kind=kind, job=job, data=data))
        # Numbers events in this order.
        self.session.flush()


def get_row(session: Session, table: type[_Row], identifier: int) -> _Row:
    """The row with this id. Raises NotFoundError."""
    row = session.get(table, identifier) if abs(identifier) < _BEYOND else None
    if row is None:
        name = table.__tablename__
        noun = _NOUNS.get(name, name.removesuffix("s"))
        raise NotFoundError(f"there is no {noun} {identifier}")
    return row


@dataclass(eq=False)
class Transactions:
    """Opens transactions of a migrated database, and tells the time."""

    engine: Engine
    """From `open_database`."""
    clock: Callable[[], float] = time.time
    """Returns seconds since the epoch."""
    domain: str = "netbisect.invalid"
    """Domain of new Message-IDs."""

    def __post_init__(self) -> None:
        # Objects of these sessions can be used after their end.
        self._read = sessionmaker(self.engine, expire_on_commit=False)
        self._write = sessionmaker(writer(self.engine), expire_on_commit=False)
        self._thread = threading.local()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A read transaction: a consistent snapshot.

        Raises:
            StoreError: the database refused.
        """
        with translated_errors(self.engine), self._read.begin() as session:
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """A write transaction without other writers; an exception rolls it back.

        Raises:
            DatabaseUnavailableError: nothing was kept.
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
            with translated_errors(self.engine), self._write() as session:
                session.connection()  # waits for other writers before it reads the clock
                origin = getattr(self._thread, "origin", "")
                yield WriteTransaction(session, self.clock(), self.domain, origin)
                commit(session)
        finally:
            self._thread.writing = False

    @contextlib.contextmanager
    def acting(self, origin: str) -> Iterator[None]:
        """Records `origin` in audit entries of this thread."""
        before = getattr(self._thread, "origin", "")
        self._thread.origin = origin
        try:
            yield
        finally:
            self._thread.origin = before


class LedgerRepository:
    """Base of all repositories: every call is a transaction."""

    def __init__(self, transactions: Transactions) -> None:
        self.reading = transactions.reading
        self.writing = transactions.writing

    def _get(self, table: type[_Row], identifier: int) -> _Row:
        """The object with this id. Raises NotFoundError."""
        with self.reading() as session:
            return get_row(session, table, identifier)

    def _all(self, query: Select[_Row]) -> list[_Row]:
        with self.reading() as session:
            return list(session.scalars(query))

    def _first(self, query: Select[_Row]) -> _Row | None:
        with self.reading() as session:
            return session.scalars(query.limit(1)).first()


def transaction(
    function: Callable[Concatenate[WriteTransaction, P], R],
) -> Callable[Concatenate[LedgerRepository, P], R]:
    """Makes a method of a repository that calls a function in a transaction of its own."""

    @functools.wraps(function)
    def method(self: LedgerRepository, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.writing() as writing:
            return function(writing, *args, **kwargs)

    return method


class EventRepository(LedgerRepository):
    """Events in order."""

    def since(self, marker: int, limit: int = 1000) -> tuple[list[LedgerEvent], int]:
        """Events after `marker`, oldest first, and the marker for the next call.

        Marker 0 is the beginning. Events become visible in the order of their ids, so no event is
        missed or repeated.
        """
        later = select(LedgerEvent).where(LedgerEvent.id > marker)
        events = self._all(later.order_by(LedgerEvent.id).limit(limit))
        return events, events[-1].id if events else marker

    def last(self) -> int:
        """Marker of the last event, for `since`."""
        with self.reading() as session:
            return session.scalar(select(func.max(LedgerEvent.id))) or 0
