"""Homecoming: testbeds of which nothing is asked go back to their known-good kernel."""

from __future__ import annotations

from buildbot.process.results import CANCELLED

from netbisect.steps.builders import recover_builder
from netbisect.steps.memory import Memory
from netbisect.steps.orders import Orders
from netbisect.steps.sharing import Sharing, others_of
from netbisect.steps.ward import Ward
from netbisect.workers.lab import Lab


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
        """Orders what is missing; one order after another that somebody has cancelled."""
        last = await self._memory.do(lambda ledger: ledger.last_boots())
        busy = await self._busy()
        for testbed in self._lab.testbeds:
            boot = last.get(testbed.name)
            if boot is None or testbed.name in busy or self._home.get(testbed.name) == boot:
                continue
            external_id = f"nb:recover:{testbed.name}:{boot}"
            sent = await self._orders.called(external_id)
            cancelled = sent is not None and sent["complete"] and sent["results"] == CANCELLED
            if sent is None or (cancelled and self._sent.get(testbed.name) != boot):
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
