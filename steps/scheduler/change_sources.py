"""Change sources: a poller for the branches, and a nightly scheduler per branch and testbed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from buildbot.plugins import changes, schedulers
from buildbot.util.twisted import async_to_deferred
from twisted.internet import defer, threads
from twisted.python import log

from netbisect.steps.master.builders import bench_builder
from netbisect.steps.scheduler.followups import open_nights
from netbisect.steps.scheduler.scheduler import SCHEDULER_NAME
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.storage import open_history
from netbisect.steps.service.watchdog import WatchedWait, run_in_thread
from netbisect.store.git.mirror import HistoryError, Mirror
from netbisect.store.git.raw_commit import RawCommit
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed

T = TypeVar("T")
_NAME = 120
"""Longest name and longest address: Buildbot's column takes 255 characters of both."""
_RETRY_SECONDS = 600.0
"""Seconds until a failed nightly job is tried again."""
_DAY = 86400.0
_fetching = defer.DeferredLock()
"""Allows one fetch at a time: all nights begin at once and share a clone."""


class GitPoller(changes.GitPoller):
    """Buildbot's poller with our parser of commits: git prints nothing for some of them.

    Buildbot stores known revisions under the name of the class.
    """

    def _get_commit_timestamp(self, rev: str) -> defer.Deferred[int | None]:
        # Commits may have dates that Buildbot's database and pages do not accept.
        return self._read(rev, lambda one: min(one.at, int(self.master.reactor.seconds())))

    def _get_commit_author(self, rev: str) -> defer.Deferred[str]:
        return self._read(rev, lambda one: f"{one.author[:_NAME]} <{one.email[:_NAME]}>")

    def _get_commit_committer(self, rev: str) -> defer.Deferred[str]:
        return self._read(
            rev, lambda one: f"{one.committer[:_NAME]} <{one.committer_email[:_NAME]}>"
        )

    def _get_commit_comments(self, rev: str) -> defer.Deferred[str]:
        return self._read(rev, lambda one: f"{one.subject}\n\n{one.body}".strip())

    @async_to_deferred
    async def _read(self, rev: str, take: Callable[[RawCommit], T]) -> T:
        mirror = Mirror(Path(self.workdir), self.repourl)
        [commit] = await run_in_thread("the text of a commit", mirror.commits, [rev])
        return take(commit)


def pollers(settings: Settings, lab: Lab) -> list[GitPoller]:
    """One poller for all branches, for Buildbot's pages."""
    return [
        GitPoller(
            repourl=lab.source.repository,
            branches=list(settings.branches),
            workdir=str(settings.state / "poller.git"),
            pollInterval=settings.poll,
            pollAtLaunch=True,
        )
    ]


class Nightly(schedulers.Nightly):
    """Opens a nightly job for a branch on a testbed, instead of starting a build."""

    compare_attrs = ("settings", "lab", "testbed", "night_branch")
    _failed = False

    def getNextBuildTime(self, lastActuated: float | None) -> defer.Deferred[float]:
        """Time of the next night, or of the next try."""
        if self._failed:
            return defer.succeed(self.now() + _RETRY_SECONDS)
        # After a clock that was ahead, the last night may lie in the future.
        last = datetime.fromtimestamp(min(lastActuated or self.now(), self.now())).astimezone()
        # Local time without an offset from UTC, which may change until then.
        last = last.replace(tzinfo=None)
        at = last.replace(hour=self.hour, minute=self.minute, second=0, microsecond=0, fold=0)
        return defer.succeed((at if at > last else at + timedelta(days=1)).timestamp())

    def checkConfig(
        self, settings: Settings, lab: Lab, testbed: Testbed, night_branch: str, **kwargs: Any
    ) -> None:
        super().checkConfig(**kwargs)

    @async_to_deferred
    async def reconfigService(
        self, settings: Settings, lab: Lab, testbed: Testbed, night_branch: str, **kwargs: Any
    ) -> None:
        self.settings, self.lab = settings, lab
        self.testbed, self.night_branch = testbed, night_branch
        await super().reconfigService(**kwargs)
        due = self.actuateAt is not None and self.actuateAt <= self.now()
        if self.active and not due:  # Buildbot keeps the old hour for one more night
            self.lastActuated = self.now()
            self.scheduleNextBuild()

    @async_to_deferred
    async def addBuildsetForSourceStampsWithDefaults(self, *_: object, **__: object) -> None:
        history = open_history(self.settings, self.lab, log.msg)

        def work(ledger: Ledger) -> str:
            lines = open_nights(ledger, history, self.settings, [self.testbed], [self.night_branch])
            return "; ".join(lines)

        self._failed = True
        # A master that restarts before the jobs are open begins this night again.
        await self.setState("last_build", self.now() - _DAY)
        try:
            # Not in the database thread: a fetch may take hours.
            async with _fetching:
                with WatchedWait("the fetch of the tree", history.fetch_seconds):
                    await threads.deferToThread(history.update)
            lines = await database_thread(self.settings).do(work)
        except HistoryError as error:
            log.msg(f"{self.name}: no nightly job yet: {error}")
            return
        self._failed = False
        await self.setState("last_build", self.now())
        log.msg(f"{self.name}: {lines}")
        scheduler = self.master.scheduler_manager.namedServices.get(SCHEDULER_NAME)
        if scheduler is not None:
            scheduler.advance()

    addBuildsetForChanges = addBuildsetForSourceStampsWithDefaults


def nights(settings: Settings, lab: Lab) -> list[Nightly]:
    """A nightly scheduler per branch and testbed."""
    return [
        Nightly(
            name=f"night-{branch.replace('/', '-')}-{testbed.name}",
            builderNames=[bench_builder(testbed.name)],
            hour=settings.night.hour,
            minute=settings.night.minute,
            settings=settings,
            lab=lab,
            testbed=testbed,
            night_branch=branch,
        )
        for branch in settings.branches
        for testbed in lab.testbeds
    ]
