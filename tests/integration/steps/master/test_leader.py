"""Several masters of one service: the one with Buildbot's claim on the scheduler acts."""

from __future__ import annotations

from typing import Any

from real_master import RealMaster, case

from netbisect.steps.master.mailer import Mailer
from netbisect.steps.scheduler.scheduler import SCHEDULER_NAME


class Claims(RealMaster):
    """A master that loses its claim while it is paused."""

    @case
    async def test_a_master_without_the_claim_does_nothing_until_it_is_free(self: Any) -> None:
        await self.start(services=[Mailer(settings=self.settings, scheduler=SCHEDULER_NAME)])
        scheduler = self.master.scheduler_manager.namedServices[SCHEDULER_NAME]
        schedulers = self.master.db.schedulers
        assert await scheduler.is_leader()
        other = await self.master.db.masters.findMasterId("other")
        await schedulers.setSchedulerMaster(scheduler.serviceid, None)
        await schedulers.setSchedulerMaster(scheduler.serviceid, other)
        self.ask()
        self.ledger.mails.post(
            "one", subject="a drop", recipients=["people@lab.invalid"], body="drop"
        )
        await scheduler.advance()
        await self.master.service_manager.namedServices[Mailer.name].look()
        assert not await scheduler.is_leader()
        assert self.ledger.actions.all_open() == []
        [mail] = self.ledger.mails.waiting()
        assert mail.attempts == 0

        await schedulers.setSchedulerMaster(scheduler.serviceid, None)
        await scheduler.advance()
        assert await scheduler.is_leader()
        assert self.ledger.actions.all_open() != []
