"""Database access for the reactor: calls run in a thread, one at a time."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeVar

from twisted.internet import defer, threads

from netbisect.steps.service.settings import Settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.steps.service.watchdog import WatchedWait
from netbisect.store.db.database import retried_while_unavailable
from netbisect.store.ledger import Ledger

T = TypeVar("T")
Purpose = Literal["", "reads", "revisions", "requests", "digest"]

_open: dict[tuple[str, Purpose], DatabaseThread] = {}
_LIMITS: Mapping[Purpose, float] = {"digest": 3600.0, "requests": 1200.0}
"""Seconds beyond the patience of the watchdog; the server of reviews may need 150 for each."""


class DatabaseThread:
    """Serializes calls to a database."""

    def __init__(self, settings: Settings, limit: float = 0.0) -> None:
        self.settings = settings
        self._limit = limit
        self._lock = defer.DeferredLock()
        self._ledger: Ledger | None = None

    async def do(self, work: Callable[[Ledger], T]) -> T:
        """Runs `work` in a thread, again while the database is unavailable, and returns its result.

        It must not use the reactor.
        """
        async with self._lock:
            with WatchedWait(f"the ledger ({_name(work)})", self._limit):
                call = partial(self._with_ledger, work)
                return await threads.deferToThread(retried_while_unavailable, call)

    def _with_ledger(self, work: Callable[[Ledger], T]) -> T:
        if self._ledger is None:
            self._ledger = open_service_ledger(self.settings)
            # SQLite moves its log into the file, which users may then copy alone.
            atexit.register(self._ledger.engine.dispose)
        return work(self._ledger)


def _name(work: Callable[..., object]) -> str:
    """Name of a call for the record of a stall."""
    function = getattr(work, "func", work)  # of a partial
    name: str = getattr(function, "__qualname__", repr(function))
    return name.replace("<locals>.", "")


def database_thread(settings: Settings, purpose: Purpose = "") -> DatabaseThread:
    """Returns a shared thread of the service's database.

    The scheduler does not wait for those with a purpose: `reads` for web clients, `revisions` for
    their searches in the tree, `requests` for calls that may fetch a review, and `digest`.
    """
    key = settings.database, purpose
    if key not in _open:
        _open[key] = DatabaseThread(settings, _LIMITS.get(purpose, 0.0))
    return _open[key]
