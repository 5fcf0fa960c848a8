"""WorkerMonitor in a real master, with a worker that does not connect."""

from __future__ import annotations

from typing import Any

from buildbot.plugins import worker
from real_master import RealMaster, case
from twisted.internet import reactor, task


class WorkerMonitorTest(RealMaster):
    owner = "owner@lab.invalid"

    async def without(self, missing: str, patience: float) -> None:
        object.__setattr__(self.settings.workers, "patience_minutes", patience)
        self.builders = tuple(one for one in self.builders if one != missing)
        self.testbeds = tuple(one for one in self.testbeds if one != missing)
        await self.start(more_workers=[worker.Worker(missing, "password")])

    async def connect_worker(self, name: str) -> None:
        config = self.master.config_loader.config_dict
        others = [one for one in config["workers"] if one.workername != name]
        there = worker.LocalWorker(name, max_builds=1, missing_timeout=0)
        config["workers"] = [*others, there]
        await self.master.doReconfig()

    @case
    async def test_absence_and_return_of_a_needed_worker_are_mailed_once(self: Any) -> None:
        """A build host has no owner: the mails go to the addresses of the settings."""
        await self.without("builder", patience=0.0)
        await task.deferLater(reactor, 2 * self.settings.tick)
        assert self.mails() == [], "no work is queued"
        record = self.add_night(boots=1)
        away = ("[netbisect] builder: worker offline, work is queued",)
        await self.until(lambda: self.mails() != [])
        await task.deferLater(reactor, 2 * self.settings.tick)
        assert self.mails() == [(*away, ("people@lab.invalid",))]
        await self.connect_worker("builder")
        await self.closed(record)
        back = ("[netbisect] builder: worker back online",)
        await self.until(lambda: len(self.mails()) > 1)
        assert self.mails() == [(*one, ("people@lab.invalid",)) for one in (away, back)]
        first, second = self.ledger.mails.waiting()
        assert second.in_reply_to == first.message_id

    @case
    async def test_the_owner_of_a_testbed_gets_the_mail_after_the_patience(self: Any) -> None:
        await self.without("c2558", patience=30.0)
        self.add_night()
        await self.until(lambda: any(one.testbed for one in self.ledger.actions.all_open()))
        await task.deferLater(reactor, 2 * self.settings.tick)
        assert self.mails() == []
        object.__setattr__(self.settings.workers, "patience_minutes", 0.0)
        await self.until(lambda: self.mails() != [])
        subject = "[netbisect] c2558: worker offline, work is queued"
        assert self.mails() == [(subject, ("owner@lab.invalid",))]
