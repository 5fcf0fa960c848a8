"""Whole series at a time, with what was measured under earlier conditions too.

One look at a testbed and scenario reads all its branches, so that hundreds of series can be told
of at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Commit, Level
from netbisect.bisect.model.revision_key import parts_of
from netbisect.store.db.records import JobRecord
from netbisect.store.db.rows import commit_of
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import (
    AlertChangeRow,
    BootRow,
    CommitRow,
    ConditionsRow,
    DecisionRow,
    PlaceRow,
    QuestionRow,
    SampleRow,
)
from netbisect.store.repositories.evidence import comparable
from netbisect.store.repositories.jobs import job_of
from netbisect.store.repositories.levels import (
    ByConditions,
    by_conditions,
    images_of,
    measured,
    samples,
)
from netbisect.store.repositories.lookup import SeriesName
from netbisect.store.repositories.series import EndedChanges, changes_of

_PART = 10_000
"""Names in one query; SQLite takes 32,766 parameters."""


@dataclass(frozen=True, slots=True)
class ConditionsEpoch:
    """What was measured under the same conditions."""

    digest: str
    values: Mapping[str, str]
    levels: tuple[Level, ...]
    """In the order of the branch; at least one."""


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """A series from its beginning."""

    name: SeriesName
    epochs: tuple[ConditionsEpoch, ...]
    """In the order of their newest samples; the last one is what comparisons use."""
    numbers: Mapping[str, int]
    """By revision that was booted on the testbed: its place on the branch."""
    baseline: tuple[Level, ...]
    """Of the last epoch, the levels since the last confirmed change, as `Series.baseline`."""


_NONE = (0, EndedChanges())
"""Changes of a series without any."""


class SeriesHistoryRepository(LedgerRepository):
    """Reads series as a whole."""

    def series_histories(self, testbed: str, scenario: str) -> list[SeriesHistory]:
        """The series of a testbed and scenario, one for each branch, ordered by branch."""
        return next(self.series_histories_of(testbed, [scenario]))

    def series_histories_of(
        self, testbed: str, scenarios: Sequence[str]
    ) -> Iterator[list[SeriesHistory]]:
        """As `series_histories`, of one scenario after the other; what they share is read once.

        Args:
            testbed: Of all of them.
            scenarios: One or several.
        """
        with self.reading() as session:
            booted = _booted(session, testbed)
            values = _conditions(session, testbed, scenarios)
            changed = changes_of(session, testbed, scenarios)
            for scenario, found in measured(session, testbed, scenarios):
                yield [
                    _trail(name, found, values, numbers, changed.get((scenario, branch), _NONE))
                    for branch, numbers in sorted(booted.items())
                    if any(one.revision in numbers for levels in found.values() for one in levels)
                    for name in (SeriesName(testbed, scenario, branch),)
                ]

    def commits(self, revisions: Collection[str]) -> dict[str, Commit]:
        """By revision: those of these commits that were learned."""
        with self.reading() as session:
            return {
                row.revision: commit_of(row)
                for part in _parts(revisions)
                for row in session.scalars(select(CommitRow).where(CommitRow.revision.in_(part)))
            }

    def jobs(self, kind: str) -> list[JobRecord]:
        """All questions of a kind, `comparison` or `bisection`, oldest first."""
        query = select(QuestionRow).where(QuestionRow.kind == kind).order_by(QuestionRow.id)
        with self.reading() as session:
            return [job_of(row) for row in session.scalars(query)]

    def last_nights(self, seconds: float) -> list[JobRecord]:
        """The nights that were asked for at most so long before the last one, repeats left out."""
        nights = (QuestionRow.kind == "night") & QuestionRow.parent_id.is_(None)
        last = select(func.max(QuestionRow.opened_at)).where(nights)
        with self.reading() as session:
            at = session.scalar(last)
            if at is None:
                return []
            query = select(QuestionRow).where(nights, QuestionRow.opened_at >= at - seconds)
            rows = session.scalars(query.order_by(QuestionRow.testbed, QuestionRow.id))
            return [job_of(row) for row in rows]

    def progress(self, jobs: Collection[int] | None = None) -> dict[int, tuple[int, int]]:
        """By question: how many attempts there were, and how many of them are over.

        Args:
            jobs: Only of these; of all where they are not told.
        """
        query = select(DecisionRow.question_id, func.count(), func.count(DecisionRow.outcome))
        if jobs is not None:
            query = query.where(DecisionRow.question_id.in_(jobs))
        with self.reading() as session:
            found = session.execute(query.group_by(DecisionRow.question_id))
            return {job: (begun, over) for job, begun, over in found}

    def alert_news(self, alerts: Collection[int] | None = None) -> dict[int, tuple[int, float]]:
        """By alert: how often it was changed, and when last.

        Args:
            alerts: Only of these; of all where they are not told.
        """
        query = select(AlertChangeRow.alert_id, func.count(), func.max(AlertChangeRow.at))
        if alerts is not None:
            query = query.where(AlertChangeRow.alert_id.in_(alerts))
        with self.reading() as session:
            found = session.execute(query.group_by(AlertChangeRow.alert_id))
            return {alert: (times, at) for alert, times, at in found}

    def measured_revisions(self) -> list[str]:
        """Every revision whose ordinary kernel was booted; without those with a patch."""
        ordinary = ~BootRow.revision.contains("#")
        with self.reading() as session:
            booted = session.scalars(select(BootRow.revision).where(ordinary).distinct())
            return [one for one in booted if not parts_of(one)[1]]

    def images(self, revisions: Collection[str]) -> dict[tuple[str, str], dict[str, Level]]:
        """By testbed and scenario, then by revision: levels under the newest conditions.

        Where a revision has several kernels, that which was measured first.
        """
        found: defaultdict[tuple[str, str], dict[str, Level]] = defaultdict(dict)
        with self.reading() as session:
            places = session.execute(
                select(SampleRow.testbed, SampleRow.scenario)
                .join(BootRow, SampleRow.boot_id == BootRow.id)
                .where(BootRow.revision.in_(revisions), SampleRow.valid)
                .distinct()
            ).all()
            for testbed, scenario in places:
                newest = comparable(session, testbed, [scenario])
                images = images_of(session, testbed, BootRow.revision.in_(revisions))
                rows = samples(session, newest, SampleRow.boot_id.in_(images))
                for levels in by_conditions(rows, images).values():
                    for level in levels:
                        found[testbed, scenario].setdefault(level.revision, level)
        return dict(found)


def _trail(
    name: SeriesName,
    found: ByConditions,
    values: Mapping[tuple[str, str], Mapping[str, str]],
    numbers: Mapping[str, int],
    changed: tuple[int, EndedChanges],
) -> SeriesHistory:
    epochs = tuple(
        ConditionsEpoch(digest, values.get((name.scenario, digest), {}), levels)
        for digest, all_levels in found.items()
        if (levels := _levels(all_levels, numbers))
    )
    start, gaps = changed
    # The branch was measured under the newest conditions of its testbed and scenario.
    newest = epochs[-1].levels if epochs[-1].digest == [*found][-1] else ()
    baseline = tuple(
        level
        for level in newest
        if numbers[level.revision] >= start and gaps.keep(numbers[level.revision], level)
    )
    return SeriesHistory(name, epochs, numbers, baseline)


def _levels(found: Iterable[Level], numbers: Mapping[str, int]) -> tuple[Level, ...]:
    """The levels of one branch, in its order."""
    of_branch = [(numbers[one.revision], one) for one in found if one.revision in numbers]
    # As in `Series.series`, of one revision the kernel that was measured first stands first.
    of_branch.sort(key=lambda item: (item[0], item[1].at))
    return tuple([level for _, level in of_branch])


def _booted(session: Session, testbed: str) -> dict[str, dict[str, int]]:
    """By branch: the place of each revision that was booted on a testbed."""
    places: defaultdict[str, dict[str, int]] = defaultdict(dict)
    query = select(PlaceRow.branch, PlaceRow.revision, PlaceRow.number).where(
        PlaceRow.revision.in_(select(BootRow.revision).where(BootRow.testbed == testbed))
    )
    for branch, revision, number in session.execute(query):
        places[branch][revision] = number
    return places


def _conditions(
    session: Session, testbed: str, scenarios: Sequence[str]
) -> dict[tuple[str, str], Mapping[str, str]]:
    """By scenario and digest."""
    query = select(ConditionsRow).where(
        ConditionsRow.testbed == testbed, ConditionsRow.scenario.in_(scenarios)
    )
    return {(row.scenario, row.digest): dict(row.values) for row in session.scalars(query)}


def _parts(names: Collection[str]) -> Iterable[list[str]]:
    ordered = sorted(names)
    return (ordered[at : at + _PART] for at in range(0, len(ordered), _PART))
