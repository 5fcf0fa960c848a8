"""Alerts as rows: how they are read, and which ones share a change."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from netbisect.bisect.alert_lifecycle import REOPENING_SECONDS, AlertStatus, recurs
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.results import Effect
from netbisect.store.db.records import Alert, AlertHistoryEntry, AlertSeries
from netbisect.store.db.tables import AlertChangeRow, AlertRow, AlertSeriesRow, CommitRow


def alert_of(row: AlertRow) -> Alert:
    """The record in this row."""
    return Alert(
        id=row.id,
        testbed=row.testbed,
        branch=row.branch,
        lead=row.lead,
        good=row.good,
        bad=row.bad,
        effects=tuple(Effect(**effect) for effect in row.effects),
        state=AlertState(row.state),
        culprit=row.culprit,
        comparison=row.comparison_id,
        bisection=row.bisection_id,
        thread=row.thread,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        kind=AlertKind(row.kind),
        announced_at=row.announced_at,
        muted_until=row.muted_until,
        recovery=row.recovery,
        merged_into=row.merged_into,
        series=tuple(map(_series_of, row.series)),
    )


def _series_of(row: AlertSeriesRow) -> AlertSeries:
    return AlertSeries(
        testbed=row.testbed,
        scenario=row.scenario,
        branch=row.branch,
        good=row.good,
        bad=row.bad,
        effect=None if row.effect is None else Effect(**row.effect),
        at=row.at,
    )


def change_of(row: AlertChangeRow) -> AlertHistoryEntry:
    """The record in this row."""
    return AlertHistoryEntry(
        row.at, row.who, row.what, AlertState(row.state) if row.state else None
    )


def life_of(row: AlertRow) -> AlertStatus:
    """What the rules want to know of an alert."""
    return AlertStatus(
        kind=AlertKind(row.kind),
        state=AlertState(row.state),
        culprit=row.culprit,
        muted_until=row.muted_until,
        announced_at=row.announced_at,
        closed_at=row.closed_at,
        recovery=row.recovery,
        merged_into=row.merged_into,
    )


def live_on(row: AlertRow, life: AlertStatus) -> None:
    """Writes into the row what the rules have said."""
    row.state = life.state.value
    row.culprit = life.culprit
    row.muted_until = life.muted_until
    row.announced_at = life.announced_at
    row.closed_at = life.closed_at
    row.recovery = life.recovery
    row.merged_into = life.merged_into


def overlap(
    session: Session, seen: AlertRow | AlertSeriesRow, culprit: str, good: str, bad: str
) -> bool:
    """Whether (seen.good, seen.bad], or the culprit, and (good, bad] share a commit."""
    if (seen.good, seen.bad) == (good, bad):
        return True
    numbers = {
        revision: commit.number
        for revision in (seen.good, seen.bad, culprit, good, bad)
        if (commit := session.get(CommitRow, revision)) is not None
    }
    if good not in numbers or bad not in numbers:
        return False
    if culprit in numbers:
        return numbers[good] < numbers[culprit] <= numbers[bad]
    if seen.good not in numbers or seen.bad not in numbers:
        return False
    return max(numbers[good], numbers[seen.good]) < min(numbers[bad], numbers[seen.bad])


def find_returned(
    session: Session,
    testbed: str,
    branch: str,
    *,
    kind: AlertKind,
    lead: str,
    good: str,
    bad: str,
    now: float,
) -> AlertRow | None:
    """The latest alert that is over, and that this change brings back."""
    over = (
        select(AlertRow)
        .where(
            AlertRow.testbed == testbed,
            AlertRow.branch == branch,
            AlertRow.closed_at >= now - REOPENING_SECONDS,
        )
        .order_by(AlertRow.closed_at.desc(), AlertRow.id.desc())
    )
    for row in session.scalars(over):
        if recurs(life_of(row), kind, now) and (
            row.lead == lead or overlap(session, row, row.culprit, good, bad)
        ):
            return row
    return None
