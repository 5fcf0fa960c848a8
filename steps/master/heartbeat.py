"""The heartbeat: checks the reactor, Buildbot's database and the workers for the watchdog.

A connected worker that does not respond is disconnected; Buildbot then retries its builds when it
returns, or on another worker.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from buildbot.util.service import BuildbotService
from buildbot.util.twisted import async_to_deferred
from twisted.internet import defer, task
from twisted.python import log
from twisted.spread import pb

from netbisect.steps.service import stalls
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.stalls import Stall
from netbisect.steps.service.watchdog import Watchdog, WatchedWait, notify_systemd, record_stall

NAME = "netbisect-heartbeat"
_BEAT = 1.0
_TRANSFER_SECONDS = 3600.0
"""Time limit of steps without one: file transfers."""


class Heartbeat(BuildbotService):
    """Beats every second; pings workers and database every half stall time."""

    compare_attrs = ("settings",)
    name = NAME

    def reconfigService(self, settings: Settings, **kwargs: Any) -> defer.Deferred[None]:
        self.settings = settings
        return super().reconfigService(**kwargs)

    @async_to_deferred
    async def startService(self) -> None:
        """Starts the watchdog, which also covers the start of the master."""
        await super().startService()
        self._ping_seconds = self.settings.stall_seconds / 2
        self._steps: dict[Any, WatchedWait] = {}
        self._reactor_wait = WatchedWait("the reactor").__enter__()
        self._start_wait: WatchedWait | None = WatchedWait("the start of the master").__enter__()
        self._watchdog = Watchdog(
            Path(self.master.basedir), self.settings.state, self.settings.stall_seconds
        )
        self._watchdog.start()
        self._clocks = [task.LoopingCall(self._beat), task.LoopingCall(self._ping)]
        for clock, seconds in zip(self._clocks, (_BEAT, self._ping_seconds), strict=True):
            clock.clock = self.master.reactor
            clock.start(seconds, now=False)

    def stopService(self) -> defer.Deferred[None]:
        """Leaves the watchdog running, to cover the stop of the master."""
        notify_systemd("STOPPING=1")
        for clock in self._clocks:
            clock.stop()
        self._reactor_wait.next("the end of the master")
        return super().stopService()

    def _beat(self) -> None:
        self._reactor_wait.next("the reactor")
        if self._start_wait is not None and self.master.masterHeartbeatService.running:
            self._start_wait.__exit__(None, None, None)
            self._start_wait = None
            notify_systemd("READY=1")

    def _watch_steps(self) -> None:
        """Watches the running steps, each with the time limit of its command.

        The worker ends a command at its limit, so that a step beyond it is lost in the master.
        """
        builders = self.master.botmaster.builders.values()
        builds = [build for builder in builders for build in builder.building]
        steps = {one.currentStep: one for one in builds if one.currentStep is not None}
        for step in self._steps.keys() - steps.keys():
            self._steps.pop(step).__exit__(None, None, None)
        for step in steps.keys() - self._steps.keys():
            what = f"step {step.name!r} of {steps[step].builder.name}"
            limit = getattr(step, "maxTime", None) or _TRANSFER_SECONDS
            if isinstance(limit, int | float):  # a renderer until the step begins
                self._steps[step] = WatchedWait(what, limit).__enter__()

    def _ping(self) -> None:
        self._watch_steps()
        pings = [self._ping_worker(one) for one in self.master.workers.workers.values() if one.conn]
        for coroutine in (*pings, self._ping_database()):
            done = defer.ensureDeferred(coroutine)
            done.addErrback(lambda failure: log.err(failure, "the heartbeat"))

    async def _ping_database(self) -> None:
        with WatchedWait("Buildbot's database"):
            await self.master.data.get(("masters", self.master.masterid))

    async def _ping_worker(self, worker: Any) -> None:
        connection, began = worker.conn, time.monotonic()
        try:
            await connection.remotePrint("netbisect ping").addTimeout(
                self._ping_seconds, self.master.reactor
            )
        except (pb.PBConnectionLost, pb.DeadReferenceError):
            return
        except defer.TimeoutError:
            what = f"a response of worker {worker.workername}"
            seconds = time.monotonic() - began
            record_stall(self.settings.state, Stall(time.time(), what, seconds, stalls.WORKER))
            if worker.conn is connection:
                # A normal close would wait for unsent data.
                connection.mind.broker.transport.abortConnection()
