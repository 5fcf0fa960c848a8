"""The ledger for code that runs in the reactor: every call in a thread, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from twisted.internet import defer, threads

from netbisect.steps.settings import Settings
from netbisect.store.database import open_database, patiently
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.store.schema import migrate
from netbisect.workers.lab import Lab

T = TypeVar("T")

_open: dict[str, Memory] = {}


class Memory:
    """One database, one caller at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = defer.DeferredLock()
        self._ledger: Ledger | None = None

    async def do(self, work: Callable[[Ledger], T]) -> T:
        """What `work` returns; it runs in a thread and must not touch the reactor.

        When the database is lost meanwhile it runs again, as it would after a kill.
        """
        result: T = await self._lock.run(
            threads.deferToThread, patiently, partial(self._with_ledger, work)
        )
        return result

    def _with_ledger(self, work: Callable[[Ledger], T]) -> T:
        if self._ledger is None:
            self._ledger = ledger_of(self.settings)
        return work(self._ledger)


def history_of(settings: Settings, lab: Lab) -> History:
    """The history of the tree under watch."""
    return History(settings.mirror, lab.source.repository, lab.source.revisions)


def ledger_of(settings: Settings) -> Ledger:
    """The ledger of a service; its Message-IDs are of the domain that its mails come from.

    Raises:
        StoreError: its database cannot be used.
    """
    return open_ledger(settings.database, settings.mail.sender.rpartition("@")[2])


def open_ledger(url: str, domain: str = "netbisect.invalid") -> Ledger:
    """The ledger in a database, which is brought up to date first.

    Args:
        url: SQLAlchemy address.
        domain: What stands behind the @ of the Message-IDs made here.

    Raises:
        StoreError: it cannot be used.
    """
    engine = open_database(url)
    migrate(engine)
    return Ledger(engine, domain=domain)


def memory(settings: Settings) -> Memory:
    """The one Memory of the service's database in this process."""
    url = settings.database
    if url not in _open:
        _open[url] = Memory(settings)
    return _open[url]
