"""Copies of SQLite databases in use, all of one instant."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from netbisect.store.db.database import StoreError
from netbisect.store.db.schema import VERSION_TABLE, known_schemas

_WAIT_SECONDS = 60


def copy(ledger: Path, target: Path, others: Sequence[tuple[Path, Path]] = ()) -> str:
    """Copies a ledger and other databases, as all were at one instant.

    The ledger is not written while the snapshots begin.

    Args:
        ledger: Database of the ledger.
        target: File to write, which must be absent.
        others: Other databases, each with the file to write.

    Returns:
        Schema of the ledger; "" without tables.

    Raises:
        StoreError: a database is missing or damaged, or cannot be read.
    """
    copies = [(ledger, target), *others]
    with contextlib.ExitStack() as stack:
        with _opened(ledger) as lock:
            lock.execute("BEGIN IMMEDIATE")
            snapshots = [stack.enter_context(_snapshot(source)) for source, _ in copies]
        for snapshot, (_, path) in zip(snapshots, copies, strict=True):
            _write(snapshot, path)
        return _schema_of(snapshots[0])


def is_known(schema: str) -> bool:
    """Whether this version can migrate such a ledger."""
    return not schema or schema in known_schemas()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise StoreError(f"the database {path} is not there")
    try:
        with contextlib.closing(
            sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} cannot be copied: {error}") from error


@contextlib.contextmanager
def _snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees the database as it is now."""
    with _opened(path) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection


def _schema_of(connection: sqlite3.Connection) -> str:
    query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
    if not connection.execute(query, (VERSION_TABLE,)).fetchone()[0]:
        return ""
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608 - a constant
    return str(row[0]) if row else ""


def _write(source: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copied:
        source.backup(copied)
        copied.execute("PRAGMA journal_mode = DELETE")  # one file, not three
        [(found, *_), *_] = copied.execute("PRAGMA quick_check").fetchall()
    if found != "ok":
        raise StoreError(f"a database is damaged: {found}")
