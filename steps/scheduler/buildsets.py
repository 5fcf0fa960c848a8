"""Buildsets: orders for the lab, found again by their external ids.

`nb:<job>:<seq>:<attempt>` carries out a decision, `nb:ahead:...` prefetches a kernel, and
`nb:recover:...` returns a testbed to its known-good kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from buildbot.data import resultspec
from buildbot.process.properties import Properties
from buildbot.process.results import CANCELLED, SUCCESS, WARNINGS

from netbisect.steps.master.lab_step import EXIT_PROPERTY
from netbisect.steps.service.database_thread import DatabaseThread
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import Action
from netbisect.workers.cli.output import EXIT_LAB, EXIT_UNMEASURABLE, EXIT_USAGE
from netbisect.workers.config.lab import Lab

_SHUTDOWN = "(Master Shutdown)"

Buildset = dict[str, Any]
"""A buildset as returned by Buildbot's data API."""


class BuildsetOutcome(Enum):
    """How a buildset ended."""

    OK = "success"
    UNMEASURABLE = "the revision cannot be measured"
    SHUT_DOWN = "the master was stopped"
    CANCELLED = "cancelled by a user"
    LAB = "the lab needs repair"
    USAGE = "wrong lab file or command line on the worker"
    FAILED = "ended without a result"


def outcome_of(results: int, state: str, lab_exit: int | None) -> BuildsetOutcome:
    """Translates Buildbot's result and the exit status of netbisect-lab.

    Builds that run when the master stops end as CANCELLED (Buildbot issue 6029).
    """
    if results in (SUCCESS, WARNINGS):
        return BuildsetOutcome.OK
    if results == CANCELLED:
        return BuildsetOutcome.SHUT_DOWN if was_stopped(state) else BuildsetOutcome.CANCELLED
    known = {
        EXIT_UNMEASURABLE: BuildsetOutcome.UNMEASURABLE,
        EXIT_LAB: BuildsetOutcome.LAB,
        EXIT_USAGE: BuildsetOutcome.USAGE,
    }
    return known.get(lab_exit or 0, BuildsetOutcome.FAILED)


def was_stopped(state: str) -> bool:
    """Whether a build with this state string was cancelled by a stop of the master."""
    return _SHUTDOWN in state


