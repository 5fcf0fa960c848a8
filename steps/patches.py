"""Repairs of Buildbot 4.3.0, its newest release; most are mended upstream and not yet released.

`apply` does nothing with any other version.

- An aborted download of a log parks a thread of the log pool for ever. On a small master that is
  the only one: no log can be read, no build ends, the master does not stop.
- With SQLite every transaction opens a connection of its own, and whenever the last one closes,
  SQLite copies its log into the database: a third of the time of a short build (not mended).
- The priority of a request that waits cannot be changed with SQLAlchemy 2.
- The REST interface writes its answers from a thread other than the reactor's (their issue 9065).
- What a master had begun that was killed stays its own for ever: of several masters, the one that
  cleans up after it takes back its own claims instead (not mended).
- What a worker was chosen for that is lost before it is asked for anything stays open for ever: the
  request, or the build that has its number already (not mended).
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import buildbot
from buildbot.config.master import get_is_in_unit_tests
from buildbot.data import base, masters
from buildbot.db import buildrequests, logs
from buildbot.process.build import Build
from buildbot.process.builder import Builder
from buildbot.process.results import RETRY
from buildbot.process.workerforbuilder import AbstractWorkerForBuilder
from buildbot.util import unicode2bytes
from buildbot.www import rest
from twisted.internet import defer, reactor, threads
from twisted.python import log
from twisted.python.failure import Failure
from twisted.web.server import Request

T = TypeVar("T")
_MENDED = "4.3.0"


@dataclass(frozen=True, slots=True)
class _End:
    """Comes after the last item."""

    failure: Failure | None


class _Backlog:
    """Counts what was produced and consumed; wakes the producer when its consumer has gone."""

    def __init__(self, most: int, wait_at_end: bool) -> None:
        self._most = most
        self._wait_at_end = wait_at_end
        self._waiting = 0
        self._abandoned = False
        self._changed = threading.Condition()

    def may_add(self) -> bool:
        """Waits for room; False when nobody listens any longer. For the producer's thread."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._abandoned or self._most <= 0 or self._waiting < self._most
            )
            self._waiting += 1
            return not self._abandoned

    def drain(self) -> None:
        """Waits until all is consumed, or nobody listens. For the producer's thread."""
        if self._wait_at_end:
            with self._changed:
                self._changed.wait_for(lambda: self._abandoned or self._waiting == 0)

    def took_one(self) -> None:
        """The consumer has one item less before it."""
        with self._changed:
            self._waiting -= 1
            self._changed.notify_all()

    def abandon(self) -> None:
        """The consumer is done, or gone."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()


async def iterate_on_pool(
    generator_sync: Callable[[], Generator[T, None, None]],
    *,
    reactor: Any,
    provider_threadpool: Any = None,
    max_backlog: int = 1,
    wait_backlog_consuption: bool = True,  # the name that Buildbot calls it by
) -> AsyncGenerator[T, None]:
    """Runs a generator on a thread pool; its thread comes back whatever becomes of the reader."""
    pool = provider_threadpool or reactor.getThreadPool()
    if get_is_in_unit_tests():
        from buildbot.test.fake.reactor import NonThreadPool  # noqa: PLC0415 - tests only

        if isinstance(pool, NonThreadPool):
            max_backlog, wait_backlog_consuption = 0, False
    queue: defer.DeferredQueue[Any] = defer.DeferredQueue()
    backlog = _Backlog(max_backlog, wait_backlog_consuption)

    def produce() -> None:
        for item in generator_sync():
            if not backlog.may_add():
                return
            reactor.callFromThread(queue.put, item)
        backlog.drain()

    def ended(result: object) -> None:
        queue.put(_End(result if isinstance(result, Failure) else None))

    threads.deferToThreadPool(reactor, pool, produce).addBoth(ended)
    try:
        while not isinstance(item := await queue.get(), _End):
            backlog.took_one()
            yield item
        if item.failure is not None:
            item.failure.raiseException()
    finally:
        # On a normal end, on an error, and when the reader went away.
        backlog.abandon()


def write_json(request: Request, encoder: json.JSONEncoder, data: object) -> None:
    """Encodes in the calling thread, writes in the reactor's."""
    body = unicode2bytes("".join(encoder.iterencode(data)))

    def write() -> None:
        if rest._is_request_finished(request):  # noqa: SLF001 - as the function it replaces
            return
        request.setHeader(b"content-length", str(len(body)).encode())
        if request.method != b"HEAD":
            request.write(body)

    threads.blockingCallFromThread(reactor, write)


