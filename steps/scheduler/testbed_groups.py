"""Testbed groups: the testbeds available to a job, and trials in flight on its peers.

A search may use the peers of its testbed while they have no jobs of their own, one trial after
the other. Trials that have not begun are withdrawn when the peer gets a job. A peer whose trials
fail is left out; its failure does not end the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netbisect.bisect.model import serialization
from netbisect.bisect.model.evidence import Prices, split_kernel_name
from netbisect.bisect.model.in_flight import InFlight
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Trial
from netbisect.reports.render import words
from netbisect.steps.master.builders import bench_builder, kernel_builder
from netbisect.steps.scheduler.buildsets import SchedulerPart
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import Action, ActionStage, JobRecord, Quarantine
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

PRIORITY_PEER = 10
"""Priority of a trial on a peer: below all jobs of the peer itself."""
MOST_FRUITLESS = 2
"""Trials in a row without a sample after which a search leaves a peer out."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Testbeds available to a job now."""

    open: tuple[str, ...]
    """Available testbeds, that of the job first."""
    shut: Mapping[str, str] = field(default_factory=dict)
    """Reasons by unavailable testbed."""
    held: Quarantine | None = None
    """Quarantine of the testbed of the job."""


def peers_of(record: JobRecord) -> tuple[str, ...]:
    """The peers that a job may use."""
    job = record.job
    return job.testbeds[1:] if isinstance(job, BisectJob) else ()


def unavailable_peers(
    ledger: Ledger, settings: Settings, lab: Lab, record: JobRecord
) -> dict[str, str]:
    """Reasons by peer that a job must not use now."""
    others = peers_of(record)
    if not others:
        return {}
    own = record.job.testbed
    own_testbed = next((one for one in lab.testbeds if one.name == own), None)
    peers = lab.peers(own_testbed) if own_testbed and settings.search.use_groups else ()
    quarantined = ledger.quarantines.current()
    wanted = {one.job.testbed: one for one in ledger.jobs.all_open()}
    tried = {
        one.target
        for one in ledger.actions.all_open()
        if one.stage is not ActionStage.KERNEL and one.job != record.id
    }
    shut = {}
    for name in others:
        if name not in {one.name for one in peers}:
            shut[name] = f"{name} is no longer in a group with {own}"
        elif name in quarantined:
            shut[name] = f"{name} is in quarantine: {quarantined[name].why}"
        elif name in wanted:
            what = serialization.tag_of(wanted[name].job)
            shut[name] = f"{name} has a {what} of its own"
        elif name in tried:
            shut[name] = f"{name} measures for another job"
        elif ledger.quarantines.failed_trials(record.id, name) >= MOST_FRUITLESS:
            often = words.count(MOST_FRUITLESS, "trial")
            shut[name] = f"the last {often} on {name} failed"
    return shut


class TestbedGroups(SchedulerPart):
    """Finds the testbeds that are available; stateless."""

    async def availability(self, record: JobRecord) -> Availability:
        own = record.job.testbed
        held, shut = await self.database.do(
            lambda ledger: (
                ledger.quarantines.current().get(own),
                unavailable_peers(ledger, self.settings, self.lab, record),
            )
        )
        for name in peers_of(record):
            if name not in shut and not await self.buildsets.has_worker(bench_builder(name)):
                shut[name] = f"the worker of {name} is not connected"
        if held is not None:
            shut[own] = f"{own} is in quarantine: {held.why}"
        free = [name for name in (own, *peers_of(record)) if name not in shut]
        return Availability(tuple(free), shut, held)

    async def idle_builders(self, record: JobRecord) -> int:
        """Number of kernels that may be built while other decisions are open.

        0 with a single builder: an open decision may need it next.
        """
        arch = self.lab.testbed(record.job.testbed).arch
        builders = sum(builder.arch == arch for builder in self.lab.builders)
        if builders == 1 or not peers_of(record):
            return 0
        return max(0, builders - await self.buildsets.queue_length(kernel_builder(arch)))

    @staticmethod
    def in_flight(
        ledger: Ledger,
        record: JobRecord,
        testbed: str,
        *,
        building: Mapping[str, float],
        builders: int,
        prices: Prices,
    ) -> InFlight:
        """Builds and trials in flight for a job, for the move of an idle testbed.

        `building` has the seconds until prefetched kernels are built, by revision; `builders` is
        the number of idle builders.
        """
        under_way = ledger.actions.all_open(record.id)
        kernels = [one for one in under_way if one.stage is ActionStage.KERNEL]
        now = ledger.clock()
        left = {}
        for one in kernels:
            seconds = prices.of_kernel(split_kernel_name(one.revision)[1])
            left[one.revision] = max(0.0, one.intended_at + seconds - now)
        not_given = sum(one.buildset is None for one in kernels)
        return InFlight(
            building={**building, **left},
            may_build=not under_way or builders > not_given,
            testbed=testbed,
            under_way=tuple(map(_trial, under_way)),
        )


def _trial(decision: Action) -> Trial:
    revision, layout = split_kernel_name(decision.revision)
    return Trial(revision, decision.why, None, decision.runs, decision.testbed, layout)
