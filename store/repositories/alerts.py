"""Alerts: changes of level, from the candidate to the end."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import ColumnElement, func, select

from netbisect.bisect.model.alert_state import AlertState, HistoryEntry
from netbisect.store.db.records import Alert, AlertChangeRow, AlertSeries, JobRecord
from netbisect.store.db.sessions import LedgerRepository, transaction
from netbisect.store.db.tables import record_of
from netbisect.store.repositories.alert_changes import change_alert

STANDING = tuple(state for state in AlertState if state.standing)
"""States of open alerts, as in the database."""
_ENDED = tuple(state for state in AlertState if state.ended)
_ANNOUNCED = Alert.announced_at.is_not(None)


class AlertRepository(LedgerRepository):
    """Reads and changes alerts; `JobClosing` opens them."""

    def all(self, *, candidates: bool = False) -> list[Alert]:
        """All announced alerts, optionally with candidates; oldest first."""
        return self._alerts(*([] if candidates else [_ANNOUNCED]))

    def all_open(self) -> list[Alert]:
        """Open alerts, oldest first."""
        return self._alerts(Alert.state.in_(STANDING))

    def pending(self) -> list[Alert]:
        """Alerts and candidates that have not ended, oldest first."""
        return self._alerts(Alert.state.not_in(_ENDED))

    def begun(self, since: float) -> list[Alert]:
        """Alerts and candidates opened or announced since then, oldest first."""
        return self._alerts((Alert.opened_at >= since) | (Alert.announced_at >= since))

    def latest(self, most: int) -> list[Alert]:
        """Announced alerts, the last changed first; `most` at most."""
        changed = func.coalesce(func.max(AlertChangeRow.at), Alert.announced_at)
        return self._all(
            select(Alert)
            .outerjoin(AlertChangeRow, AlertChangeRow.alert == Alert.id)
            .where(_ANNOUNCED)
            .group_by(Alert.id)
            .order_by(changed.desc(), Alert.id.desc())
            .limit(most)
        )

    def first(self) -> Alert | None:
        """The oldest announced alert, or None."""
        return self._first(select(Alert).where(_ANNOUNCED).order_by(Alert.id))

    def changed_since(self, since: float) -> list[Alert]:
        """Alerts changed at or after this time, oldest first."""
        changed = select(AlertChangeRow.alert).where(AlertChangeRow.at >= since)
        return self._alerts(Alert.id.in_(changed))

    def of_culprit(self, culprit: str) -> list[Alert]:
        """Alerts with this culprit, oldest first."""
        return self._alerts(Alert.culprit == culprit, Alert.culprit != "")

    def of_series(self, testbed: str, scenario: str, branch: str) -> list[Alert]:
        """Alerts with this series, in any state, oldest first."""
        touching = select(AlertSeries.alert).where(
            AlertSeries.testbed == testbed,
            AlertSeries.scenario == scenario,
            AlertSeries.branch == branch,
        )
        return self._alerts(Alert.id.in_(touching))

    def get(self, identifier: int) -> Alert:
        """The alert with this id. Raises NotFoundError."""
        return self._get(Alert, identifier)

    def changes(self, identifier: int) -> list[HistoryEntry]:
        """The history of an alert, oldest first."""
        rows = select(AlertChangeRow).where(AlertChangeRow.alert == identifier)
        return [record_of(HistoryEntry, row) for row in self._all(rows.order_by(AlertChangeRow.id))]

    def end_mutes(self, now: float, *, what: str, tell: Callable[[Alert], str]) -> list[Alert]:
        """Reopens the muted alerts whose time is over at `now`, and returns them.

        `what` is the reason; `tell` makes the text of the mail.
        """
        over = select(Alert).where(Alert.state == AlertState.MUTED, Alert.muted_until <= now)
        if self._first(over) is None:  # keeps no other writer waiting
            return []
        with self.writing() as writing:
            return [
                change_alert(writing, row.id, what=what, state=AlertState.REOPENED, tell=tell)
                for row in writing.session.scalars(over.order_by(Alert.id)).all()
            ]

    change = transaction(change_alert)

    def _alerts(self, *where: ColumnElement[bool]) -> list[Alert]:
        """Alerts that meet all conditions, oldest first."""
        return self._all(select(Alert).where(*where).order_by(Alert.id))

    def of_job(self, job: int) -> Alert | None:
        """The alert that this job is to confirm, or whose culprit it searches for, or None.

        Of several alerts, the one of the testbed of the job.
        """
        return next(iter(self.all_of_job(job)), None)

    def all_of_job(self, job: int) -> list[Alert]:
        """All alerts that wait for this job, those of its testbed first."""
        return self._all(
            select(Alert)
            .join(JobRecord, JobRecord.id == job)
            .where((Alert.bisection == job) | (Alert.comparison == job))
            .order_by(Alert.testbed != JobRecord.testbed, Alert.id)
        )

    def change_counts(self, alerts: Collection[int] | None = None) -> dict[int, tuple[int, float]]:
        """By alert, by default for all: number of changes, and time of the last one."""
        query = select(AlertChangeRow.alert, func.count(), func.max(AlertChangeRow.at))
        if alerts is not None:
            query = query.where(AlertChangeRow.alert.in_(alerts))
        with self.reading() as session:
            found = session.execute(query.group_by(AlertChangeRow.alert))
            return {alert: (times, at) for alert, times, at in found}
