"""Series of levels."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session, aliased

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.entities import Conditions, Level, SeriesName
from netbisect.store.db.records import Alert, AlertSeries
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import (
    BootRow,
    CommitRow,
    ConditionsRow,
    PlaceRow,
    SampleRow,
    one_of,
    record_of,
)
from netbisect.store.repositories.alerts import STANDING
from netbisect.store.repositories.commits import booted_numbers
from netbisect.store.repositories.evidence import newest_conditions
from netbisect.store.repositories.levels import (
    ByConditions,
    measured,
    newest_levels,
    with_samples,
)


@dataclass(frozen=True, slots=True)
class Levels:
    """A series: one level per measured kernel, in the order of the branch."""

    whole: list[Level]
    baseline: list[Level]
    """Levels since the last confirmed change: from the culprit, or the bad revision while it is
    unknown, of the last open alert of this series. Levels between a change and its recovery are
    left out. Alerts that are invalid, withdrawn or about the lab do not count."""


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """A change of the conditions of a series."""

    name: SeriesName
    since: float
    """First sample under the new conditions."""
    before: Mapping[str, str]
    after: Mapping[str, str]


class SeriesRepository(LedgerRepository):
    """Reads series."""

    def levels(self, testbed: str, scenario: str, branch: str) -> list[Level]:
        """One level per measured kernel, in the order of the branch.

        All valid samples under the newest conditions count, of any job. Different kernels of a
        revision are different levels.
        """
        with self.reading() as session:
            return [level for _, level in _levels(session, testbed, scenario, branch)]

    def with_baseline(self, testbed: str, scenario: str, branch: str) -> Levels:
        """A series and its baseline."""
        with self.reading() as session:
            baseline = baselines(session, testbed, [scenario])[scenario, branch]
            found = _levels(session, testbed, scenario, branch)
        return Levels(
            whole=[level for _, level in found],
            baseline=[level for number, level in found if baseline.has(number, level)],
        )

    def around(self, alert: Alert) -> tuple[list[Level], list[Level]]:
        """Levels before and since the change of an alert, in its leading series.

        Before: the baseline up to the good revision. Since: from the culprit, or the bad revision
        while it is unknown. Both are empty if the commits are unknown.
        """
        series = (alert.testbed, alert.lead, alert.branch)
        with self.reading() as session:
            good, came = _number(session, alert.good), _number(session, alert.culprit or alert.bad)
            if good is None or came is None:
                return [], []
            known = baselines(session, alert.testbed, [alert.lead], before=(alert.id, came))
            baseline = known[alert.lead, alert.branch]
            before, since = [], []
            for number, level in _levels(session, *series):
                if number >= came:
                    since.append(level)
                elif number <= good and baseline.has(number, level):
                    before.append(level)
        return before, since

    def conditions(self, testbed: str, scenario: str) -> Conditions | None:
        """Conditions of the newest valid sample, or None."""
        with self.reading() as session:
            digest = newest_conditions(session, testbed, scenario)
            row = session.get(ConditionsRow, (testbed, scenario, digest)) if digest else None
            return None if row is None else record_of(Conditions, row)

    def rates(self, testbed: str, scenario: str, revisions: Iterable[str]) -> dict[str, float]:
        """By measured revision: median of the valid samples, in pps."""
        query = (
            select(BootRow.revision, SampleRow.pps)
            .join(BootRow, SampleRow.boot == BootRow.id)
            .where(
                SampleRow.testbed == testbed,
                SampleRow.scenario == scenario,
                SampleRow.valid,
                one_of(BootRow.revision, revisions),
            )
        )
        found: defaultdict[str, list[float]] = defaultdict(list)
        with self.reading() as session:
            for revision, pps in session.execute(query):
                found[revision].append(pps)
        return {revision: statistics.median(rates) for revision, rates in found.items()}

    def names(self) -> list[SeriesName]:
        """All series with a valid sample, by testbed, scenario and branch."""
        query = (
            select(SampleRow.testbed, SampleRow.scenario, PlaceRow.branch)
            .join(BootRow, SampleRow.boot == BootRow.id)
            .join(PlaceRow, PlaceRow.revision == BootRow.revision)
            .where(SampleRow.valid)
            .distinct()
            .order_by(SampleRow.testbed, SampleRow.scenario, PlaceRow.branch)
        )
        with self.reading() as session:
            return [SeriesName(*row) for row in session.execute(query)]

    def new_epochs(self, after: float) -> list[NewEpoch]:
        """Epochs that began at that time or later, by series; not the first ones."""
        columns = SampleRow.testbed, SampleRow.scenario, PlaceRow.branch
        query = (
            select(*columns, SampleRow.conditions, func.min(SampleRow.at).label("since"))
            .join(BootRow, SampleRow.boot == BootRow.id)
            .join(PlaceRow, PlaceRow.revision == BootRow.revision)
            .where(SampleRow.valid)
            .group_by(*columns, SampleRow.conditions)
            .order_by(*columns, func.max(SampleRow.at))
        )
        with self.reading() as session:
            values = _conditions(session)
            return [
                NewEpoch(
                    SeriesName(*new[:3]),
                    new.since,
                    values.get((*old[:2], old.conditions), {}),
                    values.get((*new[:2], new.conditions), {}),
                )
                for old, new in pairwise(session.execute(query).all())
                if old[:3] == new[:3] and new.since >= after
            ]

    def of_revisions(self, revisions: Collection[str]) -> dict[tuple[str, str], dict[str, Level]]:
        """By testbed and scenario, then by revision: levels under the newest conditions.

        Of several kernels of a revision, the first one measured counts.
        """
        found: defaultdict[tuple[str, str], dict[str, Level]] = defaultdict(dict)
        with self.reading() as session:
            places = session.execute(
                select(SampleRow.testbed, SampleRow.scenario)
                .join(BootRow, SampleRow.boot == BootRow.id)
                .where(one_of(BootRow.revision, revisions), SampleRow.valid)
                .distinct()
            ).all()
            for testbed, scenario in places:
                booted = (BootRow.testbed == testbed) & one_of(BootRow.revision, revisions)
                for level in newest_levels(session, testbed, scenario, booted):
                    found[testbed, scenario].setdefault(level.revision, level)
        return dict(found)

    def histories(self, testbed: str, scenario: str) -> list[SeriesHistory]:
        """The series of a testbed and scenario since their beginning, by branch."""
        return next(self.histories_of(testbed, [scenario]))

    def histories_of(self, testbed: str, scenarios: Sequence[str]) -> Iterator[list[SeriesHistory]]:
        """As `histories`, for several scenarios; rows that they share are read once."""
        with self.reading() as session:
            booted = booted_numbers(session, BootRow.testbed == testbed)
            values = _conditions(
                session, ConditionsRow.testbed == testbed, ConditionsRow.scenario.in_(scenarios)
            )
            known = baselines(session, testbed, scenarios)
            for scenario, found in measured(session, testbed, scenarios):
                yield [
                    _history(name, found, values, numbers, known[scenario, branch])
                    for branch, numbers in sorted(booted.items())
                    if any(one.revision in numbers for levels in found.values() for one in levels)
                    for name in (SeriesName(testbed, scenario, branch),)
                ]


def _levels(session: Session, testbed: str, scenario: str, branch: str) -> list[tuple[int, Level]]:
    """Levels with the numbers of their commits, oldest first."""
    booted = select(BootRow.revision).where(BootRow.testbed == testbed)
    places = select(PlaceRow.revision, PlaceRow.number).where(
        PlaceRow.branch == branch, PlaceRow.revision.in_(booted)
    )
    numbers = {row.revision: row.number for row in session.execute(places)}
    placed = BootRow.revision.in_(places.with_only_columns(PlaceRow.revision))
    found = newest_levels(session, testbed, scenario, placed, with_samples(testbed, scenario))
    return in_order(found, numbers)


def in_order(levels: Iterable[Level], numbers: Mapping[str, int]) -> list[tuple[int, Level]]:
    """The levels of a branch with their numbers; the kernels of a revision by time."""
    placed = [(numbers[one.revision], one) for one in levels if one.revision in numbers]
    return sorted(placed, key=lambda item: (item[0], item[1].at))


@dataclass(frozen=True, slots=True)
class EndedChange:
    """A change that has ended, with the range in which levels include it."""

    start: int
    """Number of the commit that introduced it."""
    end: int | None
    """Number of the commit that ended it, or None if unknown."""
    closed_at: float
    """Without `end`, all levels measured before this time include the change."""

    def is_in(self, number: int, level: Level) -> bool:
        """Whether a level includes the change."""
        over = level.at >= self.closed_at if self.end is None else number >= self.end
        return number >= self.start and not over


@dataclass(frozen=True, slots=True)
class Baseline:
    """Selects the levels of a series since its last confirmed change; see `Levels`."""

    start: int = 0
    """Number of the commit of the last open change, or 0."""
    ended: tuple[EndedChange, ...] = ()

    def has(self, number: int, level: Level) -> bool:
        """Whether a level belongs to the baseline."""
        return self.start <= number and not any(one.is_in(number, level) for one in self.ended)


def baselines(
    session: Session,
    testbed: str,
    scenarios: Collection[str],
    before: tuple[int, float] = (0, math.inf),
) -> defaultdict[tuple[str, str], Baseline]:
    """By scenario and branch: the baseline.

    `before` is the id of an alert to ignore, and the number of a commit that precedes no change.
    """
    ignored, end = before
    came, went = aliased(CommitRow), aliased(CommitRow)
    first = case((Alert.culprit != "", Alert.culprit), else_=AlertSeries.bad)
    place = AlertSeries.scenario, AlertSeries.branch
    alerts = (
        select(*place, Alert.closed_at, came.number, went.number)
        .join(AlertSeries, AlertSeries.alert == Alert.id)
        .join(came, came.revision == first)
        .outerjoin(went, went.revision == Alert.recovery)
        .where(
            AlertSeries.testbed == testbed,
            AlertSeries.scenario.in_(scenarios),
            Alert.id != ignored,
            Alert.kind != AlertKind.MODES,  # the fast mode did not change
            Alert.state.in_([*STANDING, AlertState.FIXED]),
        )
        .order_by(AlertSeries.id)
    )
    found: defaultdict[tuple[str, str], Baseline] = defaultdict(Baseline)
    for scenario, branch, closed_at, number, back in session.execute(alerts):
        if number >= end:
            continue
        known = found[scenario, branch]
        if closed_at is None:
            known = replace(known, start=max(known.start, number))
        else:
            known = replace(known, ended=(*known.ended, EndedChange(number, back, closed_at)))
        found[scenario, branch] = known
    return found


def _number(session: Session, revision: str) -> int | None:
    commit = session.get(CommitRow, revision)
    return None if commit is None else commit.number


@dataclass(frozen=True, slots=True)
class ConditionsEpoch:
    """Levels under the same conditions."""

    digest: str
    values: Mapping[str, str]
    levels: tuple[Level, ...]
    """In the order of the branch; at least one."""


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """A series since its beginning."""

    name: SeriesName
    epochs: tuple[ConditionsEpoch, ...]
    """In the order of their newest samples; comparisons use the last one."""
    numbers: Mapping[str, int]
    """By revision booted on the testbed: its number on the branch."""
    baseline: tuple[Level, ...]
    """Levels of the last epoch since the last confirmed change; see `Levels`."""


def _history(
    name: SeriesName,
    found: ByConditions,
    values: Mapping[tuple[str, ...], Mapping[str, str]],
    numbers: Mapping[str, int],
    baseline: Baseline,
) -> SeriesHistory:
    epochs = tuple(
        ConditionsEpoch(digest, values.get((name.testbed, name.scenario, digest), {}), levels)
        for digest, all_levels in found.items()
        if (levels := tuple([level for _, level in in_order(all_levels, numbers)]))
    )
    # A branch without samples under the newest conditions has no baseline.
    newest = epochs[-1].levels if epochs[-1].digest == [*found][-1] else ()
    kept = tuple(level for level in newest if baseline.has(numbers[level.revision], level))
    return SeriesHistory(name, epochs, numbers, kept)


def _conditions(
    session: Session, *where: ColumnElement[bool]
) -> dict[tuple[str, ...], Mapping[str, str]]:
    """By testbed, scenario and digest."""
    rows = session.scalars(select(ConditionsRow).where(*where))
    return {(row.testbed, row.scenario, row.digest): dict(row.values) for row in rows}
