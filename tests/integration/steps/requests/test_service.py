"""Requests in a real master with a scripted lab."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from ledger_facts import FAILURE, intend
from real_master import RealMaster, case

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Noise, Reaction, Stage
from netbisect.bisect.model.faults import IN_A_ROW
from netbisect.bisect.model.jobs import BisectJob, Candidate, CompareJob, MeasureJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Confirmed, MeasureResult, NotReproduced, Posterior
from netbisect.bisect.model.revision_key import with_patch
from netbisect.reports.documents import api
from netbisect.steps.queries import request_answer, request_files
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.rights import Right, User
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import JobRecord, Outcome, Request, RequestState
from netbisect.store.git.history import History
from netbisect.workers.build.patches import PatchStore, read

OLD, NEW, OTHER = "a" * 40, "b" * 40, "c" * 40
FORWARDING = "inet4-forwarding"
ANN = User("ann", frozenset(Right), "command", "")
PATCH = read("D5180", b"--- a/sys/x.c\n+++ b/sys/x.c\n@@ -1 +1 @@\n-a\n+b\n")


class RequestsTest(RealMaster):
    def service(self) -> RequestService:
        history = History(self.settings.mirror, self.lab.source.repository)
        return RequestService(self.ledger, self.settings, self.lab, history)

    def request(self, *revisions: str, boots: int = 1, runs: int = 1, **more: Any) -> Request:
        """Submits a comparison."""
        since = more.pop("shared_since", 0.0)
        testbed = more.pop("testbed", "c2558")
        job = MeasureJob("main", testbed, revisions, (FORWARDING,), boots, shared_since=since)
        body = {
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
            "mail": lambda number: Mail(f"request {number}", "submitted\n"),
            **more,
        }
        return self.ledger.requests.open("compare", body, [job], **options)

    async def ended(self, request: Request) -> Request:

        def has_ended() -> bool:
            return self.ledger.requests.get(request.id).state is not RequestState.OPEN

        await self.until(has_ended, every=0.3)
        return self.ledger.requests.get(request.id)

    def boots(self) -> list[str]:
        return [call[6:] for call in self.calls() if call.startswith("trial")]

    @case
    async def test_requests_are_measured_and_answered(self) -> None:
        """A pair of revisions, a patch, and one that does not build; the base shares its boots."""
        broken = read("D5181", b"--- a/sys/y.c\n+++ b/sys/y.c\n@@ -1 +1 @@\n-a\n+b\n")
        for patch in (PATCH, broken):
            PatchStore(self.settings.patches).put(patch)
        patched, failing = (with_patch(OLD, patch.mark) for patch in (PATCH, broken))
        self.script({NEW: {"pps": 800_000}, patched: {"pps": 800_000}, failing: {"build": "fail"}})
        await self.start()
        request = await self.ended(self.request(OLD, NEW, boots=2))
        self.check_comparison(request)
        builder = await self.master.data.updates.findBuilderId("bench-c2558")
        builds = await self.master.data.get(("builders", builder, "builds"))
        last = max(build["buildid"] for build in builds)
        steps = await self.master.data.get(("builds", last, "steps"))
        [urls] = [step["urls"] for step in steps if step["name"] == "compare"]
        assert [(url["name"], url["url"].rpartition("/")[2]) for url in urls] == [
            (f"request {request.id}", f"request-{request.id}.html"),
            ("overview", "index.html"),
        ]
        request = await self.ended(self.request(OLD, patched, boots=2))
        self.check_patch(request, patched)
        trials = len(self.boots())
        request = await self.ended(self.request(OLD, failing, boots=2))

        assert (request.state, request.verdict) == (RequestState.FAILED, "failed")
        assert request_answer.exit_status(request) == 3
        assert broken.mark in request.why
        assert "as the script says" in request.why
        [part] = self.service().document(request.id).parts
        assert (len(self.boots()), part.boots, part.boots_wanted) == (trials, 2, 2)

    @case
    async def test_a_new_request_waits_for_the_scheduler(self) -> None:
        """Later, its master may not know the testbed."""
        request, now = self.request(OLD, NEW), self.ledger.clock()
        queries = self.service()
        [part] = queries.document(request.id).parts
        assert part.now == "waits for the scheduler"
        self.ledger.clock = lambda: now + 3600.0
        [part] = queries.document(request.id).parts
        assert part.now.endswith("; after a testbed is added, the master must be reloaded")

    @case
    async def test_requests_on_a_testbed_that_left_the_lab_file_block_nothing(self) -> None:
        """They have documents, and end after `patience_days`; its last trials may have failed."""
        object.__setattr__(self.settings, "patience_days", 0.0)
        cancelled = self.request(OLD, NEW, testbed="gone")
        [record] = self.ledger.requests.jobs(cancelled.id)
        fault = replace(FAILURE, revision=OLD, stage=Stage.BENCH, reaction=Reaction.INFRA)
        for number in range(IN_A_ROW):
            trial = intend(self.ledger, record, OLD)
            self.ledger.facts.record(replace(fault, id=f"{number}", testbed="gone"), trial.id)
            if number + 1 < IN_A_ROW:
                self.ledger.actions.finish(trial.id, Outcome.RETRY)
        mail = Mail("cancelled", "cancelled\n")
        self.ledger.requests.cancel(cancelled.id, who="ann", via="command", why="", mail=mail)
        waiting = self.request(OLD, NEW, testbed="gone")
        queries = self.service()
        [part] = queries.document(waiting.id).parts
        assert part.now == "waits: the lab file has no testbed gone"
        await self.start()
        waiting = await self.ended(waiting)

        assert self.ledger.actions.get(trial.id).outcome is Outcome.CANCELLED
        assert waiting.state is RequestState.FAILED
        assert "there is no testbed 'gone' in the lab file" in waiting.why
        for request in (cancelled, waiting):
            folder = request_files.folder_of(self.settings, request.id)
            await self.until((folder / request_files.DOCUMENT).is_file)

    def check_comparison(self, request: Request) -> None:
        assert self.boots() == [OLD, NEW, NEW, OLD]
        assert (request.state, request.verdict) == (RequestState.ANSWERED, "regression")
        assert request_answer.exit_status(request) == 1
        first, last = self.ledger.mails.waiting()
        assert last.recipients == first.recipients == ("ann@lab.invalid",)
        assert last.in_reply_to == first.message_id
        assert "There is a regression." in last.body
        assert re.search(r"-1[4-7]\.\d %", last.body)
        log = self.ledger.requests.audit(request=request.id)
        assert [entry.what for entry in log] == ["ask", "answer"]

    def check_patch(self, request: Request, patched: str) -> None:
        assert request.verdict == "regression"
        assert self.boots()[4:] == [patched, patched]
        [record] = self.ledger.requests.jobs(request.id)
        facts = self.ledger.facts.of_job(record.id)
        assert {fact.revision for fact in facts if hasattr(fact, "revision")} == {patched}
        rates = self.ledger.series.rates("c2558", FORWARDING, [OLD, patched])
        assert rates[OLD] == pytest.approx(950_000, rel=0.02)
        assert rates[patched] == pytest.approx(800_000, rel=0.02)
        assert self.ledger.commits.label(patched) == f"{OLD[:12]}+{PATCH.mark}"

    @pytest.mark.long
    @case
    async def test_requests_share_builds_and_boots(self) -> None:
        """Requests with `fresh` share no boots, nor do the runs of a repeated one."""
        self.script({NEW: {"pps": 900_000}})
        await self.start()
        first = self.request(OLD, NEW, boots=2)
        second = self.request(OLD, OTHER, boots=2, who="bob")
        await self.ended(first)
        await self.ended(second)

        calls = self.calls()
        assert calls.count(f"build {OLD}") == 1
        assert calls.count(f"trial {OLD}") == 2
        assert calls.count(f"trial {NEW}") == calls.count(f"trial {OTHER}") == 2
        fresh = await self.ended(self.request(OLD, NEW, boots=2, runs=2, shared_since=math.inf))
        own, repeated = self.ledger.requests.jobs(fresh.id)
        assert (own.run, repeated.run) == (1, 2)
        boots = [
            {fact.id for fact in self.ledger.facts.of_job(part.id) if hasattr(fact, "kernel")}
            for part in (own, repeated)
        ]
        assert len(boots[0]) == len(boots[1]) == 4
        assert not boots[0] & boots[1]
        assert "The two runs agree" in self.ledger.mails.waiting()[-1].body
        await self.ended(self.request(OLD, NEW, boots=2))
        assert self.calls().count(f"trial {OLD}") == self.calls().count(f"trial {NEW}") == 6

    @pytest.mark.long
    @case
    async def test_boots_per_day_are_limited_per_user(self) -> None:
        limits = replace(self.settings.requests, boots_per_day=3)
        self.settings = replace(self.settings, requests=limits)
        await self.start()
        of_ann = self.request(OLD, NEW, boots=2)
        of_bob = self.request(OTHER, "d" * 40, who="bob")
        assert (await self.ended(of_bob)).state is RequestState.ANSWERED

        def boots_of_ann() -> int:
            return sum(revision in (OLD, NEW) for revision in self.boots())

        await self.until(lambda: boots_of_ann() == 3 and self.ledger.actions.all_open() == [])
        await self.run_pass()

        assert self.ledger.actions.all_open() == []
        assert self.ledger.requests.get(of_ann.id).state is RequestState.OPEN
        assert boots_of_ann() == 3

    @pytest.mark.long
    @case
    async def test_requests_are_cancelled_and_resumed(self) -> None:
        """Queued work of a cancelled request never runs; a running trial is stopped.

        A further request of the first user leaves the testbed to the second user.
        """
        self.script({NEW: {"trial": "wait"}})
        await self.start()
        first = self.request(OLD, NEW, boots=2)
        await self.until((self.folder / "waiting").exists)
        second = self.request(OTHER, "d" * 40, who="bob")
        [record] = self.ledger.requests.jobs(second.id)
        work = partial(self.ledger.actions.of_job, record.id)
        await self.until(lambda: any(one.stage == "trial" and one.buildset for one in work()))
        third = self.request(OLD, "e" * 40)
        low = self.request(OLD, "f" * 40, who="cid", priority=1)
        assert [self.service().document(one.id).parts[0].now for one in (third, low)] == [
            "waits: another request of ann is on c2558",
            "waits: a job of higher priority is on c2558",
        ]
        service = self.service()
        for request in (second, third, low):
            service.cancel(ANN, request.id, api.CancelBody("no longer wanted"))
        await self.until(lambda: not self.ledger.actions.held())
        assert self.ledger.requests.get(second.id).why == "no longer wanted"

        service.cancel(ANN, first.id, api.CancelBody())
        [record] = self.ledger.requests.jobs(first.id)
        with pytest.raises(StoreError, match="still has to cancel"):
            service.resume(ANN, first.id, api.ResumeBody())
        await self.until(lambda: not self.ledger.actions.held())

        assert self.ledger.actions.of_job(record.id)[-1].outcome is Outcome.CANCELLED
        await self.until(lambda: "recover c2558" in self.places())
        assert self.ledger.jobs.all_open() == []
        self.script({})
        service.resume(ANN, first.id, api.ResumeBody())
        first = await self.ended(first)

        assert first.state is RequestState.ANSWERED
        assert self.boots().count(OLD) == 2
        assert OTHER not in self.boots()
        whats = [entry.what for entry in self.ledger.requests.audit(request=first.id)]
        assert whats == ["ask", "cancel", "resume", "answer"]
        opening, *mails = self.ledger.mails.waiting()
        replies = [mail for mail in mails if mail.in_reply_to == opening.message_id]
        assert len(replies) == 1  # none about changes by the user

    @pytest.mark.long
    @case
    async def test_stopping_a_build_cancels_its_request(self) -> None:
        """The request can be resumed and extended."""
        self.script({OLD: {"trial": "wait"}})
        await self.start()
        request = self.request(OLD, NEW)
        await self.until((self.folder / "waiting").exists)
        builds = await self.master.data.get(("builds",))
        running = next(build["buildid"] for build in builds if not build["complete"])
        await self.master.data.control("stop", {"reason": "wrong"}, ("builds", running))
        request = await self.ended(request)

        assert request.state is RequestState.CANCELLED
        await self.until(lambda: not self.ledger.actions.held())
        events, _ = self.ledger.events.since(0)
        whats = [one.data.get("what") or one.data.get("outcome") for one in events]
        assert whats.index("cancel") < whats.index("cancelled")  # a kill in between loses nothing
        assert "was cancelled on the web pages" in self.ledger.mails.waiting()[-1].body
        self.script({})
        self.service().resume(ANN, request.id, api.ResumeBody())
        assert (await self.ended(request)).state is RequestState.ANSWERED
        self.service().extend(ANN, request.id, api.ExtendBody(boots=2))
        request = await self.ended(request)

        [record] = self.ledger.requests.jobs(request.id)
        assert isinstance(record.result, MeasureResult)
        assert record.result.held[0].effects[0].good_boots == 3

    @pytest.mark.long
    @case
    async def test_priority_changes_reorder_the_queue(self) -> None:
        self.script({OLD: {"build": "wait"}})
        await self.start()
        self.request(OLD, NEW, priority=190)
        await self.until((self.folder / "waiting").exists)
        slow = self.request(OTHER, "d" * 40, who="bob", priority=40)
        quick = self.request("e" * 40, "f" * 40, who="cid", priority=150)
        self.service().priority(ANN, slow.id, api.PriorityBody("high"))
        jobs = {self.ledger.requests.jobs(request.id)[0].id for request in (slow, quick)}

        def submitted() -> set[int]:
            return {action.job for action in self.ledger.actions.all_open() if action.buildset}

        await self.until(lambda: jobs <= submitted())
        await self.run_pass()  # sets priorities
        (self.folder / "go").touch()

        def built() -> list[str]:
            return [call[6] for call in self.calls() if call.startswith("build")]

        await self.until(lambda: {"c", "e"} <= set(built()))
        assert built().index("c") < built().index("e")
        await self.ended(quick)


def test_a_search_without_a_change_names_the_margin() -> None:
    pair = CompareJob("main", "c2558", OLD, NEW, (FORWARDING,), FORWARDING, -0.02, 1)
    commits = (Candidate(NEW),)
    search = BisectJob("main", "c2558", OLD, commits, (FORWARDING,), FORWARDING, -0.02, Noise())
    unchanged = NotReproduced(Posterior({NEW: 0.0}, 1.0), "noise")
    more: dict[str, Any] = {"key": "", "priority": 0, "requested_by": "", "opened_at": 0.0}
    parts = [
        JobRecord.of(job, result_json=serialization.dumps(result), **more)
        for job, result in ((pair, Confirmed(())), (search, unchanged))
    ]
    _, sentence = request_answer.answer(request_answer.Names(str, str), parts)

    assert sentence.startswith("There is no regression of 2.0 % or more. No commit in this range")
