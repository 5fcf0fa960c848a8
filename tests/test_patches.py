"""What is mended of Buildbot 4.3.0: threads that are lost, and what would stay open for ever."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import buildbot
import pytest
from buildbot.db import logs
from buildbot.plugins import worker
from buildbot.process.results import RETRY
from buildbot.worker.protocols import null
from real_master import RealMaster, case
from twisted.internet import defer, reactor, task
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import TestCase

from netbisect.bisect.model import NightDone
from netbisect.steps import patches

ITEMS = 50


class OneThread(TestCase):
    """On a pool of one thread, as a small master has it."""

    timeout = 20

    def setUp(self) -> None:
        self.pool = ThreadPool(1, 1)
        self.pool.start()
        self.ended = threading.Event()
        self.addCleanup(self.pool.stop)

    def numbers(self) -> Generator[int, None, None]:
        try:
            yield from range(ITEMS)
        finally:
            self.ended.set()

    def iterate(self, iterator: Any) -> Any:
        return iterator(self.numbers, reactor=reactor, provider_threadpool=self.pool)

    def test_all_items_arrive_in_order(self) -> defer.Deferred[None]:
        """Nothing changes for a reader who stays."""

        async def work() -> None:
            found = [item async for item in self.iterate(patches.iterate_on_pool)]
            assert found == list(range(ITEMS))

        return defer.ensureDeferred(work())

    def test_an_abandoned_reader_gives_its_thread_back(self) -> defer.Deferred[None]:
        """The next reader is served, although there is but one thread."""

        async def work() -> None:
            for _ in range(5):
                stream = self.iterate(patches.iterate_on_pool)
                assert await anext(stream) == 0
                await stream.aclose()
            found = [item async for item in self.iterate(patches.iterate_on_pool)]
            assert len(found) == ITEMS

        return defer.ensureDeferred(work())

    def test_an_error_of_the_source_reaches_the_reader(self) -> defer.Deferred[None]:
        """And the thread is free again."""

        def failing() -> Generator[int, None, None]:
            yield 1
            raise RuntimeError("the database is gone")

        async def work() -> None:
            stream = patches.iterate_on_pool(
                failing, reactor=reactor, provider_threadpool=self.pool
            )
            with pytest.raises(RuntimeError, match="the database is gone"):
                assert [item async for item in stream] == [1]
            assert len([item async for item in self.iterate(patches.iterate_on_pool)]) == ITEMS

        return defer.ensureDeferred(work())


def test_it_is_put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The running Buildbot uses the mended function; another version is left alone."""
    monkeypatch.setattr(logs, "_async_iter_on_pool", logs._async_iter_on_pool)

    assert patches.apply()
    assert logs._async_iter_on_pool is patches.iterate_on_pool
    monkeypatch.setattr(buildbot, "version", "99.0")
    assert not patches.apply()


def test_the_log_of_the_database_outlives_a_transaction(tmp_path: Path) -> None:
    """Held open, SQLite does not copy and remove its log whenever a connection closes."""
    database = tmp_path / "state.sqlite"
    log = tmp_path / "state.sqlite-wal"

    def transaction() -> None:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
            connection.execute("INSERT INTO t VALUES (1)")
            connection.commit()

    patches.hold_open(database)
    transaction()
    assert not log.exists()
    patches.hold_open(database)
    transaction()
    assert log.exists()
    patches._held.pop(database).close()


class TwoMasters(RealMaster):
    """The other one is a row of the database; its builder's worker comes late."""

    @case
    async def test_what_a_dead_master_had_begun_is_begun_anew(self: Any) -> None:
        """Its claim goes, and whoever can do the work hears of it."""
        self.builders = ()
        await self.start(more_workers=[worker.Worker("builder", "password", missing_timeout=0)])
        asked = self.ask()
        requests = self.master.db.buildrequests
        while not (found := await requests.getBuildRequests(complete=False)):
            await task.deferLater(reactor, 0.05)
        model = self.master.db.model

        def another(connection: Any) -> int:
            gone = {"name": "gone", "name_hash": "gone", "active": 1, "last_active": 1}
            (number,) = connection.execute(model.masters.insert().values(gone)).inserted_primary_key
            claims = [{"brid": one.buildrequestid, "masterid": number} for one in found]
            table = model.buildrequest_claims
            connection.execute(table.insert(), [{**one, "claimed_at": 1} for one in claims])
            connection.commit()
            return int(number)

        gone = await self.master.db.pool.do(another)
        config = self.master.config_loader.config_dict
        others = [one for one in config["workers"] if one.workername != "builder"]
        there = worker.LocalWorker("builder", max_builds=1, missing_timeout=0)
        config["workers"] = [*others, there]
        await self.master.doReconfig()
        await task.deferLater(reactor, 1.0)
        assert self.calls() == [], "it is another master's"
        assert await requests.getBuildRequests(complete=False, claimed=gone)

        await self.master.data.updates.expireMasters()
        assert (await self.closed(asked)).finding is not None
        assert not await requests.getBuildRequests(complete=False, claimed=gone)


