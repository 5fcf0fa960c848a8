"""Fixes of Buildbot: threads of abandoned logs, and builds and uploads without an end."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import buildbot
import pytest
from buildbot.plugins import worker
from buildbot.process.remotetransfer import FileWriter
from buildbot.process.results import CANCELLED, RETRY, SUCCESS
from buildbot.worker.protocols import null
from real_master import RealMaster, case
from twisted.internet import defer, reactor
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import TestCase

from netbisect.bisect.model.results import NightlyResult
from netbisect.steps.master import buildbot_fixes, transfer

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
            lambda: (item for item in items),
            reactor=reactor,
            provider_threadpool=self.pool,
            **options,
        )

    @case
    async def test_an_abandoned_or_failed_reader_frees_its_thread(self) -> None:
        for _ in range(5):
            stream = self.iterate()
            assert await anext(stream) == 0
            await stream.aclose()
        stream = self.iterate(1 // number for number in (1, 0))
        assert await anext(stream) == 1
        with pytest.raises(ZeroDivisionError):
            await anext(stream)
        for backlog in (0, 1, 7):
            found = [item async for item in self.iterate(max_backlog=backlog)]
            assert found == list(range(ITEMS))

    def test_an_error_of_the_master_ends_an_upload(self) -> None:
        buildbot_fixes.apply()
        with tempfile.TemporaryDirectory() as folder:
            writer = FileWriter(f"{folder}/file", None, None)
            writer.fp.close()
            writer.remote_write(b"text")
            self.patch(buildbot_fixes, "_transfer", lambda *_: defer.succeed(SUCCESS))
            self.failureResultOf(buildbot_fixes.run_transfer(None, None, writer), ValueError)
            assert not list(Path(folder).iterdir())


def test_the_fixes_are_for_the_installed_buildbot() -> None:
    assert buildbot.version == buildbot_fixes._VERSION


class DeadMasterTest(RealMaster):
    @pytest.mark.long
    @case
    async def test_requests_of_a_dead_master_are_started_again(self: Any) -> None:
        self.builders = ()
        await self.start(more_workers=[worker.Worker("builder", "password", missing_timeout=0)])
        record = self.add_night()
        requests = self.master.db.buildrequests
        found = await self.until(lambda: requests.getBuildRequests(complete=False))
        model = self.master.db.model

        def add_dead_master(connection: Any) -> int:
            dead = {"name": "dead", "name_hash": "dead", "active": 1, "last_active": 1}
            (number,) = connection.execute(model.masters.insert().values(dead)).inserted_primary_key
            claims = [{"brid": request.buildrequestid, "masterid": number} for request in found]
            table = model.buildrequest_claims
            connection.execute(table.insert(), [{**claim, "claimed_at": 1} for claim in claims])
            connection.commit()
            return int(number)

        dead = await self.master.db.pool.do(add_dead_master)
        await self.connect_builder()
        assert self.calls() == [], "the request is claimed by the other master"
        assert await self.master.data.get(("builds",)) == []
        assert await requests.getBuildRequests(complete=False, claimed=dead)

        await self.master.data.updates.expireMasters()
        assert (await self.closed(record)).result is not None
        assert not await requests.getBuildRequests(complete=False, claimed=dead)

    async def connect_builder(self) -> None:
        """Connects the build host, and waits until Buildbot has looked for work for it."""
        await self.connect_worker("builder")
        workers = self.master.workers.workers
        await self.until(lambda: bool(workers["builder"].workerforbuilders))
        distributor = self.master.botmaster.brd
        await distributor.maybeStartBuildsOn([*self.master.botmaster.builders])
        await self.until(lambda: not distributor.active)


class LostWorkerTest(RealMaster):
    """A worker that is lost after it was chosen for a build and before the first step."""

    def disconnect_after(self, method: str, matches: Callable[..., Awaitable[bool]]) -> list[bool]:
        """Disconnects the worker after the first such call; the list has an element afterwards."""
        updates = self.master.data.updates
        original = getattr(updates, method)
        lost: list[bool] = []

        async def call(*arguments: Any, **more: Any) -> Any:
            done = await original(*arguments, **more)
            if not lost and await matches(*arguments):
                lost.append(True)
                await self.disconnect()
            return done

        def replacement(*arguments: Any, **more: Any) -> defer.Deferred[Any]:
            return defer.ensureDeferred(call(*arguments, **more))

        self.patch(updates, method, replacement)
        return lost

    async def disconnect(self) -> None:
        lost = self.master.workers.workers["c2558"]
        lost.conn.loseConnection()
        await self.until(lambda: not lost.workerforbuilders)
        reactor.callLater(0.3, lambda: defer.ensureDeferred(self.reconnect(lost)))  # type: ignore[attr-defined]

    async def reconnect(self, lost: Any) -> None:
        connection = null.Connection(lost.remote_worker)
        await self.master.workers.newConnection(connection, "c2558")
        await lost.attached(connection)

    async def is_trial(self, builder: int) -> bool:
        return bool((await self.master.data.get(("builders", builder)))["name"] == "bench-c2558")

    @pytest.mark.long
    @case
    async def test_a_trial_that_loses_its_worker_is_repeated(self: Any) -> None:
        """The worker is lost after the claim, during preparation, and after its ping."""

        async def claimed(requests: list[int]) -> bool:
            request = await self.master.data.get(("buildrequests", requests[0]))
            return bool(await self.is_trial(request["builderid"]))

        async def prepares(number: int, state: str) -> bool:
            build = await self.master.data.get(("builds", number))
            return state == "preparing worker" and await self.is_trial(build["builderid"])

        async def answered(_: int, state: str) -> bool:
            return state == "worker c2558 ready"

        await self.start()
        for number, method, matches in (
            (0, "claimBuildRequests", claimed),
            (1, "setBuildStateString", prepares),
            (2, "setStepStateString", answered),
        ):
            lost = self.disconnect_after(method, matches)
            record = await self.closed(self.add_night("abc"[number] * 40, boots=1))
            self.flushLoggedErrors()  # errors of Buildbot
            assert lost
            assert isinstance(record.result, NightlyResult)
            builds = await self.master.data.get(("builds",))
            assert sum(build["results"] == RETRY for build in builds) == number
        ids = [buildset["external_idstring"] for buildset in await self.buildsets()]
        assert len(set(ids)) == len(ids) == 6, "three kernels and trials, each submitted once"


class CancelledBuildTest(RealMaster):
    """A build that is cancelled before it is visible, and one that is cancelled in its upload."""

    @pytest.mark.long
    @case
    async def test_a_build_cancelled_at_its_start_or_its_upload_frees_the_host(self: Any) -> None:
        await self.start()
        updates, cancelled = self.master.data.updates, []
        starting = self.master.botmaster._starting_brid_to_cancel
        add_build = updates.addBuild

        async def add(*, buildrequestid: int, **more: Any) -> Any:
            if not cancelled:
                cancelled.append(buildrequestid)
                reason = {"reason": "no longer needed"}
                await self.master.data.control("cancel", reason, ("buildrequests", buildrequestid))
                await self.until(lambda: bool(starting[buildrequestid]))
            return await add_build(buildrequestid=buildrequestid, **more)

        self.patch(updates, "addBuild", lambda **what: defer.ensureDeferred(add(**what)))
        await self.closed(self.add_night(boots=1))
        record = await self.closed(self.add_night("b" * 40, boots=1))

        [build] = await self.master.data.get(("buildrequests", cancelled[0], "builds"))
        assert build["results"] == CANCELLED
        assert build["state_string"] == "cancelled (no longer needed)"
        assert isinstance(record.result, NightlyResult)
        await self.check_upload()

    async def check_upload(self: Any) -> None:
        """The step ends between the creation of the log of the interruption and its end."""
        upload, logged = transfer._MultipleFileUpload, defer.Deferred()
        run, new_log = upload.run, upload._newLog

        async def run_and_stop(step: Any) -> Any:
            results = await run(step)
            stopped = step.build.stopBuild("no longer needed")
            await logged
            stopped.addErrback(self.fail)
            return results

        def created(step: Any, name: str, *more: Any) -> Any:
            log = new_log(step, name, *more)
            if name != "stdio" and not logged.called:
                logged.callback(None)
            return log

        self.patch(upload, "run", run_and_stop)
        self.patch(upload, "_newLog", created)
        await self.closed(self.add_night("c" * 40, boots=1))

        builds = await self.master.data.get(("builds",))
        _, build = [one for one in builds if one["results"] == CANCELLED]
        assert build["state_string"].startswith("cancelled (no longer needed)")