def set_priority(
    self: buildrequests.BuildRequestsConnectorComponent, brids: list[int], priority: int
) -> defer.Deferred[None]:
    """Changes the priority of those requests that are not complete."""

    def thd(connection: Any) -> None:
        table = self.db.model.buildrequests
        with connection.begin():
            for batch in self.doBatch(brids, 100):
                query = table.update().where(table.c.id.in_(batch), table.c.complete != 1)
                connection.execute(query.values(priority=priority))

    done: defer.Deferred[None] = self.db.pool.do(thd)
    return done


_clean_up = masters.Master._masterDeactivatedHousekeeping  # noqa: SLF001 - there is no public way in


@base.updateMethod
@defer.inlineCallbacks
def clean_up(
    self: masters.Master, masterid: int, name: str
) -> Generator[defer.Deferred[Any], Any, None]:
    """Takes back what a master had begun that is gone, and wakes who can begin it anew."""
    requests = self.master.db.buildrequests
    begun = yield requests.getBuildRequests(complete=False, claimed=masterid)
    yield _clean_up(self, masterid, name)
    its_own = [one.buildrequestid for one in begun]
    yield requests._unclaim_buildrequests_for_master(its_own, masterid)  # noqa: SLF001 - as above
    if its_own:
        self.master.botmaster.maybeStartBuildsForAllBuilders()


_maybe_start_build = Builder.maybeStartBuild
_start_build = Build.startBuild


@defer.inlineCallbacks
def maybe_start_build(
    self: Builder, workerforbuilder: AbstractWorkerForBuilder, requests: list[Any]
) -> Generator[defer.Deferred[Any], Any, bool]:
    """Whether a build has begun; it has not where its worker was lost since it was chosen."""
    try:
        return bool((yield _maybe_start_build(self, workerforbuilder, requests)))
    except AttributeError:  # of None, where the worker was
        if workerforbuilder.worker is not None:
            raise
        return False


@defer.inlineCallbacks
def start_build(
    self: Build, workerforbuilder: AbstractWorkerForBuilder
) -> Generator[defer.Deferred[Any], Any, None]:
    """Starts a build; one whose worker is lost meanwhile ends, and its request is begun anew."""
    try:
        yield _start_build(self, workerforbuilder)
    except (AssertionError, AttributeError):  # of None, where the worker was
        if self.buildid is None or self.finished or workerforbuilder.worker is not None:
            raise
        log.msg(f"{self}: its worker was lost before it began")
        yield self.buildFinished(["worker", "lost"], RETRY)


def apply() -> bool:
    """Mends the running Buildbot; False when it is not the version that needs it."""
    if buildbot.version != _MENDED:
        return False
    logs._async_iter_on_pool = iterate_on_pool  # noqa: SLF001 - there is no public way in
    buildrequests.BuildRequestsConnectorComponent.set_build_requests_priority = set_priority
    masters.Master._masterDeactivatedHousekeeping = clean_up  # noqa: SLF001
    Builder.maybeStartBuild = maybe_start_build
    Build.startBuild = start_build
    rest.V2RootResource._write_json_data = staticmethod(write_json)  # noqa: SLF001
    return True


_held: dict[Path, sqlite3.Connection] = {}


def hold_open(database: Path) -> None:
    """Keeps one connection to Buildbot's SQLite file, if there is one, for as long as we live."""
    if database not in _held and database.is_file():
        connection = sqlite3.connect(database, check_same_thread=False)
        connection.execute("PRAGMA schema_version").fetchone()  # only now it is really open
        _held[database] = connection
