"""Testbeds in quarantine: who goes there, what waits meanwhile, and how they come out again."""

from __future__ import annotations

import time
from functools import partial

from twisted.python import log

from netbisect.bisect.faults import IN_A_ROW, Fault
from netbisect.bisect.model import Dud, Night, Reaction, Unfinished
from netbisect.reports import owner, words
from netbisect.steps.builders import recover_builder
from netbisect.steps.lab_step import LOOK_PROPERTY
from netbisect.steps.memory import Memory
from netbisect.steps.orders import End, Orders
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Decision, DecisionStage, Outcome, Quarantine
from netbisect.workers.lab import Lab

_DAY = 86400.0


def confine(
    ledger: Ledger,
    settings: Settings,
    lab: Lab,
    testbed: str,
    *,
    why: str,
    by: str = "netbisect",
    fault: str = "",
    said: str = "",
) -> Quarantine:
    """Puts a testbed into quarantine and tells its owner, once; those in `to` if it has none.

    Raises:
        FileError: the lab file has no such testbed.
    """
    place = lab.testbed(testbed)
    letter = owner.quarantine(owner.Confinement(testbed, place.description, why, by, fault, said))
    return ledger.quarantine(
        testbed,
        why=why,
        by=by,
        fault=fault,
        log=said,
        letter=(letter.subject, letter.text),
        recipients=(place.owner,) if place.owner else settings.mail.to,
    )


class Ward:
    """Watches over the testbeds of a lab."""

    def __init__(self, settings: Settings, lab: Lab, orders: Orders, memory: Memory) -> None:
        self._settings = settings
        self._lab = lab
        self._orders = orders
        self._memory = memory

    # --------------------------------------------------------------------------------- going in

    def after(self, ledger: Ledger, decision: Decision, end: End, note: str) -> None:
        """Puts a testbed into quarantine if the end of a visit asks for it.

        It does when the visit found that it needs its owner, and by the rule of the table when
        that was one bad visit too many in a row.
        """
        if decision.stage is DecisionStage.KERNEL:
            return
        confined = partial(confine, ledger, self._settings, self._lab, decision.target)
        if end is End.LAB:
            found = [
                fact
                for fact in ledger.facts_from(decision.id)
                if isinstance(fact, Dud) and fact.reaction is Reaction.QUARANTINE
            ]
            if found:
                confined(why=found[-1].why, fault=found[-1].fault, said=found[-1].log)
            else:
                confined(why=note)
            return
        bad = ledger.bad_visits(decision.target)
        if len(bad) >= IN_A_ROW:
            why = f"{len(bad)} visits in a row had bad infrastructure; the last one: {bad[0].why}"
            confined(why=why, fault=bad[0].fault, said=bad[0].log)

    async def not_home(self, testbed: str, buildset: int, ended_at: float) -> None:
        """Quarantine for a testbed that could not be brought home, unless released since."""
        ended = await self._orders.ended(buildset)
        if ended is None or ended[0] not in {End.LAB, End.FAILED}:
            return

        def work(ledger: Ledger) -> None:
            released = [one.released_at or 0.0 for one in ledger.quarantines(testbed)]
            if ended_at > max(released, default=0.0):
                why, fault = ended[1], Fault.NO_GOOD_KERNEL.value
                confine(ledger, self._settings, self._lab, testbed, why=why, fault=fault)

        await self._memory.do(work)

    # ---------------------------------------------------------------------------------- waiting

    async def held(self, asked: Asked) -> Quarantine | None:
        """The quarantine of the testbed that a question is about, if it is in one."""
        everyone = await self._memory.do(Ledger.quarantined)
        return everyone.get(asked.question.testbed)

    async def called_off(self, decision: Decision, why: str) -> bool:
        """Takes back a visit that has not begun; False when it is under way, or over.

        An order that the ledger does not know of yet, because of a kill, is taken back too.
        """
        if decision.stage is DecisionStage.KERNEL:
            return False
        buildset = decision.buildset
        if buildset is None:
            orphan = await self._orders.called(decision.external_id)
            buildset = None if orphan is None else int(orphan["bsid"])
        if buildset is not None and (
            await self._orders.ended(buildset) is not None  # what came of it is worth knowing
            or not await self._orders.call_off(buildset, why)
        ):
            return False
        await self._memory.do(lambda ledger: ledger.finish(decision.id, Outcome.WITHDRAWN, why))
        return True

    async def give_up(self, asked: Asked) -> None:
        """Closes what a question waits for that has its answer; what runs ends unasked.

        Before the answer is written down: a kill in between finds the same answer again.
        """
        why = "the question had its answer before"
        for decision in await self._memory.do(lambda ledger: ledger.open_decisions(asked.id)):
            if not await self.called_off(decision, why):
                over = partial(
                    Ledger.finish, decision=decision.id, outcome=Outcome.WITHDRAWN, note=why
                )
                await self._memory.do(over)

    def answer(self, asked: Asked, held: Quarantine) -> Unfinished | None:
        """What a question ends with while its testbed is in quarantine; None while it waits.

        A night is about tonight and ends at once; what follows from a suspicion waits.
        """
        where = asked.question.testbed
        since = f"{where} is in quarantine since {words.day(held.since)}: {held.why}"
        if isinstance(asked.question, Night):
            return Unfinished(since)
        days = self._settings.patience_days
        if time.time() - max(held.since, asked.opened_at) < days * _DAY:
            return None
        return Unfinished(f"after {days:g} days of waiting, {since}")

    # -------------------------------------------------------------------------------- going out

    async def release_who_is_well(self) -> None:
        """Looks at the testbeds whose release is asked for, and releases those that are well."""
        everyone = await self._memory.do(Ledger.quarantined)
        known = {testbed.name for testbed in self._lab.testbeds}
        for held in everyone.values():
            if held.wanted_at is None or held.testbed not in known:
                continue
            name = f"nb:release:{held.id}:{held.wanted_at:.6f}"
            sent = await self._orders.called(name)
            if sent is None:
                await self._orders.give(
                    name,
                    recover_builder(held.testbed),
                    f"{held.wanted_by} asks for its release: is it well?",
                    {LOOK_PROPERTY: True},
                )
                continue
            ended = await self._orders.ended(int(sent["bsid"]))
            if ended is None:
                continue
            end, note = ended
            if end is End.OK:
                await self._memory.do(partial(Ledger.release, quarantine=held.id))
                log.msg(f"{held.testbed} is released from quarantine")
            else:
                refuse = partial(Ledger.refuse_release, quarantine=held.id, why=note)
                await self._memory.do(refuse)
