"""Counts of rows, and times of the last events, for monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from netbisect.store.db.records import Alert, JobRecord, JobState, MailState, OutboxMail, Request
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow

_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}
_DONE = '{"is":"nightdone"'
"""Prefix of the results of complete nightly jobs."""


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """Counts of a ledger; times are seconds since the epoch."""

    open_jobs: Mapping[tuple[str, ...], int]
    """By kind and testbed."""
    requests: Mapping[str, int]
    """By state."""
    nights: Mapping[tuple[str, ...], int]
    """Completed ones, by testbed and branch."""
    last_night: Mapping[tuple[str, ...], float]
    """Completion of the last one."""
    last_boot: Mapping[str, float]
    """Last successful boot, by testbed."""
    alerts: Mapping[str, int]
    """By state."""
    mails_waiting: int
    mails_failed: int
    """Given up."""
    oldest_mail: float | None
    """Creation of the oldest waiting mail."""
    database_bytes: int


class MetricsRepository(LedgerRepository):
    """Counts rows."""

    def census(self) -> LedgerCounts:
        """All counts, in one transaction."""
        job, alert = JobRecord, Alert
        is_open = job.state == JobState.OPEN
        done = (job.kind == "night") & job.result_json.startswith(_DONE, autoescape=True)
        place = (job.testbed, job.branch)
        waiting = OutboxMail.state == MailState.WAITING
        failed = OutboxMail.state == MailState.FAILED
        with self.reading() as session:
            return LedgerCounts(
                open_jobs=_by(session, func.count(), job.kind, job.testbed, where=is_open),
                requests=_by(session, func.count(), Request.state),
                nights=_by(session, func.count(), *place, where=done),
                last_night=_by(session, func.max(job.closed_at), *place, where=done),
                last_boot=_by(session, func.max(BootRow.at), BootRow.testbed),
                alerts=_by(session, func.count(), alert.state),
                mails_waiting=session.scalar(select(func.count()).where(waiting)) or 0,
                mails_failed=session.scalar(select(func.count()).where(failed)) or 0,
                oldest_mail=session.scalar(select(func.min(OutboxMail.created_at)).where(waiting)),
                database_bytes=int(session.scalar(text(_SIZE[session.get_bind().dialect.name]))),
            )


def _by(
    session: Session,
    what: ColumnElement[Any],
    *keys: InstrumentedAttribute[str],
    where: ColumnElement[bool] | None = None,
) -> dict[Any, Any]:
    """A number per combination of columns; the key is a tuple if there are several columns."""
    query = select(what, *keys).group_by(*keys).order_by(*keys)
    rows = session.execute(query if where is None else query.where(where))
    return {(key[0] if len(key) == 1 else tuple(key)): number for number, *key in rows}
