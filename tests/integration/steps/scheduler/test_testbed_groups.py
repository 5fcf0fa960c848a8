"""Searches that use several testbeds of one make, in a real master with a scripted lab."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from buildbot.process.results import SUCCESS
from ledger_facts import bisect_job, intend
from real_master import RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.model.entities import Noise, Sample
from netbisect.bisect.model.jobs import BisectJob, Candidate, NightlyJob
from netbisect.bisect.model.results import Culprit, NightlyResult
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import progress_of
from netbisect.steps.scheduler.buildsets import Buildsets
from netbisect.steps.scheduler.testbed_groups import unavailable_peers
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import DatabaseThread
from netbisect.steps.service.settings import SearchSettings, load
from netbisect.store.db.records import Action, ActionStage, JobRecord, Outcome
from netbisect.store.ledger import Ledger

LINE = [f"{number:040x}" for number in range(8)]
CULPRIT = 5
FAST, SLOW = 950_000, 855_000
OWN, PEER, THIRD = "c2558", "c2558-2", "c2558-3"
NOISE = Noise(boot=0.004)


class KilledError(Exception):
    """Simulates a kill of the master."""


class Group(RealMaster):
    """Two testbeds of one group, 6 % apart."""

    builders = ("one", "two")
    testbeds = (OWN, PEER)
    group = "c2558"

    def begin(self, more: dict[str, dict[str, Any]] | None = None) -> JobRecord:
        script: dict[str, dict[str, Any]] = {
            name: {"pps": SLOW if place >= CULPRIT else FAST} for place, name in enumerate(LINE)
        }
        script |= {OWN: {"factor": 1.03}, PEER: {"factor": 0.97}}
        for name, part in (more or {}).items():
            script[name] |= part
        self.script(script)
        job = bisect_job(LINE, math.log(SLOW / FAST), NOISE, others={PEER: NOISE})
        return self.ledger.jobs.add(job, key="bisect", priority=200)

    def trials(self, record: JobRecord, testbed: str) -> list[Action]:
        return [
            one
            for one in self.ledger.actions.of_job(record.id)
            if one.stage is ActionStage.TRIAL and one.target == testbed
        ]

    def samples(self, decision: Action) -> list[Sample]:
        return [one for one in self.ledger.facts.of_action(decision.id) if isinstance(one, Sample)]

    def assert_culprit(self, record: JobRecord) -> None:
        """Asserts that the search ended with the culprit, and all decisions ended."""
        assert isinstance(record.result, Culprit)
        assert record.result.revision == LINE[CULPRIT]
        assert all(one.outcome for one in self.ledger.actions.of_job(record.id))

    async def until_trial_ended(self, record: JobRecord, testbed: str) -> None:
        await self.until(lambda: any(one.outcome for one in self.trials(record, testbed)))

    async def until_idle(self) -> None:
        """Waits for builds that ran when the search ended."""
        while not all(one["complete"] for one in await self.buildsets()):
            await task.deferLater(reactor, 0.05)

    async def names(self) -> list[str]:
        return [one["external_idstring"] for one in await self.buildsets()]


class GroupCase:
    """A ledger, and a lab in which c2558 has two peers."""

    def __init__(self, place: Path, ledger: Ledger) -> None:
        self.settings, lab = load(place / control.SETTINGS)
        own, other = (replace(one, group="atoms" * (one.name == OWN)) for one in lab.testbeds)
        peers = (replace(own, name=name) for name in (PEER, THIRD))
        self.lab = replace(lab, testbeds=(own, other, *peers))
        self.ledger = ledger
        job = BisectJob(
            *("main", OWN, "r1", (Candidate("r2"),), ("s",), "s", -0.1, NOISE),
            others=dict.fromkeys((PEER, THIRD), NOISE),
        )
        self.record = self.ledger.jobs.add(job, key="bisect", priority=200)

    def unavailable(self) -> dict[str, str]:
        return unavailable_peers(self.ledger, self.settings, self.lab, self.record)

    def trial(self, record: JobRecord, testbed: str, outcome: Outcome | None) -> None:
        decision = intend(self.ledger, record, "r1", testbed)
        if outcome is not None:
            self.ledger.actions.finish(decision.id, outcome)


@pytest.fixture
def group_case(service_folder: Path, empty_ledger: Ledger) -> GroupCase:
    return GroupCase(service_folder, empty_ledger)


def test_a_peer_with_a_job_of_its_own_is_unavailable(group_case: GroupCase) -> None:
    night = NightlyJob("main", PEER, "r1", ("s",), 1)
    tonight = group_case.ledger.jobs.add(night, key="night", priority=1)
    assert group_case.unavailable() == {PEER: f"{PEER} has a night of its own"}
    with group_case.ledger.jobs.closing(tonight, NightlyResult(1)):
        pass
    assert group_case.unavailable() == {}


def test_a_peer_is_available_to_one_search_at_a_time(group_case: GroupCase) -> None:
    job = replace(group_case.record.job, testbed=THIRD)
    other = group_case.ledger.jobs.add(job, key="another search")
    group_case.trial(other, PEER, None)
    assert group_case.unavailable() == {
        PEER: f"{PEER} measures for another job",
        THIRD: f"{THIRD} has a bisection of its own",
    }


def test_a_peer_in_quarantine_or_with_failed_trials_is_unavailable(group_case: GroupCase) -> None:
    group_case.ledger.quarantines.start(PEER, why="too hot")
    group_case.trial(group_case.record, THIRD, Outcome.UNMEASURABLE)
    assert group_case.unavailable() == {PEER: f"{PEER} is in quarantine: too hot"}
    group_case.trial(group_case.record, THIRD, Outcome.LOST)
    assert group_case.unavailable()[THIRD] == f"the last 2 trials on {THIRD} failed"


def test_a_peer_that_left_the_group_is_unavailable(group_case: GroupCase) -> None:
    """Without `use_groups` all are."""
    *rest, last = group_case.lab.testbeds
    group_case.lab = replace(group_case.lab, testbeds=(*rest, replace(last, group="")))
    assert group_case.unavailable() == {THIRD: f"{THIRD} is no longer in a group with {OWN}"}
    group_case.settings = replace(group_case.settings, search=SearchSettings(use_groups=False))
    assert set(group_case.unavailable()) == {PEER, THIRD}


def test_progress_shows_trials_on_peers(group_case: GroupCase) -> None:
    group_case.trial(group_case.record, OWN, None)
    group_case.trial(group_case.record, PEER, None)
    [record] = group_case.ledger.jobs.all_open()
    running = progress_of(group_case.ledger, LabContext(group_case.lab), record)
    assert (running.testbed, running.now) == (OWN, f"trial r1: a look; trial r1 on {PEER}: a look")


@pytest.mark.slow
class TestbedGroupsTest(Group):
    @pytest.mark.long
    @case
    async def test_the_search_continues_without_a_crashing_peer(self) -> None:
        await self.start()
        record = await self.closed(self.begin({PEER: {"trial": "crash"}}))

        self.assert_culprit(record)
        assert [one.outcome for one in self.trials(record, PEER)] == [Outcome.LOST] * 2
        assert set(self.ledger.quarantines.current()) == set()

    @pytest.mark.long
    @case
    async def test_the_search_continues_on_a_peer_during_a_quarantine_of_its_testbed(self) -> None:
        await self.start()
        record = self.begin()
        await self.until_trial_ended(record, OWN)
        self.ledger.quarantines.start(OWN, why="too hot")
        record = await self.closed(record)

        self.assert_culprit(record)
        last = self.trials(record, PEER)[-1]
        own = [one for one in self.trials(record, OWN) if one.outcome is Outcome.OK]
        assert max(one.id for one in own) < last.id

    @pytest.mark.long
    @case
    async def test_the_search_continues_without_a_peer_that_lost_its_worker(self) -> None:
        """Its trial is withdrawn."""
        await self.start()
        record = self.begin({PEER: {"trial": "wait"}})
        await self.until((self.folder / "waiting").exists)
        await self.lose_worker(PEER)
        record = await self.closed(record)

        self.assert_culprit(record)
        [lost] = self.trials(record, PEER)
        assert (lost.outcome, lost.note) == (
            Outcome.WITHDRAWN,
            f"the worker of {PEER} is not connected",
        )
        (self.folder / "go").touch()

    @pytest.mark.long
    @case
    async def test_a_paused_peer_is_unavailable(self) -> None:
        await self.start()
        worker = self.master.workers.workers[PEER]
        await self.master.data.control("pause", {"reason": "mine"}, ("workers", worker.workerid))
        record = self.begin()
        await self.until(lambda: len(self.trials(record, OWN)) > 2)
        assert self.trials(record, PEER) == []
        await self.master.data.control("unpause", {"reason": ""}, ("workers", worker.workerid))
        await self.until_trial_ended(record, PEER)
        self.assert_culprit(await self.closed(record))

    @pytest.mark.long
    @case
    async def test_a_job_of_a_peer_withdraws_trials_that_have_not_begun(self) -> None:
        """Also one whose buildset was not recorded because of a kill."""
        await self.start()
        record = self.begin({OWN: {"trial": "wait"}, PEER: {"trial": "wait"}})
        await self.until(lambda: len(self.trials(record, OWN)) == 1)
        await self.until_running(2)
        await self.scheduler._lock.acquire()
        self.ledger.actions.finish(self.trials(record, PEER)[0].id, Outcome.WITHDRAWN)
        kernel = self.ledger.evidence.gather(record, config="GENERIC", arch="amd64").kernels[
            LINE[0]
        ]
        peer_trial = intend(self.ledger, record, kernel.revision, PEER)
        given = await self.scheduler._submit(record, peer_trial)
        night = NightlyJob("main", PEER, LINE[0], ("inet4-forwarding",), 1)
        tonight = self.ledger.jobs.add(night, key="night", priority=100)
        self.scheduler._lock.release()
        await self.scheduler.advance()

        taken = self.ledger.actions.get(peer_trial.id)
        assert (taken.outcome, taken.note) == (Outcome.WITHDRAWN, f"{PEER} has a night of its own")
        assert (await self.master.data.get(("buildsets", given)))["results"] != SUCCESS
        (self.folder / "go").touch()
        tonight = await self.closed(tonight)
        assert tonight.result == NightlyResult(1)
        self.assert_culprit(await self.closed(record))
        later = [one.intended_at for one in self.trials(record, PEER) if one.id > peer_trial.id]
        assert tonight.closed_at is not None
        assert min(later, default=math.inf) >= tonight.closed_at

    async def until_running(self, number: int) -> None:
        while True:
            builds = await self.master.data.get(("builds",))
            benches = [
                await self.master.data.updates.findBuilderId(f"bench-{name}")
                for name in self.testbeds
            ]
            running = [one for one in builds if one["builderid"] in benches and not one["complete"]]
            if len(running) == number and (self.folder / "waiting").exists():
                return
            await task.deferLater(reactor, 0.05)

    @pytest.mark.long
    @case
    async def test_kills_between_any_two_effects_neither_repeat_nor_lose_work(self) -> None:
        """Every seventh effect raises an exception before or after it; both testbeds measure."""
        await self.start()
        kills = self.kill_often()
        record = await self.closed(self.begin())
        self.assert_culprit(record)
        kills.clear()
        await self.until_idle()

        names = await self.names()
        assert len(names) == len(set(names))
        trials_by_testbed = [self.trials(record, name) for name in (OWN, PEER)]
        assert min(map(len, trials_by_testbed)) >= 3
        evidence = self.ledger.evidence.gather(record, config="GENERIC", arch="amd64")
        fresh = Counter(one.testbed for one in evidence.observations if one.fresh)
        measured = [{one.id for one in its if self.samples(one)} for its in trials_by_testbed]
        assert [fresh[OWN], fresh[PEER]] == [len(its) for its in measured]
        assert isinstance(record.result, Culprit)
        assert abs(record.result.effects[0].ln_ratio - math.log(SLOW / FAST)) < 0.01
        trials = [one for its in trials_by_testbed for one in its]
        begun = [one for one in trials if self.ledger.facts.of_action(one.id)]
        assert self.calls_of("trial") == len(begun)
        ended = {one.id for one in trials if one.outcome is Outcome.OK}
        assert ended <= {one.id for one in begun}
        builds = Counter(call for call in self.calls() if call.startswith("build"))
        assert set(builds.values()) == {1}
        await self.until_home()
        self.flushLoggedErrors(KilledError)

    def calls_of(self, verb: str) -> int:
        return sum(call.startswith(f"{verb} ") for call in self.calls())

    async def until_home(self) -> None:
        """Waits for the recovery of both testbeds."""
        recovered = {f"recover {name}" for name in self.testbeds}
        await self.until(lambda: recovered <= set(self.places()))

    def kill_often(self) -> list[int]:
        """Raises KilledError at some effects, as long as the list has a number."""
        luck = random.Random(7)
        alive = [7]

        def end() -> None:
            self.scheduler._waits.clear()
            self.scheduler.prefetcher._idle_states.clear()
            raise KilledError

        def mortal(effect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def run(*args: Any, **kwargs: Any) -> Any:
                fate = luck.randrange(2 * alive[0]) if alive else -1
                if fate == 0:
                    end()
                result = await effect(*args, **kwargs)
                if fate == 1:
                    end()
                return result

            return run

        for owner, name in ((Buildsets, "submit"), (Buildsets, "cancel_unless_running")):
            self.patch(owner, name, mortal(getattr(owner, name)))
        mine = DatabaseThread(self.settings)  # steps, which record facts, have another one
        mine.do = mortal(mine.do)  # type: ignore[method-assign] # as above
        self.scheduler.database = mine
        for part in (
            self.scheduler.prefetcher,
            self.scheduler.quarantine,
            self.scheduler.groups,
            self.scheduler.idle_recovery,
        ):
            part.database = mine
        return alive
