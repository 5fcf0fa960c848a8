"""Series of levels."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import and_, case, select
from sqlalchemy.orm import Session, aliased

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.entities import Conditions, Level
from netbisect.bisect.model.metric import metric_of
from netbisect.store.db.records import Alert, SeriesName
from netbisect.store.db.rows import record_of
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import (
    AlertRow,
    AlertSeriesRow,
    BootRow,
    CommitRow,
    ConditionsRow,
    PlaceRow,
    SampleRow,
)
from netbisect.store.repositories.alerts import STANDING
from netbisect.store.repositories.evidence import comparable, image_of_boot
from netbisect.store.repositories.levels import by_conditions, images_of, level_of, samples


@dataclass(frozen=True, slots=True)
class Levels:
    """A series: one level per measured kernel, in the order of the branch."""

    whole: list[Level]
    baseline: list[Level]
    """Levels since the last confirmed change: from the culprit, or the bad revision while it is
    unknown, of the last open alert of this series. Levels between a change and its recovery are
    left out. Alerts that are invalid, withdrawn or about the lab do not count."""


class SeriesRepository(LedgerRepository):
    """Reads series."""

    def levels(self, testbed: str, scenario: str, branch: str) -> list[Level]:
        """One level per measured kernel, in the order of the branch.

        All valid samples under the newest conditions count, of any job. Different kernels of a
        revision are different levels.
        """
        with self.reading() as session:
            return [level for _, level in _levels(session, testbed, scenario, branch)]

    def baseline(self, testbed: str, scenario: str, branch: str) -> list[Level]:
        """The levels since the last confirmed change; see `Levels`."""
        return self.with_baseline(testbed, scenario, branch).baseline

    def with_baseline(self, testbed: str, scenario: str, branch: str) -> Levels:
        """A series and its baseline."""
        with self.reading() as session:
            start, gaps = changes(session, (testbed, scenario, branch))
            found = _levels(session, testbed, scenario, branch)
        return Levels(
            whole=[level for _, level in found],
            baseline=[
                level for number, level in found if start <= number and gaps.keep(number, level)
            ],
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
            start, gaps = changes(session, series, before=(alert.id, came))
            before, since = [], []
            for number, level in _levels(session, *series):
                if number >= came:
                    since.append(level)
                elif start <= number <= good and gaps.keep(number, level):
                    before.append(level)
        return before, since

    def conditions(self, testbed: str, scenario: str) -> Conditions | None:
        """Conditions of the newest valid sample, or None."""
        query = (
            select(SampleRow.conditions)
            .where(SampleRow.testbed == testbed, SampleRow.scenario == scenario, SampleRow.valid)
            .order_by(SampleRow.at.desc(), SampleRow.id)
            .limit(1)
        )
        with self.reading() as session:
            digest = session.scalar(query)
            row = session.get(ConditionsRow, (testbed, scenario, digest)) if digest else None
            return None if row is None else record_of(Conditions, row)

    def rates(self, testbed: str, scenario: str, revisions: Iterable[str]) -> dict[str, float]:
        """By measured revision: median of the valid samples, in pps."""
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

    def names(self) -> list[SeriesName]:
        """All series with a valid sample, by testbed, scenario and branch."""
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

    def of_revisions(self, revisions: Collection[str]) -> dict[tuple[str, str], dict[str, Level]]:
        """By testbed and scenario, then by revision: levels under the newest conditions.

        Of several kernels of a revision, the first one measured counts.
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
                for levels in by_conditions(rows, images, scenario).values():
                    for level in levels:
                        found[testbed, scenario].setdefault(level.revision, level)
        return dict(found)


def _levels(session: Session, testbed: str, scenario: str, branch: str) -> list[tuple[int, Level]]:
    """Levels with the numbers of their commits, oldest first."""
    query = (
        select(
            PlaceRow.number,
            BootRow.revision,
            image_of_boot(),
            BootRow.id,
            SampleRow.at,
            SampleRow.pps,
            SampleRow.offered_pps,
        )
        .join(BootRow, SampleRow.boot_id == BootRow.id)
        .join(PlaceRow, and_(PlaceRow.branch == branch, PlaceRow.revision == BootRow.revision))
        .where(comparable(session, testbed, [scenario]))
        .order_by(PlaceRow.number, SampleRow.at, SampleRow.id)
    )
    level_of_run = metric_of(scenario).level
    # All runs of a boot are one value.
    found: dict[tuple[int, str, str], tuple[float, dict[str, list[tuple[float, bool]]]]] = {}
    for number, revision, identity, boot, at, pps, offered in session.execute(query):
        _, boots = found.setdefault((number, revision, identity), (at, {}))
        run = level_of_run(pps), sample_validity.saturated(pps, offered)
        boots.setdefault(boot, []).append(run)
    return [
        (number, level_of(revision, identity, first, list(boots.values())))
        for (number, revision, identity), (first, boots) in found.items()
    ]


