"""Copies of SQLite databases in use, all of one instant."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlalchemy import URL, create_engine
from sqlalchemy.pool import NullPool

from netbisect.store.db.database import StoreError
from netbisect.store.db.schema import known_schemas, schema_of

_WAIT_SECONDS = 60


def copy(copies: Mapping[Path, Path]) -> str:
    """Copies SQLite databases, as all were at one instant; returns the schema of the ledger, or "".

    The ledger comes first, and is not written while the snapshots begin.

    Args:
        copies: By database: the file to write, which must be absent.

    Raises:
        StoreError: a database is missing or damaged, or cannot be read.
    """
    ledger = next(iter(copies))
    with contextlib.ExitStack() as stack:
        with _opened(ledger, "BEGIN IMMEDIATE"):
            snapshots = [stack.enter_context(_opened(source, "BEGIN")) for source in copies]
        for snapshot, path in zip(snapshots, copies.values(), strict=True):
            _write(snapshot, path)
    copied = URL.create("sqlite", database=str(copies[ledger]))
    return schema_of(create_engine(copied, poolclass=NullPool))


def is_known(schema: str) -> bool:
    """Whether this version can migrate such a ledger."""
    return not schema or schema in known_schemas()


@contextlib.contextmanager
def _opened(path: Path, begin: str) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise StoreError(f"the database {path} does not exist")
    try:
        with contextlib.closing(
            sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as connection:
            connection.execute(begin)
            # The first read takes the snapshot.
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield connection
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} cannot be copied: {error}") from error


def _write(source: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copied:
        source.backup(copied)
        copied.execute("PRAGMA journal_mode = DELETE")  # one file, not three
        [(found, *_), *_] = copied.execute("PRAGMA quick_check").fetchall()
    if found != "ok":
        raise StoreError(f"a database is damaged: {found}")
