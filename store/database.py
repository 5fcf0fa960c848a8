"""The database: how it is opened.

SQLite and PostgreSQL do. On both of them writers take turns: SQLite by its write lock, taken
when a transaction begins and not at its first write; PostgreSQL by an advisory lock. So a
transaction may look before it writes, and nothing changes in between. Who only reads sees all
of it as it was at one moment.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from netbisect.store.postgresql import (
    WAIT_SECONDS,
    begin_writing,
    is_committed,
    is_loss,
    pauses,
    transaction_of,
)

_Result = TypeVar("_Result")

_RIGHT = "sqlite:////path/to/file or postgresql+psycopg://user@host/name would be right"
_WRITES = "netbisect_writes"

_STRING_OR_INFINITY = re.compile(r'("(?:[^"\\]|\\.)*")|Infinity')


class StoreError(Exception):
    """The store could not do what was asked; the text says why, in one sentence."""


class AbsentError(StoreError):
    """There is no such thing."""


class TroubleError(StoreError):
    """The database itself could not do it."""


class LostError(TroubleError):
    """The database was away, or is; nothing of the transaction was kept, and it may be repeated."""


def open_database(url: str) -> Engine:
    """Connects to the database, once, to see that it is there and can be written.

    Args:
        url: As SQLAlchemy writes it, such as `sqlite:////var/db/netbisect/netbisect.sqlite` or
            `postgresql+psycopg://netbisect@localhost/netbisect`.

    Raises:
        StoreError: this is no such url, its driver is not installed, or what it names cannot
            be opened for writing.
    """
    parsed = _parse(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    if sqlite:
        _check_path(parsed)
    try:
        engine = create_engine(
            parsed,
            json_serializer=_json,
            **_options(sqlite=sqlite),
        )
    except ModuleNotFoundError as error:
        raise _lacking(parsed, error) from error
    if sqlite:
        event.listen(engine, "connect", _on_sqlite_connect)
    event.listen(engine, "begin", _on_begin)
    try:
        with speaking(engine), writer(engine).connect() as connection:
            connection.begin().rollback()
    except StoreError:
        engine.dispose()
        raise
    return engine


def is_there(url: str) -> bool:
    """Whether opening this database would find one; only of SQLite is a new one made.

    Raises:
        StoreError: this is no such url.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in {None, "", ":memory:"}:
        return True
    return Path(parsed.database or "").exists()


def writer(engine: Engine) -> Engine:
    """The same engine, whose transactions wait for their turn to write."""
    options: dict[str, Any] = {_WRITES: True}
    if engine.dialect.name != "sqlite":
        # What it sees is to be newer than its turn, for which it waits within the transaction.
        options["isolation_level"] = "READ COMMITTED"
    return engine.execution_options(**options)


def settle(session: Session) -> None:
    """Commits what a writer has done; where the answer was lost, the server is asked again.

    Raises:
        LostError: it was lost, all of it.
        TroubleError: it is not known whether it was.
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
            raise TroubleError(
                f"the database {shown(engine.url)} was lost while it was told to keep something; "
                "nobody can say whether it did"
            ) from error
        if not kept:
            raise


def patiently(work: Callable[[], _Result]) -> _Result:
    """What `work` returns; it is done again from its beginning when the database was lost.

    Args:
        work: Any number of transactions, of which each may be made again once those before it
            are kept, as after a kill.

    Raises:
        StoreError: as `work`; LostError when the database stays away.
    """
    lost: LostError | None = None
    for _ in pauses():
        try:
            return work()
        except LostError as error:
            lost = error
    assert lost is not None
    raise lost


def shown(url: URL) -> str:
    """The url as it may be shown: without its password."""
    return url.render_as_string(hide_password=True)


@contextlib.contextmanager
def speaking(engine: Engine) -> Iterator[None]:
    """Turns what goes wrong in the database into one sentence.

    Raises:
        StoreError: instead of SQLAlchemy's and the driver's own errors.
    """
    try:
        yield
    except exc.DBAPIError as error:
        said = " ".join(str(error.orig).split())
        if is_loss(error):
            raise LostError(f"the database {shown(engine.url)} does not answer: {said}") from error
        raise TroubleError(f"the database {shown(engine.url)} refused: {said}") from error
    except exc.SQLAlchemyError as error:
        said = " ".join(str(error).split())
        raise TroubleError(f"the database {shown(engine.url)} failed: {said}") from error


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except exc.NoSuchModuleError as error:
        raise StoreError(
            f"the database url {shown(parsed)} names no database that is known here; {_RIGHT}"
        ) from error
    except exc.ArgumentError as error:
        raise StoreError(f"{url!r} is no database url; {_RIGHT}") from error
    except ImportError as error:
        raise _lacking(parsed, error) from error
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise StoreError(
            f"the database {shown(parsed)} is neither SQLite nor PostgreSQL, "
            "the two that netbisect works with"
        )
    return parsed


def _options(*, sqlite: bool) -> dict[str, Any]:
    if sqlite:
        return {"connect_args": {"timeout": WAIT_SECONDS}}
    return {"pool_pre_ping": True, "isolation_level": "REPEATABLE READ"}


def _lacking(url: URL, error: ImportError) -> StoreError:
    return StoreError(
        f"the database {shown(url)} needs the Python module {error.name}, which is not installed"
    )


def _check_path(url: URL) -> None:
    if url.database in {None, "", ":memory:"}:
        raise StoreError(
            f"the database url {shown(url)} names no file, and what is kept in memory is "
            "forgotten; sqlite:////path/to/file would be right"
        )
    path = Path(str(url.database))
    if path.is_dir():
        raise StoreError(f"the database {path} is a directory; a file would be right")
    if not path.parent.is_dir():
        raise StoreError(f"the database {path} cannot be made: there is no directory {path.parent}")


def _json(value: object) -> str:
    """As both databases take it: PostgreSQL knows no Infinity, but numbers of any size."""
    text = json.dumps(value)
    if "Infinity" not in text:
        return text
    return _STRING_OR_INFINITY.sub(lambda found: found[1] or "1e999", text)


def _on_sqlite_connect(connection: Any, _: ConnectionPoolEntry) -> None:  # noqa: ANN401 - as sqlite3 gives it
    assert isinstance(connection, sqlite3.Connection)
    # No transaction is begun behind our back: _on_begin does it.
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",  # readers and the writer do not wait for each other
        "synchronous = FULL",  # what was said to be written survives a power cut
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        begin_writing(connection)
