"""Searches on several testbeds of a group, in a real master with a scripted lab."""

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
from ledger_facts import BOOT, KERNEL, bisect_job, intend
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


class GroupMaster(RealMaster):
    """A master with testbeds of one group; the levels of the first two differ by 6 %."""

    builders = ("one", "two")
    testbeds = (OWN, PEER)
    group = "c2558"

    def begin(self, more: dict[str, dict[str, Any]] | None = None) -> JobRecord:
        script: dict[str, dict[str, Any]] = {
            name: {"pps": SLOW if place >= CULPRIT else FAST} for place, name in enumerate(LINE)
        }
        script |= {OWN: {"factor": 1.03}, PEER: {"factor": 0.97}, THIRD: {}}
        for name, part in (more or {}).items():
            script[name] |= part
        self.script(script)
        job = bisect_job(
            LINE, math.log(SLOW / FAST), NOISE, others=dict.fromkeys(self.testbeds[1:], NOISE)
        )
        return self.ledger.jobs.add(job, key="bisect", priority=200)

    def trials(self, record: JobRecord, testbed: str) -> list[Action]:
        return [
            action
            for action in self.ledger.actions.of_job(record.id)
            if action.stage is ActionStage.TRIAL and action.target == testbed
        ]

    def samples(self, decision: Action) -> list[Sample]:
        return [one for one in self.ledger.facts.of_action(decision.id) if isinstance(one, Sample)]

    def assert_culprit(self, record: JobRecord) -> None:
        assert isinstance(record.result, Culprit)
        assert record.result.revision == LINE[CULPRIT]
        assert all(action.outcome for action in self.ledger.actions.of_job(record.id))

    async def until_trial_ended(self, record: JobRecord, testbed: str) -> None:
        await self.until(lambda: any(trial.outcome for trial in self.trials(record, testbed)))

    async def until_idle(self) -> None:
        while not all(buildset["complete"] for buildset in await self.buildsets()):
            await task.deferLater(reactor, 0.05)


class GroupCase:
    """A ledger, and a lab in which c2558 has two peers."""

    def __init__(self, place: Path, ledger: Ledger) -> None:
        self.settings, lab = load(place / control.SETTINGS)
        own, other = (replace(bed, group="atoms" * (bed.name == OWN)) for bed in lab.testbeds)
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


def test_a_peer_with_a_job_of_its_own_or_in_quarantine_is_unavailable(
    group_case: GroupCase,
) -> None:
    night = NightlyJob("main", PEER, "r1", ("s",), 1)
    tonight = group_case.ledger.jobs.add(night, key="night", priority=1)
    assert group_case.unavailable() == {PEER: f"{PEER} has a night of its own"}
    with group_case.ledger.jobs.closing(tonight, NightlyResult(1)):
        pass
    assert group_case.unavailable() == {}

    group_case.trial(group_case.record, THIRD, Outcome.UNMEASURABLE)
    assert group_case.unavailable() == {}
    group_case.trial(group_case.record, THIRD, Outcome.LOST)
    group_case.ledger.quarantines.start(PEER, why="too hot")
    assert group_case.unavailable() == {
        PEER: f"{PEER} is in quarantine: too hot",
        THIRD: f"the last 2 trials on {THIRD} failed",
    }


def test_a_peer_is_available_to_one_search_of_its_group_at_a_time(group_case: GroupCase) -> None:
    """Without `use_groups`, all peers are unavailable."""
    job = replace(group_case.record.job, testbed=THIRD)
    other = group_case.ledger.jobs.add(job, key="another search")
    group_case.trial(other, PEER, None)
    assert group_case.unavailable() == {
        PEER: f"{PEER} measures for another job",
        THIRD: f"{THIRD} has a bisection of its own",
    }
    *rest, last = group_case.lab.testbeds
    group_case.lab = replace(group_case.lab, testbeds=(*rest, replace(last, group="")))
    assert group_case.unavailable()[THIRD] == f"{THIRD} is no longer in a group with {OWN}"
    group_case.settings = replace(group_case.settings, search=SearchSettings(use_groups=False))
    assert set(group_case.unavailable()) == {PEER, THIRD}


