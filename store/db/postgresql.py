"""What PostgreSQL needs besides: turns of writers, and what became of a transaction that was cut.

Its server can be stopped, moved or cut off while a service works. What was lost then is done
again, and for that it must be certain that it was lost: a commit may have been carried out
although its answer never came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from sqlalchemy import Connection, Engine, exc, text

WAIT_SECONDS = 60
"""For a writer before us, and for a server that is away; transactions take milliseconds."""
_WRITERS_TURN = 6328_2473
"""The advisory lock's number: "netbisect" on a telephone, cut to fit."""
_TRANSACTION = "netbisect_transaction"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 8.0
"""Seconds between two tries, doubled from the first to the longest."""

_LOSSES = ("08", "57P", "40", "53300")
"""What SQLSTATEs begin with that say: not now. Classes and codes of appendix A of PostgreSQL's
manual: connections, shutdown and start, rollback for others' sake, too many connections."""


def begin_writing(connection: Connection) -> None:
    """Waits for the writers before this one, and notes by which number the server knows it.

    A writer that stands still for long is put out: others could never write.
    """
    found = connection.exec_driver_sql(
        "SELECT pg_current_xact_id()::text,"
        f" set_config('lock_timeout', '{WAIT_SECONDS}s', true),"
        f" set_config('idle_in_transaction_session_timeout', '{WAIT_SECONDS}s', true),"
        f" pg_advisory_xact_lock({_WRITERS_TURN})"
    )
    connection.info[_TRANSACTION] = found.one()[0]


def transaction_of(connection: Connection) -> str | None:
    """The number of the transaction that writes there; None of other databases."""
    number: str | None = connection.info.get(_TRANSACTION)
    return number


def is_loss(error: exc.DBAPIError) -> bool:
    """Whether the server is away, or has undone all for a reason that passes."""
    if error.connection_invalidated:
        return True
    if type(error.orig).__module__.partition(".")[0] != "psycopg":
        return False
    state = getattr(error.orig, "sqlstate", None)
    # Without one there was no server to give it: it cannot be reached.
    refused = state is None and isinstance(error, exc.OperationalError)
    return refused or str(state).startswith(_LOSSES)


def is_committed(engine: Engine, transaction: str) -> bool | None:
    """Whether a transaction was committed after its commit had no answer; None if unknown.

    Repeats the query until the server answers with a final state.
    """
    query = text("SELECT pg_xact_status(CAST(CAST(:number AS text) AS xid8))")
    for _ in pauses():
        try:
            with engine.connect() as connection:
                status = connection.scalar(query, {"number": transaction})
        except exc.DBAPIError as error:
            if not is_loss(error):
                return None
            continue
        if status != "in progress":
            return None if status is None else bool(status == "committed")
    return None


def pauses() -> Iterator[None]:
    """Comes back at once, and then after longer and longer pauses, until there was time enough."""
    until = time.monotonic() + WAIT_SECONDS
    pause = _FIRST_PAUSE
    while True:
        yield
        if time.monotonic() + pause > until:
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
