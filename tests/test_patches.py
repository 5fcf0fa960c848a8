"""What is mended of Buildbot 4.3.0: threads of its log pool, claims of a master that is dead."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import buildbot
import pytest
from buildbot.db import logs
from buildbot.plugins import worker
from real_master import RealMaster, case
from twisted.internet import defer, reactor, task
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import TestCase

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
