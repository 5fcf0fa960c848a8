"""Returns idle testbeds to their known-good kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from buildbot.process.results import CANCELLED

from netbisect.steps.master.builders import recover_builder
from netbisect.steps.scheduler.buildsets import Buildset, BuildsetOutcome, SchedulerPart
from netbisect.steps.scheduler.decisions import MOST_TRIES
from netbisect.steps.scheduler.quarantine import QuarantinePolicy
from netbisect.steps.scheduler.testbed_groups import TestbedGroups, peers_of


@dataclass
class IdleRecovery(SchedulerPart):
    """Recovers each idle testbed once after its last boot."""

    quarantine: QuarantinePolicy
    groups: TestbedGroups
    _submitted: dict[str, str] = field(default_factory=dict)
    """By testbed: the last boot, once its recovery is submitted."""
    _recovered: dict[str, str] = field(default_factory=dict)
    """By testbed: the last boot, once its recovery has ended."""

    async def recover(self) -> None:
        """Submits missing recoveries, and repeats those cancelled or without a result."""
        last = await self.database.do(lambda ledger: ledger.facts.last_boots())
        busy = await self._busy()
        for testbed in self.lab.testbeds:
            boot = last.get(testbed.name)
            if boot is None or testbed.name in busy or self._recovered.get(testbed.name) == boot:
                continue
            external_id = f"nb:recover:{testbed.name}:{boot}"
            sent = await self.buildsets.newest(external_id)
            if sent is None or await self._needs_repetition(sent, testbed.name, boot):
                self._submitted[testbed.name] = boot
                await self.buildsets.submit(
                    external_id,
                    recover_builder(testbed.name),
                    "idle: back to its known-good kernel",
                    {},
                )
            elif sent["complete"]:
                self._recovered[testbed.name] = boot
                await self.quarantine.quarantine_unrecovered(
                    testbed.name, int(sent["bsid"]), sent["complete_at"]
                )

    async def _needs_repetition(self, sent: Buildset, testbed: str, boot: str) -> bool:
        if not sent["complete"]:
            return False
        if sent["results"] == CANCELLED:
            return self._submitted.get(testbed) != boot
        ended = await self.buildsets.outcome(int(sent["bsid"]))
        if ended is None or ended[0] is not BuildsetOutcome.FAILED:
            return False
        tries = await self.buildsets.matching(sent["external_idstring"])
        return sum(one["results"] != CANCELLED for one in tries) < MOST_TRIES

    async def _busy(self) -> set[str]:
        """Testbeds with open jobs, their available peers, and testbeds in quarantine."""
        records, quarantined = await self.database.do(
            lambda ledger: (ledger.jobs.all_open(), ledger.quarantines.current())
        )
        busy = {record.job.testbed for record in records} | quarantined.keys()
        for record in records:
            if peers_of(record):
                busy.update((await self.groups.availability(record)).open)
        return busy
