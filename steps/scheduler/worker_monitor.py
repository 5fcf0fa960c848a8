"""Mails a worker's owners when it goes missing while work is queued, and when it returns.

The outbox stores the mails sent, so that a restart repeats none.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import partial

from netbisect.bisect.model.mail import Mail
from netbisect.reports.mail import owners
from netbisect.steps.master.builders import bench_builder, kernel_builder, recover_builder
from netbisect.steps.policy.worker_absence import AWAY, BACK, absence_of, thread_of
from netbisect.steps.scheduler.buildsets import SchedulerPart
from netbisect.store.ledger import Ledger
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.testbed import Testbed

_MINUTE = 60.0


@dataclass
class WorkerMonitor(SchedulerPart):
    """Monitors the workers of a lab."""

    _since: dict[str, float] = field(default_factory=dict)
    """By worker: when it was first missing."""
    _present: set[str] = field(default_factory=set)
    """Connected workers whose return was mailed, if necessary."""

    async def check(self) -> None:
        """Checks all workers, and puts mails into the outbox."""
        for worker in self.lab.hosts_by_worker:
            if self.buildsets.is_connected(worker):
                self._since.pop(worker, None)
                if worker not in self._present:
                    await self.database.do(partial(self._back, worker))
                    self._present.add(worker)
                continue
            self._present.discard(worker)
            if not await self._missed(worker):
                self._since.pop(worker, None)
                continue
            seconds = time.monotonic() - self._since.setdefault(worker, time.monotonic())
            if seconds >= self.settings.workers.patience_minutes * _MINUTE:
                await self.database.do(partial(self._away, worker, seconds))
                self._since[worker] = math.inf  # no further mail before its return

    async def _missed(self, worker: str) -> bool:
        """Whether a build waits that no other worker can do."""
        for host in self.lab.hosts_by_worker[worker]:
            names = (
                [kernel_builder(host.arch)]
                if isinstance(host, Builder)
                else [bench_builder(host.name), recover_builder(host.name)]
            )
            for name in names:
                if await self.buildsets.queue_length(name) and not await self.buildsets.has_worker(
                    name
                ):
                    return True
        return False

    def _away(self, worker: str, seconds: float, ledger: Ledger) -> None:
        if absence_of(ledger, worker) is None:
            mail = owners.worker_away(worker, self._names(worker), seconds)
            self._post(ledger, worker, int(ledger.clock()), AWAY, mail)

    def _back(self, worker: str, ledger: Ledger) -> None:
        number = absence_of(ledger, worker)
        if number is not None:
            mail = owners.worker_back(worker, self._names(worker))
            self._post(ledger, worker, number, BACK, mail)

    def _names(self, worker: str) -> list[str]:
        return [host.name for host in self.lab.hosts_by_worker[worker]]

    def _post(self, ledger: Ledger, worker: str, number: int, what: str, mail: Mail) -> None:
        addresses = [
            host.owner for host in self.lab.hosts_by_worker[worker] if isinstance(host, Testbed)
        ]
        thread = thread_of(worker, number)
        ledger.mails.post(
            f"{thread}{what}",
            mail,
            tuple(dict.fromkeys(filter(None, addresses))) or self.settings.mail.to,
            thread=thread,
        )
