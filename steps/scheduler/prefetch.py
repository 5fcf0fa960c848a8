"""Prefetch: builds the likely next kernels of a search while it waits or measures.

All builders of an architecture but one may prefetch. The external id of the buildset is
`nb:ahead:<job>:<arch>:<config>:<revision>:<attempt>`; nothing else is stored. A decision that needs
the kernel before it is ready adopts the buildset.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from buildbot.process.results import CANCELLED

from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.steps.master.builders import kernel_builder
from netbisect.steps.master.lab_step import DECISION_PROPERTY
from netbisect.steps.policy.kernels import Kernels
from netbisect.steps.scheduler.buildsets import Buildset, BuildsetOutcome, SchedulerPart
from netbisect.steps.service.numeric import plan
from netbisect.store.db.records import Action, ActionStage, JobRecord
from netbisect.store.ledger import Ledger
from netbisect.workers.config.testbed import Testbed

_NAME = "nb:ahead:"


@dataclass(frozen=True, slots=True)
class _Prefetch:
    """A prefetched kernel."""

    buildset: Buildset
    arch: str
    config: str
    """With overlays."""
    revision: str

    @property
    def number(self) -> int:
        return int(self.buildset["bsid"])


def _fits(arch: str, config: str, testbed: Testbed) -> bool:
    """Whether a kernel, with any overlays, is one for this testbed."""
    return arch == testbed.arch and config.partition(OVERLAY_MARK)[0] in testbed.kernel_configs


@dataclass
class Prefetcher(SchedulerPart):
    """Submits prefetches, and finds them again."""

    kernels: Kernels
    _idle_states: dict[int, tuple[object, ...]] = field(default_factory=dict)
    """By job: the state in which no prefetch was worthwhile; planning is slow."""

    async def pending(self, record: JobRecord) -> dict[str, float]:
        """By revision: start of the prefetches that a search can use, seconds since the epoch."""
        if not isinstance(record.job, BisectJob):
            return {}
        testbed = self.lab.testbed(record.job.testbed)
        return {
            one.revision: float(one.buildset["submitted_at"])
            for one in await self._prefetches(_NAME, unfinished=True)
            if _fits(one.arch, one.config, testbed)
        }

    async def adopt(self, record: JobRecord, decision: Action) -> int | None:
        """The prefetch of the kernel of a decision, or None.

        A prefetch that ended before the decision does not count: its kernel is known or removed.
        """
        if decision.stage is not ActionStage.KERNEL or decision.attempt > 1:
            return None
        for one in await self._prefetches(f":{decision.revision}:"):
            if (one.arch, one.config) != (decision.arch, decision.config):
                continue
            if not one.buildset["complete"]:
                await self.buildsets.set_priority(one.number, record.priority)
                return one.number
            if one.buildset["complete_at"] >= int(decision.intended_at):
                return one.number
        return None

    async def prefetch(self, record: JobRecord, decision: Action) -> None:
        """Submits the likely next kernels of a search, as far as builders are idle.

        A failed prefetch is repeated only after a stop of the master.
        """
        job = record.job
        testbed = self.lab.testbed(job.testbed)
        builders = sum(builder.arch == testbed.arch for builder in self.lab.builders)
        if not isinstance(job, BisectJob) or builders == 1:
            return
        pending = await self.database.do(lambda ledger: ledger.actions.all_open())
        ahead = await self._prefetches(f":{testbed.arch}:", unfinished=True)
        room = await self._room(testbed.arch, builders, pending, ahead)
        if room <= 0:
            return
        attempts, building = await self._tried(record)
        building |= {one.revision for one in ahead if _fits(one.arch, one.config, testbed)} | {
            one.revision
            for one in pending
            if one.stage is ActionStage.KERNEL and _fits(one.arch, one.config, testbed)
        }
        waits_for = frozenset(one.id for one in pending if one.job == record.id)
        now = (waits_for, room, frozenset(building))
        if self._idle_states.get(record.id) == now:
            return

        def wanted(ledger: Ledger) -> dict[str, str]:
            evidence = self.kernels.evidence(ledger, record)
            prices = ledger.costs.prices(testbed.name)
            found = plan.revisions_to_prefetch(job, evidence, prices, room, sorted(building))
            return {name: self.kernels.config_of(testbed, job.branch, name) for name in found}

        configs = await self.database.do(wanted)
        for revision, config in configs.items():
            kind = f"{testbed.arch}:{config}"
            name = f"{_NAME}{record.id}:{kind}:{revision}:{attempts[revision] + 1}"
            await self.buildsets.submit(
                name,
                kernel_builder(decision.arch),
                "prefetch: the search is likely to need it next",
                {DECISION_PROPERTY: decision.id, "job": record.id, "kernel_config": config},
                branch=job.branch,
                revision=revision,
            )
        if not configs:
            open_jobs = {one.job for one in pending}
            self._idle_states = {
                one: state for one, state in self._idle_states.items() if one in open_jobs
            }
            self._idle_states[record.id] = now

    async def _room(
        self, arch: str, builders: int, pending: list[Action], ahead: list[_Prefetch]
    ) -> int:
        """Number of kernels that may be prefetched now."""
        adopted = {decision.buildset for decision in pending}
        unasked = sum(one.number not in adopted for one in ahead)
        busy = await self.buildsets.queue_length(kernel_builder(arch))
        return min(builders - busy, builders - 1 - unasked)

    async def _tried(self, record: JobRecord) -> tuple[Counter[str], set[str]]:
        """Attempts by revision for a job, and the revisions not to be repeated."""
        ordered = await self._prefetches(f"{_NAME}{record.id}:")
        attempts = Counter(one.revision for one in ordered)
        stay = set()
        for revision, last in {one.revision: one for one in ordered}.items():
            if last.buildset["results"] == CANCELLED:
                ended = await self.buildsets.outcome(last.number)
                if ended is not None and ended[0] is BuildsetOutcome.SHUT_DOWN:
                    continue
            stay.add(revision)
        return attempts, stay

    async def _prefetches(self, part: str, *, unfinished: bool = False) -> list[_Prefetch]:
        """The prefetches whose external id contains `part`, oldest first."""
        found = []
        for buildset in await self.buildsets.matching(part, unfinished=unfinished):
            name = buildset["external_idstring"]
            if name.startswith(_NAME):
                _, arch, config, revision, _ = name.removeprefix(_NAME).split(":")
                found.append(_Prefetch(buildset, arch, config, revision))
        return found
