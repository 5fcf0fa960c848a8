"""Searches that use several testbeds of one make, in a real master with a scripted lab."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from buildbot.process.results import SUCCESS
from real_master import RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.model import Bisection, Candidate, Culprit, Night, NightDone, Noise, Sample
from netbisect.steps import control
from netbisect.steps.board import Board
from netbisect.steps.conductor import NAME
from netbisect.steps.memory import Memory, open_ledger
from netbisect.steps.orders import Orders
from netbisect.steps.settings import SearchSettings, load
from netbisect.steps.sharing import others_of, shut_by_facts
from netbisect.store.records import Asked, Decision, DecisionStage, Outcome

LINE = [f"{number:040x}" for number in range(8)]
CULPRIT = 5
FAST, SLOW = 950_000, 855_000
OWN, MATE, THIRD = "c2558", "c2558-2", "c2558-3"
NOISE = Noise(boot=0.004)


class KilledError(Exception):
    """Stands for the end of the master."""


class Group(RealMaster):
    """Two testbeds of one make, 3 % apart each way from what the script says."""

    timeout = 300
    builders = ("one", "two")
    testbeds = (OWN, MATE)
    group = "c2558"

    def begin(
        self,
        more: dict[str, dict[str, Any]] | None = None,
        line: list[str] | None = None,
        mates: tuple[str, ...] = (MATE,),
    ) -> Asked:
        line = LINE if line is None else line
        script: dict[str, dict[str, Any]] = {
            name: {"pps": SLOW if place >= CULPRIT else FAST} for place, name in enumerate(line)
        }
        script |= {OWN: {"factor": 1.03}, MATE: {"factor": 0.97}}
        for name, part in (more or {}).items():
            script[name] |= part
        self.script(script)
        question = Bisection(
            "main",
            OWN,
            line[0],
            tuple(Candidate(name) for name in line[1:]),
            ("inet4-forwarding",),
            "inet4-forwarding",
            math.log(SLOW / FAST),
            NOISE,
            others=dict.fromkeys(mates, NOISE),
        )
        return self.ledger.ask(question, key=f"bisect:{len(mates)}", priority=200)

    def visits(self, asked: Asked, testbed: str) -> list[Decision]:
        return [
            one
            for one in self.ledger.decisions(asked.id)
            if one.stage is DecisionStage.TRIAL and one.target == testbed
        ]

    def samples(self, decision: Decision) -> list[Sample]:
        return [one for one in self.ledger.facts_from(decision.id) if isinstance(one, Sample)]

    def found(self, asked: Asked) -> None:
        """It ended with the culprit, and nothing is left under way."""
        assert isinstance(asked.finding, Culprit)
        assert asked.finding.revision == LINE[CULPRIT]
        assert all(one.outcome for one in self.ledger.decisions(asked.id))

    async def until_visited(self, asked: Asked, testbed: str) -> None:
        await self.until(lambda: any(one.outcome for one in self.visits(asked, testbed)))

    async def until_idle(self) -> None:
        """What ran when the answer was found goes on to its end."""
        while not all(one["complete"] for one in await self.buildsets()):
            await task.deferLater(reactor, 0.05)

    async def names(self) -> list[str]:
        return [one["external_idstring"] for one in await self.buildsets()]


class Clinic:
    """A ledger and a lab in which c2558 has two mates."""

    def __init__(self, place: Path, url: str) -> None:
        self.settings, lab = load(place / control.SETTINGS)
        own, other = (replace(one, group="atoms" * (one.name == OWN)) for one in lab.testbeds)
        mates = (replace(own, name=name) for name in (MATE, THIRD))
        self.lab = replace(lab, testbeds=(own, other, *mates))
        self.ledger = open_ledger(url)
        question = Bisection(
            *("main", OWN, "r1", (Candidate("r2"),), ("s",), "s", -0.1, NOISE),
            others=dict.fromkeys((MATE, THIRD), NOISE),
        )
        self.asked = self.ledger.ask(question, key="bisect", priority=200)

    def shut(self) -> dict[str, str]:
        return shut_by_facts(self.ledger, self.settings, self.lab, self.asked)

    def visit(self, asked: Asked, testbed: str, outcome: Outcome | None) -> None:
        decision = self.ledger.intend(
            *(asked.id, DecisionStage.TRIAL, "r1", testbed),
            testbed=testbed,
            config="G",
            arch="amd64",
            why="w",
        )
        if outcome is not None:
            self.ledger.finish(decision.id, outcome)


@pytest.fixture
def clinic(quiet_house: Path, url: str) -> Iterator[Clinic]:
    clinic = Clinic(quiet_house, url)
    yield clinic
    clinic.ledger.engine.dispose()


def test_all_testbeds_of_a_group_may_help(clinic: Clinic) -> None:
    """A visit that was taken back, or one that was made for this search, says nothing else."""
    clinic.visit(clinic.asked, MATE, Outcome.WITHDRAWN)
    clinic.visit(clinic.asked, MATE, Outcome.WITHDRAWN)
    clinic.visit(clinic.asked, MATE, None)
    assert clinic.shut() == {}


def test_what_is_asked_of_a_testbed_itself_comes_first(clinic: Clinic) -> None:
    night = Night("main", MATE, "r1", ("s",), 1)
    tonight = clinic.ledger.ask(night, key="night", priority=1)
    assert clinic.shut() == {MATE: f"{MATE} has a night of its own"}
    with clinic.ledger.closing(tonight, NightDone(1)):
        pass
    assert clinic.shut() == {}


def test_a_testbed_helps_one_search_at_a_time(clinic: Clinic) -> None:
    question = replace(clinic.asked.question, testbed=THIRD)
    other = clinic.ledger.ask(question, key="another search")
    clinic.visit(other, MATE, None)
    assert clinic.shut() == {
        MATE: f"{MATE} measures for another question",
        THIRD: f"{THIRD} has a bisection of its own",
    }


def test_a_testbed_in_quarantine_or_that_comes_to_nothing_is_left_out(clinic: Clinic) -> None:
    clinic.ledger.quarantine(MATE, why="too hot")
    clinic.visit(clinic.asked, THIRD, Outcome.DUD)
    assert clinic.shut() == {MATE: f"{MATE} is in quarantine: too hot"}
    clinic.visit(clinic.asked, THIRD, Outcome.LOST)
    assert clinic.shut()[THIRD] == f"the last 2 visits to {THIRD} came to nothing"


def test_a_testbed_that_has_left_the_group_is_left_out(clinic: Clinic) -> None:
    """And so are all of them where groups are not used any more."""
    *rest, last = clinic.lab.testbeds
    clinic.lab = replace(clinic.lab, testbeds=(*rest, replace(last, group="")))
    assert clinic.shut() == {THIRD: f"{THIRD} is no longer of a group with {OWN}"}
    clinic.settings = replace(clinic.settings, search=SearchSettings(use_groups=False))
    assert set(clinic.shut()) == {MATE, THIRD}


def test_the_dashboard_says_what_is_done_elsewhere_for_a_search(clinic: Clinic) -> None:
    clinic.visit(clinic.asked, OWN, None)
    clinic.visit(clinic.asked, MATE, None)
    [running] = Board(clinic.settings, clinic.lab).look(clinic.ledger).running
    assert (running.testbed, running.now) == (OWN, f"trial r1: w; trial r1 on {MATE}: w")


def test_other_questions_have_no_helpers(clinic: Clinic) -> None:
    night = clinic.ledger.ask(Night("main", OWN, "r1", ("s",), 1), key="night")
    assert others_of(night) == ()
    assert shut_by_facts(clinic.ledger, clinic.settings, clinic.lab, night) == {}


@pytest.mark.slow
class Sharing(Group):
    """What two of them do."""

    @pytest.mark.long
    @case
    async def test_the_culprit_is_found_on_both_in_fewer_rounds(self) -> None:
        """Each has a level of its own; no order is given twice, no kernel built twice."""
        await self.start()
        others = [f"{number:040x}" for number in range(100, 100 + len(LINE))]
        alone = await self.closed(self.begin(line=others, mates=()))
        asked = await self.closed(self.begin())
        await self.until_idle()

        self.found(asked)
        visits = {name: len(self.visits(asked, name)) for name in (OWN, MATE)}
        assert min(visits.values()) >= 3
        assert max(visits.values()) < len(self.visits(alone, OWN))
        evidence = self.ledger.evidence(asked, config="GENERIC", arch="amd64")
        fresh = Counter(one.testbed for one in evidence.readings if one.fresh)
        for name in (OWN, MATE):
            measured = {one.id for one in self.visits(asked, name) if self.samples(one)}
            assert fresh[name] == len(measured)
            done = {one.id for one in self.visits(asked, name) if one.outcome is Outcome.OK}
            assert done <= measured
        assert isinstance(asked.finding, Culprit)
        assert abs(asked.finding.effects[0].ln_ratio - math.log(SLOW / FAST)) < 0.01
        builds = Counter(call for call in self.calls() if call.startswith("build"))
        assert set(builds.values()) == {1}
        names = await self.names()
        assert len(names) == len(set(names))

    @case
    async def test_a_testbed_that_comes_to_nothing_is_left_alone_and_the_search_goes_on(
        self,
    ) -> None:
        """After two visits; that its worker dies without a word ends nothing either."""
        await self.start()
        asked = await self.closed(self.begin({MATE: {"trial": "crash"}}))

        self.found(asked)
        assert [one.outcome for one in self.visits(asked, MATE)] == [Outcome.LOST] * 2
        assert set(self.ledger.quarantined()) == set()

    @case
    async def test_a_testbed_that_needs_its_owner_goes_into_quarantine_and_the_search_goes_on(
        self,
    ) -> None:
        """It is visited no more; the owner is told, and the search ends where it began."""
        await self.start()
        asked = await self.closed(self.begin({MATE: {"trial": "lab"}}))

        self.found(asked)
        assert set(self.ledger.quarantined()) == {MATE}
        assert len(self.visits(asked, MATE)) == 1

    @pytest.mark.long
    @case
    async def test_a_search_goes_on_elsewhere_when_its_own_testbed_goes_into_quarantine(
        self,
    ) -> None:
        """Proved on the other one alone."""
        await self.start()
        asked = self.begin()
        await self.until_visited(asked, OWN)
        self.ledger.quarantine(OWN, why="too hot")
        asked = await self.closed(asked)

        self.found(asked)
        last = self.visits(asked, MATE)[-1]
        own = [one for one in self.visits(asked, OWN) if one.outcome is Outcome.OK]
        assert max(one.id for one in own) < last.id

    @case
    async def test_a_testbed_whose_worker_is_lost_holds_nothing_up(self) -> None:
        """Its visit is taken back, although the end of the search might have waited for it."""
        await self.start()
        asked = self.begin({MATE: {"trial": "wait"}})
        await self.until((self.folder / "waiting").exists)
        worker = self.master.workers.workers[MATE]
        await worker.disownServiceParent()
        self.addCleanup(forget_what_a_lost_worker_would_say)
        asked = await self.closed(asked)

        self.found(asked)
        [lost] = self.visits(asked, MATE)
        assert (lost.outcome, lost.note) == (Outcome.WITHDRAWN, f"the worker of {MATE} is away")
        (self.folder / "go").touch()

    @pytest.mark.long
    @case
    async def test_a_paused_testbed_is_left_out_until_it_is_not(self) -> None:
        """As people do it in the web pages."""
        await self.start()
        worker = self.master.workers.workers[MATE]
        await self.master.data.control("pause", {"reason": "mine"}, ("workers", worker.workerid))
        asked = self.begin()
        await self.until(lambda: len(self.visits(asked, OWN)) > 2)
        assert self.visits(asked, MATE) == []
        await self.master.data.control("unpause", {"reason": ""}, ("workers", worker.workerid))
        await self.until_visited(asked, MATE)
        self.found(await self.closed(asked))

    @case
    async def test_its_own_night_comes_first(self) -> None:
        """As long as a night is open there, the search does without."""
        await self.start()
        waits = {"trial": "wait"}
        night = Night("main", MATE, LINE[0], ("inet4-forwarding",), 2)
        tonight = self.ledger.ask(night, key="night", priority=100)
        asked = self.begin({OWN: waits, MATE: waits})
        await self.until(lambda: len(self.visits(tonight, MATE)) == 1)
        await task.deferLater(reactor, 4 * self.settings.tick)
        assert self.visits(asked, MATE) == []
        (self.folder / "go").touch()
        tonight = await self.closed(tonight)
        assert tonight.finding == NightDone(2)
        asked = await self.closed(asked)

        self.found(asked)
        at = tonight.closed_at
        assert at is not None
        assert all(one.intended_at >= at for one in self.visits(asked, MATE))
        assert self.visits(asked, MATE)

    @case
    async def test_what_has_not_begun_is_taken_back_when_something_of_its_own_is_asked(
        self,
    ) -> None:
        """Even an order of which the ledger was not told yet, because of a kill."""
        await self.start()
        conductor = self.master.scheduler_manager.namedServices[NAME]
        asked = self.begin({OWN: {"trial": "wait"}, MATE: {"trial": "wait"}})
        await self.until(lambda: len(self.visits(asked, OWN)) == 1)
        await self.until_running(2)
        await conductor._lock.acquire()
        self.ledger.finish(self.visits(asked, MATE)[0].id, Outcome.WITHDRAWN)
        kernel = self.ledger.evidence(asked, config="GENERIC", arch="amd64").kernels[LINE[0]]
        guest = self.ledger.intend(
            asked.id,
            DecisionStage.TRIAL,
            kernel.revision,
            MATE,
            testbed=MATE,
            config="GENERIC",
            arch="amd64",
            why="the last word before the kill",
        )
        given = await conductor._submit(asked, guest)
        night = Night("main", MATE, LINE[0], ("inet4-forwarding",), 1)
        tonight = self.ledger.ask(night, key="night", priority=100)
        conductor._lock.release()
        await conductor.advance()

        taken = self.ledger.decision(guest.id)
        assert (taken.outcome, taken.note) == (Outcome.WITHDRAWN, f"{MATE} has a night of its own")
        assert (await self.master.data.get(("buildsets", given)))["results"] != SUCCESS
        (self.folder / "go").touch()
        await self.closed(tonight)
        self.found(await self.closed(asked))

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

    @case
    async def test_kills_between_any_two_lines_repeat_nothing_and_lose_nothing(self) -> None:
        """At every seventh effect the conductor ends, before or after it, and begins anew."""
        await self.start()
        kills = self.kill_often()
        asked = await self.closed(self.begin())
        self.found(asked)
        kills.clear()
        await self.until_idle()

        names = await self.names()
        assert len(names) == len(set(names))
        trials = [one for name in (OWN, MATE) for one in self.visits(asked, name)]
        begun = [one for one in trials if self.ledger.facts_from(one.id)]
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
        """Both are brought home when all is done: no machine is left to a search."""
        places = self.folder / "places"
        await self.until(
            lambda: (
                {f"recover {name}" for name in self.testbeds}
                <= set(places.read_text().splitlines())
            )
        )

    def kill_often(self) -> list[int]:
        """Ends what the conductor does at some of its effects, as long as the list has a number."""
        luck = random.Random(7)
        alive = [7]
        conductor = self.master.scheduler_manager.namedServices[NAME]

        def end() -> None:
            conductor._waits.clear()
            conductor.foresight._seen.clear()
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

        for owner, name in ((Orders, "give"), (Orders, "call_off")):
            self.patch(owner, name, mortal(getattr(owner, name)))
        mine = Memory(self.settings)  # steps, which write facts down, have another one
        mine.do = mortal(mine.do)  # type: ignore[method-assign] # as above
        conductor.memory = mine
        for part in (conductor.foresight, conductor.ward, conductor.sharing, conductor.homecoming):
            part._memory = mine
        return alive


def forget_what_a_lost_worker_would_say() -> None:
    """A worker of Buildbot that goes in the middle of a command may keep some output for later."""
    for call in reactor.getDelayedCalls():
        if getattr(call.func, "__name__", "") == "send_message_from_buffer":
            call.cancel()
