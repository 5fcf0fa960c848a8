"""Fixes of Buildbot: threads that were lost, and builds that stayed open for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import buildbot
import pytest
from buildbot.plugins import worker
from buildbot.process.results import CANCELLED, RETRY
from buildbot.worker.protocols import null
from real_master import RealMaster, case
from twisted.internet import defer, reactor, task
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import TestCase

from netbisect.bisect.model.results import NightlyResult
from netbisect.steps.master import buildbot_fixes

ITEMS = 50


class LogReaderTest(TestCase):
    """A thread pool with one thread, as on a small master."""

    timeout = 600

    def setUp(self) -> None:
        self.pool = ThreadPool(1, 1)
        self.pool.start()
        self.addCleanup(self.pool.stop)

    def iterate(self, items: Iterable[int] = range(ITEMS), **options: int) -> Any:
        return buildbot_fixes.iterate_on_pool(
            lambda: (one for one in items),
            reactor=reactor,
            provider_threadpool=self.pool,
            **options,
        )

    @case
    async def test_all_items_arrive_in_order(self) -> None:
        for backlog in (0, 1, 7):
            found = [item async for item in self.iterate(max_backlog=backlog)]
            assert found == list(range(ITEMS))

    @case
    async def test_an_abandoned_reader_frees_its_thread(self) -> None:
        for _ in range(5):
            stream = self.iterate()
            assert await anext(stream) == 0
            await stream.aclose()
        assert len([item async for item in self.iterate()]) == ITEMS

    @case
    async def test_an_error_of_the_source_reaches_the_reader_and_frees_the_thread(self) -> None:
        stream = self.iterate(1 // one for one in (1, 0))
        assert await anext(stream) == 1
        with pytest.raises(ZeroDivisionError):
            await anext(stream)
        assert len([item async for item in self.iterate()]) == ITEMS


def test_the_fixes_are_for_the_installed_buildbot() -> None:
    assert buildbot.version == buildbot_fixes._VERSION


class DeadMasterTest(RealMaster):
    """The other master is a row of the database."""

    @pytest.mark.long
    @case
    async def test_requests_of_a_dead_master_are_started_again(self: Any) -> None:
        self.builders = ()
        await self.start(more_workers=[worker.Worker("builder", "password", missing_timeout=0)])
        record = self.add_night()
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
        assert (await self.closed(record)).result is not None
        assert not await requests.getBuildRequests(complete=False, claimed=gone)


class LostWorkerTest(RealMaster):
    """A worker that is lost between the choice for a build and the first step."""

    def lose_at(self, method: str, moment: Callable[..., Awaitable[bool]]) -> list[bool]:
        """Loses the worker of the testbed for a moment, after a matching call of a method."""
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
        reactor.callLater(0.3, lambda: defer.ensureDeferred(self.reconnect(its)))  # type: ignore[attr-defined]

    async def reconnect(self, its: Any) -> None:
        connection = null.Connection(its.remote_worker)
        await self.master.workers.newConnection(connection, "c2558")
        await its.attached(connection)

    async def is_trial(self, builder: int) -> bool:
        return bool((await self.master.data.get(("builders", builder)))["name"] == "bench-c2558")

    @pytest.mark.long
    @case
    async def test_a_trial_that_loses_its_worker_is_repeated(self: Any) -> None:
        """After the claim, while the build is prepared, and after the ping of the worker."""

        async def claimed(requests: list[int]) -> bool:
            its = await self.master.data.get(("buildrequests", requests[0]))
            return bool(await self.is_trial(its["builderid"]))

        async def prepares(build: int, state: str) -> bool:
            its = await self.master.data.get(("builds", build))
            return state == "preparing worker" and await self.is_trial(its["builderid"])

        async def answered(_: int, state: str) -> bool:
            return state == "worker c2558 ready"

        await self.start()
        for number, method, moment in (
            (0, "claimBuildRequests", claimed),
            (1, "setBuildStateString", prepares),
            (2, "setStepStateString", answered),
        ):
            lost = self.lose_at(method, moment)
            record = await self.closed(self.add_night("abc"[number] * 40, boots=1))
            self.flushLoggedErrors()  # Buildbot's own
            assert lost
            assert isinstance(record.result, NightlyResult)
            builds = await self.master.data.get(("builds",))
            assert sum(one["results"] == RETRY for one in builds) == number, "so many retries"
        orders = [one["external_idstring"] for one in await self.buildsets()]
        assert len(set(orders)) == len(orders) == 6, "a kernel and a trial, each submitted once"


class CancelledRequestTest(RealMaster):
    """A request that is cancelled after it was claimed and before its build is visible."""

    @case
    async def test_a_build_cancelled_at_its_start_frees_the_host(self: Any) -> None:
        await self.start()
        updates, cancelled = self.master.data.updates, []
        add_build = updates.addBuild

        async def add(*, buildrequestid: int, **more: Any) -> Any:
            if not cancelled:
                cancelled.append(buildrequestid)
                reason = {"reason": "no longer needed"}
                await self.master.data.control("cancel", reason, ("buildrequests", buildrequestid))
                await task.deferLater(reactor, 0.2)
            return await add_build(buildrequestid=buildrequestid, **more)

        self.patch(updates, "addBuild", lambda **what: defer.ensureDeferred(add(**what)))
        await self.closed(self.add_night(boots=1))
        record = await self.closed(self.add_night("b" * 40, boots=1))

        [build] = await self.master.data.get(("buildrequests", cancelled[0], "builds"))
        assert build["results"] == CANCELLED
        assert build["state_string"] == "cancelled (no longer needed)"
        assert isinstance(record.result, NightlyResult)