class LostEarly(RealMaster):
    """A worker that goes between being chosen and being asked for something."""

    def lose_at(self, method: str, moment: Callable[..., Awaitable[bool]]) -> list[bool]:
        """Loses the worker of the testbed once, for a while, when the master has noted that.

        Args:
            method: By which the master notes something.
            moment: Tells by its arguments whether it is that.
        """
        updates = self.master.data.updates
        note = getattr(updates, method)
        lost: list[bool] = []

        async def noted(*what: Any, **more: Any) -> Any:
            done = await note(*what, **more)
            if not lost and await moment(*what):
                lost.append(True)
                await self.lose()
            return done

        def noting(*what: Any, **more: Any) -> defer.Deferred[Any]:
            return defer.ensureDeferred(noted(*what, **more))

        self.patch(updates, method, noting)
        return lost

    async def lose(self) -> None:
        its = self.master.workers.workers["c2558"]
        its.conn.loseConnection()
        await self.until(lambda: not its.workerforbuilders)
        reactor.callLater(0.3, lambda: defer.ensureDeferred(self.come_back(its)))  # type: ignore[attr-defined]

    async def come_back(self, its: Any) -> None:
        connection = null.Connection(its.remote_worker)
        await self.master.workers.newConnection(connection, "c2558")
        await its.attached(connection)

    async def is_visit(self, builder: int) -> bool:
        return bool((await self.master.data.get(("builders", builder)))["name"] == "bench-c2558")

    async def goes_on(self, lost: list[bool], retried: int) -> None:
        """The night has its answer, although a build had to be begun so often again."""
        asked = await self.closed(self.ask())
        self.flushLoggedErrors()  # Buildbot's own, of what it could not do
        assert lost
        assert isinstance(asked.finding, NightDone)
        builds = await self.master.data.get(("builds",))
        assert sum(one["results"] == RETRY for one in builds) == retried
        orders = [one["external_idstring"] for one in await self.buildsets()]
        assert len(set(orders)) == len(orders) == 3, "a kernel and two visits, each asked for once"

    @case
    async def test_a_request_whose_worker_goes_is_given_to_another(self: Any) -> None:
        """Otherwise nobody would ever begin it."""

        async def claimed(requests: list[int]) -> bool:
            its = await self.master.data.get(("buildrequests", requests[0]))
            return bool(await self.is_visit(its["builderid"]))

        await self.start()
        await self.goes_on(self.lose_at("claimBuildRequests", claimed), retried=0)

    @case
    async def test_a_build_that_is_being_prepared_is_begun_anew(self: Any) -> None:
        """Otherwise it would be prepared for ever."""
        await self.start()
        await self.goes_on(
            self.lose_at("setBuildStateString", self.saying("preparing worker")), retried=1
        )

    @case
    async def test_a_build_whose_worker_is_to_be_asked_whether_it_is_there_is_begun_anew(
        self: Any,
    ) -> None:
        await self.start()
        await self.goes_on(
            self.lose_at("setBuildStateString", self.saying("pinging worker")), retried=1
        )

    @case
    async def test_a_build_whose_worker_went_after_its_answer_is_begun_anew(self: Any) -> None:
        async def answered(_: int, state: str) -> bool:
            return state == "worker c2558 ready"

        await self.start()
        await self.goes_on(self.lose_at("setStepStateString", answered), retried=1)

    def saying(self, state: str) -> Callable[..., Awaitable[bool]]:
        async def said(build: int, now: str) -> bool:
            its = await self.master.data.get(("builds", build))
            return now == state and await self.is_visit(its["builderid"])

        return said
