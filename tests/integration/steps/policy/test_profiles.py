"""Profile jobs in a real master with a scripted lab."""

from __future__ import annotations

import time
from typing import Any

import pytest
from real_master import REVISION, RealMaster, case

from netbisect.bisect.model.jobs import ProfileJob
from netbisect.bisect.model.results import ProfileResult, Unfinished
from netbisect.steps.policy import profiles
from netbisect.steps.site.live import LivePages
from netbisect.store.db.records import ActionStage, JobRecord

OTHER, THIRD, FOURTH = "b" * 40, "c" * 40, "d" * 40


class ProfilesTest(RealMaster):
    def profile(self, *revisions: str, pps: float = 600_000.0) -> JobRecord:
        job = ProfileJob("main", "c2558", revisions, ("inet4-forwarding",), pps)
        return self.ledger.jobs.add(
            job, key=profiles.key_of(job), priority=profiles.PRIORITY_REQUEST
        )

    def page(self, record: JobRecord) -> str:
        pages = LivePages(self.settings, self.lab, self.ledger)
        return pages.file(f"profile-{record.id}.html") or ""

    async def steps_of(self, builder: str) -> list[list[tuple[str, bool]]]:
        """Steps of each build, and whether they were successful."""
        number = await self.master.data.updates.findBuilderId(builder)
        found = []
        for build in await self.master.data.get(("builders", number, "builds")):
            steps: list[dict[str, Any]] = await self.master.data.get(
                ("builds", build["buildid"], "steps")
            )
            shown = [step for step in steps if not step["hidden"]]
            found.append([(step["name"], step["results"] == 0) for step in shown])
        return found

    @pytest.mark.long
    @case
    async def test_revisions_are_profiled_until_one_fails(self) -> None:
        """The ledger gets boots and no samples; a crashed profile is retried."""
        self.script({THIRD: {"profile": "fail"}, FOURTH: {"profile": "crash"}})
        await self.start()
        record = await self.closed(self.profile(REVISION, OTHER))

        assert record.result == ProfileResult((REVISION, OTHER))
        assert [call for call in self.calls() if "profile" in call] == [
            f"profile {REVISION}",
            f"profile {OTHER}",
        ]
        assert not [call for call in self.calls() if "trial" in call]
        first, second = profiles.taken(self.ledger, self.settings.trial_logs, record)
        assert (first.profile.revision, second.profile.revision) == (REVISION, OTHER)
        assert first.stacks == {("ether_input", REVISION[:4]): 1000}
        assert first.profile.pps == 600_000.0
        decisions = self.ledger.actions.of_job(record.id)
        kept = sorted(int(path.name) for path in self.settings.trial_logs.iterdir())
        profiled = [action for action in decisions if action.stage is ActionStage.PROFILE]
        assert kept == [action.id for action in profiled]
        events, _ = self.ledger.events.since(0)
        assert sum(event.kind == "boot" for event in events) == 2
        assert not any(event.kind == "sample" for event in events)
        assert f"Flame graph of {REVISION[:4]}" in self.page(record)
        own = [
            [step for step in steps if "profile" in step[0] or step[0] == "trial"]
            for steps in await self.steps_of("bench-c2558")
        ]
        assert own == 2 * [[("profile", True), ("upload profile", True)]]

        failed = await self.closed(self.profile(THIRD, OTHER))
        assert isinstance(failed.result, Unfinished)
        assert "no event" in failed.result.why
        assert self.calls()[-1] == f"profile {THIRD}"
        assert "no event" in self.page(failed)
        assert self.ledger.series.rates("c2558", "inet4-forwarding", [THIRD]) == {}
        crashed = await self.closed(self.profile(FOURTH))
        assert isinstance(crashed.result, Unfinished)
        assert self.calls().count(f"profile {FOURTH}") == 3

    @pytest.mark.long
    @case
    async def test_a_profile_waits_for_jobs_of_higher_priority(self) -> None:
        """After a day, it no longer waits for the end of a nightly job."""
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        self.add_night(priority=200)
        job = self.profile(OTHER)
        self.ledger.clock = lambda: time.time() - 86400
        old = self.profile(THIRD)
        await self.until((self.folder / "waiting").exists)
        self.scheduler.advance()
        await self.until(
            lambda: any(one.buildset for one in self.ledger.actions.of_job(old.id)[1:])
        )
        assert self.ledger.actions.of_job(job.id) == []
        (self.folder / "go").touch()
        job = await self.closed(job)

        assert job.result == ProfileResult((OTHER,))
        letters = [call[: call.index(" ") + 2] for call in self.calls()]
        assert letters[-2:] == ["build b", "profile b"]
        booted = [call for call in letters if not call.startswith("build")]
        assert booted == ["trial a", "profile c", "trial a", "profile b"]
