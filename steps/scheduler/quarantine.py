"""Quarantine of testbeds: entry, jobs that wait for it, and release."""

from __future__ import annotations

import time
from functools import partial

from twisted.python import log

from netbisect.bisect.model.entities import Failure, Reaction
from netbisect.bisect.model.faults import IN_A_ROW, Fault
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import Unfinished
from netbisect.reports.mail import owners
from netbisect.reports.render import words
from netbisect.steps.master.builders import recover_builder
from netbisect.steps.master.lab_step import LOOK_PROPERTY
from netbisect.steps.scheduler.buildsets import BuildsetOutcome, SchedulerPart
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import Action, JobRecord, Quarantine
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

_DAY = 86400.0


def quarantine_testbed(
    ledger: Ledger,
    settings: Settings,
    lab: Lab,
    testbed: str,
    *,
    why: str,
    by: str = "netbisect",
    fault: str = "",
    log: str = "",
) -> Quarantine:
    """Puts a testbed into quarantine, and mails its owner, or the addresses in `mail.to`, once.

    Raises FileError if the lab file has no such testbed.
    """
    place = lab.testbed(testbed)
    mail = owners.quarantine(testbed, place.description, why=why, by=by, fault=fault, log=log)
    return ledger.quarantines.start(
        testbed,
        why=why,
        by=by,
        fault=fault,
        log=log,
        mail=mail,
        recipients=(place.owner,) if place.owner else settings.mail.to,
    )


def quarantine_reason(held: Quarantine) -> str:
    """Why a job has no result during a quarantine."""
    return f"{held.testbed} has been in quarantine since {words.day(held.since)}: {held.why}"


class QuarantinePolicy(SchedulerPart):
    """Puts testbeds into quarantine, and releases those that have recovered."""

    def quarantine_after(
        self, ledger: Ledger, decision: Action, end: BuildsetOutcome, note: str
    ) -> None:
        """Quarantines a testbed after a trial that requires it, or too many bad trials in a row."""
        if decision.target not in {one.name for one in self.lab.testbeds}:
            return  # a builder, or a testbed that has left the lab file
        confined = partial(quarantine_testbed, ledger, self.settings, self.lab, decision.target)
        if end is BuildsetOutcome.LAB:
            found = [
                fact
                for fact in ledger.facts.of_action(decision.id)
                if isinstance(fact, Failure) and fact.reaction is Reaction.QUARANTINE
            ]
            if found:
                confined(why=found[-1].why, fault=found[-1].fault, log=found[-1].log)
            else:
                confined(why=note)
            return
        bad = ledger.quarantines.infrastructure_failures(decision.target)
        if len(bad) >= IN_A_ROW:
            why = f"{len(bad)} trials in a row failed because of the lab, the last: {bad[0].why}"
            confined(why=why, fault=bad[0].fault, log=bad[0].log)

    async def quarantine_unrecovered(self, testbed: str, buildset: int, ended_at: float) -> None:
        """Quarantines a testbed whose recovery failed, unless it was released since."""
        ended = await self.buildsets.outcome(buildset)
        if ended is None or ended[0] not in {BuildsetOutcome.LAB, BuildsetOutcome.FAILED}:
            return

        def work(ledger: Ledger) -> None:
            released = [one.released_at or 0.0 for one in ledger.quarantines.of_testbed(testbed)]
            if ended_at > max(released, default=0.0):
                why, fault = ended[1], Fault.NO_GOOD_KERNEL.value
                quarantine_testbed(ledger, self.settings, self.lab, testbed, why=why, fault=fault)

        await self.database.do(work)

    def result_of_waiting(self, record: JobRecord, why: str, since: float) -> Unfinished | None:
        """The result of a job whose testbed is unavailable; None while it waits.

        A nightly job ends at once, others after `patience_days`.
        """
        if isinstance(record.job, NightlyJob):
            return Unfinished(why)
        days = self.settings.patience_days
        if time.time() - max(since, record.opened_at) < days * _DAY:
            return None
        return Unfinished(f"after {days:g} days of waiting, {why}")

    async def release_recovered(self) -> None:
        """Checks the testbeds whose release was requested, and releases those that pass."""
        everyone = await self.database.do(lambda ledger: ledger.quarantines.current())
        known = {testbed.name for testbed in self.lab.testbeds}
        for held in everyone.values():
            if held.wanted_at is None or held.testbed not in known:
                continue
            name = f"nb:release:{held.id}:{held.wanted_at:.6f}"
            sent = await self.buildsets.newest(name)
            ended = sent and await self.buildsets.outcome(int(sent["bsid"]))
            if sent is None or (ended and ended[0] is BuildsetOutcome.SHUT_DOWN):
                await self.buildsets.submit(
                    name,
                    recover_builder(held.testbed),
                    f"check before the release requested by {held.wanted_by}",
                    {LOOK_PROPERTY: True},
                )
            elif ended:
                await self._record_check(held, *ended)

    async def _record_check(self, held: Quarantine, end: BuildsetOutcome, note: str) -> None:
        """Releases a testbed whose check succeeded; otherwise records why it stays."""
        if end is BuildsetOutcome.OK:
            await self.database.do(lambda ledger: ledger.quarantines.release(held.id))
            log.msg(f"{held.testbed} is released from quarantine")
        else:
            await self.database.do(lambda ledger: ledger.quarantines.refuse_release(held.id, note))
