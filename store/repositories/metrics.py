"""Counts of rows, and times of the last events, for monitoring."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from netbisect.bisect.model.alert_state import AlertState
from netbisect.store.db.records import (
    Alert,
    JobRecord,
    JobState,
    MailState,
    OutboxMail,
    Request,
    RequestState,
)
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow

_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}
_DONE = '{"is":"nightdone"'
"""Prefix of the results of complete nightly jobs."""

Values: TypeAlias = dict[tuple[str, ...], float]
"""By the values of labels, such as testbed and branch."""


class MetricsRepository(LedgerRepository):
    """Counts rows."""

    def census(self) -> dict[str, Values]:
        """All counts and times, by name, in one transaction; times are seconds since the epoch."""
        job, mail = JobRecord, OutboxMail
        done = (job.kind == "night") & job.result_json.startswith(_DONE, autoescape=True)
        place = (job.testbed, job.branch)
        unsent = (MailState.WAITING, MailState.FAILED)
        # All states, also those with the value 0: a missing metric cannot be monitored.
        with self.reading() as session:
            size = session.scalar(text(_SIZE[session.get_bind().dialect.name]))
            return {
                "jobs_open": _by(
                    session, func.count(), job.kind, job.testbed, where=job.state == JobState.OPEN
                ),
                "requests": _zeros(*RequestState) | _by(session, func.count(), Request.state),
                "nights_completed": _by(session, func.count(), *place, where=done),
                "last_night": _by(session, func.max(job.closed_at), *place, where=done),
                "last_boot": _by(session, func.max(BootRow.at), BootRow.testbed),
                "alerts": _zeros(*AlertState) | _by(session, func.count(), Alert.state),
                "mails": _zeros(*unsent)
                | _by(session, func.count(), mail.state, where=mail.state.in_(unsent)),
                "oldest_mail": _by(
                    session, func.min(mail.created_at), where=mail.state == MailState.WAITING
                ),
                "database_bytes": {(): float(size)},
            }


def _zeros(*states: StrEnum) -> Values:
    return {(state.value,): 0 for state in states}


def _by(
    session: Session,
    what: ColumnElement[Any],
    *keys: InstrumentedAttribute[Any],
    where: ColumnElement[bool] | None = None,
) -> Values:
    """A number per combination of columns; none for NULL."""
    query = select(what, *keys).group_by(*keys).order_by(*keys)
    rows = session.execute(query if where is None else query.where(where))
    return {tuple(key): number for number, *key in rows if number is not None}
