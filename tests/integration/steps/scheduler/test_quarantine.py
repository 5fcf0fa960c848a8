"""QuarantinePolicy in a real master with a scripted lab."""

from __future__ import annotations

import itertools

import pytest
from ledger_facts import comparison
from real_master import REVISION, RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.model.faults import IN_A_ROW, Fault
from netbisect.bisect.model.jobs import MeasureJob
from netbisect.bisect.model.results import MeasureResult, NightlyResult, Unfinished
from netbisect.reports.render import words
from netbisect.steps.policy import attempts
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import progress_of
from netbisect.store.db.records import Action, ActionStage, JobRecord

OTHER = "b" * 40
THIRD = "c" * 40


class QuarantinePolicyTest(RealMaster):
    builders = ("builder", "another")
    testbeds = ("c2558", "e5-2650")
    owner = "owner@lab.invalid"

    def compare(self, testbed: str = "c2558") -> JobRecord:
        job = comparison(OTHER, REVISION, "inet4-forwarding", testbed=testbed)
        return self.ledger.jobs.add(job, key=f"compare:{testbed}", priority=200)

    @pytest.mark.long
    @case
    async def test_jobs_wait_for_a_testbed_in_quarantine_while_others_continue(self) -> None:
        self.script({"c2558": {"trial": "lab", "recover": "lab"}})
        await self.start()
        job = MeasureJob("main", "c2558", (REVISION,), ("inet4-forwarding",), 1)
        waiting = self.ledger.jobs.add(job, key="measure", priority=200)
        await self.until(lambda: bool(self.ledger.quarantines.current()))
        held = self.ledger.quarantines.current()["c2558"]
        assert (held.fault, held.why) == (Fault.HOST_KEY.value, "as the script says")
        assert held.log == "the last output of the machine"
        night = await self.closed(self.add_night(THIRD))
        assert isinstance(night.result, Unfinished)
        assert "c2558 has been in quarantine since " in night.result.why
        assert night.result.why.endswith("as the script says")
        await self.closed(self.add_night("d" * 40))
        other = await self.closed(self.add_night(THIRD, boots=1, testbed="e5-2650"))

        assert other.result == NightlyResult(1)
        assert self.ledger.jobs.get(waiting.id).result is None
        assert self.places().count("trial c2558") == 1
        assert self.mails() == [
            ("[netbisect] c2558: in quarantine", ("owner@lab.invalid",)),
            ("[netbisect] main c2558: the night has no result", ("people@lab.invalid",)),
        ]

        # A requested release first recovers and checks the testbed; a failure keeps it there.
        self.ledger.quarantines.ask_release("c2558", by="ana", note="new key")
        await self.until(lambda: bool(self.ledger.quarantines.current()["c2558"].refused))
        refused = self.ledger.quarantines.current()["c2558"]
        assert "the generator does not answer" in refused.refused
        assert [call for call in self.places() if call.endswith(" c2558")][-1] == "look c2558"
        self.script({})
        self.ledger.quarantines.ask_release("c2558", by="ana", note="new key")
        record = await self.closed(waiting)

        assert isinstance(record.result, MeasureResult)
        (past,) = self.ledger.quarantines.of_testbed("c2558")
        assert (past.released_by, past.note) == ("ana", "new key")
        places = self.places()
        assert places.index("look c2558") < len(places) - 1

    @case
    async def test_bad_trials_in_a_row_lead_to_quarantine(self) -> None:
        """A failed recovery also leads to quarantine."""
        self.script({"c2558": {"trial": "infra"}, "e5-2650": {"recover": "lab"}})
        await self.start()
        waiting = self.add_night(boots=IN_A_ROW)
        await self.until(lambda: bool(self.ledger.quarantines.current()))
        held = self.ledger.quarantines.current()["c2558"]

        assert self.places().count("trial c2558") == IN_A_ROW
        assert held.why == (
            "3 trials in a row failed because of the lab, the last: as the script says"
        )
        assert held.fault == Fault.THROTTLING.value
        evidence = self.ledger.evidence.gather(waiting, config="GENERIC", arch="amd64")
        assert evidence.skipped == {}
        await self.closed(self.add_night(boots=1, testbed="e5-2650"))
        await self.until(lambda: len(self.ledger.quarantines.current()) == 2)
        held = self.ledger.quarantines.current()["e5-2650"]
        assert held.fault == Fault.NO_GOOD_KERNEL.value
        assert "the generator does not answer" in held.why

    @pytest.mark.long
    @case
    async def test_a_quarantine_withdraws_trials_that_have_not_begun(self) -> None:
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        first = self.add_night(boots=1)
        await self.until((self.folder / "waiting").exists)
        second = self.add_night(OTHER, boots=1, branch="stable/15")

        def submitted() -> bool:
            decisions = self.ledger.actions.of_job(second.id)
            return any(one.stage is ActionStage.TRIAL and one.buildset for one in decisions)

        await self.until(submitted)
        self.ledger.quarantines.start("c2558", why="new fans", by="ana")
        second = await self.closed(second)
        assert isinstance(second.result, Unfinished)
        assert second.result.why.endswith("new fans")
        (self.folder / "go").touch()
        first = await self.closed(first)

        assert isinstance(first.result, Unfinished)
        assert first.result.why.endswith("new fans")
        assert self.calls().count(f"trial {OTHER}") == 0
        assert self.calls().count(f"trial {REVISION}") == 1

    @pytest.mark.long
    @case
    async def test_a_recovery_without_a_result_is_repeated(self) -> None:
        self.script({"c2558": {"recover": ["crash", "crash", "ok"]}})
        await self.start()
        await self.closed(self.add_night(boots=1))
        while sum(recovery["complete"] for recovery in await self.buildsets(recoveries=True)) < 3:
            await task.deferLater(reactor, 0.05)
        await self.run_pass()

        assert len(await self.buildsets(recoveries=True)) == 3
        assert self.places().count("recover c2558") == 3
        assert self.ledger.quarantines.current() == {}

    @pytest.mark.long
    @case
    async def test_a_failed_build_is_repeated_on_another_builder(self) -> None:
        self.script({"builder": {"build": "lab"}, "another": {"build": "lab"}})
        self.patch(attempts, "PAUSE_SECONDS", 1.0)
        await self.start()
        failed = await self.closed(self.add_night(THIRD))
        assert isinstance(failed.result, Unfinished)
        assert "in 3 tries" in failed.result.why
        tries = itertools.pairwise(self.ledger.actions.of_job(failed.id))
        assert [round(b.intended_at - (a.finished_at or 0)) for a, b in tries] == [0, 1]
        assert {"build builder", "build another"} <= set(self.places())

        for broken in ("builder", "another"):
            self.script({broken: {"build": "lab"}})
            revision = {"builder": OTHER, "another": REVISION}[broken]
            record = await self.closed(self.add_night(revision, boots=1))
            assert record.result == NightlyResult(1)

    @pytest.mark.long
    @case
    async def test_a_trial_waits_while_the_lab_file_is_wrong(self) -> None:
        """The status says so. Jobs of a testbed in quarantine end after `patience_days`."""
        self.script({"c2558": {"trial": "usage"}})
        await self.start()
        record = self.compare()

        def trials() -> list[Action]:
            of_job = self.ledger.actions.of_job(record.id)
            return [one for one in of_job if one.stage is ActionStage.TRIAL]

        await self.until(lambda: len(trials()) == 2)
        second = trials()[1]
        assert 0.0 <= second.intended_at - (trials()[0].finished_at or 0.0) - 600 < 1
        now = (
            f"waits until {words.moment(second.intended_at)}: failed the lab file or the command "
            "line is wrong: lab.toml: there is no such testbed (failure)"
        )
        documents = DocumentQueries(self.ledger)
        assert documents.status().jobs[0].now == f"trial {second.revision[:12]}: {now}"
        assert documents.comparison(record.id).steps[-1].result == now
        assert progress_of(self.ledger, LabContext(self.lab), record).now.endswith(now)
        other = await self.closed(self.add_night(boots=1, testbed="e5-2650"))
        assert other.result == NightlyResult(1)
        assert self.places().count("trial c2558") == 1

        self.patch(attempts, "PAUSE_SECONDS", 0.0)
        assert documents.status().jobs[0].now.endswith(second.why)
        ended = await self.closed(record)
        assert isinstance(ended.result, Unfinished)
        assert "in 3 tries: wrong lab file" in ended.result.why
        assert self.places().count("trial c2558") == 3
        assert self.ledger.quarantines.current() == {}

        object.__setattr__(self.settings, "patience_days", 0.0)
        self.ledger.quarantines.start("e5-2650", why="too hot")
        waiting = await self.closed(self.compare("e5-2650"))
        assert isinstance(waiting.result, Unfinished)
        assert "0 days of waiting, e5-2650 has been in quarantine" in waiting.result.why

    @pytest.mark.long
    @case
    async def test_a_lost_worker_blocks_no_other_testbed(self) -> None:
        """Its trial is repeated after the worker has returned."""
        self.script({"c2558": {"trial": "wait"}})
        await self.start()
        record = self.add_night(boots=1)
        await self.until((self.folder / "waiting").exists)
        worker = await self.lose_worker("c2558")
        other = await self.closed(self.add_night(OTHER, boots=1, testbed="e5-2650"))
        assert other.result == NightlyResult(1)
        assert self.ledger.jobs.get(record.id).result is None
        (self.folder / "go").touch()
        await worker.setServiceParent(self.master.workers)
        record = await self.closed(record)

        assert record.result == NightlyResult(1)
        evidence = self.ledger.evidence.gather(record, config="GENERIC", arch="amd64")
        assert len(evidence.observations) == 1
