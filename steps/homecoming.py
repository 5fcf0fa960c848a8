"""Homecoming: testbeds of which nothing is asked go back to their known-good kernel."""

from __future__ import annotations

from buildbot.process.results import CANCELLED

from netbisect.bisect.faults import RULES, Fault
from netbisect.steps.builders import recover_builder
from netbisect.steps.memory import Memory
from netbisect.steps.orders import Buildset, End, Orders
from netbisect.steps.sharing import Sharing, others_of
from netbisect.steps.ward import Ward
from netbisect.workers.lab import Lab

_MOST_TRIES = RULES[Fault.NO_ANSWER].tries


class Homecoming:
    """Sends testbeds home, once after each last boot."""

    def __init__(
        self, lab: Lab, orders: Orders, memory: Memory, ward: Ward, sharing: Sharing
    ) -> None:
        self._lab = lab
        self._orders = orders
        self._memory = memory
        self._ward = ward
        self._sharing = sharing
        self._sent: dict[str, str] = {}
        """By testbed: the last boot after which it was ordered."""
        self._home: dict[str, str] = {}
        """By testbed: the last boot after which that has ended."""

    async def send(self) -> None:
        """Orders what is missing, and again what was cancelled or has come to no answer."""
        last = await self._memory.do(lambda ledger: ledger.last_boots())
        busy = await self._busy()
        for testbed in self._lab.testbeds:
            boot = last.get(testbed.name)
            if boot is None or testbed.name in busy or self._home.get(testbed.name) == boot:
                continue
            external_id = f"nb:recover:{testbed.name}:{boot}"
            sent = await self._orders.called(external_id)
            if sent is None or await self._to_be_sent_again(sent, testbed.name, boot):
                self._sent[testbed.name] = boot
                await self._orders.give(
                    external_id,
                    recover_builder(testbed.name),
                    "nothing is asked of it: back to its known-good kernel",
                    {},
                )
            elif sent["complete"]:
                self._home[testbed.name] = boot
                await self._ward.not_home(testbed.name, int(sent["bsid"]), sent["complete_at"])

    async def _to_be_sent_again(self, sent: Buildset, testbed: str, boot: str) -> bool:
        if not sent["complete"]:
            return False
        if sent["results"] == CANCELLED:
            return self._sent.get(testbed) != boot
        ended = await self._orders.ended(int(sent["bsid"]))
        if ended is None or ended[0] is not End.FAILED:
            return False
        orders = await self._orders.containing(sent["external_idstring"])
        return sum(one["results"] != CANCELLED for one in orders) < _MOST_TRIES

    async def _busy(self) -> set[str]:
        """Testbeds of which something is asked, those that help with it, and the quarantined."""
        asked_of, quarantined = await self._memory.do(
            lambda ledger: (ledger.open_questions(), ledger.quarantined())
        )
        busy = {asked.question.testbed for asked in asked_of} | quarantined.keys()
        for asked in asked_of:
            if others_of(asked):
                busy.update((await self._sharing.places(asked)).open)
        return busy
