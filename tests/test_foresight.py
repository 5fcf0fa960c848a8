"""Kernels built ahead, in a real master with a scripted lab: never twice, never in the way."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from buildbot.process.results import CANCELLED
from real_master import RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.model import Bisection, Candidate, Culprit, Noise
from netbisect.steps.conductor import NAME
from netbisect.store.records import Asked, Decision, DecisionStage

pytestmark = pytest.mark.slow
LINE = [f"{number:040x}" for number in range(16)]
GOOD, BAD, MIDDLE, CULPRIT = LINE[0], LINE[-1], LINE[8], 11
FAST, SLOW = 950_000, 855_000


class Searching(RealMaster):
    """Asks for a bisection; the scripted lab knows the culprit."""

    timeout = 120

    def begin(self, more: dict[str, dict[str, Any]] | None = None) -> Asked:
        script = {
            name: {"pps": SLOW if place >= CULPRIT else FAST} for place, name in enumerate(LINE)
        }
        for name, part in (more or {}).items():
            script[name] |= part
        self.script(script)
        question = Bisection(
            "main",
            "c2558",
            GOOD,
            tuple(Candidate(name) for name in LINE[1:]),
            ("inet4-forwarding",),
            "inet4-forwarding",
            math.log(SLOW / FAST),
            Noise(boot=0.004),
        )
        return self.ledger.ask(question, key="bisect", priority=200)

    async def ahead(self) -> list[dict[str, Any]]:
        return [one for one in await self.buildsets() if "ahead" in one["external_idstring"]]

    async def decided(self, asked: Asked, stage: DecisionStage, not_for: set[str]) -> Decision:
        """The first decision for another revision than these."""

        def found() -> list[Decision]:
            decisions = self.ledger.decisions(asked.id)
            return [one for one in decisions if one.stage is stage and one.revision not in not_for]

        await self.until(lambda: bool(found()))
        return found()[0]

    def builds(self) -> Counter[str]:
        return Counter(call for call in self.calls() if call.startswith("build"))


class Several(Searching):
    """Three builders: one for what is asked, two for what may be."""

    builders = ("one", "two", "three")

    @case
    async def test_the_culprit_is_found_and_nothing_is_built_twice(self) -> None:
        """What was built ahead is used; every order has a name of its own."""
        await self.start()
        asked = await self.closed(self.begin())

        assert isinstance(asked.finding, Culprit)
        assert asked.finding.revision == LINE[CULPRIT]
        assert set(self.builds().values()) == {1}
        ahead = [one["external_idstring"].split(":")[5] for one in await self.ahead()]
        assert set(ahead) & {one.split()[1] for one in self.calls() if one.startswith("trial")}
        names = [one["external_idstring"] for one in await self.buildsets()]
        assert len(names) == len(set(names))

    @pytest.mark.long
    @case
    async def test_what_is_being_built_ahead_is_awaited_when_it_is_asked_for(self) -> None:
        """The order is adopted, with the urgency of the question, and not given again."""
        now = {GOOD, BAD, MIDDLE}
        await self.start()
        asked = self.begin({name: {"build": "wait"} for name in LINE if name not in now})
        decision = await self.decided(asked, DecisionStage.KERNEL, now)
        await self.until(lambda: self.ledger.decision(decision.id).buildset is not None)

        (adopted,) = [
            one
            for one in await self.ahead()
            if one["bsid"] == self.ledger.decision(decision.id).buildset
        ]
        assert adopted["external_idstring"].split(":")[5] == decision.revision
        requests = await self.master.data.get(("buildrequests",))
        (request,) = [one for one in requests if one["buildsetid"] == adopted["bsid"]]
        assert request["priority"] == asked.priority
        (self.folder / "go").touch()
        asked = await self.closed(asked)
        assert isinstance(asked.finding, Culprit)
        assert set(self.builds().values()) == {1}

    @pytest.mark.long
    @case
    async def test_all_builders_build_at_once(self) -> None:
        """Three kernels are on their way before any is ready: the one asked for, and two ahead."""
        await self.start()
        asked = self.begin({name: {"build": "wait"} for name in LINE})
        await self.until(lambda: self.builds().total() == 3)
        (self.folder / "go").touch()
        assert isinstance((await self.closed(asked)).finding, Culprit)

    @pytest.mark.long
    @case
    async def test_looking_again_orders_nothing_again(self) -> None:
        """Nothing that matters is in memory: after a restart it is the same two orders."""
        await self.start()
        asked = self.begin({name: {"build": "wait"} for name in LINE})
        while len(await self.ahead()) < 2:
            await task.deferLater(reactor, 0.05)
        conductor = self.master.scheduler_manager.namedServices[NAME]
        for _ in range(5):
            conductor.foresight._seen.clear()
            await conductor.advance()
        assert len(await self.ahead()) == 2
        (self.folder / "go").touch()
        await self.closed(asked)
        assert set(self.builds().values()) == {1}

    @case
    async def test_what_a_stop_of_the_master_cancels_is_ordered_ahead_again(self) -> None:
        """Under a new name, and only that."""
        assert await self.names_after_stopping("Master Shutdown", 4) == ["1", "1", "2", "2"]

    @case
    async def test_what_a_person_cancels_is_not_ordered_ahead_again(self) -> None:
        """Another kernel is, in the one piece of the line that is large enough for it."""
        assert await self.names_after_stopping("not this one", 3) == ["1", "1", "1"]
        assert {one["external_idstring"].split(":")[6] for one in await self.ahead()} == {"1"}

    async def names_after_stopping(self, reason: str, orders: int) -> list[str]:
        """The last part of the names of all that was ordered ahead."""
        await self.start()
        asked = self.begin({name: {"build": "wait"} for name in LINE})
        while len(await self.ahead()) < 2:
            await task.deferLater(reactor, 0.05)
        conductor = self.master.scheduler_manager.namedServices[NAME]
        await conductor._lock.acquire()  # it sees what has stopped as one
        for order in await self.ahead():
            await self.stop(order["bsid"], reason)
        conductor._lock.release()
        await conductor.advance()
        while len(await self.ahead()) < orders:
            await task.deferLater(reactor, 0.05)
        names = sorted(one["external_idstring"] for one in await self.ahead())
        (self.folder / "go").touch()
        assert isinstance((await self.closed(asked)).finding, Culprit)
        assert len(set(names)) == orders
        return sorted(name.split(":")[6] for name in names)

    async def stop(self, buildset: int, reason: str) -> None:
        requests = await self.master.data.get(("buildrequests",))
        (request,) = [one for one in requests if one["buildsetid"] == buildset]
        where = ("buildrequests", request["buildrequestid"])
        while not (builds := await self.master.data.get((*where, "builds"))):
            await task.deferLater(reactor, 0.05)
        await self.master.data.control("stop", {"reason": reason}, ("builds", builds[0]["buildid"]))
        while (await self.master.data.get(("buildsets", buildset)))["results"] != CANCELLED:
            await task.deferLater(reactor, 0.05)

    @pytest.mark.long
    @case
    async def test_what_does_not_build_ahead_is_gone_round(self) -> None:
        """It is a fact of the question, and none of the visit that was made meanwhile."""
        await self.start()
        broken = {LINE[7]: {"build": "dud"}, LINE[5]: {"build": "dud"}}
        asked = await self.closed(self.begin(broken))

        assert isinstance(asked.finding, Culprit)
        assert asked.finding.revision == LINE[CULPRIT]
        assert set(self.builds().values()) == {1}
        assert LINE[7] in {one["external_idstring"].split(":")[5] for one in await self.ahead()}
        trials = [one for one in self.ledger.decisions(asked.id) if one.stage == "trial"]
        assert {str(one.outcome) for one in trials} == {"ok"}
        assert not {one.revision for one in trials} & set(broken)


class Single(Searching):
    """One builder, for what is asked."""

    @pytest.mark.long
    @case
    async def test_one_builder_builds_nothing_ahead(self) -> None:
        """A demanded kernel would have to wait for it."""
        await self.start()
        asked = await self.closed(self.begin())

        assert isinstance(asked.finding, Culprit)
        assert await self.ahead() == []
