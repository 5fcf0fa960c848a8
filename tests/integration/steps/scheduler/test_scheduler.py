"""BisectScheduler in a real master with a scripted lab."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from functools import partial

import pytest
from buildbot.plugins import worker
from ledger_facts import bisect_job, comparison, intend
from real_master import REVISION, TESTBED, RealMaster, case
from twisted.internet import defer, reactor, task

from netbisect.bisect.model.entities import Failure, Noise
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import NightlyResult, Unfinished
from netbisect.steps.master import trial_logs
from netbisect.steps.master.mailer import Mailer
from netbisect.steps.master.trial_logs import folder_of
from netbisect.steps.scheduler.buildsets import BuildsetOutcome, Buildsets
from netbisect.steps.scheduler.decisions import MOST_TRIES
from netbisect.steps.scheduler.followups import PRIORITY_BISECTION, PRIORITY_NIGHT
from netbisect.steps.scheduler.scheduler import SCHEDULER_NAME, BisectScheduler
from netbisect.steps.service.settings import load
from netbisect.store.db.database import DatabaseError
from netbisect.store.db.records import ActionStage, Outcome
from netbisect.store.repositories.jobs import JobRepository
from netbisect.workers.build.artifacts import ARCHIVE, FACT
from netbisect.workers.build.patches import PatchStore, read

GONE = (
    "there is no testbed 'gone' in the lab file; found c2558; "
    "the master reads a changed lab file after SIGHUP"
)


class BisectSchedulerTest(RealMaster):
    @case
    async def test_a_nightly_job_is_measured_and_its_testbed_and_kernel_are_released(self) -> None:
        """There is one buildset per decision and one recovery; the kernel is removed afterwards.

        Builds on other testbeds have the same numbers, and a kill leaves the folders of uploads.
        Those of the other testbed stay.
        """
        self.settings = replace(self.settings, kernel_space="1 B")
        for name in ("c2558", "e5-2650"):
            (self.settings.trial_logs / f".incoming-bench-{name}-99").mkdir(parents=True)
        await self.start()
        record = await self.closed(self.add_night(boots=2))

        assert record.result == NightlyResult(2)
        assert self.calls() == [f"build {REVISION}", *[f"trial {REVISION}"] * 2]
        decisions = self.ledger.actions.of_job(record.id)
        stages = [one.stage for one in decisions]
        assert stages == [ActionStage.KERNEL, ActionStage.TRIAL, ActionStage.TRIAL]
        ids = sorted(buildset["external_idstring"] for buildset in await self.buildsets())
        assert ids == sorted(action.external_id for action in decisions)
        for trial in decisions[1:]:
            folder = folder_of(self.settings, trial.id)
            await self.until(folder.is_dir)
            assert [path.name for path in folder.iterdir()] == ["trial-ok.log"]
        left = [path.name for path in self.settings.trial_logs.glob(".incoming*")]
        assert left == [".incoming-bench-e5-2650-99"]
        await self.until(lambda: not list(self.settings.kernels.iterdir()))
        while not any(recovery["complete"] for recovery in await self.buildsets(recoveries=True)):
            await task.deferLater(reactor, 0.05)
        await self.run_pass()
        assert len(await self.buildsets(recoveries=True)) == 1

        async def priority_of_night(branch: str) -> int:
            night = self.add_night(boots=1, branch=branch, priority=PRIORITY_NIGHT)
            trial = self.ledger.actions.of_job((await self.closed(night)).id)[-1]
            orders = await self.master.data.get(("buildrequests",))
            return next(one["priority"] for one in orders if one["buildsetid"] == trial.buildset)

        assert await priority_of_night("stable/15") == PRIORITY_NIGHT
        assert self.calls().count(f"build {REVISION}") == 2, "the kernel was removed"

        # A trial has as many runs as its decision.
        self.script({"c" * 40: {"pps": 855_000}})
        job = bisect_job(["b" * 40, "c" * 40], -0.105, Noise(boot=0.004, run=0.04))
        record = self.ledger.jobs.add(job, key="bisect", priority=PRIORITY_BISECTION)
        assert await priority_of_night("stable/14") == PRIORITY_BISECTION

        def trials() -> list[int]:
            decisions = self.ledger.actions.of_job(record.id)
            return [one.runs for one in decisions if one.stage is ActionStage.TRIAL and one.outcome]

        await self.until(lambda: bool(trials()))
        evidence = self.ledger.evidence.gather(record, config="GENERIC", arch="amd64")
        assert trials()[0] > 1
        assert evidence.observations[0].runs == trials()[0]

    @pytest.mark.long
    @case
    async def test_builds_are_shared_and_start_by_the_priority_of_the_jobs_that_wait(self) -> None:
        """The priority falls again when the more urgent job ends without the kernel."""
        self.script({REVISION: {"build": "wait"}})
        await self.start()
        self.add_night(boots=1)
        await self.until((self.folder / "waiting").exists)
        records = []
        for number, (priority, letter) in enumerate(
            ((40, "b"), (100, "c"), (200, "b"), (30, "d"), (300, "d"), (100, "a"))
        ):
            branch = f"stable/{number}"
            records.append(self.add_night(letter * 40, 1, branch=branch, priority=priority))
            await self.scheduler.advance()
        await self.scheduler.advance()
        with self.ledger.jobs.closing(records.pop(4), Unfinished("it is no longer wanted")):
            pass
        await self.scheduler.advance()
        (self.folder / "go").touch()
        for record in records:
            await self.closed(record)
        built = [call[len("build ")] for call in self.calls() if call.startswith("build")]
        assert built == ["a", "b", "c", "d"]

    @pytest.mark.long
    @case
    async def test_a_night_waits_for_the_end_of_the_one_before_it(self) -> None:
        self.script({REVISION: {"build": "wait"}})
        await self.start()
        first, second = self.add_night(boots=2), self.add_night("b" * 40, boots=1)
        await self.until((self.folder / "waiting").exists)
        await self.scheduler.advance()
        assert self.ledger.actions.of_job(second.id) == []
        (self.folder / "go").touch()
        for record in (first, second):
            await self.closed(record)
        built = [call for call in self.calls() if call.startswith(("build", "trial"))]
        expected = [("build", "a"), ("trial", "a"), ("trial", "a"), ("build", "b"), ("trial", "b")]
        assert built == [f"{verb} {letter * 40}" for verb, letter in expected]

    @pytest.mark.long
    @case
    async def test_failed_jobs_end_after_their_tries(self) -> None:
        """A crash is retried; a failed build and a fault of the lab are not.

        A kernel that the disk of the master loses after each build is not built without limit.
        """
        broken, crashing, last, lost = REVISION, "b" * 40, "c" * 40, "d" * 40
        record = self.add_night(lost, branch="stable/14")
        for _ in range(MOST_TRIES):
            build = intend(self.ledger, record, lost, stage=ActionStage.KERNEL)
            self.ledger.actions.finish(build.id, Outcome.OK)
        self.script(
            {broken: {"build": "fail"}, crashing: {"trial": "crash"}, last: {"trial": "lab"}}
        )
        await self.start()
        record = await self.closed(record)
        assert isinstance(record.result, Unfinished)
        assert f"was built {MOST_TRIES} times, and is missing or damaged" in record.result.why
        assert self.calls() == []
        expected = [
            (broken, "as the script says", 0),
            (crashing, f"in {MOST_TRIES} tries", MOST_TRIES),
            (last, "the lab needs repair", 1),
        ]
        for revision, why, trials in expected:
            record = await self.closed(self.add_night(revision))

            assert isinstance(record.result, Unfinished)
            assert why in record.result.why
            assert self.calls().count(f"build {revision}") == 1
            assert self.calls().count(f"trial {revision}") == trials
        failed = folder_of(self.settings, max(self.ledger.actions.failed()))
        await self.until(failed.is_dir)
        assert [path.name for path in failed.iterdir()] == ["trial-lab.log"]
        assert len(self.ledger.mails.waiting()) == 5, "one per job, one about the quarantine"

    @pytest.mark.long
    @case
    async def test_a_kernel_is_sent_once_and_built_again_if_the_master_has_damaged_it(self) -> None:
        """Two testbeds of a worker share the kernel, and need it at the same time."""
        lab = self.folder / "lab.toml"
        text = lab.read_text() + TESTBED.format(name="other", owner="", group="")
        text = text.replace("line_rate_pps", 'worker = "lab"\nline_rate_pps')
        lab.write_text(f'kernels = "received"\n{text}')
        self.settings, self.lab = load(self.folder / "netbisect.toml")
        nights = [self.add_night(boots=1, testbed=name) for name in ("c2558", "other")]
        await self.start(more_workers=[worker.LocalWorker("lab", max_builds=2, missing_timeout=0)])
        for record in nights:
            await self.closed(record)
        assert sorted(await self.fetched()) == ["kernel is present", "kernel sent"]

        [key] = [path.name for path in self.settings.kernels.iterdir()]
        for name, branch in ((ARCHIVE, "stable/14"), (FACT, "stable/15")):
            (self.settings.kernels / key / name).write_bytes(b"")
            shutil.rmtree(self.lab.kernels)
            record = await self.closed(self.add_night(boots=1, branch=branch))
            assert record.result == NightlyResult(1)
            refused, sent = (await self.fetched())[-2:]
            assert refused.startswith("the kernel is to be built again: ")
            assert sent == "kernel sent"
            assert {path.name for path in self.lab.kernels.rglob("*")} == {key, ARCHIVE, FACT}
        assert self.calls()[3:] == [f"build {REVISION}", f"trial {REVISION}"] * 2

    async def fetched(self) -> list[str]:
        """Summaries of the steps that fetch a kernel, oldest first."""
        builds = await self.master.data.get(("builds",))
        steps = [await self.master.data.get(("builds", one["buildid"], "steps")) for one in builds]
        return [
            one["state_string"].removesuffix(" (failure)")
            for of_build in steps
            for one in of_build
            if one["name"] == "fetch kernel"
        ]

    @pytest.mark.long
    @case
    async def test_a_trial_counts_without_its_logs(self) -> None:
        """A trial without logs counts, for example on a full disk; here their folder is missing.

        It also counts if the database is away when old logs and kernels are to be removed. The long
        log of a failure is recorded, although Buildbot's workers split lines of 4,096 characters.
        """

        def away(*_: object) -> None:
            raise DatabaseError("the database is away")

        self.patch(trial_logs, "retained_decisions", away)
        self.patch(JobRepository, "needed_kernels", away)
        await self.start()
        record = await self.closed(self.add_night("c" * 40, boots=1))
        assert record.result == NightlyResult(1)
        assert self.calls() == [f"{verb} {'c' * 40}" for verb in ("build", "trial")]
        shutil.rmtree(self.settings.trial_logs)
        self.settings.trial_logs.touch()
        log = "".join(f"#{number} 0x{number:016x} at ether_input\n" for number in range(300))
        other = "b" * 40
        self.script({other: {"trial": "fail", "log": log}})
        record = await self.closed(self.add_night(boots=1))
        assert record.result == NightlyResult(1)
        record = await self.closed(self.add_night(other))
        self.flushLoggedErrors(OSError)

        assert isinstance(record.result, Unfinished)
        assert "as the script says" in record.result.why
        [fact] = [one for one in self.ledger.facts.of_job(record.id) if isinstance(one, Failure)]
        assert fact.log == log

    @case
    async def test_a_patch_is_sent_to_the_build_host(self) -> None:
        patch = read("D5180", b"--- a/sys/x.c\n+++ b/sys/x.c\n@@ -1 +1 @@\n-a\n+b\n")
        mark = PatchStore(self.settings.patches).put(patch)
        await self.start()
        buildsets = Buildsets(self.scheduler, "")
        ends = []
        for number, name in enumerate((mark, "D5180-00000000")):
            properties = {"kernel_config": f"GENERIC+{name}"}
            buildset = await buildsets.submit(
                f"nb:test:{number}", "kernel-amd64", "a look", properties, revision=REVISION
            )
            ends.append(await self.until(partial(buildsets.outcome, buildset)))

        assert PatchStore(self.folder / "build" / "patches").load(mark) == patch
        assert [end for end, _ in ends] == [BuildsetOutcome.OK, BuildsetOutcome.FAILED]
        assert "there is no patch D5180-00000000 in " in ends[1][1]
        assert self.calls() == [f"build {REVISION}+{mark}"]

        [sent] = (self.folder / "build" / "patches").iterdir()
        sent.unlink()
        sent.symlink_to("/dev/full")
        properties = {"kernel_config": f"GENERIC+{mark}"}
        buildset = await buildsets.submit("nb:test:2", "kernel-amd64", "a look", properties)
        end = await self.until(lambda: buildsets.outcome(buildset))
        assert end[0] is BuildsetOutcome.FAILED
        assert "send patches: [Errno 28] No space left on device" in end[1]
        assert self.flushLoggedErrors(OSError)

    @pytest.mark.long
    @case
    async def test_jobs_of_a_testbed_that_left_the_lab_file_block_no_other(self) -> None:
        """A nightly job ends; a search waits for the return of the testbed, from its last trial."""
        noise = Noise(boot=0.004)
        job = bisect_job(["b" * 40, REVISION], -0.1, noise, others={"c2558": noise})
        self.ledger.clock = lambda: time.time() - 20 * 86400
        search = self.ledger.jobs.add(replace(job, testbed="gone"), key="bisect", priority=200)
        self.ledger.clock = time.time
        intend(self.ledger, search)
        await self.start()
        night = await self.closed(self.add_night(testbed="gone"))
        assert night.result == Unfinished(GONE)
        await self.closed(self.add_night(boots=1))
        await self.until(lambda: "recover c2558" in self.places())
        assert self.ledger.jobs.get(search.id).result is None

        object.__setattr__(self.settings, "patience_days", 0.0)
        search = await self.closed(search)
        assert isinstance(search.result, Unfinished)
        assert search.result.why == f"after 0 days of waiting, {GONE}"

    @case
    async def test_a_new_testbed_is_used_after_a_reconfiguration(self) -> None:
        await self.start()
        job = comparison("b" * 40, REVISION, "inet4-forwarding", testbed="new")
        self.ledger.jobs.add(job, key="compare")
        await self.scheduler.advance()
        with (self.folder / "lab.toml").open("a") as lab:
            lab.write(TESTBED.format(name="new", owner="", group=""))
        self.testbeds = ("c2558", "new")
        self.settings, self.lab = load(self.folder / "netbisect.toml")
        self.master.config_loader.config_dict |= self.config()
        await self.master.doReconfig()
        self.scheduler.advance()
        await self.until(lambda: "trial new" in self.places())

    @case
    async def test_decisions_before_a_kill_or_another_lab_file_are_adopted_or_withdrawn(
        self,
    ) -> None:
        """One is of an overlay that the lab file no longer has; one was submitted, not recorded."""
        old = self.add_night("b" * 40, boots=1)
        overlaid = intend(self.ledger, old, "b" * 40, config="GENERIC+fix")
        self.ledger.actions.retry(overlaid.id, "cancelled (Master Shutdown)")
        record = self.add_night(boots=1)
        decision = intend(self.ledger, record, REVISION, stage=ActionStage.KERNEL)
        self.patch(BisectScheduler, "activate", lambda _: defer.succeed(None))
        await self.start()
        orphan = await self.scheduler.decisions._submit(record, decision)
        assert self.ledger.actions.get(decision.id).buildset is None
        while not (
            self.ledger.jobs.get(old.id).result and self.ledger.actions.get(decision.id).outcome
        ):
            await task.deferLater(reactor, 0.3)
            self.scheduler.advance()

        assert self.ledger.actions.get(decision.id).buildset == orphan
        numbers = [
            buildset["bsid"]
            for buildset in await self.buildsets()
            if buildset["external_idstring"] == decision.external_id
        ]
        assert numbers == [orphan]
        assert self.ledger.jobs.get(old.id).result == NightlyResult(1)
        outcomes = [one.outcome for one in self.ledger.actions.of_job(old.id)]
        assert outcomes == [Outcome.RETRY, Outcome.WITHDRAWN, Outcome.OK, Outcome.OK]

    async def stop_builds(self, times: int, reason: str = "Master Shutdown") -> None:
        """Stops the running builds each time a build waits, a number of times."""
        for _ in range(times):
            await self.until((self.folder / "waiting").exists)
            (self.folder / "waiting").unlink()
            running = [
                one for one in await self.master.data.get(("builds",)) if not one["complete"]
            ]
            for build in running:
                path = ("builds", build["buildid"])
                await self.master.data.control("stop", {"reason": reason}, path)

    @case
    async def test_a_check_before_a_release_is_repeated_after_a_stop_of_the_master(self) -> None:
        self.script({"c2558": {"recover": "wait"}})
        self.ledger.quarantines.start("c2558", why="too hot")
        self.ledger.quarantines.ask_release("c2558", by="ana")
        await self.start()
        await self.stop_builds(1)
        await self.until((self.folder / "waiting").exists)
        (self.folder / "go").touch()
        await self.until(lambda: not self.ledger.quarantines.current())

    @pytest.mark.long
    @case
    async def test_work_stopped_with_the_master_is_repeated(self) -> None:
        """Such stops do not count as tries; a build cancelled by a user ends its job."""
        cancelled, stopped, waits = "b" * 40, "c" * 40, {"build": "wait"}
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        record = self.add_night(boots=1)
        await self.stop_builds(MOST_TRIES)
        await self.until((self.folder / "waiting").exists)
        self.script({REVISION: {"trial": "crash"}, cancelled: waits, stopped: waits})
        await self.stop_builds(1)
        record = await self.closed(record)

        assert isinstance(record.result, Unfinished)
        assert f"has no result in {MOST_TRIES} tries: ended without a result" in (record.result.why)
        assert self.calls().count(f"trial {REVISION}") == MOST_TRIES + 1 + MOST_TRIES

        record = self.add_night(cancelled)
        await self.stop_builds(1, "wrong tree")
        record = await self.closed(record)
        assert isinstance(record.result, Unfinished)
        assert "cancelled by a user" in record.result.why
        assert self.calls().count(f"build {cancelled}") == 1

        record = self.add_night(stopped, boots=1)
        await self.stop_builds(1)
        await self.until((self.folder / "waiting").exists)
        (self.folder / "go").touch()
        record = await self.closed(record)
        assert record.result == NightlyResult(1)
        first, again = self.ledger.actions.of_job(record.id)[:2]
        assert (first.seq, again.seq, again.attempt) == (1, 1, 2)
        assert await self.scheduler.decisions._failed_workers(again) == []

    @case
    async def test_a_master_without_its_claim_does_nothing(self) -> None:
        """For example, another master took the claim during a pause of this master."""
        await self.start(
            services=[Mailer(settings=self.settings, lab=self.lab, scheduler=SCHEDULER_NAME)]
        )
        mailer = self.master.service_manager.namedServices[Mailer.name]
        await mailer.look()  # waits for the pass that the start began
        schedulers = self.master.db.schedulers
        assert await self.scheduler.is_leader()
        other = await self.master.db.masters.findMasterId("other")
        await schedulers.setSchedulerMaster(self.scheduler.serviceid, None)
        await schedulers.setSchedulerMaster(self.scheduler.serviceid, other)
        self.add_night()
        self.ledger.mails.post("one", Mail("a drop", "drop"), ["people@lab.invalid"])
        await self.scheduler.advance()
        await mailer.look()
        assert not await self.scheduler.is_leader()
        assert self.ledger.actions.all_open() == []
        [mail] = self.ledger.mails.waiting()
        assert mail.attempts == 0

        await schedulers.setSchedulerMaster(self.scheduler.serviceid, None)
        await self.scheduler.advance()
        assert await self.scheduler.is_leader()
        assert self.ledger.actions.all_open() != []
