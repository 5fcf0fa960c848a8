"""Copies of databases that are in use, and their way back.

A service has two databases, its ledger and Buildbot's. Both are copied as they were at one instant:
nobody writes while the two snapshots are begun. So a copy is what a kill at that instant would
have left, and the service goes on from it as it does after a kill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, inspect, text
from sqlalchemy.engine import URL, make_url

from netbisect.store.database import (
    StoreError,
    is_there,
    open_database,
    shown,
    speaking,
    writer,
)
from netbisect.store.schema import known_schemas, schema_of

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
_WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a ledger."""

    kind: str
    """`SQLITE`: a database; `POSTGRESQL`: what pg_dump(1) writes, for pg_restore(1)."""
    path: Path
    schema: str
    """Number of its tables' version; "" when it had no tables yet."""


def copy(url: str, ledger: Path, others: Sequence[tuple[Path, Path]] = ()) -> Copy:
    """Copies a ledger, and SQLite databases besides, as all were at one instant.

    Args:
        url: SQLAlchemy address of the ledger.
        ledger: file to write, which must be absent.
        others: SQLite databases, each with the file to write.

    Raises:
        StoreError: a database cannot be read, is damaged, or there is no pg_dump for it.
    """
    if not is_there(url):
        raise StoreError(f"the database {shown(make_url(url))} is not there")
    engine = open_database(url)
    try:
        with speaking(engine), contextlib.ExitStack() as reading:
            with contextlib.ExitStack() as held:
                held.enter_context(writer(engine).begin())
                for source, _ in others:
                    held.enter_context(_held(source))
                readers = [reading.enter_context(_reader(source)) for source, _ in others]
                if engine.dialect.name == SQLITE:
                    path = Path(str(engine.url.database))
                    ledger_reader = reading.enter_context(_reader(path))
                else:
                    snapshot = reading.enter_context(_snapshot(engine))
                schema = schema_of(engine)
            for reader, (_, target) in zip(readers, others, strict=True):
                _write(reader, target)
            if engine.dialect.name == SQLITE:
                _write(ledger_reader, ledger)
            else:
                _dump(engine.url, snapshot, ledger)
        return Copy(engine.dialect.name, ledger, schema)
    finally:
        engine.dispose()


def restore(copied: Copy, url: str) -> None:
    """Brings a copy to a place where there is no database yet.

    Args:
        copied: as `copy` gave it; of an SQLite database the file itself is moved.
        url: SQLAlchemy address of the place.

    Raises:
        StoreError: the place is taken, is of the other kind, or the copy cannot be used.
    """
    target = make_url(url)
    kind = target.get_backend_name()
    if kind != copied.kind:
        raise StoreError(
            f"the copy is of a database of {copied.kind}, the settings say {shown(target)}"
        )
    if kind == SQLITE:
        if is_there(url):
            raise StoreError(f"the database {shown(target)} is there already")
        path = Path(str(target.database))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(copied.path, path)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        return
    engine = open_database(url)
    try:
        with speaking(engine):
            if inspect(engine).get_table_names():
                raise StoreError(f"the database {shown(target)} has tables already")
    finally:
        engine.dispose()
    arguments = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    _program("pg_restore", target, [*arguments, str(copied.path)])


def knows(schema: str) -> bool:
    """Whether this version can bring such tables up to date."""
    return not schema or schema in known_schemas()


# ------------------------------------------------------------------------------------- SQLite


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database at `path`, which must be there.

    Raises:
        StoreError: whatever goes wrong in it.
    """
    try:
        with contextlib.closing(
            sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=_WAIT_SECONDS,
                isolation_level=None,
            )
        ) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} cannot be copied: {error}") from error


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Nobody else writes into the database meanwhile."""
    with _opened(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextlib.contextmanager
def _reader(path: Path) -> Iterator[sqlite3.Connection]:
    """Sees the database as it is now, whatever is written meanwhile."""
    with _opened(path) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection


def _write(source: sqlite3.Connection, target: Path) -> None:
    """All that the reader sees, in one file that is whole."""
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copied:
        source.backup(copied)
        copied.execute("PRAGMA journal_mode = DELETE")  # one file, not three
        [(found, *_), *_] = copied.execute("PRAGMA quick_check").fetchall()
    if found != "ok":
        raise StoreError(f"a database is damaged: {found}")


# --------------------------------------------------------------------------------- PostgreSQL


@contextlib.contextmanager
def _snapshot(engine: Engine) -> Iterator[str]:
    """Name by which pg_dump sees the database as it is now."""
    level = {"isolation_level": "REPEATABLE READ"}
    with engine.execution_options(**level).begin() as connection:
        yield str(connection.execute(text("SELECT pg_export_snapshot()")).scalar_one())


def _dump(url: URL, snapshot: str, target: Path) -> None:
    arguments = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
    _program("pg_dump", url, [*arguments, f"--file={target}"])


def _program(name: str, url: URL, arguments: Sequence[str]) -> None:
    """One of PostgreSQL's own programs; the password is not among its arguments.

    Raises:
        StoreError: it is not installed, or fails.
    """
    address = url.set(drivername="postgresql", password=None).render_as_string()
    environment = dict(os.environ)
    if url.password:
        environment["PGPASSWORD"] = str(url.password)
    try:
        done = subprocess.run(
            [name, f"--dbname={address}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise StoreError(
            f"{name} is not installed here; PostgreSQL's client programs have it"
        ) from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise StoreError(f"{name} of {shown(url)} failed: {said}")
