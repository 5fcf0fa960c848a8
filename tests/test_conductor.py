"""The conductor, in a real master with a scripted lab: orders, restarts, and how orders end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from buildbot.process.results import CANCELLED, EXCEPTION, FAILURE, SUCCESS
from real_master import REVISION, RealMaster, case
from twisted.internet import defer, reactor, task

from netbisect.bisect.model import Bisection, Boot, Candidate, Night, NightDone, Noise, Unfinished
from netbisect.steps import conductor as conductors
from netbisect.steps.conductor import MOST_TRIES, NAME, Conductor
from netbisect.steps.memory import memory
from netbisect.steps.orders import End, judge
from netbisect.steps.orders import Orders as Given
from netbisect.store.records import DecisionStage
from netbisect.workers.patches import PatchStore, read


@pytest.mark.parametrize(
    ("results", "state", "lab_exit", "end"),
    [
        (SUCCESS, "build successful", 0, End.OK),
        (FAILURE, "failed trial", 3, End.DUD),
        (FAILURE, "failed trial", 4, End.LAB),
        (FAILURE, "failed trial", 1, End.FAILED),
        (FAILURE, "failed upload kernel", 0, End.FAILED),
        (EXCEPTION, "exception trial", None, End.FAILED),
        (CANCELLED, "cancelled (Master Shutdown)", None, End.SHUT_DOWN),
        (CANCELLED, "cancelled (by a person)", None, End.CANCELLED),
    ],
)
def test_a_result_is_judged(results: int, state: str, lab_exit: int | None, end: End) -> None:
    """A stop of the master is nobody's wish; what a person cancels is."""
    assert judge(results, state, lab_exit) is end


