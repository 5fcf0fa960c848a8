"""Scheduler: carries out the open jobs of the ledger, one decision at a time.

    job -> decision -> buildset -> facts -> next move -> ... -> result

It keeps no state: after an event, a tick or a restart it compares the open jobs with the buildsets,
and submits what is missing. A decision is recorded before its buildset is submitted with its
external id, so that after a kill the buildset is found again and not submitted twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from buildbot.schedulers.base import ReconfigurableBaseScheduler
from buildbot.util.twisted import async_to_deferred
from twisted.internet import defer, task
from twisted.python import log

from netbisect.bisect.model.entities import Kernel
from netbisect.bisect.model.evidence import kernel_name
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob, NightlyJob, ProfileJob
from netbisect.bisect.model.results import Move, Result, Trial, Unfinished
from netbisect.steps.master.builders import kernel_builder
from netbisect.steps.master.transfer import prune_kernels
from netbisect.steps.policy import fair_share, profiles
from netbisect.steps.scheduler.buildsets import Buildsets
from netbisect.steps.scheduler.decisions import MOST_TRIES, Decisions
from netbisect.steps.scheduler.followups import Followups
from netbisect.steps.scheduler.idle_recovery import IdleRecovery
from netbisect.steps.scheduler.prefetch import Prefetcher
from netbisect.steps.scheduler.quarantine import QuarantinePolicy, quarantine_reason
from netbisect.steps.scheduler.testbed_groups import Availability, TestbedGroups
from netbisect.steps.scheduler.worker_monitor import WorkerMonitor
from netbisect.steps.service import watchdog
from netbisect.steps.service.compute import StoppingError
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.numeric import plan
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import Action, ActionStage, JobRecord, Outcome
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.actions import NotOpenError
from netbisect.workers.build.artifacts import FACT
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.toml import FileError

SCHEDULER_NAME = "conductor"


class BisectScheduler(ReconfigurableBaseScheduler):
    """Scheduler of Buildbot: claimed by one master, with a switch on the web pages."""

    compare_attrs = ("settings", "lab")
    POLL_INTERVAL_SEC = 15
    """Interval of checks for the end of another master's scheduler."""

    def __init__(self, **kwargs: Any) -> None:
        self._lock = defer.DeferredLock()
        self._wanted = False
        self._consumer: Any = None
        self._clock: task.LoopingCall | None = None
        self._waits: dict[tuple[int, str], tuple[object, ...]] = {}
        """By job and testbed: the state in which it had to wait; planning is slow."""
        super().__init__(**kwargs)

    def checkConfig(self, settings: Settings, lab: Lab, **kwargs: Any) -> None:
        super().checkConfig(**kwargs)

    @async_to_deferred
    async def reconfigService(self, settings: Settings, lab: Lab, **kwargs: Any) -> None:
        await super().reconfigService(**kwargs)
        self.settings = settings
        self.lab = lab
        self.database = database_thread(settings)
        # Longer than a call of the ledger, so that the stall report names the call.
        self._wait = watchdog.WatchedWait("the scheduler", settings.stall_seconds)
        self.followups = Followups(settings, lab)
        self.buildsets = Buildsets(self, lab.source.repository)
        shared = (settings, lab, self.buildsets, self.database)
        self.prefetcher = Prefetcher(*shared, self.followups.kernels)
        self.quarantine = QuarantinePolicy(*shared)
        self.decisions = Decisions(
            *shared, self.followups.kernels, self.prefetcher, self.quarantine
        )
        self.groups = TestbedGroups(*shared)
        self.worker_monitor = WorkerMonitor(*shared)
        self.idle_recovery = IdleRecovery(*shared, self.quarantine, self.groups)

    @async_to_deferred
    async def activate(self) -> None:
        """Starts to consume events, and catches up."""
        await super().activate()
        if not self.enabled:
            return
        self._consumer = await self.master.mq.startConsuming(
            self._on_complete, ("buildsets", None, "complete")
        )
        try:
            await self.database.do(self.followups.write_missing_pages)
        except Exception:  # noqa: BLE001 - jobs continue without pages
            log.err(None, "the pages of requests; written at the next start")
        self._clock = task.LoopingCall(self.advance)
        self._clock.clock = self.master.reactor
        self._clock.start(self.settings.tick, now=True)

    @async_to_deferred
    async def deactivate(self) -> None:
        """Stops to consume events, after the current pass."""
        if self._clock is not None and self._clock.running:
            self._clock.stop()
        if self._consumer is not None:
            self._consumer.stopConsuming()
            self._consumer = None
        await self._lock.run(lambda: None)
        await super().deactivate()

    def _on_complete(self, _: object, message: dict[str, Any]) -> None:
        if (message.get("external_idstring") or "").startswith("nb:"):
            self.advance()

    def advance(self) -> defer.Deferred[None]:
        """Starts a pass over all open jobs; calls during a pass become one more pass."""
        if self._wanted:
            return defer.succeed(None)
        self._wanted = True
        done: defer.Deferred[None] = self._lock.run(self._pass)
        return done.addErrback(
            lambda failure: log.err(failure, "the scheduler; retried at the next tick")
        )

    async def is_leader(self) -> bool:
        """Whether this master has Buildbot's claim; a claim lost in a pause is taken again."""
        return self.active and bool(await self._claimService())

    @async_to_deferred
    async def _pass(self) -> None:
        self._wanted = False
        with self._wait:
            if await self.is_leader():
                await self._advance_all()

    async def _advance_all(self) -> None:
        await self.quarantine.release_recovered()
        for decision in await self.database.do(lambda ledger: ledger.actions.held()):
            await self.decisions.cancel(decision)
        waiting = await self.database.do(lambda ledger: ledger.jobs.all_open())
        while waiting:
            record = waiting.pop(0)
            self._wait.next(f"job {record.id} in the scheduler")
            try:
                followers = await self._advance(record)
            except StoppingError:
                return
            except Exception:  # noqa: BLE001 - one job must not block the others
                log.err(None, f"job {record.id}")
                continue
            waiting += followers
        self._wait.next("the scheduler")
        await self.idle_recovery.recover()
        await self.worker_monitor.check()

    async def _advance(self, record: JobRecord) -> list[JobRecord]:
        """Advances a job as far as possible now; returns the jobs that follow from its end."""
        try:
            return await self._advance_in_lab(record)
        except FileError as error:  # the lab file has changed since
            why = f"{error}; the master reads a changed lab file after SIGHUP"
            orders = await self.database.do(lambda ledger: ledger.actions.of_job(record.id))
            since = max((one.intended_at for one in orders), default=0.0)
            answer = self.quarantine.result_of_waiting(record, why, since)
            return [] if answer is None else await self._conclude(record, answer)

    async def _advance_in_lab(self, record: JobRecord) -> list[JobRecord]:
        """As `_advance`; FileError if the lab file lacks its testbed or kernel configuration."""
        while True:
            available = await self.groups.availability(record)
            in_flight = await self._open_decisions(record, available)
            if in_flight is None:
                continue  # new facts
            if isinstance(in_flight, Unfinished):
                return await self._conclude(record, in_flight)
            if in_flight:
                await self.prefetcher.prefetch(record, in_flight[0])
            elif available.held is not None and not available.open:
                why, since = quarantine_reason(available.held), available.held.since
                answer = self.quarantine.result_of_waiting(record, why, since)
                return [] if answer is None else await self._conclude(record, answer)
            move = await self._decide_all(record, available, in_flight)
            if move is None:
                return []  # until a buildset ends
            if not isinstance(move, Trial):
                return await self._conclude(record, move)

    async def _open_decisions(
        self, record: JobRecord, available: Availability
    ) -> list[Action] | Unfinished | None:
        """The open decisions of a job; None if one has ended."""
        decisions = await self.database.do(lambda ledger: ledger.actions.all_open(record.id))
        in_flight = []
        for decision in decisions:
            why = available.shut.get(decision.testbed) or await self._outdated(record, decision)
            if why is not None and await self.decisions.withdraw(decision, why):
                continue
            end = await self.decisions.follow(record, decision)
            if isinstance(end, Unfinished):
                return end
            if end is None:
                in_flight.append(decision)
        return in_flight if len(in_flight) == len(decisions) else None

    async def _outdated(self, record: JobRecord, decision: Action) -> str | None:
        """Why a trial that was not submitted is obsolete, or None."""
        if decision.stage is ActionStage.KERNEL or decision.buildset is not None:
            return None
        read = partial(self.followups.kernels.newest, record=record, name=decision.revision)
        known = await self.database.do(read)
        if known is None:
            return "the lab file has another kernel for it now"
        return None if self._is_stored(known) else "its kernel is no longer stored"

    def _is_stored(self, kernel: Kernel) -> bool:
        return (self.settings.kernels / kernel.key / FACT).is_file()

    async def _decide_all(
        self, record: JobRecord, available: Availability, in_flight: list[Action]
    ) -> Move | None:
        """Decides the moves of the idle testbeds; returns the last one, or the result."""
        busy = {decision.testbed for decision in in_flight}
        if busy.issuperset(available.open):
            return None
        ahead = await self.prefetcher.pending(record)
        builders = await self.groups.idle_builders(record)
        event = await self.database.do(lambda ledger: ledger.events.last())
        state = (event, builders, frozenset(ahead))
        last: Move | None = None
        for testbed in available.open:
            if testbed in busy or self._waits.get((record.id, testbed)) == state:
                continue
            decide = partial(
                self._decide, record=record, testbed=testbed, ahead=ahead, builders=builders
            )
            try:
                move = await self.database.do(decide)
            except NotOpenError:  # its request was cancelled
                return None
            if move is None and in_flight:
                self._waits[record.id, testbed] = state
            last = move or last
            if move is not None and not isinstance(move, Trial):
                return move
        return last

    async def _conclude(self, record: JobRecord, result: Result) -> list[JobRecord]:
        await self.decisions.withdraw_all(record)
        self._waits = {name: seen for name, seen in self._waits.items() if name[0] != record.id}
        followers: list[JobRecord] = await self.database.do(
            lambda ledger: self.followups.conclude(ledger, record, result)
        )
        if pruned := await prune_kernels(self.settings):
            log.msg(pruned)
        self.master.mq.produce(("netbisect", str(record.id), "closed"), {"id": record.id})
        return followers

    def _decide(
        self,
        ledger: Ledger,
        record: JobRecord,
        testbed: str,
        ahead: Mapping[str, float],
        builders: int,
    ) -> Move | None:
        """Decides the next move of an idle testbed, and records it; None if it has to wait.

        It waits for a kernel that is being built, for trials of its peers that may be sufficient,
        as a profile for jobs of higher priority, as a night for the end of an older one, and as a
        request for its fair share. `ahead` has the start of prefetches by revision, `builders` the
        number of idle builders for a job with several testbeds.
        """
        if isinstance(record.job, ProfileJob) and profiles.must_wait(ledger, record):
            return None
        if isinstance(record.job, NightlyJob) and any(
            older.id < record.id for older in ledger.nights.unfinished(testbed, record.branch)
        ):
            return None
        place = self.lab.testbed(testbed)
        evidence = self.followups.kernels.evidence(ledger, record)
        prices = ledger.costs.prices(testbed)
        now = time.time()
        left = {name: max(0.0, at + prices.build - now) for name, at in ahead.items()}
        job = record.job
        seen = InFlight(left)
        if isinstance(job, BisectJob) and job.others:
            seen = self.groups.in_flight(
                ledger, record, testbed, building=left, builders=builders, prices=prices
            )
        move = plan.next_move(job, evidence, prices, seen)
        if isinstance(move, Wait):
            return None
        return self._record(ledger, record, place, move)

    def _record(
        self, ledger: Ledger, record: JobRecord, testbed: Testbed, move: Move
    ) -> Move | None:
        """Records a trial as a decision; None if its kernel is being built, or it has to wait.

        Unfinished if the kernel was lost after each of `MOST_TRIES` builds.
        """
        if not isinstance(move, Trial):
            return move
        if record.request is not None and fair_share.is_in_flight(ledger, record, move.revision):
            return None
        config = self.followups.kernels.config_of(testbed, record.job.branch, move.revision)
        wanted = kernel_name(move.revision, move.layout)
        building = [
            one
            for one in ledger.actions.all_open()
            if (one.stage, one.revision, one.config, one.arch)
            == (ActionStage.KERNEL, wanted, config, testbed.arch)
        ]
        # Not as it was before the decision: another master may have recorded it since.
        kernel = self.followups.kernels.newest(ledger, record, wanted)
        if kernel is not None and self._is_stored(kernel):
            profiling = isinstance(record.job, ProfileJob)
            stage = ActionStage.PROFILE if profiling else ActionStage.TRIAL
            target = testbed.name
        elif building:
            for one in building:
                self.decisions.raise_priority(one, record)
            return None
        else:
            stage, target = ActionStage.KERNEL, kernel_builder(testbed.arch)
            done = [
                one
                for one in ledger.actions.of_job(record.id)
                if (one.revision, one.config, one.arch, one.outcome)
                == (wanted, config, testbed.arch, Outcome.OK)
            ]
            # A kernel that has been measured since may have been removed to free disk space.
            builds = len(list(takewhile(lambda one: one.stage is stage, reversed(done))))
            if builds >= MOST_TRIES:
                return Unfinished(
                    f"the kernel of {wanted[:12]} was built {builds} times, and is missing or "
                    f"damaged in {self.settings.kernels}; expected a disk without errors"
                )
        if record.request is not None and fair_share.why_waiting(
            ledger, self.settings, self.lab, record, stage
        ):
            return None
        ledger.actions.intend(
            record.id,
            stage,
            wanted,
            target,
            testbed=testbed.name,
            config=config,
            arch=testbed.arch,
            why=move.why,
            posterior=move.posterior,
            runs=move.runs,
        )
        return move