def test_progress_shows_trials_on_peers(group_case: GroupCase) -> None:
    group_case.trial(group_case.record, OWN, None)
    group_case.trial(group_case.record, PEER, None)
    [record] = group_case.ledger.jobs.all_open()
    running = progress_of(group_case.ledger, LabContext(group_case.lab), record)
    assert (running.testbed, running.now) == (OWN, f"trial r1: a look; trial r1 on {PEER}: a look")

    for name, seconds in (("r1", 9e9), ("r2", 9e9), ("r1#1", 40.0)):
        kernel = replace(KERNEL, revision=name, key=name, seconds=seconds)
        group_case.ledger.facts.record(kernel)
        group_case.ledger.facts.record(replace(BOOT, id=name, kernel=name))
    intend(group_case.ledger, group_case.record, "r1#1", THIRD, stage=ActionStage.KERNEL)
    left = progress_of(group_case.ledger, LabContext(group_case.lab), record).left
    assert left is not None
    assert left < 9e9, "a link takes less time than a build"


class LostPeersTest(GroupMaster):
    testbeds = (OWN, PEER, THIRD)

    @pytest.mark.long
    @case
    async def test_a_search_continues_without_peers_that_crash_or_lose_their_worker(self) -> None:
        """A trial of the peer without a worker is withdrawn."""
        await self.start()
        record = self.begin({PEER: {"trial": "crash"}, THIRD: {"trial": "wait"}})
        await self.until((self.folder / "waiting").exists)
        await self.lose_worker(THIRD)
        record = await self.closed(record)

        self.assert_culprit(record)
        assert [one.outcome for one in self.trials(record, PEER)] == [Outcome.LOST] * 2
        assert set(self.ledger.quarantines.current()) == set()
        [lost] = self.trials(record, THIRD)
        assert (lost.outcome, lost.note) == (
            Outcome.WITHDRAWN,
            f"the worker of {THIRD} is not connected",
        )
        (self.folder / "go").touch()


