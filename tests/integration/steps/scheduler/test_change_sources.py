"""Nightly schedulers in a real master."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import threading
import time
from typing import Any
from unittest import mock

import pytest
from buildbot.schedulers.timed import NightlyBase
from ledger_facts import intend
from real_master import RealMaster, case

from netbisect.bisect.model.entities import Failure, Kernel, Reaction, Stage
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import NightlyResult, Unfinished
from netbisect.demo.tree.create import create
from netbisect.steps.scheduler import change_sources
from netbisect.steps.service.settings import load
from netbisect.store.db.records import Action, Outcome
from netbisect.store.git.history import History, HistoryError


class NightlyTest(RealMaster):
    def create_tree(self) -> str:
        """Replaces the empty tree by the sample tree; returns the head of main."""
        shutil.rmtree(self.folder / "tree.git")
        return create(self.folder / "tree.git").revisions[8 - 1]

    @case
    async def test_nightly_schedulers_open_jobs_for_the_head_of_the_branch(self) -> None:
        """They run at the configured hour of the local time; a missing branch is skipped."""
        object.__setattr__(self.settings.night, "boots", 1)
        await self.start(change_sources.nights(self.settings, self.lab))
        night = self.master.scheduler_manager.namedServices["night-main-c2558"]
        self.addCleanup(time.tzset)
        with mock.patch.dict(os.environ, TZ="CET-1CEST,M3.5.0,M10.5.0/3"):
            time.tzset()
            at = dt.datetime(2025, 10, 24, 22, 0).timestamp()  # noqa: DTZ001 - the master's
            for day in (25, 26, 27):  # summer time ends on the second one
                at = await night.getNextBuildTime(at)
                assert dt.datetime.fromtimestamp(at) == dt.datetime(2025, 10, day, 1, 0)  # noqa: DTZ001, DTZ006
        time.tzset()
        ahead = await night.getNextBuildTime(night.now() + 300 * 86400)
        assert ahead < night.now() + 2 * 86400, "the clock was ahead at the last night"
        await night.startBuild()
        assert self.ledger.jobs.all_open() == [], "the tree has no such branch"
        head = self.create_tree()
        await night.startBuild()
        record = self.ledger.jobs.get(1)

        assert record.job == NightlyJob(
            "main", "c2558", head, ("inet4-forwarding",), self.settings.night.boots
        )
        await self.closed(record)
        await night.startBuild()
        assert self.ledger.jobs.all_open() == []
        # A new hour counts from the next night on, without a restart.
        for hour in (3, 17):
            await self.reload(night, hour=hour)
            assert night.actuateAt > night.now()
            assert dt.datetime.fromtimestamp(night.actuateAt).hour == hour  # noqa: DTZ006

    async def reload(self: Any, night: Any, **changed: int) -> None:
        for name, value in changed.items():
            object.__setattr__(self.settings.night, name, value)
        config = self.master.config_loader.config_dict
        others = [one for one in config["schedulers"] if one.name != night.name]
        config["schedulers"] = [*others, *change_sources.nights(self.settings, self.lab)]
        await self.master.doReconfig()

    @case
    async def test_a_night_that_is_due_during_a_reload_is_not_put_off(self) -> None:
        await self.start(change_sources.nights(self.settings, self.lab))
        night = self.master.scheduler_manager.namedServices["night-main-c2558"]
        due, timer = night.actuateAt, night.actuateAtTimer
        with mock.patch.object(night, "now", return_value=due + 1):
            await self.reload(night, boots=1)
        assert (night.actuateAt, night.actuateAtTimer) == (due, timer)
        assert timer.active()

    @case
    async def test_a_night_is_tried_again_after_a_failed_fetch(self) -> None:
        """A slow fetch delays no other job, and a master that restarts during it fetches again."""
        object.__setattr__(self.settings.night, "boots", 1)
        await self.start(change_sources.nights(self.settings, self.lab))
        night = self.master.scheduler_manager.namedServices["night-main-c2558"]
        head, answer, update = self.create_tree(), threading.Event(), History.update

        def fail(_: History) -> None:
            answer.wait()
            raise HistoryError("the server does not answer")

        History.update = fail
        try:
            began = night.startBuild()
            await self.closed(self.add_night(boots=1))
            last = await night.getState("last_build")
            answer.set()
            await began
        finally:
            History.update = update
        assert await NightlyBase.getNextBuildTime(night, last) <= night.now()
        assert await night.getNextBuildTime(night.now()) - night.now() <= 600
        await night.startBuild()
        [record] = self.ledger.jobs.all_open()
        assert record.job.revision == head
        last = await night.getState("last_build")
        assert await NightlyBase.getNextBuildTime(night, last) > night.now()
        noon = dt.datetime(2026, 3, 1, 12, 0).timestamp()  # noqa: DTZ001 - the master's
        assert await night.getNextBuildTime(noon) == noon + 13 * 3600

    @pytest.mark.long
    @case
    async def test_a_broken_head_is_measured_with_its_overlay(self) -> None:
        """Failures of kernels without it do not count; one of a removed commit is left out."""
        head = self.create_tree()
        overlay = ", ".join(
            f'{{ name = "{name}", patch = "p", first = "{one}", last = "{one}" }}'
            for name, one in (("gone", "e" * 40), ("fix", head))
        )
        lab = (self.folder / "lab.toml").read_text()
        lab = lab.replace("[[builders]]", f"overlays = [{overlay}]\n[[builders]]")
        (self.folder / "lab.toml").write_text(lab)
        (self.folder / "p").touch()
        self.settings, self.lab = load(self.folder / "netbisect.toml")
        plain = Kernel(head, "GENERIC", "amd64", "id", "key", "n8", 1, 1.0, 1.0)
        self.ledger.facts.record(plain)
        self.ledger.facts.record(
            Failure("failure", head, Stage.BOOT, Reaction.SKIP, "panic", 2.0, 9.0, "c2558"),
            self.add_earlier_decision(head).id,
        )
        await self.start(change_sources.nights(self.settings, self.lab))
        await self.master.scheduler_manager.namedServices["night-main-c2558"].startBuild()
        record = await self.closed(self.ledger.jobs.get(2))

        assert record.result == NightlyResult(self.settings.night.boots)
        actions = self.ledger.actions.of_job(record.id)
        assert {action.config for action in actions} == {"GENERIC+fix"}
        assert self.calls().count(f"build {head}") == 1

    def add_earlier_decision(self, head: str) -> Action:
        """Records a decision about the head in a closed job, without the overlay."""
        record = self.ledger.jobs.add(
            NightlyJob("stable/15", "c2558", head, ("inet4-forwarding",), 1), key="earlier"
        )
        decision = intend(self.ledger, record, head)
        self.ledger.actions.finish(decision.id, Outcome.UNMEASURABLE)
        with self.ledger.jobs.closing(record, Unfinished("panic")):
            pass
        return decision
