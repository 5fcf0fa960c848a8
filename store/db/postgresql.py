"""PostgreSQL: serialized writers, and lost connections.

After a lost connection, work is repeated only if its transaction was rolled back: a commit may have
succeeded although the answer was lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from sqlalchemy import Connection, Engine, exc, text

WAIT_SECONDS = 60
"""Wait for other writers, and for a lost server."""
_WRITERS_TURN = 6328_2473
"""Number of the advisory lock."""
_TRANSACTION = "netbisect_transaction"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 8.0
"""Seconds between tries, doubled from the first to the longest."""

_LOSSES = ("08", "57P", "40", "53300")
"""Prefixes of SQLSTATE for temporary failures (PostgreSQL manual, appendix A):
connections, shutdown and start, rollback because of other transactions, too many connections."""


def begin_writing(connection: Connection) -> None:
    """Waits for other writers, and stores the id of the transaction in the connection.

    The server ends a writer that is idle for long, so that others can write.
    """
    found = connection.exec_driver_sql(
        "SELECT pg_current_xact_id()::text,"
        f" set_config('lock_timeout', '{WAIT_SECONDS}s', true),"
        f" set_config('idle_in_transaction_session_timeout', '{WAIT_SECONDS}s', true),"
        f" pg_advisory_xact_lock({_WRITERS_TURN})"
    )
    connection.info[_TRANSACTION] = found.one()[0]


def transaction_of(connection: Connection) -> str | None:
    """Id of the write transaction; None for other databases."""
    number: str | None = connection.info.get(_TRANSACTION)
    return number


def is_loss(error: exc.DBAPIError) -> bool:
    """Whether the server is away, or rolled back for a temporary reason."""
    if error.connection_invalidated:
        return True
    if type(error.orig).__module__.partition(".")[0] != "psycopg":
        return False
    state = getattr(error.orig, "sqlstate", None)
    # Without SQLSTATE, the server cannot be reached.
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
    """Yields at once, then after increasing pauses, for WAIT_SECONDS."""
    until = time.monotonic() + WAIT_SECONDS
    pause = _FIRST_PAUSE
    while True:
        yield
        if time.monotonic() + pause > until:
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
