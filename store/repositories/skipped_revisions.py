"""Revisions that cannot be measured: failures that no later success contradicts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from netbisect.bisect.model.entities import Reaction, Stage
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.metric import scenario_of
from netbisect.store.db.records import Action
from netbisect.store.db.tables import BootRow, FailureRow, KernelRow, SampleRow, one_of


@dataclass(frozen=True, slots=True)
class Scope:
    """Selects the evidence of a job."""

    job: int
    testbeds: tuple[str, ...]
    """The testbed of the job first, then its helpers."""
    revisions: tuple[str, ...]
    scenarios: tuple[str, ...]
    deciding: tuple[str, ...]
    """Scenarios without which a boot is no evidence."""
    only_fresh: bool
    """Whether to ignore boots for other jobs."""
    shared_since: float | None = None
    """MeasureJob: time from which boots for other requests count."""
    until: float = math.inf
    """End of the job, seconds since the epoch: what was ordered later does not count."""


@dataclass(frozen=True, slots=True)
class BuildVariants:
    """Kernels of a testbed."""

    config: str
    arch: str
    variants: Mapping[str, str] = field(default_factory=dict)
    """Exceptions: configurations by revision."""

    def of(self, revision: str) -> str:
        """The configuration of a revision."""
        return self.variants.get(split_kernel_name(revision)[0], self.config)

    def among(
        self,
        revisions: Collection[str],
        revision: InstrumentedAttribute[str],
        config: InstrumentedAttribute[str],
    ) -> ColumnElement[bool]:
        """The condition that a row is about one of these kernels, for two columns."""
        by_config = sorted((self.of(one), one) for one in revisions)
        return or_(
            False,
            *(
                and_(config == name, one_of(revision, [one for _, one in group]))
                for name, group in groupby(by_config, key=lambda item: item[0])
            ),
        )


def ordered_at(measured_at: InstrumentedAttribute[float]) -> ColumnElement[float]:
    """Time of the action, by the clock of the master; that of the fact without an action."""
    return func.coalesce(Action.intended_at, measured_at)


def ordered_by_the_end(
    scope: Scope, measured_at: InstrumentedAttribute[float]
) -> tuple[ColumnElement[bool], ...]:
    """Condition for facts of the job, or ordered before its end; empty while the job is open."""
    if math.isinf(scope.until):
        return ()
    return (or_(Action.job == scope.job, ordered_at(measured_at) <= scope.until),)


TRIES = 3
"""Attempts of a job without a sample after which a revision is skipped."""

_BUILDING = {Stage.CHECKOUT, Stage.BUILD}


@dataclass(slots=True)
class _Success:
    """Successes of a revision."""

    built_at: float = float("-inf")
    """Start of its newest build."""
    measured_at: dict[str, float] = field(default_factory=dict)
    """By scenario of a deciding series: its newest valid sample."""
    trials: set[int] = field(default_factory=set)
    """Trials with a valid sample of a deciding scenario."""


def skipped(session: Session, scope: Scope, builds: BuildVariants) -> dict[str, str]:
    """By revision: why it cannot be measured for a job.

    Failures on the first testbed count. Failures on another one count unless a deciding scenario
    was measured elsewhere, which makes them a problem of the testbed.
    """
    found = [_skipped_on(session, testbed, scope, builds) for testbed in scope.testbeds]
    why = dict(found[0][0])
    for place, (reasons, _) in enumerate(found[1:], 1):
        elsewhere = set().union(*(measured for _, measured in found[:place] + found[place + 1 :]))
        for revision in reasons.keys() - elsewhere - why.keys():
            why[revision] = reasons[revision]
    return why


def _skipped_on(
    session: Session, testbed: str, scope: Scope, builds: BuildVariants
) -> tuple[dict[str, str], set[str]]:
    """By revision: why it cannot be measured on a testbed; and the measured revisions.

    - A failed checkout or build counts for all testbeds of the config and arch, until a later
      build succeeds.
    - A failed deployment or boot, or a crash under the load of a scenario of the job, counts for
      the testbed, until a deciding scenario is measured. A failure in a trial that measured one
      does not count.
    - A deciding scenario that fails counts for the testbed, if all of them fail.
    - `TRIES` trials or builds of the job without a sample, and none with one since, count:
      temporary failures, or invalid samples. Infrastructure failures do not count.
    """
    scenarios = set(map(scenario_of, scope.deciding))
    loads = {"", *map(scenario_of, scope.scenarios)}
    failures = _failures(session, testbed, scope, builds)
    successes = _successes(session, testbed, scope, builds)
    standing = [
        (failure, record)
        for failure, record in failures
        if not _contradicted(failure, successes[failure.revision])
        and failure.scenario in (scenarios if failure.stage == Stage.BENCH else loads)
    ]
    why = _incapable([failure for failure, _ in standing], scenarios)
    tries = _invalid_trials(session, testbed, scope, successes)
    for failure, record in standing:
        retried = failure.reaction == Reaction.RETRY and record == scope.job
        if retried and failure.decision_id not in successes[failure.revision].trials:
            assert failure.decision_id is not None
            tries[failure.revision][failure.decision_id] = failure.why
    for revision, failed in tries.items():
        if len(failed) >= TRIES and revision not in why:
            last = failed[max(failed)]
            why[revision] = f"could not be measured in {len(failed)} tries: {last}"
    return why, {revision for revision, success in successes.items() if success.measured_at}


def _incapable(failures: list[FailureRow], scenarios: set[str]) -> dict[str, str]:
    """By revision with a permanent failure, or one in all deciding scenarios: the reason."""
    why: dict[str, str] = {}
    unable: defaultdict[str, set[str]] = defaultdict(set)
    for failure in failures:
        if failure.reaction != Reaction.SKIP:
            continue
        if failure.stage == Stage.BENCH:
            unable[failure.revision].add(failure.scenario)
            if not unable[failure.revision] >= scenarios:
                continue
        why[failure.revision] = failure.why
    return why


def _failures(
    session: Session, testbed: str, scope: Scope, builds: BuildVariants
) -> list[tuple[FailureRow, int | None]]:
    """Failures of these builds or of this testbed, each with its job."""
    of_config = builds.among(scope.revisions, FailureRow.revision, Action.config)
    query = (
        select(FailureRow, Action.job)
        .outerjoin(Action, FailureRow.decision_id == Action.id)
        .where(
            one_of(FailureRow.revision, scope.revisions),
            or_(
                FailureRow.stage.in_(_BUILDING) & of_config & (Action.arch == builds.arch),
                FailureRow.stage.not_in(_BUILDING)
                & (FailureRow.testbed == testbed)
                & (FailureRow.decision_id.is_(None) | of_config),
            ),
            *ordered_by_the_end(scope, FailureRow.at),
        )
        .order_by(FailureRow.at, FailureRow.id)
    )
    return [(failure, job) for failure, job in session.execute(query)]


def _successes(
    session: Session, testbed: str, scope: Scope, builds: BuildVariants
) -> defaultdict[str, _Success]:
    found: defaultdict[str, _Success] = defaultdict(_Success)
    kernels = (
        select(KernelRow.revision, KernelRow.at)
        .outerjoin(Action, KernelRow.decision_id == Action.id)
        .where(
            builds.among(scope.revisions, KernelRow.revision, KernelRow.config),
            KernelRow.arch == builds.arch,
            *ordered_by_the_end(scope, KernelRow.at),
        )
    )
    for revision, at in session.execute(kernels):
        found[revision].built_at = max(found[revision].built_at, at)
    samples = (
        select(BootRow.revision, SampleRow.scenario, SampleRow.at, SampleRow.decision_id)
        .join(BootRow, SampleRow.boot == BootRow.id)
        .outerjoin(Action, SampleRow.decision_id == Action.id)
        .where(
            # Of the boot, so that SQLite starts from the few boots rather than all samples.
            BootRow.testbed == testbed,
            SampleRow.scenario.in_(scope.deciding),
            SampleRow.valid,
            one_of(BootRow.revision, scope.revisions),
            *ordered_by_the_end(scope, SampleRow.at),
        )
        .order_by(SampleRow.at)
    )
    for revision, scenario, at, trial in session.execute(samples):
        found[revision].measured_at[scenario_of(scenario)] = at
        if trial is not None:
            found[revision].trials.add(trial)
    return found


def _contradicted(failure: FailureRow, success: _Success) -> bool:
    """Whether a success contradicts a failure."""
    if failure.stage in _BUILDING:
        return success.built_at > failure.at
    if failure.stage == Stage.BENCH:
        return success.measured_at.get(failure.scenario, failure.at) > failure.at
    if failure.decision_id in success.trials:
        return True
    return max(success.measured_at.values(), default=failure.at) > failure.at


def _invalid_trials(
    session: Session, testbed: str, scope: Scope, successes: defaultdict[str, _Success]
) -> defaultdict[str, dict[int, str]]:
    """By revision and trial of the job: why its samples since the last valid one are invalid."""
    query = (
        select(BootRow.revision, Action.id, SampleRow.at, SampleRow.problems)
        .join(BootRow, SampleRow.boot == BootRow.id)
        .join(Action, SampleRow.decision_id == Action.id)
        .where(
            SampleRow.testbed == testbed,
            SampleRow.scenario.in_(scope.deciding),
            SampleRow.valid.is_(False),
            Action.job == scope.job,
            Action.id.not_in(
                select(FailureRow.decision_id).where(
                    FailureRow.reaction == Reaction.INFRA, FailureRow.decision_id.is_not(None)
                )
            ),
        )
        .order_by(SampleRow.at)
    )
    invalid: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for revision, trial, at, problems in session.execute(query):
        success = successes[revision]
        if trial not in success.trials and at >= max(success.measured_at.values(), default=at):
            invalid[revision][trial] = "; ".join(problems) or "no packet was received"
    return invalid
