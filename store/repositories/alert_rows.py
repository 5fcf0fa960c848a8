"""Reads rows of alerts, and finds those about the same change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum
from itertools import chain

from sqlalchemy import select
from sqlalchemy.orm import Session

from netbisect.bisect.alert_lifecycle import REOPENING_SECONDS, AlertStatus, recurs
from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_change import ChangeBasis, change_of
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.results import Culprit, Result
from netbisect.store.db.records import Alert, AlertSeries
from netbisect.store.db.rows import columns_of, record_of
from netbisect.store.db.tables import AlertRow, AlertSeriesRow, CommitRow


def alert_of(row: AlertRow) -> Alert:
    """The alert of a row."""
    found = record_of(
        Alert,
        row,
        basis=ChangeBasis.SCREEN,
        retest=row.effects,
        series=map(columns_of, row.series),
    )
    series = (*found.series, *chain.from_iterable(map(_verified, (row, *row.merged))))
    if found.kind is AlertKind.MODES:
        return dataclasses.replace(found, series=series)
    change = change_of(found.effects, _finding(row))
    return dataclasses.replace(found, series=series, basis=change.basis, effects=change.effects)


def _finding(row: AlertRow) -> Result | None:
    """The result of the search for the culprit of an alert, or None."""
    search = row.search
    if search is None or search.id != row.bisection_id or search.finding is None:
        return None
    finding: Result = serialization.loads(search.finding)
    return finding


def _verified(row: AlertRow) -> Iterator[AlertSeries]:
    """The series of an alert as measured for the verification of its culprit."""
    finding = _finding(row)
    if isinstance(finding, Culprit) and row.search is not None:
        for effect in finding.effects:
            yield AlertSeries(
                testbed=row.testbed,
                scenario=effect.scenario,
                branch=row.branch,
                good=finding.parent,
                bad=finding.revision,
                effect=effect,
                at=row.search.closed_at or 0.0,
            )


def life_of(row: AlertRow) -> AlertStatus:
    """The status of the alert of a row."""
    return record_of(AlertStatus, row)


def live_on(row: AlertRow, life: AlertStatus) -> None:
    """Stores the status of an alert."""
    for name, value in dataclasses.asdict(life).items():
        setattr(row, name, value.value if isinstance(value, Enum) else value)


def overlap(
    session: Session, seen: AlertRow | AlertSeriesRow, culprit: str, good: str, bad: str
) -> bool:
    """Whether (good, bad] contains the culprit, or a commit of (seen.good, seen.bad]."""
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
    """The latest ended alert that this change reopens, or None."""
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
