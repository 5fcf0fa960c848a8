"""What the service looks up besides: the latest of everything."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import func, select

from netbisect.bisect.model.entities import Conditions, Fact
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.revision_key import parts_of
from netbisect.store.db.records import Alert, JobState, MailState, OutboxMail
from netbisect.store.db.rows import conditions_of
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import (
    AlertRow,
    BootRow,
    ConditionsRow,
    DecisionRow,
    DudRow,
    KernelRow,
    MailRow,
    PlaceRow,
    QuestionRow,
    SampleRow,
)
from netbisect.store.repositories.alert_rows import alert_of
from netbisect.store.repositories.evidence import scope_of
from netbisect.store.repositories.facts import facts_where
from netbisect.store.repositories.jobs import job_of
from netbisect.store.repositories.outbox import mail_of


@dataclass(frozen=True, slots=True)
class SeriesName:
    """By which a series is found."""

    testbed: str
    scenario: str
    branch: str


class LookupRepository(LedgerRepository):
    """Reads across subjects."""

    def alert_about(self, job: int) -> Alert | None:
        """The alert that this comparison is to confirm, or whose commit this search looks for.

        Of several that share a search, that of its own testbed.
        """
        return next(iter(self.alerts_about(job)), None)

    def alerts_about(self, job: int) -> list[Alert]:
        """All alerts that wait for this question, those of its own testbed first."""
        query = (
            select(AlertRow)
            .join(QuestionRow, QuestionRow.id == job)
            .where((AlertRow.bisection_id == job) | (AlertRow.comparison_id == job))
            .order_by(AlertRow.testbed != QuestionRow.testbed, AlertRow.id)
        )
        with self.reading() as session:
            return [alert_of(row) for row in session.scalars(query)]

    def facts_from(self, decision: int) -> list[Fact]:
        """What came of one attempt at a decision, oldest first."""
        with self.reading() as session:
            return facts_where(session, [decision])

    def failed_decisions(self) -> set[int]:
        """Those that a dud came of."""
        query = select(DudRow.decision_id).where(DudRow.decision_id.is_not(None)).distinct()
        with self.reading() as session:
            return {number for number in session.scalars(query) if number is not None}

    def last_boots(self) -> dict[str, str]:
        """By testbed: the boot that was ordered last; the machines' own clocks have no say."""
        last = (
            select(BootRow.testbed, func.max(BootRow.decision_id).label("decision"))
            .where(BootRow.decision_id.is_not(None))
            .group_by(BootRow.testbed)
            .subquery()
        )
        query = select(BootRow.testbed, BootRow.id).join(
            last, (last.c.testbed == BootRow.testbed) & (last.c.decision == BootRow.decision_id)
        )
        with self.reading() as session:
            return {row.testbed: row.id for row in session.execute(query)}

    def needed_kernels(self) -> set[str]:
        """Keys of the kernels that open questions may yet want to boot.

        Of each build of a revision that one of them is about, that is the newest; and what open
        decisions have ordered.
        """
        still_open = QuestionRow.state == JobState.OPEN.value
        ordered = (
            select(DecisionRow.revision)
            .join(QuestionRow, DecisionRow.question_id == QuestionRow.id)
            .where(DecisionRow.outcome.is_(None), still_open)
        )
        with self.reading() as session:
            revisions = set(session.scalars(ordered))
            for row in session.scalars(select(QuestionRow).where(still_open)):
                revisions.update(scope_of(job_of(row)).revisions)
            built = (
                select(KernelRow)
                .where(KernelRow.revision.in_(revisions))
                .order_by(KernelRow.at, KernelRow.id)
            )
            newest = {
                (row.revision, row.config, row.arch): row.key for row in session.scalars(built)
            }
            relinked = (
                select(KernelRow)
                .where(KernelRow.revision.contains("#"))
                .order_by(KernelRow.at, KernelRow.id)
            )
            newest |= {
                (row.revision, row.config, row.arch): row.key
                for row in session.scalars(relinked)
                if split_kernel_name(row.revision)[0] in revisions
            }
        return set(newest.values())

    def conditions(self, testbed: str, scenario: str) -> Conditions | None:
        """Those under which its levels were measured: of the newest valid sample, if any."""
        query = (
            select(SampleRow.conditions)
            .where(SampleRow.testbed == testbed, SampleRow.scenario == scenario, SampleRow.valid)
            .order_by(SampleRow.at.desc(), SampleRow.id)
            .limit(1)
        )
        with self.reading() as session:
            digest = session.scalar(query)
            row = session.get(ConditionsRow, (testbed, scenario, digest)) if digest else None
            return None if row is None else conditions_of(row)

    def known_rates(
        self, testbed: str, scenario: str, revisions: Iterable[str]
    ) -> dict[str, float]:
        """By revision that was measured there: the median of its valid samples, in pps."""
        query = (
            select(BootRow.revision, SampleRow.pps)
            .join(BootRow, SampleRow.boot_id == BootRow.id)
            .where(
                SampleRow.testbed == testbed,
                SampleRow.scenario == scenario,
                SampleRow.valid,
                BootRow.revision.in_(list(revisions)),
            )
        )
        found: defaultdict[str, list[float]] = defaultdict(list)
        with self.reading() as session:
            for revision, pps in session.execute(query):
                found[revision].append(pps)
        return {revision: statistics.median(rates) for revision, rates in found.items()}

    def known_series(self) -> list[SeriesName]:
        """Every testbed, scenario and branch with at least one valid sample, in that order."""
        query = (
            select(SampleRow.testbed, SampleRow.scenario, PlaceRow.branch)
            .join(BootRow, SampleRow.boot_id == BootRow.id)
            .join(PlaceRow, PlaceRow.revision == BootRow.revision)
            .where(SampleRow.valid)
            .distinct()
            .order_by(SampleRow.testbed, SampleRow.scenario, PlaceRow.branch)
        )
        with self.reading() as session:
            return [SeriesName(*row) for row in session.execute(query)]

    def numbers(self) -> dict[str, dict[str, int]]:
        """By branch: the place of every revision that was booted."""
        query = select(PlaceRow.branch, PlaceRow.revision, PlaceRow.number).where(
            PlaceRow.revision.in_(select(BootRow.revision))
        )
        found: defaultdict[str, dict[str, int]] = defaultdict(dict)
        with self.reading() as session:
            for branch, revision, number in session.execute(query):
                found[branch][revision] = number
        return dict(found)

    def excluded(self) -> list[str]:
        """What was measured and is in no series, with the reason: a sentence each."""
        stray = (
            select(BootRow.revision)
            .join(SampleRow, SampleRow.boot_id == BootRow.id)
            .where(SampleRow.valid, BootRow.revision.not_in(select(PlaceRow.revision)))
            .where(~BootRow.revision.contains("#"))  # a further layout belongs to its search
            .distinct()
            .order_by(BootRow.revision)
        )
        invalid = select(func.count()).select_from(SampleRow).where(~SampleRow.valid)
        epochs = (
            select(SampleRow.testbed, SampleRow.scenario)
            .where(SampleRow.valid)
            .group_by(SampleRow.testbed, SampleRow.scenario)
            .having(func.count(SampleRow.conditions.distinct()) > 1)
            .order_by(SampleRow.testbed, SampleRow.scenario)
        )
        with self.reading() as session:
            said = [
                f"{revision} was measured and is on no branch that is known: left out"
                for revision in session.scalars(stray)
                if not parts_of(revision)[1]  # a patch was asked for, and is missed nowhere
            ]
            if count := session.scalar(invalid):
                said.append(f"samples that something speaks against are left out: {count:,}")
            said += [
                f"{testbed}/{scenario}: samples under earlier conditions are left out"
                for testbed, scenario in session.execute(epochs)
            ]
        return said

    def waiting_mails(self) -> list[OutboxMail]:
        """Mails that are not sent and not given up, oldest first."""
        query = select(MailRow).where(MailRow.state == MailState.WAITING.value).order_by(MailRow.id)
        with self.reading() as session:
            return [mail_of(row) for row in session.scalars(query)]
