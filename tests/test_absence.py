"""Workers that stay away while they are needed."""

from __future__ import annotations

from typing import Any

from buildbot.plugins import worker
from real_master import RealMaster, case
from twisted.internet import reactor, task

from netbisect.reports.owner import worker_away, worker_back


def test_the_mails_say_what_waits_and_what_to_do() -> None:
    away = worker_away("lab\x07", ["c2558", "e5-2650"], 2000.0)
    assert away.subject == "[netbisect] lab: this worker is away, and it is needed"
    assert "work has waited for it for 33 min" in " ".join(away.text.split())
    assert "c2558, e5-2650" in away.text
    assert "buildbot-worker start" in away.text
    back = worker_back("lab", ["c2558"])
    assert back.subject == "[netbisect] lab: this worker is back"
    assert "\x07" not in away.subject + away.text


class Workers(RealMaster):
    """The testbed's worker is there; that of the builder is known, and does not connect."""

    owner = "owner@lab.invalid"

    async def without(self, missing: str, patience: float) -> None:
        object.__setattr__(self.settings.workers, "patience_minutes", patience)
        self.builders = tuple(one for one in self.builders if one != missing)
        self.testbeds = tuple(one for one in self.testbeds if one != missing)
        await self.start(more_workers=[worker.Worker(missing, "password")])

    async def comes(self, name: str) -> None:
        config = self.master.config_loader.config_dict
        others = [one for one in config["workers"] if one.workername != name]
        there = worker.LocalWorker(name, max_builds=1, missing_timeout=0)
        config["workers"] = [*others, there]
        await self.master.doReconfig()

    def mails(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(mail.subject, mail.recipients) for mail in self.ledger.waiting_mails()]

    @case
    async def test_its_owner_is_told_once_and_when_it_is_back(self: Any) -> None:
        """The builder has none: those that netbisect tells; and the night is measured after all."""
        await self.without("builder", patience=0.0)
        asked = self.ask()
        away = ("[netbisect] builder: this worker is away, and it is needed",)
        await self.until(lambda: self.mails() != [])
        await task.deferLater(reactor, 1.0)
        assert self.mails() == [(*away, ("people@lab.invalid",))]
        await self.comes("builder")
        await self.closed(asked)
        back = ("[netbisect] builder: this worker is back",)
        await self.until(lambda: len(self.mails()) > 1)
        assert self.mails() == [(*one, ("people@lab.invalid",)) for one in (away, back)]
        first, second = self.ledger.waiting_mails()
        assert second.in_reply_to == first.message_id

    @case
    async def test_a_testbeds_owner_is_told(self: Any) -> None:
        await self.without("c2558", patience=0.0)
        self.ask()
        await self.until(lambda: self.mails() != [])
        subject = "[netbisect] c2558: this worker is away, and it is needed"
        assert self.mails() == [(subject, ("owner@lab.invalid",))]

    @case
    async def test_nobody_is_told_of_a_worker_that_nobody_needs_or_not_for_long(self: Any) -> None:
        await self.without("builder", patience=0.0)
        await task.deferLater(reactor, 1.0)
        assert self.mails() == []
        object.__setattr__(self.settings.workers, "patience_minutes", 30.0)
        self.ask()
        await self.until(lambda: self.ledger.open_decisions() != [])
        await task.deferLater(reactor, 1.0)
        assert self.mails() == []
