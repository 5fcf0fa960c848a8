"""Tells when a SQLite file could not be written, whoever writes to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sqlalchemy import event
from sqlalchemy.engine import Engine, ExceptionContext

_CODES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
}
_PRIMARY = 0xFF
"""Part of a code that says what kind of error it is."""


def listen(engine: Engine, heard: Callable[[str], None]) -> Callable[[], None]:
    """Listens to what goes wrong in a database.

    Args:
        engine: Of the database.
        heard: Is told what SQLite says when it cannot write to its file, or read it; not of errors
            in what was asked of it. It is called in the thread that asked.

    Returns:
        What ends the listening.
    """

    def listener(context: ExceptionContext) -> None:
        error = context.original_exception
        # The driver's own errors have no code.
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, sqlite3.Error) and code is not None and code & _PRIMARY in _CODES:
            heard(str(error))

    event.listen(engine, "handle_error", listener)
    return lambda: event.remove(engine, "handle_error", listener)
