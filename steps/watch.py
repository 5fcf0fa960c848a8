"""Watches the tree: a poller for the branches, and a clock that opens a night per testbed."""

from __future__ import annotations

from typing import Any

from buildbot.plugins import changes, schedulers
from twisted.internet import defer
from twisted.python import log

from netbisect.steps.builders import bench_builder
from netbisect.steps.casework import open_nights
from netbisect.steps.conductor import NAME as CONDUCTOR
from netbisect.steps.memory import history_of, memory
from netbisect.steps.settings import Settings
from netbisect.store.history import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Lab, Testbed


def pollers(settings: Settings, lab: Lab) -> list[changes.GitPoller]:
    """One poller for all branches; it shows people what landed."""
    return [
        changes.GitPoller(
            repourl=lab.source.repository,
            branches=list(settings.branches),
            workdir=str(settings.state / "poller.git"),
            pollInterval=settings.poll,
            pollAtLaunch=True,
        )
    ]


class Nightly(schedulers.Nightly):
    """Asks how fast a branch is on a testbed tonight, instead of starting a build."""

    compare_attrs = ("settings", "lab", "testbed", "night_branch")

    def checkConfig(
        self,
        settings: Settings,
        lab: Lab,
        testbed: Testbed,
        night_branch: str,
        **kwargs: Any,
    ) -> None:
        super().checkConfig(**kwargs)

    def reconfigService(
        self,
        settings: Settings,
        lab: Lab,
        testbed: Testbed,
        night_branch: str,
        **kwargs: Any,
    ) -> defer.Deferred[None]:
        self.settings = settings
        self.lab = lab
        self.testbed = testbed
        self.night_branch = night_branch
        return super().reconfigService(**kwargs)

    def addBuildsetForSourceStampsWithDefaults(
        self, *_: object, **__: object
    ) -> defer.Deferred[None]:
        """What the clock calls when it is time."""
        return defer.ensureDeferred(self._ask())

    def addBuildsetForChanges(self, *_: object, **__: object) -> defer.Deferred[None]:
        """What the clock calls when it is time and something has landed."""
        return defer.ensureDeferred(self._ask())

    async def _ask(self) -> None:
        def work(ledger: Ledger) -> str:
            history = history_of(self.settings, self.lab)
            try:
                said = open_nights(
                    ledger, history, self.settings, [self.testbed], [self.night_branch]
                )
                return "; ".join(said)
            except HistoryError as error:
                return f"no night: {error}"

        said = await memory(self.settings).do(work)
        log.msg(f"{self.name}: {said}")
        conductor = self.master.scheduler_manager.namedServices.get(CONDUCTOR)
        if conductor is not None:
            conductor.advance()


def nights(settings: Settings, lab: Lab) -> list[Nightly]:
    """A clock per branch and testbed."""
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
