"""Opens SQLite and PostgreSQL databases.

Write transactions are serialized from their beginning: in SQLite by its write lock, in PostgreSQL
by an advisory lock. A transaction may therefore read before it writes. Read transactions are
consistent snapshots.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from netbisect.errors import UserError
from netbisect.store.db.postgresql import (
    WAIT_SECONDS,
    begin_writing,
    is_committed,
    is_loss,
    pauses,
    transaction_of,
)

_Result = TypeVar("_Result")

_EXPECTED = "expected sqlite:////path/to/file or postgresql+psycopg://user@host/name"
_WRITES = "netbisect_writes"

_STRING_OR_INFINITY = re.compile(r'("(?:[^"\\]|\\.)*")|Infinity')


class StoreError(UserError):
    """A failed operation of the store; the message is one sentence."""


class NotFoundError(StoreError):
    """The object does not exist."""


class NotAllowedError(StoreError):
    """The state of the object does not allow the change."""


class DatabaseError(StoreError):
    """The database failed."""


class DatabaseUnavailableError(DatabaseError):
    """The server is away, or another process locks the file for long.

    The transaction was rolled back and may be repeated.
    """


def open_database(url: str) -> Engine:
    """Opens a database, and checks that it can be written.

    The URL is one of SQLAlchemy, such as `sqlite:////var/db/netbisect/netbisect.sqlite` or
    `postgresql+psycopg://netbisect@localhost/netbisect`.

    Raises:
        StoreError: the URL is invalid, its driver is not installed, or the database cannot be
            opened for writing.
    """
    parsed = _parse(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    if sqlite:
        _check_path(parsed)
    try:
        engine = create_engine(parsed, json_serializer=_json, **_options(sqlite=sqlite))
    except ModuleNotFoundError as error:
        raise _lacking(parsed, error) from error
    if sqlite:
        event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_begin)
    try:
        with translated_errors(engine), writer(engine).connect() as connection:
            connection.begin().rollback()
    except StoreError:
        engine.dispose()
        raise
    return engine


def database_exists(url: str) -> bool:
    """Whether the database exists; always true for PostgreSQL.

    Raises StoreError if the URL is invalid.
    """
    path = sqlite_file(url)
    return path is None or path.exists()


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database, or None. Raises StoreError if the URL is invalid."""
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in {None, "", ":memory:"}:
        return None
    return Path(parsed.database or "")


def writer(engine: Engine) -> Engine:
    """The same engine for write transactions, which are serialized."""
    options: dict[str, Any] = {_WRITES: True}
    if engine.dialect.name != "sqlite":
        # Its reads must follow the advisory lock, which it takes within the transaction.
        options["isolation_level"] = "READ COMMITTED"
    return engine.execution_options(**options)


def commit(session: Session) -> None:
    """Commits; after a lost connection, asks the server whether the commit succeeded.

    Raises:
        DatabaseUnavailableError: the transaction was rolled back.
        DatabaseError: the outcome is unknown.
    """
    session.flush()
    connection = session.connection()
    engine, transaction = connection.engine, transaction_of(connection)
    try:
        session.commit()
    except exc.DBAPIError as error:
        if transaction is None or not is_loss(error):
            raise
        kept = is_committed(engine, transaction)
        if kept is None:
            raise DatabaseError(
                f"the database {redacted(engine.url)} was lost during a commit; "
                "the outcome is unknown"
            ) from error
        if not kept:
            raise


def retried_while_unavailable(work: Callable[[], _Result]) -> _Result:
    """Result of `work`, repeated from its beginning while the database is unavailable.

    It is any number of transactions, repeatable after each of them, as after a kill.
    """
    last: DatabaseUnavailableError | None = None
    for _ in pauses():
        try:
            return work()
        except DatabaseUnavailableError as error:
            last = error
    assert last is not None
    raise last


def redacted(url: URL) -> str:
    """The URL without its password."""
    return url.render_as_string(hide_password=True)


@contextlib.contextmanager
def translated_errors(engine: Engine) -> Iterator[None]:
    """Translates errors of SQLAlchemy and the driver into a `StoreError` of one sentence."""
    try:
        yield
    except exc.DBAPIError as error:
        message = " ".join(str(error.orig).split())
        if is_loss(error) or _sqlite_code(error.orig) == sqlite3.SQLITE_BUSY:
            raise DatabaseUnavailableError(
                f"the database {redacted(engine.url)} does not answer: {message}"
            ) from error
        raise DatabaseError(f"the database {redacted(engine.url)} refused: {message}") from error
    except exc.SQLAlchemyError as error:
        message = " ".join(str(error).split())
        raise DatabaseError(f"the database {redacted(engine.url)} failed: {message}") from error


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except exc.NoSuchModuleError as error:
        raise StoreError(
            f"the database url {redacted(parsed)} names an unknown kind of database; {_EXPECTED}"
        ) from error
    except exc.ArgumentError as error:
        raise StoreError(f"{url!r} is not a database URL; {_EXPECTED}") from error
    except ImportError as error:
        raise _lacking(parsed, error) from error
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise StoreError(
            f"the database {redacted(parsed)} is neither SQLite nor PostgreSQL, "
            "the two that netbisect works with"
        )
    return parsed


def _options(*, sqlite: bool) -> dict[str, Any]:
    if sqlite:
        return {"connect_args": {"timeout": WAIT_SECONDS}}
    return {"pool_pre_ping": True, "isolation_level": "REPEATABLE READ"}


def _lacking(url: URL, error: ImportError) -> StoreError:
    return StoreError(
        f"the database {redacted(url)} needs the Python module {error.name}, which is not installed"
    )


def _check_path(url: URL) -> None:
    if url.database in {None, "", ":memory:"}:
        raise StoreError(
            f"the database url {redacted(url)} names no file, and a database in memory is "
            "lost at exit; expected sqlite:////path/to/file"
        )
    path = Path(str(url.database))
    if path.is_dir():
        raise StoreError(f"the database {path} is a directory; expected a file")
    if not path.parent.is_dir():
        raise StoreError(f"the database {path} cannot be created: no directory {path.parent}")
    with contextlib.suppress(OSError):  # SQLite reports it
        # SQLite's other files get the same mode. Closing an existing file would release the locks
        # of other connections of this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _json(value: object) -> str:
    """JSON for both databases: PostgreSQL has no Infinity, but numbers of any size."""
    text = json.dumps(value)
    if "Infinity" not in text:
        return text
    return _STRING_OR_INFINITY.sub(lambda found: found[1] or "1e999", text)


def _on_sqlite_connect(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 - as sqlite3 gives it
    assert isinstance(connection, sqlite3.Connection)
    # _on_begin begins transactions.
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",  # readers and the writer do not block each other
        "synchronous = FULL",  # commits survive a power cut
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        begin_writing(connection)


_CODES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
}
_PRIMARY_CODE = 0xFF
"""Mask of the primary result code in an extended one."""


def on_write_error(engine: Engine, callback: Callable[[str], None]) -> Callable[[], None]:
    """Calls back when SQLite cannot write or read its file; returns a function that ends this.

    `callback` gets SQLite's message, in the thread of the failed statement.
    """

    def listener(context: ExceptionContext) -> None:
        error = context.original_exception
        if _sqlite_code(error) in _CODES:
            callback(str(error))

    event.listen(engine, "handle_error", listener)
    return lambda: event.remove(engine, "handle_error", listener)


def _sqlite_code(error: BaseException | None) -> int | None:
    """SQLite's primary result code; None for other errors, and the driver's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY_CODE
