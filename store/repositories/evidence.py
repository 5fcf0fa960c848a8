"""Evidence about jobs, computed from the facts at every call."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Kernel, Reaction
from netbisect.bisect.model.evidence import Evidence, Observation, split_kernel_name
from netbisect.bisect.model.jobs import BisectJob, CompareJob, MeasureJob, NightlyJob, ProfileJob
from netbisect.bisect.model.marks import CommitMark
from netbisect.bisect.model.metric import metric_of
from netbisect.store.db.records import Action, ActionStage, JobRecord, MarkRow, Outcome, RequestJob
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, FailureRow, KernelRow, SampleRow, one_of, record_of
from netbisect.store.repositories.skipped_revisions import (
    BuildVariants,
    Scope,
    ordered_at,
    ordered_by_the_end,
    skipped,
)

_AHEAD = 3600.0
"""Tolerated lead of the clock of a worker over that of the master, seconds."""


def scope_of(record: JobRecord) -> Scope:
    """Scope of a job."""
    job = record.job
    match job:
        case NightlyJob():
            revisions: tuple[str, ...] = (job.revision,)
        case CompareJob():
            revisions = (job.good, job.bad)
        case BisectJob():
            revisions = (job.good, *(candidate.revision for candidate in job.candidates))
        case ProfileJob() | MeasureJob():
            revisions = job.revisions
        case _:
            assert_never(job)
    deciding = (job.lead,) if isinstance(job, CompareJob | BisectJob) else job.scenarios
    return Scope(
        job=record.id,
        testbeds=job.testbeds if isinstance(job, BisectJob) else (job.testbed,),
        revisions=revisions,
        scenarios=tuple({*job.scenarios, *deciding}),
        deciding=deciding,
        only_fresh=isinstance(job, NightlyJob),
        shared_since=job.shared_since if isinstance(job, MeasureJob) else None,
        until=record.closed_at or math.inf,
    )


class EvidenceRepository(LedgerRepository):
    """Gathers evidence."""

    def gather(
        self,
        record: JobRecord,
        *,
        config: str,
        arch: str,
        variants: Mapping[str, str] = MappingProxyType({}),
    ) -> Evidence:
        """All facts relevant for a job, which need not be in the ledger.

        Only valid samples under the newest conditions of their testbed and scenario become
        observations, in the order of their boots; a boot before a change of conditions of a
        deciding scenario does not. A nightly job sees its own boots; compare and bisect jobs see
        every boot of their revisions on their testbeds, and `fresh` marks their own. Only searches
        with layouts see kernels with other layouts. Boots, builds and failures ordered after the
        end of a job do not count for it, nor do later conditions.

        The kernels are those of `config` and `arch`, or of another configuration in `variants`, by
        revision.
        """
        builds = BuildVariants(config, arch, variants)
        scope = scope_of(record)
        with self.reading() as session:
            if isinstance(record.job, BisectJob) and record.job.layouts:
                scope = _with_layouts(session, scope)
            return Evidence(
                observations=_observations(session, scope),
                kernels=_kernels(session, scope.revisions, builds),
                skipped=skipped(session, scope, builds),
                profiled=_profiled(session, scope.job),
            ).with_marks(marks_of(session, scope.job))

    def kernel(self, name: str, *, config: str, arch: str) -> Kernel | None:
        """The newest kernel with this `kernel_name`, or None; cheaper than all evidence."""
        with self.reading() as session:
            return _kernels(session, (name,), BuildVariants(config, arch)).get(name)

    def failures(self, revision: str) -> list[str]:
        """Why kernels of a revision could not be measured, the latest reason first."""
        found = FailureRow.revision == revision, FailureRow.reaction == Reaction.SKIP
        query = select(FailureRow.why).where(*found).order_by(FailureRow.at.desc())
        with self.reading() as session:
            return list(session.scalars(query))


def marks_of(session: Session, search: int) -> list[CommitMark]:
    """The marks of a search, oldest first."""
    rows = select(MarkRow).where(MarkRow.job == search).order_by(MarkRow.id)
    return [record_of(CommitMark, row) for row in session.scalars(rows)]


def _with_layouts(session: Session, scope: Scope) -> Scope:
    """Adds the other layouts of its revisions."""
    names = session.scalars(
        select(KernelRow.revision)
        .where(KernelRow.revision.contains("#"))
        .union(
            select(Action.revision).where(Action.job == scope.job, Action.revision.contains("#"))
        )
    )
    own = set(scope.revisions)
    further = sorted(name for name in names if split_kernel_name(name)[0] in own)
    return replace(scope, revisions=(*scope.revisions, *further))


def _profiled(session: Session, job: int) -> dict[str, str]:
    """By profiled revision: "", or why there is no profile."""
    query = select(Action.revision, Action.outcome, Action.note).where(
        Action.job == job,
        Action.stage == ActionStage.PROFILE,
        Action.outcome.in_([Outcome.OK, Outcome.UNMEASURABLE]),
    )
    return {
        revision: note if outcome == Outcome.UNMEASURABLE else ""
        for revision, outcome, note in session.execute(query.order_by(Action.id))
    }


def image_of_boot() -> ColumnElement[str]:
    """Column beside those of BootRow: identity of the kernel, equal for rebuilds.

    The key of a kernel that is not in the ledger stands for its identity. A subquery per boot is
    faster than a join with all kernels.
    """
    built = (
        select(func.max(KernelRow.identity))
        .where(KernelRow.key == BootRow.kernel, KernelRow.revision == BootRow.revision)
        .correlate(BootRow)
        .scalar_subquery()
    )
    return func.coalesce(built, BootRow.kernel)


def newest_conditions(
    session: Session, testbed: str, scenario: str, until: float = math.inf
) -> str | None:
    """Digest of the conditions of the newest valid sample until then, or None.

    Samples ordered later, or dated in the future, are used only if there are no others.
    """
    newest = (
        select(SampleRow.conditions)
        .where(SampleRow.testbed == testbed, SampleRow.scenario == scenario, SampleRow.valid)
        .order_by(SampleRow.at.desc(), SampleRow.id)
        .limit(1)
    )
    if until < math.inf:
        with_actions = newest.outerjoin(Action, SampleRow.decision_id == Action.id)
        by_then = with_actions.where(ordered_at(SampleRow.at) <= until)
    else:
        by_then = newest.where(SampleRow.at < time.time() + _AHEAD)
    found = session.scalar(by_then)
    return session.scalar(newest) if found is None else found


def comparable(
    session: Session, testbed: str, scenarios: Iterable[str], until: float = math.inf
) -> ColumnElement[bool]:
    """The condition on samples: valid, and under the newest conditions until then."""
    parts = []
    for scenario in scenarios:
        of_scenario = and_(
            SampleRow.testbed == testbed, SampleRow.scenario == scenario, SampleRow.valid
        )
        newest = newest_conditions(session, testbed, scenario, until)
        if newest is not None:
            parts.append(and_(of_scenario, SampleRow.conditions == newest))
    return or_(False, *parts)


def _observations(session: Session, scope: Scope) -> tuple[Observation, ...]:
    newest = (comparable(session, name, scope.scenarios, scope.until) for name in scope.testbeds)
    query = (
        select(
            BootRow.id,
            BootRow.revision,
            BootRow.testbed,
            image_of_boot(),
            Action.job,
            Action.why,
            SampleRow.scenario,
            SampleRow.pps,
            or_(*newest),
        )
        .join(SampleRow, SampleRow.boot == BootRow.id)
        .outerjoin(Action, BootRow.decision_id == Action.id)
        .where(
            BootRow.testbed.in_(scope.testbeds),
            one_of(BootRow.revision, scope.revisions),
            SampleRow.scenario.in_(scope.scenarios),
            SampleRow.valid,
        )
        .order_by(BootRow.at, BootRow.id, SampleRow.at)
    )
    if scope.only_fresh:
        query = query.where(Action.job == scope.job)
    else:
        query = query.where(*ordered_by_the_end(scope, BootRow.at))
    if scope.shared_since is not None:
        query = query.where(_counted(scope.job, scope.shared_since))
    # All runs of a boot are one observation.
    rates: dict[tuple[str, str, str, str, str], defaultdict[str, list[float]]] = {}
    fresh: set[str] = set()
    outdated: set[str] = set()
    for boot, revision, testbed, image, job, why, scenario, pps, counts in session.execute(query):
        if not counts:
            if scenario in scope.deciding:
                outdated.add(boot)
            continue
        of_boot = (boot, revision, testbed, image, why or "")
        if job == scope.job:
            fresh.add(boot)
        rates.setdefault(of_boot, defaultdict(list))[scenario].append(
            metric_of(scenario).level(pps)
        )
    return tuple(
        Observation(
            boot=boot,
            revision=split_kernel_name(revision)[0],
            layout=split_kernel_name(revision)[1],
            identity=image,
            ln_pps={scenario: statistics.fmean(runs) for scenario, runs in found.items()},
            fresh=boot in fresh,
            runs=min((len(found[one]) for one in scope.deciding if one in found), default=1),
            testbed=testbed,
            order=why if boot in fresh else "",
        )
        for (boot, revision, testbed, image, why), found in rates.items()
        if boot not in outdated
    )


def _counted(job: int, since: float) -> ColumnElement[bool]:
    """The condition on boots that they count for a measurement: its own, and those it may share.

    Boots of searches and nights were often chosen by their earlier results, and do not count. Runs
    of one request share nothing: they are independent.
    """
    own = Action.job == job
    if math.isinf(since):
        return own
    request = select(RequestJob.request).where(RequestJob.job == job)
    siblings = select(RequestJob.job).where(RequestJob.request.in_(request))
    others = select(JobRecord.id).where(
        JobRecord.kind == "measurement", JobRecord.id.not_in(siblings)
    )
    return or_(own, and_(Action.job.in_(others), Action.intended_at >= since))


def _kernels(
    session: Session, revisions: tuple[str, ...], builds: BuildVariants
) -> dict[str, Kernel]:
    """By `kernel_name`, the newest of these builds."""
    query = (
        select(KernelRow)
        .where(
            builds.among(revisions, KernelRow.revision, KernelRow.config),
            KernelRow.arch == builds.arch,
        )
        .order_by(KernelRow.id)  # not by the clocks of builders
    )
    return {
        row.revision: record_of(Kernel, row, revision=split_kernel_name(row.revision)[0])
        for row in session.scalars(query)
    }