class Buildsets:
    """The buildsets of one scheduler."""

    def __init__(self, scheduler: Any, repository: str) -> None:
        self._scheduler = scheduler
        self._repository = repository

    @property
    def _data(self) -> Any:
        return self._scheduler.master.data

    async def submit(
        self,
        external_id: str,
        builder: str,
        reason: str,
        properties: Mapping[str, Any],
        *,
        branch: str | None = None,
        revision: str | None = None,
        priority: int = 0,
    ) -> int:
        """Submits a buildset with one build; returns its number."""
        given = Properties()
        for key, value in properties.items():
            given.setProperty(key, value, self._scheduler.name)
        stamp = {
            "codebase": "",
            "repository": self._repository,
            "branch": branch,
            "revision": revision,
            "project": "",
        }
        buildset, _ = await self._scheduler.addBuildsetForSourceStamps(
            sourcestamps=[stamp],
            reason=reason,
            external_idstring=external_id,
            properties=given,
            builderNames=[builder],
            priority=priority,
        )
        return int(buildset)

    async def of_decision(self, decision: Action) -> int | None:
        """The buildset of a decision, also one that was not recorded because of a kill."""
        if decision.buildset is not None:
            return decision.buildset
        orphan = await self.newest(decision.external_id)
        return None if orphan is None else int(orphan["bsid"])

    async def newest(self, external_id: str) -> Buildset | None:
        """The newest buildset with this external id."""
        found = await self._find(resultspec.Filter("external_idstring", "eq", [external_id]))
        return max(found, key=lambda one: int(one["bsid"]), default=None)

    async def matching(self, part: str, *, unfinished: bool = False) -> list[Buildset]:
        """The buildsets, or only unfinished ones, whose external id contains `part`, by age."""
        filters = [resultspec.Filter("external_idstring", "contains", [part])]
        if unfinished:
            filters.append(resultspec.Filter("complete", "eq", [False]))
        return sorted(await self._find(*filters), key=lambda one: int(one["bsid"]))

    async def _find(self, *filters: resultspec.Filter) -> list[Buildset]:
        return await self._data.get(("buildsets",), filters=list(filters))

    async def queue_length(self, builder: str) -> int:
        """Number of waiting and running builds of a builder."""
        number = await self._data.updates.findBuilderId(builder)
        unfinished = resultspec.Filter("complete", "eq", [False])
        waiting = ("builders", number, "buildrequests")
        return len(await self._data.get(waiting, filters=[unfinished]))

    def is_connected(self, worker: str) -> bool:
        known = self._scheduler.master.botmaster.builders.values()
        return any(one.worker.workername == worker for builder in known for one in builder.workers)

    async def has_worker(self, builder: str) -> bool:
        """Whether a worker of this builder is connected and takes new builds."""
        known = self._scheduler.master.botmaster.builders.get(builder)
        # The database also has connections that ended with a kill of the master.
        connected = {one.worker.workername for one in known.workers} if known else set()
        number = await self._data.updates.findBuilderId(builder)
        workers: list[dict[str, Any]] = await self._data.get(("builders", number, "workers"))
        return any(
            one["name"] in connected and not one["paused"] and not one["graceful"]
            for one in workers
        )

    async def cancel_unless_running(self, buildset: int, why: str) -> bool:
        """Cancels a buildset without a running build; returns whether nothing of it runs."""
        waiting, running = await self._unfinished(buildset)
        if running:
            return False
        for request in waiting:
            await self._data.control("cancel", {"reason": why}, ("buildrequests", request))
        return True

    async def stop(self, buildset: int, why: str) -> None:
        """Cancels the waiting requests of a buildset, and stops its running builds."""
        waiting, running = await self._unfinished(buildset)
        for build in running:
            await self._data.control("stop", {"reason": why}, ("builds", build))
        for request in waiting:
            await self._data.control("cancel", {"reason": why}, ("buildrequests", request))

    async def _unfinished(self, buildset: int) -> tuple[list[int], list[int]]:
        """Requests of a buildset that wait for a build, and its running builds."""
        waiting, running = [], []
        for request in await self._requests(buildset):
            if not request["complete"]:
                builds = await self._builds(request)
                building = [build["buildid"] for build in builds if not build["complete"]]
                running += building
                waiting += [] if building else [request["buildrequestid"]]
        return waiting, running

    async def set_priority(self, buildset: int, priority: int) -> None:
        """Changes the priority of the waiting requests of a buildset.

        Buildbot's own function for this fails with SQLAlchemy 2.
        """
        database = self._scheduler.master.db
        table = database.model.buildrequests
        waiting = (table.c.buildsetid == buildset) & (table.c.complete != 1)
        changed = table.update().where(waiting, table.c.priority != priority)

        def update(connection: Any) -> None:
            with connection.begin():
                connection.execute(changed.values(priority=priority))

        await database.pool.do(update)

    async def workers_of(self, buildset: int) -> set[str]:
        names = set()
        for request in await self._requests(buildset):
            for build in await self._builds(request):
                properties = await self._data.get(("builds", build["buildid"], "properties"))
                names.add(str(properties.get("workername", ("", ""))[0]))
        return names - {""}

    async def _requests(self, buildset: int) -> list[dict[str, Any]]:
        its = resultspec.Filter("buildsetid", "eq", [buildset])
        return await self._data.get(("buildrequests",), filters=[its])

    async def _builds(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        return await self._data.get(("buildrequests", request["buildrequestid"], "builds"))

    async def outcome(self, buildset: int) -> tuple[BuildsetOutcome, str] | None:
        """Outcome of a buildset and Buildbot's state string; None while it runs."""
        found = await self._data.get(("buildsets", buildset))
        if found is None:
            return BuildsetOutcome.FAILED, f"Buildbot has no buildset {buildset}"
        if not found["complete"]:
            return None
        builds = [
            build
            for request in await self._requests(buildset)
            for build in await self._builds(request)
        ]
        if not builds:
            return BuildsetOutcome.CANCELLED, "cancelled before it began"
        last = max(builds, key=lambda build: int(build["buildid"]))  # earlier ones were retried
        properties = await self._data.get(("builds", last["buildid"], "properties"))
        lab_exit, _ = properties.get(EXIT_PROPERTY, (None, ""))
        return outcome_of(found["results"], last["state_string"], lab_exit), last["state_string"]


@dataclass
class SchedulerPart:
    """A part of the scheduler."""

    settings: Settings
    lab: Lab
    buildsets: Buildsets
    database: DatabaseThread
