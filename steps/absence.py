"""Tells who owns the machines of a worker that it stays away while it is needed, and of its return.

What was told is in the outbox, so that nobody is told twice, whatever is stopped and started.
"""

from __future__ import annotations

import math
import time
from functools import partial

from netbisect.reports import owner
from netbisect.reports.mail import Letter
from netbisect.steps.builders import bench_builder, kernel_builder, recover_builder
from netbisect.steps.memory import Memory
from netbisect.steps.orders import Orders
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Builder, Lab, Testbed

_MINUTE = 60.0
_AWAY, _BACK = "away", "back"


class Absence:
    """Watches over the workers of a lab."""

    def __init__(self, settings: Settings, lab: Lab, orders: Orders, memory: Memory) -> None:
        self._settings = settings
        self._orders = orders
        self._memory = memory
        self._hosts = lab.by_worker
        self._since: dict[str, float] = {}
        """By worker: when it was first seen to be missed."""
        self._present: set[str] = set()
        """Workers that are there, and of which nothing is left to tell."""

    async def tell(self) -> None:
        """Looks at all workers; what there is to tell is in the outbox then."""
        for worker in self._hosts:
            if self._orders.is_there(worker):
                self._since.pop(worker, None)
                if worker not in self._present:
                    await self._memory.do(partial(self._back, worker))
                    self._present.add(worker)
                continue
            self._present.discard(worker)
            if not await self._missed(worker):
                self._since.pop(worker, None)
                continue
            seconds = time.monotonic() - self._since.setdefault(worker, time.monotonic())
            if seconds >= self._settings.workers.patience_minutes * _MINUTE:
                await self._memory.do(partial(self._away, worker, seconds))
                self._since[worker] = math.inf  # nothing more to tell before it is back

    async def _missed(self, worker: str) -> bool:
        """Whether something waits that no other worker does."""
        for host in self._hosts[worker]:
            names = (
                [kernel_builder(host.arch)]
                if isinstance(host, Builder)
                else [bench_builder(host.name), recover_builder(host.name)]
            )
            for name in names:
                if await self._orders.waiting_at(name) and not await self._orders.attended(name):
                    return True
        return False

    def _away(self, worker: str, seconds: float, ledger: Ledger) -> None:
        last = ledger.last_mail(f"worker:{worker}:")
        if last is None or not last.key.endswith(f":{_AWAY}"):
            number = int(ledger.clock())
            letter = owner.worker_away(worker, self._names(worker), seconds)
            self._post(ledger, worker, number, _AWAY, letter)

    def _back(self, worker: str, ledger: Ledger) -> None:
        last = ledger.last_mail(f"worker:{worker}:")
        if last is not None and last.key.endswith(f":{_AWAY}"):
            number = int(last.key.split(":")[-2])
            letter = owner.worker_back(worker, self._names(worker))
            self._post(ledger, worker, number, _BACK, letter)

    def _names(self, worker: str) -> list[str]:
        return [host.name for host in self._hosts[worker]]

    def _post(self, ledger: Ledger, worker: str, number: int, what: str, letter: Letter) -> None:
        owners = [host.owner for host in self._hosts[worker] if isinstance(host, Testbed)]
        ledger.post(
            f"worker:{worker}:{number}:{what}",
            subject=letter.subject,
            recipients=tuple(dict.fromkeys(filter(None, owners))) or self._settings.mail.to,
            body=letter.text,
            thread=f"worker:{worker}:{number}:",
        )