class TestbedGroupsTest(GroupMaster):
    @pytest.mark.long
    @case
    async def test_a_search_uses_a_peer_after_its_pause_and_during_a_quarantine(self) -> None:
        """The peer is paused at first; later, the testbed of the search is in quarantine."""
        await self.start()
        worker = self.master.workers.workers[PEER]
        await self.master.data.control("pause", {"reason": "repair"}, ("workers", worker.workerid))
        record = self.begin()
        await self.until(lambda: len(self.trials(record, OWN)) > 2)
        assert self.trials(record, PEER) == []

        await self.master.data.control("unpause", {"reason": ""}, ("workers", worker.workerid))
        await self.until_trial_ended(record, PEER)
        self.ledger.quarantines.start(OWN, why="too hot")
        record = await self.closed(record)

        self.assert_culprit(record)
        last = self.trials(record, PEER)[-1]
        own = [trial for trial in self.trials(record, OWN) if trial.outcome is Outcome.OK]
        assert max(trial.id for trial in own) < last.id

    @pytest.mark.long
    @case
    async def test_a_job_of_a_peer_withdraws_trials_that_have_not_begun(self) -> None:
        """The buildset of the trial was submitted and, because of a kill, not recorded."""
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
        buildset = await self.scheduler.decisions._submit(record, peer_trial)
        tonight = self.add_night(LINE[0], boots=1, testbed=PEER, priority=100)
        self.scheduler._lock.release()
        await self.scheduler.advance()

        ended = self.ledger.actions.get(peer_trial.id)
        assert (ended.outcome, ended.note) == (Outcome.WITHDRAWN, f"{PEER} has a night of its own")
        assert (await self.master.data.get(("buildsets", buildset)))["results"] != SUCCESS
        (self.folder / "go").touch()
        tonight = await self.closed(tonight)
        assert tonight.result == NightlyResult(1)
        self.assert_culprit(await self.closed(record))
        trials = self.trials(record, PEER)
        later = [trial.intended_at for trial in trials if trial.id > peer_trial.id]
        assert tonight.closed_at is not None
        assert min(later, default=math.inf) >= tonight.closed_at

    async def until_running(self, number: int) -> None:
        while True:
            builds = await self.master.data.get(("builds",))
            benches = [
                await self.master.data.updates.findBuilderId(f"bench-{name}")
                for name in self.testbeds
            ]
            trials = [build for build in builds if build["builderid"] in benches]
            running = [trial for trial in trials if not trial["complete"]]
            if len(running) == number and (self.folder / "waiting").exists():
                return
            await task.deferLater(reactor, 0.05)

    @pytest.mark.long
    @case
    async def test_kills_between_any_two_effects_neither_repeat_nor_lose_work(self) -> None:
        """About every seventh effect raises an exception, before it or after it."""
        self.settings = replace(self.settings, tick=0.2)  # the scheduler goes on at the next tick
        await self.start()
        kills = self.kill_often()
        record = await self.closed(self.begin())
        self.assert_culprit(record)
        kills.clear()
        await self.until_idle()

        ids = [buildset["external_idstring"] for buildset in await self.buildsets()]
        assert len(ids) == len(set(ids))
        trials_by_testbed = [self.trials(record, name) for name in (OWN, PEER)]
        assert min(map(len, trials_by_testbed)) >= 3
        evidence = self.ledger.evidence.gather(record, config="GENERIC", arch="amd64")
        observations = evidence.observations
        fresh = Counter(found.testbed for found in observations if found.fresh)
        measured = [sum(bool(self.samples(trial)) for trial in own) for own in trials_by_testbed]
        assert [fresh[OWN], fresh[PEER]] == measured
        assert isinstance(record.result, Culprit)
        assert abs(record.result.effects[0].ln_ratio - math.log(SLOW / FAST)) < 0.01
        trials = [trial for own in trials_by_testbed for trial in own]
        begun = [trial for trial in trials if self.ledger.facts.of_action(trial.id)]
        assert sum(call.startswith("trial ") for call in self.calls()) == len(begun)
        ended = {trial.id for trial in trials if trial.outcome is Outcome.OK}
        assert ended <= {trial.id for trial in begun}
        builds = Counter(call for call in self.calls() if call.startswith("build"))
        assert set(builds.values()) == {1}
        recovered = {f"recover {name}" for name in self.testbeds}
        await self.until(lambda: recovered <= set(self.places()))
        self.flushLoggedErrors(KilledError)

    def kill_often(self) -> list[int]:
        """Effects raise KilledError; the list has the mean number of effects per error."""
        rng = random.Random(7)
        interval = [7]

        def kill() -> None:
            self.scheduler._waits.clear()
            self.scheduler.prefetcher._idle_states.clear()
            raise KilledError

        def failing(effect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def run(*args: Any, **kwargs: Any) -> Any:
                number = rng.randrange(2 * interval[0]) if interval else -1
                if number == 0:
                    kill()
                result = await effect(*args, **kwargs)
                if number == 1:
                    kill()
                return result

            return run

        for owner, name in ((Buildsets, "submit"), (Buildsets, "cancel_unless_running")):
            self.patch(owner, name, failing(getattr(owner, name)))
        thread = DatabaseThread(self.settings)  # the steps, which record facts, use another one
        thread.do = failing(thread.do)  # type: ignore[method-assign] # fails at random
        self.scheduler.database = thread
        for part in (
            self.scheduler.prefetcher,
            self.scheduler.decisions,
            self.scheduler.quarantine,
            self.scheduler.groups,
            self.scheduler.idle_recovery,
        ):
            part.database = thread
        return interval