@dataclass(frozen=True, slots=True)
class EndedChange:
    """A change that has ended, with the range in which levels include it."""

    start: int
    """Number of the commit that introduced it."""
    end: int | None
    """Number of the commit that ended it, or None if unknown."""
    closed_at: float
    """Without `end`, all levels measured before this time include the change."""


class EndedChanges:
    """The ended changes of a series, with a fast test of levels."""

    def __init__(self, gaps: Iterable[EndedChange] = ()) -> None:
        """Takes changes in any order."""
        known = list(gaps)
        self._numbers = _Reach([(one.start, one.end) for one in known if one.end is not None])
        self._times = _Reach([(one.start, one.closed_at) for one in known if one.end is None])

    def keep(self, number: int, level: Level) -> bool:
        """Whether a level includes none of the changes."""
        return self._numbers.of(number) <= number and self._times.of(number) <= level.at


class _Reach:
    """Maximum of the ends of all intervals that start at or before a number."""

    def __init__(self, known: Iterable[tuple[int, float]]) -> None:
        ordered = sorted(known)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))

    def of(self, number: int) -> float:
        """The maximum; -inf without such an interval."""
        begun = bisect_right(self._starts, number)
        return self._ends[begun - 1] if begun else -math.inf


def changes(
    session: Session, series: tuple[str, str, str], before: tuple[int, float] = (0, math.inf)
) -> tuple[int, EndedChanges]:
    """Number of the commit of the last open change, or 0, and the ended changes.

    Args:
        session: Session.
        series: Testbed, scenario and branch.
        before: Id of an alert to ignore, and the number of a commit that precedes no change.
    """
    testbed, scenario, branch = series
    return changes_of(session, testbed, [scenario], before).get(
        (scenario, branch), (0, EndedChanges())
    )


def changes_of(
    session: Session,
    testbed: str,
    scenarios: Collection[str],
    before: tuple[int, float] = (0, math.inf),
) -> dict[tuple[str, str], tuple[int, EndedChanges]]:
    """As `changes`, by scenario and branch with any change."""
    besides, end = before
    came, went = aliased(CommitRow), aliased(CommitRow)
    first = case((AlertRow.culprit != "", AlertRow.culprit), else_=AlertSeriesRow.bad)
    alerts = (
        select(
            AlertSeriesRow.scenario,
            AlertSeriesRow.branch,
            AlertRow.closed_at,
            came.number,
            went.number,
        )
        .join(AlertSeriesRow, AlertSeriesRow.alert_id == AlertRow.id)
        .join(came, came.revision == first)
        .outerjoin(went, went.revision == AlertRow.recovery)
        .where(
            AlertSeriesRow.testbed == testbed,
            AlertSeriesRow.scenario.in_(scenarios),
            AlertRow.id != besides,
            AlertRow.kind != AlertKind.MODES.value,  # the fast mode did not change
            AlertRow.state.in_([*STANDING, AlertState.FIXED.value]),
        )
        .order_by(AlertSeriesRow.id)
    )
    found: dict[tuple[str, str], tuple[int, list[EndedChange]]] = {}
    for scenario, branch, closed_at, number, back in session.execute(alerts):
        if number >= end:
            continue
        start, gaps = found.get((scenario, branch), (0, []))
        if closed_at is None:
            start = max(start, number)
        else:
            gaps.append(EndedChange(number, back, closed_at))
        found[scenario, branch] = start, gaps
    return {place: (start, EndedChanges(gaps)) for place, (start, gaps) in found.items()}


def _number(session: Session, revision: str) -> int | None:
    commit = session.get(CommitRow, revision)
    return None if commit is None else commit.number
