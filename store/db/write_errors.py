"""Detects that a SQLite file cannot be written."""

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
_PRIMARY_CODE = 0xFF
"""Mask of the primary result code in an extended one."""


def on_write_error(engine: Engine, callback: Callable[[str], None]) -> Callable[[], None]:
    """Calls back when SQLite cannot write or read its file.

    Args:
        engine: Of the database.
        callback: Gets SQLite's message, in the thread of the failed statement. Errors in
            statements are not reported.

    Returns:
        A function that removes the callback.
    """

    def listener(context: ExceptionContext) -> None:
        error = context.original_exception
        # The driver's own errors have no code.
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, sqlite3.Error) and code is not None and code & _PRIMARY_CODE in _CODES:
            callback(str(error))

    event.listen(engine, "handle_error", listener)
    return lambda: event.remove(engine, "handle_error", listener)
