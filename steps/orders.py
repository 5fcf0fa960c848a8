"""Orders: what Buildbot is asked to do, under names by which it is found again.

A name is the external id of a buildset: `nb:<question>:<seq>:<attempt>` for a decision,
`nb:ahead:...` for a kernel that nobody has asked for yet, `nb:recover:...` for a testbed that is
sent home.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from buildbot.data import resultspec
from buildbot.process.properties import Properties
from buildbot.process.results import CANCELLED, SUCCESS, WARNINGS

from netbisect.steps.lab_step import EXIT_PROPERTY
from netbisect.workers.cli import EXIT_DUD, EXIT_LAB, EXIT_USAGE

_SHUTDOWN = "(Master Shutdown)"

Buildset = dict[str, Any]
"""As Buildbot's data API describes it."""


class End(Enum):
    """How a buildset ended."""

    OK = "the lab has answered"
    DUD = "the revision cannot be measured"
    SHUT_DOWN = "the master was stopped under it"
    CANCELLED = "somebody cancelled it"
    LAB = "the lab needs its owner"
    USAGE = "the worker's lab file or command line is wrong"
    FAILED = "it ended without an answer"


def judge(results: int, state: str, lab_exit: int | None) -> End:
    """What Buildbot's result means for the decision behind it.

    A stop of the master ends running builds as CANCELLED (their issue 6029): that is nobody's
    wish, and they are ordered again.
    """
    if results in (SUCCESS, WARNINGS):
        return End.OK
    if results == CANCELLED:
        return End.SHUT_DOWN if was_stopped(state) else End.CANCELLED
    known = {EXIT_DUD: End.DUD, EXIT_LAB: End.LAB, EXIT_USAGE: End.USAGE}
    return known.get(lab_exit or 0, End.FAILED)


def was_stopped(state: str) -> bool:
    """Whether what Buildbot says of a build that was cancelled is that the master was stopped."""
    return _SHUTDOWN in state


class Orders:
    """The buildsets of one scheduler."""

    def __init__(self, scheduler: Any, repository: str) -> None:
        self._scheduler = scheduler
        self._repository = repository

    @property
    def _data(self) -> Any:
        return self._scheduler.master.data

    async def give(
        self,
        name: str,
        builder: str,
        reason: str,
        properties: Mapping[str, Any],
        *,
        branch: str | None = None,
        revision: str | None = None,
        priority: int = 0,
    ) -> int:
        """Orders one build; the number of its buildset."""
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
            external_idstring=name,
            properties=given,
            builderNames=[builder],
            priority=priority,
        )
        return int(buildset)

    async def called(self, name: str) -> Buildset | None:
        """The newest buildset of that name."""
        found = await self._buildsets(resultspec.Filter("external_idstring", "eq", [name]))
        return max(found, key=lambda one: int(one["bsid"]), default=None)

    async def containing(self, part: str, *, unfinished: bool = False) -> list[Buildset]:
        """The buildsets with that in their names, oldest first; all, or the unfinished ones."""
        filters = [resultspec.Filter("external_idstring", "contains", [part])]
        if unfinished:
            filters.append(resultspec.Filter("complete", "eq", [False]))
        found = await self._buildsets(*filters)
        return sorted(found, key=lambda one: int(one["bsid"]))

    async def _buildsets(self, *filters: resultspec.Filter) -> list[Buildset]:
        found: list[Buildset] = await self._data.get(("buildsets",), filters=list(filters))
        return found

    async def waiting_at(self, builder: str) -> int:
        """How many builds this builder has to do or is doing."""
        number = await self._data.updates.findBuilderId(builder)
        unfinished = resultspec.Filter("complete", "eq", [False])
        waiting = ("builders", number, "buildrequests")
        return len(await self._data.get(waiting, filters=[unfinished]))

    def is_there(self, worker: str) -> bool:
        """Whether a worker is connected."""
        known = self._scheduler.master.botmaster.builders.values()
        return any(one.worker.workername == worker for builder in known for one in builder.workers)

    async def attended(self, builder: str) -> bool:
        """Whether a worker of this builder is there and takes new builds."""
        known = self._scheduler.master.botmaster.builders.get(builder)
        # The database remembers connections that a kill of the master has ended.
        there = {one.worker.workername for one in known.workers} if known else set()
        number = await self._data.updates.findBuilderId(builder)
        workers: list[dict[str, Any]] = await self._data.get(("builders", number, "workers"))
        return any(
            one["name"] in there and not one["paused"] and not one["graceful"] for one in workers
        )

    async def call_off(self, buildset: int, why: str) -> bool:
        """Cancels an order unless something of it runs now; whether nothing of it runs."""
        found = await self._data.get(("buildsets", buildset))
        if found is None or found["complete"]:
            return True
        requests = [one for one in await self._requests(buildset) if not one["complete"]]
        for request in requests:
            number = request["buildrequestid"]
            builds = await self._data.get(("buildrequests", number, "builds"))
            if any(not build["complete"] for build in builds):
                return False
        for request in requests:
            where = ("buildrequests", request["buildrequestid"])
            await self._data.control("cancel", {"reason": why}, where)
        return True

    async def stop(self, buildset: int, why: str) -> None:
        """Ends an order: what waits is cancelled, and what runs is told to clean up and end."""
        for request in await self._requests(buildset):
            if request["complete"]:
                continue
            number = request["buildrequestid"]
            builds = await self._data.get(("buildrequests", number, "builds"))
            running = [build["buildid"] for build in builds if not build["complete"]]
            for build in running:
                await self._data.control("stop", {"reason": why}, ("builds", build))
            if not running:
                await self._data.control("cancel", {"reason": why}, ("buildrequests", number))

    async def priority(self, buildset: int, priority: int) -> None:
        """Sees to it that an order that waits has this priority."""
        for request in await self._requests(buildset):
            if not request["complete"] and request["priority"] != priority:
                where = ("buildrequests", request["buildrequestid"])
                await self._data.control("set_priority", {"priority": priority}, where)

    async def workers_of(self, buildset: int) -> set[str]:
        """Names of the workers on which an order was carried out."""
        names = set()
        for request in await self._requests(buildset):
            builds = await self._data.get(("buildrequests", request["buildrequestid"], "builds"))
            for build in builds:
                properties = await self._data.get(("builds", build["buildid"], "properties"))
                names.add(str(properties.get("workername", ("", ""))[0]))
        return names - {""}

    async def _requests(self, buildset: int) -> list[dict[str, Any]]:
        of_it = resultspec.Filter("buildsetid", "eq", [buildset])
        found: list[dict[str, Any]] = await self._data.get(("buildrequests",), filters=[of_it])
        return found

    async def ended(self, buildset: int) -> tuple[End, str] | None:
        """How a buildset ended, and what Buildbot says of it; None while it runs."""
        found = await self._data.get(("buildsets", buildset))
        if found is None:
            return End.FAILED, f"Buildbot no longer knows buildset {buildset}"
        if not found["complete"]:
            return None
        builds: list[dict[str, Any]] = []
        for request in await self._requests(buildset):
            number = request["buildrequestid"]
            builds += await self._data.get(("buildrequests", number, "builds"))
        if not builds:
            return End.CANCELLED, "cancelled before it began"
        last = max(builds, key=lambda build: int(build["buildid"]))  # earlier ones were retried
        properties = await self._data.get(("builds", last["buildid"], "properties"))
        lab_exit, _ = properties.get(EXIT_PROPERTY, (None, ""))
        return judge(found["results"], last["state_string"], lab_exit), last["state_string"]