class Orders(RealMaster):
    """What the conductor orders, and how that can end."""

    # --------------------------------------------------------------------------- what is normal

    @case
    async def test_a_night_is_measured(self) -> None:
        """One kernel, as many boots as asked, one buildset for each; then the lab is idle."""
        await self.start()
        asked = await self.closed(self.ask(boots=2))

        assert asked.finding == NightDone(2)
        assert self.calls() == [f"build {REVISION}", *[f"trial {REVISION}"] * 2]
        decisions = self.ledger.decisions(asked.id)
        stages = [one.stage for one in decisions]
        assert stages == [DecisionStage.KERNEL, DecisionStage.TRIAL, DecisionStage.TRIAL]
        buildsets = await self.buildsets()
        names = sorted(one["external_idstring"] for one in buildsets)
        assert names == sorted(one.external_id for one in decisions)

    @case
    async def test_an_idle_testbed_is_sent_home_once(self) -> None:
        """When nothing is asked of it any more, it goes back to its known-good kernel."""
        await self.start()
        await self.closed(self.ask(boots=1))

        async def recoveries() -> int:
            builds = await self.master.data.get(("builds",))
            builder = await self.master.data.updates.findBuilderId("recover-c2558")
            return sum(one["builderid"] == builder and one["complete"] for one in builds)

        while await recoveries() == 0:
            await task.deferLater(reactor, 0.05)
        await task.deferLater(reactor, 4 * self.settings.tick)
        assert await recoveries() == 1

    @case
    async def test_two_questions_share_a_kernel(self) -> None:
        """What one question builds, another one waits for."""
        self.script({REVISION: {"build": "wait"}})
        await self.start()
        first = self.ask(boots=1)
        await self.until((self.folder / "waiting").exists)
        night = Night("stable/15", "c2558", REVISION, ("inet4-forwarding",), 1)
        second = self.ledger.ask(night, key="night:stable/15:c2558")
        await task.deferLater(reactor, 4 * self.settings.tick)
        (self.folder / "go").touch()
        await self.closed(first)
        await self.closed(second)

        assert self.calls().count(f"build {REVISION}") == 1

    @case
    async def test_what_is_urgent_overtakes_what_waits(self) -> None:
        """On demand before a bisection before a night, whatever was asked first."""
        self.script({REVISION: {"build": "wait"}})
        await self.start()
        self.ask(boots=1)
        await self.until((self.folder / "waiting").exists)
        waiting = []
        for priority, letter in ((100, "b"), (200, "c"), (300, "d")):
            night = Night("main", "c2558", letter * 40, ("inet4-forwarding",), 1)
            key = f"night:main:c2558:{letter}"
            waiting.append(self.ledger.ask(night, key=key, priority=priority))
        while len(await self.buildsets()) < 4:
            await task.deferLater(reactor, 0.05)
        (self.folder / "go").touch()
        for asked in waiting:
            await self.closed(asked)

        built = [call[len("build ")] for call in self.calls() if call.startswith("build")]
        assert built == ["a", "d", "c", "b"]

    @case
    async def test_a_visit_makes_as_many_runs_as_the_search_wants(self) -> None:
        """Where runs differ more than boots; the ledger gives them back as runs of one boot."""
        parent = "b" * 40
        self.script({REVISION: {"pps": 855_000}})
        question = Bisection(
            "main",
            "c2558",
            parent,
            (Candidate(REVISION),),
            ("inet4-forwarding",),
            "inet4-forwarding",
            -0.105,
            Noise(boot=0.004, run=0.04),
        )
        await self.start()
        asked = await self.closed(self.ledger.ask(question, key="bisect"))

        decisions = self.ledger.decisions(asked.id)
        runs = [one.runs for one in decisions if one.stage is DecisionStage.TRIAL]
        assert max(runs) > 1
        evidence = self.ledger.evidence(asked, config="GENERIC", arch="amd64")
        assert [reading.runs for reading in evidence.readings] == runs

    # ------------------------------------------------------------------- how an order can end

    @case
    async def test_a_revision_that_does_not_build_ends_its_night(self) -> None:
        """The lab has answered; nothing is tried again, and people are told."""
        self.script({REVISION: {"build": "dud"}})
        await self.start()
        asked = await self.closed(self.ask())

        assert isinstance(asked.finding, Unfinished)
        assert "as the script says" in asked.finding.why
        assert self.calls() == [f"build {REVISION}"]
        (mail,) = self.ledger.waiting_mails()
        assert mail.subject == "[netbisect] main c2558: the night has no result"

    @case
    async def test_what_dies_without_an_answer_is_tried_again(self) -> None:
        """But not for ever."""
        self.script({REVISION: {"trial": "crash"}})
        await self.start()
        asked = await self.closed(self.ask())

        assert isinstance(asked.finding, Unfinished)
        assert f"in {MOST_TRIES} tries" in asked.finding.why
        assert self.calls().count(f"trial {REVISION}") == MOST_TRIES

    @case
    async def test_a_lab_that_needs_its_owner_is_not_tried_again(self) -> None:
        """Another visit would find it as it is."""
        self.script({REVISION: {"trial": "lab"}})
        await self.start()
        asked = await self.closed(self.ask())

        assert isinstance(asked.finding, Unfinished)
        assert "the lab needs its owner" in asked.finding.why
        assert self.calls().count(f"trial {REVISION}") == 1

    @case
    async def test_what_a_person_cancels_stays_cancelled(self) -> None:
        """A click on stop is an answer."""
        self.script({REVISION: {"build": "wait"}})
        await self.start()
        asked = self.ask()
        await self.until((self.folder / "waiting").exists)
        (build,) = await self.master.data.get(("builds",))
        await self.master.data.control(
            "stop", {"reason": "wrong tree"}, ("builds", build["buildid"])
        )
        asked = await self.closed(asked)

        assert isinstance(asked.finding, Unfinished)
        assert "somebody cancelled it" in asked.finding.why
        assert self.calls() == [f"build {REVISION}"]

    @case
    async def test_a_kernel_that_was_pruned_is_built_again(self) -> None:
        """The ledger knows it, but its archive is gone."""
        await self.start()
        await self.closed(self.ask(boots=1))
        for archive in self.settings.kernels.glob("*/kernel.json"):
            archive.unlink()
        night = Night("stable/15", "c2558", REVISION, ("inet4-forwarding",), 1)
        await self.closed(self.ledger.ask(night, key="night:stable/15:c2558"))

        assert self.calls().count(f"build {REVISION}") == 2

    @case
    async def test_a_patch_travels_to_the_host_that_builds_with_it(self) -> None:
        """From the master's folder to the builder's; one that the master has not builds nothing."""
        patch = read("D5180", b"--- a/sys/x.c\n+++ b/sys/x.c\n@@ -1 +1 @@\n-a\n+b\n")
        mark = PatchStore(self.settings.patches).put(patch)
        await self.start()
        orders = Given(self.master.scheduler_manager.namedServices[NAME], "")
        ends = []
        for number, name in enumerate((mark, "D5180-00000000")):
            properties = {"kernel_config": f"GENERIC+{name}"}
            buildset = await orders.give(
                f"nb:test:{number}", "kernel-amd64", "a look", properties, revision=REVISION
            )
            while (end := await orders.ended(buildset)) is None:
                await task.deferLater(reactor, 0.05)
            ends.append(end)

        assert PatchStore(self.folder / "build" / "patches").load(mark) == patch
        assert [end for end, _ in ends] == [End.OK, End.FAILED]
        assert "there is no patch D5180-00000000 in " in ends[1][1]
        assert self.calls() == [f"build {REVISION}+{mark}"]

    @case
    async def test_kernels_stay_for_as_long_as_a_question_is_open(self) -> None:
        """However little space there is; what nobody needs any more goes when it ends."""
        self.settings = replace(self.settings, kernel_space="1 B")
        await self.start()
        asked = await self.closed(self.ask(boots=3))

        assert asked.finding == NightDone(3)
        assert self.calls() == [f"build {REVISION}", *[f"trial {REVISION}"] * 3]
        await self.until(lambda: not list(self.settings.kernels.iterdir()))

    # ------------------------------------------------------------------------ kills and stops

    @case
    async def test_an_orphan_is_adopted(self) -> None:
        """Killed after Buildbot had the order and before the ledger knew: it is not given twice."""
        asked = self.ask(boots=1)
        decision = self.ledger.intend(
            asked.id,
            DecisionStage.KERNEL,
            REVISION,
            "kernel-amd64",
            config="GENERIC",
            arch="amd64",
            why="the last word before the kill",
        )
        conductor_sleeps = self.patch(Conductor, "_activate", lambda _: defer.succeed(None))
        assert conductor_sleeps is not None
        await self.start()
        conductor = self.master.scheduler_manager.namedServices[NAME]
        orphan = await conductor._submit(asked, decision)
        assert self.ledger.decision(decision.id).buildset is None
        conductor.advance()
        while not self.ledger.decision(decision.id).outcome:
            await task.deferLater(reactor, 0.1)
            conductor.advance()

        assert self.ledger.decision(decision.id).buildset == orphan
        named = [
            one["bsid"]
            for one in await self.buildsets()
            if one["external_idstring"] == decision.external_id
        ]
        assert named == [orphan]

    async def stop_under_it(self, times: int) -> None:
        """As a stop of the master ends what runs, so many times one after the other."""
        for _ in range(times):
            await self.until((self.folder / "waiting").exists)
            (self.folder / "waiting").unlink()
            running = [
                one for one in await self.master.data.get(("builds",)) if not one["complete"]
            ]
            for build in running:
                reason = {"reason": "Master Shutdown"}
                await self.master.data.control("stop", reason, ("builds", build["buildid"]))

    @case
    async def test_stops_of_the_master_are_no_tries(self) -> None:
        """However often it was stopped under an order: this is as often tried as any other."""
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        asked = self.ask(boots=1)
        await self.stop_under_it(MOST_TRIES)
        await self.until((self.folder / "waiting").exists)
        self.script({REVISION: {"trial": "crash"}})
        await self.stop_under_it(1)
        asked = await self.closed(asked)

        assert isinstance(asked.finding, Unfinished)
        assert f"has no result in {MOST_TRIES} tries: it ended without an answer" in (
            asked.finding.why
        )
        assert self.calls().count(f"trial {REVISION}") == MOST_TRIES + 1 + MOST_TRIES

    @case
    async def test_a_build_that_was_stopped_is_begun_again_on_the_same_host(self) -> None:
        """It was not the host's fault; and in the end there is a kernel."""
        self.script({REVISION: {"build": "wait"}})
        await self.start()
        asked = self.ask(boots=1)
        await self.stop_under_it(1)
        await self.until((self.folder / "waiting").exists)
        (self.folder / "go").touch()
        asked = await self.closed(asked)

        assert asked.finding == NightDone(1)
        first, again = self.ledger.decisions(asked.id)[:2]
        assert (first.seq, again.seq, again.attempt) == (1, 1, 2)
        conductor = self.master.scheduler_manager.namedServices[NAME]
        assert await conductor._tried_on(again) == []

    @case
    async def test_an_order_that_is_stopped_again_and_again_comes_to_an_end(self) -> None:
        """So that a master that is stopped in a loop does not take it up for ever."""
        self.patch(conductors, "MOST_STOPS", 3)
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        asked = self.ask(boots=1)
        await self.stop_under_it(3)
        asked = await self.closed(asked)

        assert isinstance(asked.finding, Unfinished)
        assert "has no result in 3 tries: the master was stopped under it" in asked.finding.why
        assert self.calls().count(f"trial {REVISION}") == 3

    @case
    async def test_the_memory_is_shared(self) -> None:
        """Steps, post and conductor of one master wait for each other, not for the database."""
        assert memory(self.settings) is memory(self.settings)
        boot = Boot("x", "c2558", "k", REVISION, 1.0, 1.0)
        await memory(self.settings).do(lambda ledger: ledger.record(boot))
        events, _ = self.ledger.events_since(0)
        assert [event.kind for event in events] == ["boot"]
