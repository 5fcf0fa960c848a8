"""Searches with prefetched kernels and with several layouts, in a real master."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from buildbot.process.results import CANCELLED
from ledger_facts import bisect_job, comparison
from real_master import RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.results import Culprit
from netbisect.store.db.records import Action, ActionStage, JobRecord

LINE = [f"{number:040x}" for number in range(16)]
GOOD, BAD, MIDDLE, CULPRIT = LINE[0], LINE[-1], LINE[8], 11
FAST, SLOW = 950_000, 855_000
LAYOUTS = 8
OFFSETS = (0.011, -0.016, 0.004, 0.013, -0.009, -0.002, 0.017, -0.013, 0.006, -0.011, 0.009)
"""Offsets of images as ratios, used in turn."""


class SearchTest(RealMaster):
    """A bisection whose culprit the scripted lab knows."""

    def begin(self, more: dict[str, dict[str, Any]] | None = None) -> JobRecord:
        script = {
            name: {"pps": SLOW if place >= CULPRIT else FAST} for place, name in enumerate(LINE)
        }
        for name, part in (more or {}).items():
            script[name] |= part
        self.script(script)
        job = bisect_job(LINE, math.log(SLOW / FAST), Noise(boot=0.004))
        return self.ledger.jobs.add(job, key="bisect", priority=200)

    async def prefetches(self) -> list[dict[str, Any]]:
        found = await self.buildsets()
        return [buildset for buildset in found if "ahead" in buildset["external_idstring"]]

    async def decided(self, record: JobRecord, stage: ActionStage, excluded: set[str]) -> Action:
        """Waits for the first decision about a revision that is not excluded."""

        def found() -> list[Action]:
            decisions = self.ledger.actions.of_job(record.id)
            others = [action for action in decisions if action.revision not in excluded]
            return [action for action in others if action.stage is stage]

        await self.until(lambda: bool(found()))
        return found()[0]

    def builds(self) -> Counter[str]:
        return Counter(call for call in self.calls() if call.startswith("build"))


class SeveralBuildersTest(SearchTest):
    builders = ("one", "two", "three")

    @pytest.mark.long
    @case
    async def test_all_builders_build_at_once_and_a_decision_adopts_a_prefetch(self) -> None:
        """The buildset gets the priority of the job; no prefetch is repeated after a restart."""
        fast = {GOOD, BAD, MIDDLE}
        await self.start()
        record = self.begin({name: {"build": "wait"} for name in LINE if name not in fast})
        await self.until(lambda: len(self.builds().keys() - {f"build {one}" for one in fast}) == 3)
        known = await self.prefetches()
        for _ in range(5):
            self.scheduler.prefetcher._idle_states.clear()
            await self.scheduler.advance()
        assert len(await self.prefetches()) == len(known)

        decision = await self.decided(record, ActionStage.KERNEL, fast)
        await self.until(lambda: self.ledger.actions.get(decision.id).buildset is not None)

        (adopted,) = [
            buildset
            for buildset in await self.prefetches()
            if buildset["bsid"] == self.ledger.actions.get(decision.id).buildset
        ]
        assert adopted["external_idstring"].split(":")[5] == decision.revision
        requests = await self.master.data.get(("buildrequests",))
        (request,) = [found for found in requests if found["buildsetid"] == adopted["bsid"]]
        assert request["priority"] == record.priority
        (self.folder / "go").touch()

    @pytest.mark.long
    @case
    async def test_only_prefetches_stopped_with_the_master_are_repeated(self) -> None:
        """After a cancellation by a user, another kernel is prefetched."""
        await self.start()
        self.begin({name: {"build": "wait"} for name in LINE})
        while len(await self.prefetches()) < 2:
            await task.deferLater(reactor, 0.05)
        for reason, attempts in (("Master Shutdown", "1122"), ("not this one", "11122")):
            await self.scheduler._lock.acquire()  # no pass of the scheduler between the stops
            for prefetch in await self.prefetches():
                if not prefetch["complete"]:
                    await self.stop(prefetch["bsid"], reason)
            self.scheduler._lock.release()
            await self.scheduler.advance()
            while len(prefetches := await self.prefetches()) < len(attempts):
                await task.deferLater(reactor, 0.05)
            ids = {prefetch["external_idstring"] for prefetch in prefetches}
            assert "".join(sorted(text.split(":")[6] for text in ids)) == attempts
        (self.folder / "go").touch()

    async def stop(self, buildset: int, reason: str) -> None:
        requests = await self.master.data.get(("buildrequests",))
        (request,) = [found for found in requests if found["buildsetid"] == buildset]
        path = ("buildrequests", request["buildrequestid"], "builds")
        builds = await self.until(lambda: self.master.data.get(path))
        await self.master.data.control("stop", {"reason": reason}, ("builds", builds[0]["buildid"]))
        while (await self.master.data.get(("buildsets", buildset)))["results"] != CANCELLED:
            await task.deferLater(reactor, 0.05)

    @pytest.mark.long
    @case
    async def test_prefetched_kernels_are_used_and_failed_ones_skipped(self) -> None:
        """Each is built once; external ids are unique."""
        await self.start()
        broken = {LINE[7]: {"build": "fail"}, LINE[5]: {"build": "fail"}}
        record = await self.closed(self.begin(broken))

        assert isinstance(record.result, Culprit)
        assert record.result.revision == LINE[CULPRIT]
        assert set(self.builds().values()) == {1}
        prefetches = await self.prefetches()
        prefetched = {found["external_idstring"].split(":")[5] for found in prefetches}
        assert LINE[7] in prefetched
        assert prefetched & {call.split()[1] for call in self.calls() if call.startswith("trial")}
        ids = [buildset["external_idstring"] for buildset in await self.buildsets()]
        assert len(ids) == len(set(ids))
        actions = self.ledger.actions.of_job(record.id)
        trials = [action for action in actions if action.stage == "trial"]
        assert {str(trial.outcome) for trial in trials} == {"ok"}
        assert not {trial.revision for trial in trials} & set(broken)


class LinkOrderTest(RealMaster):
    """Layouts of one revision have different rates."""

    good, culprit = LINE[2:4]

    def add_search(self) -> JobRecord:
        script: dict[str, dict[str, object]] = {}
        for place, revision in enumerate(LINE[:6]):
            level = 950_000 * (0.95 if revision >= self.culprit else 1)
            for layout in range(LAYOUTS + 1):
                offset = OFFSETS[(7 * place + 3 * layout) % len(OFFSETS)]
                name = f"{revision}#{layout}" if layout else revision
                script[name] = {"pps": level * (1 + offset)}
        self.script(script)
        noise = Noise(boot=0.004, image=0.012)
        job = bisect_job(LINE[:6], math.log(0.95), noise, layouts=LAYOUTS)
        return self.ledger.jobs.add(job, key="bisect", priority=200)

    @pytest.mark.long
    @case
    async def test_culprit_is_named_from_several_layouts(self) -> None:
        """Each layout is built once, booted under its own name, and not used by other jobs."""
        await self.start()
        record = await self.closed(self.add_search())
        calls = self.calls()
        built = [one.split()[1] for one in calls if one.startswith("build")]
        booted = {one.split()[1] for one in calls if one.startswith("trial")}
        relinked = {name for name in booted if "#" in name}

        assert isinstance(record.result, Culprit)
        assert record.result.revision == self.culprit
        assert {f"{self.culprit}#1", f"{self.good}#1"} <= relinked
        assert len(built) == len(set(built))
        names = [buildset["external_idstring"] for buildset in await self.buildsets()]
        assert not [name for name in names if "ahead" in name]
        pair = comparison(self.good, self.culprit, "inet4-forwarding")
        other = self.ledger.jobs.add(pair, key="compare")
        seen = self.ledger.evidence.gather(other, config="GENERIC", arch="amd64")
        assert seen.observations
        assert {observation.layout for observation in seen.observations} == {0}
