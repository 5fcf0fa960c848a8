"""Requests in a real master with a scripted lab: measured, answered, cancelled, in turns."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from real_master import RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.model import Measured, Measurement
from netbisect.bisect.subject import with_patch
from netbisect.steps import request_answer as answers
from netbisect.steps.requests import Desk
from netbisect.store.database import StoreError
from netbisect.store.history import History
from netbisect.store.records import Outcome, Request, RequestState
from netbisect.store.requests import Part
from netbisect.workers.patches import PatchStore, read

OLD, NEW, OTHER = "a" * 40, "b" * 40, "c" * 40
FORWARDING = "inet4-forwarding"
PATCH = read("D5180", b"--- a/sys/x.c\n+++ b/sys/x.c\n@@ -1 +1 @@\n-a\n+b\n")


@pytest.mark.slow
class Asked(RealMaster):
    """What becomes of what people ask for."""

    timeout = 240

    def desk(self) -> Desk:
        history = History(self.settings.mirror, self.lab.source.repository)
        return Desk(self.ledger, history, self.settings, self.lab)

    def request(self, *revisions: str, boots: int = 2, runs: int = 1, **more: Any) -> Request:
        """A comparison as somebody would ask for it."""
        since = more.pop("shared_since", 0.0)
        testbed = more.pop("testbed", "c2558")
        question = Measurement("main", testbed, revisions, (FORWARDING,), boots, shared_since=since)
        wish = {
            "asked": list(revisions),
            "subjects": list(revisions),
            "patches": [],
            "branch": "main",
            "testbeds": {testbed: [FORWARDING]},
            "boots": boots,
            "runs": runs,
            "fresh": False,
            "margin_percent": 2.0,
            "hours": 48.0,
        }
        options: dict[str, Any] = {
            "who": "ann",
            "address": "ann@lab.invalid",
            "via": "command",
            "priority": 150,
            "most_open": 5,
            "letter": lambda number: (f"request {number}", "taken\n"),
            **more,
        }
        return self.ledger.open_request("compare", wish, [Part(question)], **options)

    async def over(self, request: Request) -> Request:
        def is_over() -> bool:
            return self.ledger.request(request.id).state is not RequestState.OPEN

        await self.until(is_over)
        return self.ledger.request(request.id)

    def boots(self) -> list[str]:
        return [call[6:] for call in self.calls() if call.startswith("trial")]

    # ----------------------------------------------------------------------------- the answer

    @case
    async def test_two_revisions_are_compared(self) -> None:
        """As many boots as asked, in turns; the answer is mailed as a reply to the confirmation."""
        self.script({NEW: {"pps": 800_000}})
        await self.start()
        request = await self.over(self.request(OLD, NEW, boots=3))

        assert self.boots() == [OLD, NEW, NEW, OLD, OLD, NEW]
        assert (request.state, request.verdict) == (RequestState.ANSWERED, "regression")
        assert answers.exit_status(request) == 1
        first, last = self.ledger.waiting_mails()
        assert last.recipients == first.recipients == ("ann@lab.invalid",)
        assert last.in_reply_to == first.message_id
        assert "There is a regression." in last.body
        assert re.search(r"-1[4-7]\.\d %", last.body)
        assert [deed.what for deed in self.ledger.audit(request=request.id)] == ["ask", "answer"]

    @case
    async def test_a_patch_is_measured_against_its_base(self) -> None:
        """Nothing of the patched kernel is ever taken for the revision, nor enters a series."""
        PatchStore(self.settings.patches).put(PATCH)
        name = with_patch(OLD, PATCH.mark)
        self.script({name: {"pps": 800_000}})
        await self.start()
        request = await self.over(self.request(OLD, name))

        assert request.verdict == "regression"
        assert self.boots() == [OLD, name, name, OLD]
        [asked] = self.ledger.parts_of(request.id)
        facts = self.ledger.facts_of(asked.id)
        assert {one.revision for one in facts if hasattr(one, "revision")} == {OLD, name}
        rates = self.ledger.known_rates("c2558", FORWARDING, [OLD, name])
        assert rates[OLD] == pytest.approx(950_000, rel=0.02)
        assert rates[name] == pytest.approx(800_000, rel=0.02)
        assert self.ledger.label(name) == f"{OLD[:12]}+{PATCH.mark}"

    @case
    async def test_a_patch_that_does_not_build_fails_the_request(self) -> None:
        """Nobody boots anything for it; the answer says why."""
        PatchStore(self.settings.patches).put(PATCH)
        name = with_patch(OLD, PATCH.mark)
        self.script({name: {"build": "dud"}})
        await self.start()
        request = await self.over(self.request(OLD, name))

        assert (request.state, request.verdict) == (RequestState.FAILED, "failed")
        assert answers.exit_status(request) == 3
        assert PATCH.mark in request.why
        assert "as the script says" in request.why
        assert self.boots() == []

        plain = await self.over(self.request(OLD, NEW))
        assert plain.state is RequestState.ANSWERED

    @case
    async def test_a_repeated_comparison_has_boots_of_its_own(self) -> None:
        """The second run begins when the first is over, and is held against it."""
        self.script({NEW: {"pps": 900_000}})
        await self.start()
        request = await self.over(self.request(OLD, NEW, runs=2))

        assert len(self.boots()) == 8
        first, second = self.ledger.parts_of(request.id)
        assert (first.run, second.run) == (1, 2)
        boots = [
            {one.id for one in self.ledger.facts_of(part.id) if hasattr(one, "kernel")}
            for part in (first, second)
        ]
        assert len(boots[0]) == len(boots[1]) == 4
        assert not boots[0] & boots[1]
        assert "The two runs agree" in self.ledger.waiting_mails()[-1].body

    # ----------------------------------------------------------------------- sharing and turns

    @case
    async def test_requests_share_builds_and_boots(self) -> None:
        """Of a revision that two people want, neither kernel nor boot is made twice."""
        await self.start()
        first, second = self.request(OLD, NEW), self.request(OLD, OTHER, who="bob")
        await self.over(first)
        await self.over(second)

        calls = self.calls()
        assert calls.count(f"build {OLD}") == 1
        assert calls.count(f"trial {OLD}") == 2
        assert calls.count(f"trial {NEW}") == calls.count(f"trial {OTHER}") == 2

    @case
    async def test_who_wants_fresh_boots_gets_them(self) -> None:
        """And others may still count them."""
        await self.start()
        await self.over(self.request(OLD, NEW))
        await self.over(self.request(OLD, NEW, shared_since=float("inf")))

        assert len(self.boots()) == 8
        await self.over(self.request(OLD, NEW))
        assert len(self.boots()) == 8

    @case
    async def test_people_take_turns(self) -> None:
        """However many requests one of them has, the other's is not at the end of all."""
        self.script({OLD: {"build": "wait"}})
        await self.start()
        anns = [self.request(OLD, letter * 40, boots=1) for letter in "def"]
        bobs = self.request(NEW, OTHER, who="bob", boots=1)
        await self.until((self.folder / "waiting").exists)
        (self.folder / "go").touch()
        await self.over(bobs)
        still = [one for one in anns if self.ledger.request(one.id).state is RequestState.OPEN]

        assert still

    @case
    async def test_who_had_many_boots_today_waits(self) -> None:
        """Others do not."""
        limits = replace(self.settings.requests, boots_per_day=3)
        self.settings = replace(self.settings, requests=limits)
        await self.start()
        anns = self.request(OLD, NEW)
        bobs = self.request(OTHER, "d" * 40, who="bob", boots=1)
        assert (await self.over(bobs)).state is RequestState.ANSWERED

        def of_ann() -> int:
            return sum(one in (OLD, NEW) for one in self.boots())

        await self.until(lambda: of_ann() == 3)
        await task.deferLater(reactor, 4 * self.settings.tick)

        assert self.ledger.request(anns.id).state is RequestState.OPEN
        assert of_ann() == 3

    # ------------------------------------------------------------------------- stopping, going on

    @case
    async def test_a_request_is_cancelled_and_resumed(self) -> None:
        """The visit is stopped, the testbed sent home; later nothing is measured twice."""
        self.script({NEW: {"trial": "wait"}})
        await self.start()
        request = self.request(OLD, NEW, boots=2)
        await self.until((self.folder / "waiting").exists)
        desk = self.desk()
        desk.cancel(request.id, who="ann")
        [asked] = self.ledger.parts_of(request.id)
        with pytest.raises(StoreError, match="is being taken back"):
            desk.resume(request.id, who="ann")
        await self.until(lambda: not self.ledger.held_decisions())

        assert self.ledger.decisions(asked.id)[-1].outcome is Outcome.CANCELLED
        await self.until(lambda: "recover c2558" in (self.folder / "places").read_text())
        assert self.ledger.open_questions() == []
        self.script({})
        desk.resume(request.id, who="ann")
        request = await self.over(request)

        assert request.state is RequestState.ANSWERED
        assert self.boots().count(OLD) == 2
        assert [deed.what for deed in self.ledger.audit()] == ["ask", "cancel", "resume", "answer"]
        assert len(self.ledger.waiting_mails()) == 2  # who does it needs no mail of it

    @case
    async def test_what_has_not_begun_is_taken_back(self) -> None:
        """An order in the queue of a busy testbed never runs."""
        self.script({OLD: {"trial": "wait"}})
        await self.start()
        first = self.request(OLD, NEW)
        await self.until((self.folder / "waiting").exists)
        second = self.request(OTHER, "d" * 40, who="bob")
        [asked] = self.ledger.parts_of(second.id)
        await self.until(
            lambda: any(
                one.stage.value == "trial" and one.buildset
                for one in self.ledger.decisions(asked.id)
            )
        )
        self.desk().cancel(second.id, who="bob", why="no longer wanted")
        await self.until(lambda: not self.ledger.held_decisions())
        (self.folder / "go").touch()
        await self.over(first)

        assert f"trial {OTHER}" not in self.calls()
        assert self.ledger.request(second.id).why == "no longer wanted"

    @case
    async def test_an_order_cancelled_on_the_web_pages_cancels_the_request(self) -> None:
        """It can be resumed as any other."""
        self.script({OLD: {"trial": "wait"}})
        await self.start()
        request = self.request(OLD, NEW, boots=2)
        await self.until((self.folder / "waiting").exists)
        builds = await self.master.data.get(("builds",))
        running = next(one["buildid"] for one in builds if not one["complete"])
        await self.master.data.control("stop", {"reason": "wrong"}, ("builds", running))
        request = await self.over(request)

        assert request.state is RequestState.CANCELLED
        assert "was cancelled on the web pages" in self.ledger.waiting_mails()[-1].body
        self.script({})
        self.desk().resume(request.id, who="ann")
        assert (await self.over(request)).state is RequestState.ANSWERED

    @case
    async def test_a_request_is_extended(self) -> None:
        """Its boots so far count, and it is answered again."""
        await self.start()
        request = await self.over(self.request(OLD, NEW, boots=2))
        self.desk().extend(request.id, who="ann", boots=2)
        request = await self.over(request)

        [asked] = self.ledger.parts_of(request.id)
        assert isinstance(asked.finding, Measured)
        assert asked.finding.held[0].effects[0].good_boots == 4
        assert len(self.boots()) == 8
        assert len(self.ledger.waiting_mails()) == 3

    @pytest.mark.long
    @case
    async def test_the_priority_of_what_waits_changes(self) -> None:
        """Of the order that is in the queue already, too."""
        self.script({OLD: {"build": "wait"}})
        await self.start()
        first = self.request(OLD, NEW, priority=190)
        await self.until((self.folder / "waiting").exists)
        slow = self.request(OTHER, "d" * 40, who="bob", priority=40)
        quick = self.request("e" * 40, "f" * 40, who="cid", priority=150)
        self.desk().prioritise(slow.id, "high", who="bob")
        for one in (slow, quick):
            [asked] = self.ledger.parts_of(one.id)
            while all(one.question != asked.id for one in self.ledger.open_decisions()):
                await task.deferLater(reactor, 0.05)
        await task.deferLater(reactor, 4 * self.settings.tick)
        (self.folder / "go").touch()
        for one in (first, slow, quick):
            await self.over(one)

        built = [call[6] for call in self.calls() if call.startswith("build")]
        assert built.index("c") < built.index("e")
