"""WorkerMonitor in a real master, with a worker that does not connect."""

from __future__ import annotations

from typing import Any

from buildbot.plugins import worker
from real_master import RealMaster, case

from netbisect.steps.queries.documents import DocumentQueries


class WorkerMonitorTest(RealMaster):
    owner = "owner@lab.invalid"

    def set_patience(self, minutes: float) -> None:
        object.__setattr__(self.settings.workers, "patience_minutes", minutes)

    @case
    async def test_absence_and_return_of_a_needed_worker_are_mailed_once(self: Any) -> None:
        """The owner of a testbed gets the mail after `patience_minutes`; build hosts have none."""
        self.set_patience(0.0)
        missing = [worker.Worker(name, "password") for name in ("builder", "c2558")]
        self.builders = self.testbeds = ()
        await self.start(more_workers=missing)
        await self.run_pass()
        assert self.mails() == [], "no work is queued"
        self.add_night(boots=1)
        offline = ("[netbisect] builder: worker offline, work is queued", ("people@lab.invalid",))
        await self.until(lambda: self.mails() != [])
        await self.run_pass()
        assert self.mails() == [offline]
        self.set_patience(30.0)
        await self.connect_worker("builder")
        online = ("[netbisect] builder: worker back online", ("people@lab.invalid",))
        await self.until(lambda: any(one.testbed for one in self.ledger.actions.all_open()))
        await self.until(lambda: len(self.mails()) > 1)
        await self.run_pass()
        assert self.mails() == [offline, online]
        first, second = self.ledger.mails.waiting()
        assert second.in_reply_to == first.message_id

        self.set_patience(0.0)
        await self.until(lambda: len(self.mails()) > 2)
        subject = "[netbisect] c2558: worker offline, work is queued"
        assert self.mails()[2:] == [(subject, ("owner@lab.invalid",))]
        [job] = DocumentQueries.of(self.ledger, self.settings, self.lab).status().jobs
        assert job.now.endswith(": waits for the worker of c2558, which is offline")
