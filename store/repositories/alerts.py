"""Alerts: changes of level, from the first suspicion until they are over."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import Select, func, select

from netbisect.bisect.alert_lifecycle import mute_expired
from netbisect.bisect.model.alert_state import AlertState
from netbisect.store.db.records import Alert, AlertHistoryEntry
from netbisect.store.db.sessions import LedgerRepository, get_row
from netbisect.store.db.tables import AlertChangeRow, AlertRow, AlertSeriesRow, QuestionRow
from netbisect.store.repositories.alert_changes import change_alert, merge_alert
from netbisect.store.repositories.alert_rows import (
    alert_of,
    change_of,
    life_of,
)

STANDING = tuple(state.value for state in AlertState if state.standing)
"""As the database knows them."""
_ENDED = tuple(state.value for state in AlertState if state.ended)


class AlertRepository(LedgerRepository):
    """Reads and changes alerts; they are opened in a `closing`."""

    def all(self, *, candidates: bool = False) -> list[Alert]:
        """All alerts that were ever announced, and the others only if asked for; oldest first."""
        query = select(AlertRow).order_by(AlertRow.id)
        return self._alerts(
            query if candidates else query.where(AlertRow.announced_at.is_not(None))
        )

    def all_open(self) -> list[Alert]:
        """Alerts whose change stands, oldest first."""
        return self._alerts(
            select(AlertRow).where(AlertRow.state.in_(STANDING)).order_by(AlertRow.id)
        )

    def pending(self) -> list[Alert]:
        """Alerts that are not over, candidates too, oldest first."""
        return self._alerts(
            select(AlertRow).where(AlertRow.state.not_in(_ENDED)).order_by(AlertRow.id)
        )

    def current(self, since: float) -> list[Alert]:
        """Announced alerts that stand, or to which something was done since then, oldest first."""
        changed = select(AlertChangeRow.alert_id).where(AlertChangeRow.at >= since)
        return self._alerts(
            select(AlertRow)
            .where(AlertRow.announced_at.is_not(None))
            .where(AlertRow.state.in_(STANDING) | AlertRow.id.in_(changed))
            .order_by(AlertRow.id)
        )

    def begun(self, since: float) -> list[Alert]:
        """Alerts and candidates that were opened or announced since then, oldest first."""
        begun = (AlertRow.opened_at >= since) | (AlertRow.announced_at >= since)
        return self._alerts(select(AlertRow).where(begun).order_by(AlertRow.id))

    def latest(self, most: int) -> list[Alert]:
        """Announced alerts, that to which something was done last first; so many at most."""
        changed = func.coalesce(func.max(AlertChangeRow.at), AlertRow.announced_at)
        return self._alerts(
            select(AlertRow)
            .outerjoin(AlertChangeRow, AlertChangeRow.alert_id == AlertRow.id)
            .where(AlertRow.announced_at.is_not(None))
            .group_by(AlertRow.id)
            .order_by(changed.desc(), AlertRow.id.desc())
            .limit(most)
        )

    def first(self) -> Alert | None:
        """The oldest one that was announced."""
        announced = select(AlertRow).where(AlertRow.announced_at.is_not(None))
        return next(iter(self._alerts(announced.order_by(AlertRow.id).limit(1))), None)

    def changed_since(self, since: float) -> list[Alert]:
        """Alerts to which something was done at or after this time, oldest first."""
        changed = select(AlertChangeRow.alert_id).where(AlertChangeRow.at >= since)
        return self._alerts(select(AlertRow).where(AlertRow.id.in_(changed)).order_by(AlertRow.id))

    def of_culprit(self, culprit: str) -> list[Alert]:
        """Alerts whose change this commit made, oldest first."""
        return self._alerts(
            select(AlertRow)
            .where(AlertRow.culprit == culprit, AlertRow.culprit != "")
            .order_by(AlertRow.id)
        )

    def of_series(self, testbed: str, scenario: str, branch: str) -> list[Alert]:
        """Alerts that were seen in this series, in whatever state, oldest first."""
        touching = select(AlertSeriesRow.alert_id).where(
            AlertSeriesRow.testbed == testbed,
            AlertSeriesRow.scenario == scenario,
            AlertSeriesRow.branch == branch,
        )
        return self._alerts(select(AlertRow).where(AlertRow.id.in_(touching)).order_by(AlertRow.id))

    def get(self, identifier: int) -> Alert:
        """The alert.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return alert_of(get_row(session, AlertRow, identifier))

    def changes(self, identifier: int) -> list[AlertHistoryEntry]:
        """Its history, oldest first."""
        changes = (
            select(AlertChangeRow)
            .where(AlertChangeRow.alert_id == identifier)
            .order_by(AlertChangeRow.id)
        )
        with self.reading() as session:
            return [change_of(row) for row in session.scalars(changes)]

    def end_mutes(self, *, who: str, what: str, tell: Callable[[Alert], str]) -> list[Alert]:
        """Opens the muted alerts whose date has come again; returns them as they are now.

        Args:
            who: The author.
            what: The reason, in words.
            tell: Makes the text of the mail about it.
        """
        muted = select(AlertRow).where(AlertRow.state == AlertState.MUTED.value)
        with self.writing() as writing:
            return [
                change_alert(
                    writing, row.id, who=who, what=what, state=AlertState.REOPENED, tell=tell
                )
                for row in writing.session.scalars(muted.order_by(AlertRow.id)).all()
                if mute_expired(life_of(row), writing.now)
            ]

    def change(
        self,
        identifier: int,
        *,
        who: str,
        what: str,
        state: AlertState | None = None,
        culprit: str | None = None,
        bisection: int | None = None,
        until: float | None = None,
        recovery: str = "",
        tell: Callable[[Alert], str] | None = None,
    ) -> Alert:
        """Changes what is given, and notes who did it and why; the alert as it is now.

        The answer of a search that ends after people have decided, or after the alert has
        ended, is recorded and leaves the state as it is.

        Args:
            identifier: Of the alert.
            who: The author.
            what: The reason, in words.
            state: To which the change is to lead, by the table of bisect/model/alert_state.py.
            culprit: Revision.
            bisection: Question that looks for the culprit.
            until: With MUTED, when that ends by itself.
            recovery: With FIXED, the first revision whose level was back, where it is known.
            tell: Makes the text of a mail of this change from the alert as it is then. It is
                posted with it, to those who got the last mail of the alert, where
                `life.told` says that they are to know.

        Raises:
            StoreError: there is no such alert, it cannot come to that state from the one it
                is in, or it has no author or reason; nothing is changed then.
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
                until=until,
                recovery=recovery,
                tell=tell,
            )

    def merge(self, identifier: int, earlier: int, *, who: str, what: str) -> Alert:
        """Makes an alert part of an earlier one with the same culprit; the earlier one.

        Raises:
            StoreError: there is no such alert, or they are not one event.
        """
        with self.writing() as writing:
            return merge_alert(writing, identifier, earlier, who=who, what=what)

    def _alerts(self, query: Select[AlertRow]) -> list[Alert]:
        with self.reading() as session:
            return [alert_of(row) for row in session.scalars(query)]

    def of_job(self, job: int) -> Alert | None:
        """The alert that this comparison is to confirm, or whose commit this search looks for.

        Of several that share a search, that of its own testbed.
        """
        return next(iter(self.all_of_job(job)), None)

    def all_of_job(self, job: int) -> list[Alert]:
        """All alerts that wait for this question, those of its own testbed first."""
        query = (
            select(AlertRow)
            .join(QuestionRow, QuestionRow.id == job)
            .where((AlertRow.bisection_id == job) | (AlertRow.comparison_id == job))
            .order_by(AlertRow.testbed != QuestionRow.testbed, AlertRow.id)
        )
        with self.reading() as session:
            return [alert_of(row) for row in session.scalars(query)]

    def change_counts(self, alerts: Collection[int] | None = None) -> dict[int, tuple[int, float]]:
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
