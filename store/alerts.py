"""Alerts: confirmed changes, from the day they were confirmed until they are over."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from netbisect.bisect.model import Bisection, Comparison, Effect
from netbisect.store.database import StoreError
from netbisect.store.records import Alert, AlertChange, AlertState, Asked
from netbisect.store.sessions import Sessions, Writing, get_row
from netbisect.store.tables import AlertChangeRow, AlertRow, CommitRow

STANDING = [state.value for state in AlertState if state.standing]
"""Values of the states in which an alert's change stands."""


class Alerts(Sessions):
    """Reads and changes alerts; they are opened in a `closing`."""

    def open_alerts(self) -> list[Alert]:
        """Alerts whose change stands, oldest first."""
        standing = select(AlertRow).where(AlertRow.state.in_(STANDING)).order_by(AlertRow.id)
        with self.reading() as session:
            return [alert_of(row) for row in session.scalars(standing)]

    def alert(self, identifier: int) -> Alert:
        """The alert.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return alert_of(get_row(session, AlertRow, identifier))

    def alert_changes(self, identifier: int) -> list[AlertChange]:
        """Its history, oldest first."""
        changes = (
            select(AlertChangeRow)
            .where(AlertChangeRow.alert_id == identifier)
            .order_by(AlertChangeRow.id)
        )
        with self.reading() as session:
            return [AlertChange(row.at, row.who, row.what) for row in session.scalars(changes)]

    def alert_for(self, testbed: str, branch: str, good: str, bad: str) -> Alert | None:
        """The newest standing alert that may be about the change between these revisions.

        It is one whose own range, or culprit, has a commit in common with (`good`, `bad`].
        """
        candidates = (
            select(AlertRow)
            .where(
                AlertRow.testbed == testbed,
                AlertRow.branch == branch,
                AlertRow.state.in_(STANDING),
            )
            .order_by(AlertRow.id.desc())
        )
        with self.reading() as session:
            for row in session.scalars(candidates):
                if _overlap(session, row, good, bad):
                    return alert_of(row)
        return None

    def change_alert(
        self,
        identifier: int,
        *,
        who: str,
        what: str,
        state: AlertState | None = None,
        culprit: str | None = None,
        bisection: int | None = None,
    ) -> Alert:
        """Changes what is given, and notes who did it and why; the alert as it is now.

        Raises:
            StoreError: there is no such alert.
        """
        with self.writing() as writing:
            return change_alert(
                writing,
                identifier,
                who=who,
                what=what,
                state=state,
                culprit=culprit,
                bisection=bisection,
            )


def change_alert(
    writing: Writing,
    identifier: int,
    *,
    who: str,
    what: str,
    state: AlertState | None,
    culprit: str | None,
    bisection: int | None,
) -> Alert:
    """As `Alerts.change_alert`, as part of a transaction."""
    row = get_row(writing.session, AlertRow, identifier)
    if state is not None:
        row.state = state.value
        row.closed_at = None if state.standing else writing.now
    if culprit is not None:
        row.culprit = culprit
    if bisection is not None:
        row.bisection_id = bisection
    _note_change(writing, row, who, what)
    return alert_of(row)


def open_alert(
    writing: Writing,
    asked: Asked,
    effects: Sequence[Effect],
    *,
    bisection: int | None,
    who: str,
    what: str,
) -> Alert:
    """Opens the alert for a change that this question has confirmed.

    Raises:
        StoreError: the question is neither a comparison nor a bisection.
    """
    question = asked.question
    if isinstance(question, Comparison):
        bad, comparison = question.bad, asked.id
    elif isinstance(question, Bisection):
        bad, comparison, bisection = question.candidates[-1].revision, None, asked.id
    else:
        raise StoreError(
            f"question {asked.id} ({asked.key}) compares nothing, so it opens no alert"
        )
    row = AlertRow(
        testbed=question.testbed,
        branch=question.branch,
        lead=question.lead,
        good=question.good,
        bad=bad,
        effects=[dataclasses.asdict(effect) for effect in effects],
        state=AlertState.OPEN.value,
        culprit="",
        comparison_id=comparison,
        bisection_id=bisection,
        thread="",
        opened_at=writing.now,
    )
    writing.session.add(row)
    writing.session.flush()
    _note_change(writing, row, who, what)
    return alert_of(row)


def _note_change(writing: Writing, row: AlertRow, who: str, what: str) -> None:
    change = AlertChangeRow(alert_id=row.id, at=writing.now, who=who, what=what)
    writing.session.add(change)
    writing.note(
        "alert",
        row.bisection_id or row.comparison_id,
        alert=row.id,
        testbed=row.testbed,
        state=row.state,
        who=who,
        what=what,
    )


def _overlap(session: Session, row: AlertRow, good: str, bad: str) -> bool:
    """Whether (row.good, row.bad], or its culprit, and (good, bad] share a commit."""
    if (row.good, row.bad) == (good, bad):
        return True
    numbers = {
        revision: commit.number
        for revision in (row.good, row.bad, row.culprit, good, bad)
        if (commit := session.get(CommitRow, revision)) is not None
    }
    if good not in numbers or bad not in numbers:
        return False
    if row.culprit in numbers:
        return numbers[good] < numbers[row.culprit] <= numbers[bad]
    if row.good not in numbers or row.bad not in numbers:
        return False
    return max(numbers[good], numbers[row.good]) < min(numbers[bad], numbers[row.bad])


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
    )
