"""Copies of databases that are in use, and their way back.

A service has two databases, its ledger and Buildbot's. Both are copied as they were at one instant:
nobody writes into the ledger while the two snapshots are begun. So a copy is what a kill at that
instant would have left, and the service goes on from it as it does after a kill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import Engine, MetaData, create_engine, inspect, text
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
    """A copy of a database."""

    kind: str
    """`SQLITE`: a database; `POSTGRESQL`: what pg_dump(1) writes, for pg_restore(1)."""
    path: Path
    schema: str = ""
    """Number of the version of a ledger's tables; "" when it had no tables yet."""


def copy(url: str, ledger: Path, besides: Sequence[tuple[str, Path]] = ()) -> Copy:
    """Copies a ledger, and other databases besides, as all were at one instant.

    Args:
        url: SQLAlchemy address of the ledger.
        ledger: file to write, which must be absent.
        besides: addresses of databases, each with the file to write.

    Raises:
        StoreError: a database cannot be read, is damaged, or there is no pg_dump for it.
    """
    wanted = [(url, ledger), *besides]
    for one, _ in wanted:
        if not is_there(one):
            raise StoreError(f"the database {shown(make_url(one))} is not there")
    with contextlib.ExitStack() as opened:
        # All of them before the ledger is held: to open one is to look whether it can be written.
        engine = opened.enter_context(_disposed(open_database(url)))
        others = [opened.enter_context(_disposed(_other(one))) for one, _ in besides]
        with contextlib.ExitStack() as seeing:
            # What is seen of the others is of a moment in which the ledger was as it is now.
            with speaking(engine), writer(engine).begin():
                writers = [seeing.enter_context(_seen(one)) for one in (engine, *others)]
                schema = schema_of(engine)
            for write, (_, target) in zip(writers, wanted, strict=True):
                write(target)
        return Copy(engine.dialect.name, ledger, schema)


@contextlib.contextmanager
def _disposed(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _other(url: str) -> Engine:
    """A database that is not ours: of SQLite's, nothing of how it is kept is changed."""
    return create_engine(url) if make_url(url).get_backend_name() == SQLITE else open_database(url)


@contextlib.contextmanager
def _seen(engine: Engine) -> Iterator[Callable[[Path], None]]:
    """Sees a database as it is now; what to call, to have that in a file."""
    if engine.dialect.name == SQLITE:
        with _reader(Path(str(engine.url.database))) as reader:
            yield partial(_write, reader)
        return
    with speaking(engine), _snapshot(engine) as snapshot:
        yield partial(_dump, engine.url, snapshot)


def restore(copies: Sequence[tuple[Copy, str]]) -> None:
    """Brings copies to places where there is no database yet; all of them, or none.

    Args:
        copies: as `copy` gave them, each with the SQLAlchemy address of its place; of an SQLite
            database the file itself is moved.

    Raises:
        StoreError: a place is taken, is of the other kind, or a copy cannot be used.
    """
    for copied, url in copies:
        _check_place(copied, url)
    with contextlib.ExitStack() as undoing:
        for copied, url in copies:
            _bring(copied, make_url(url))
            undoing.callback(_clear, url)
        undoing.pop_all()


def _check_place(copied: Copy, url: str) -> None:
    target = make_url(url)
    kind = target.get_backend_name()
    if kind != copied.kind:
        raise StoreError(
            f"the copy is of a database of {copied.kind}, the settings say {shown(target)}"
        )
    if kind == SQLITE:
        if is_there(url):
            raise StoreError(f"the database {shown(target)} is there already")
        return
    with _disposed(open_database(url)) as engine, speaking(engine):
        if inspect(engine).get_table_names():
            raise StoreError(f"the database {shown(target)} has tables already")


def _bring(copied: Copy, target: URL) -> None:
    if copied.kind == SQLITE:
        path = Path(str(target.database))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(copied.path, path)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        return
    arguments = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    _program("pg_restore", target, [*arguments, str(copied.path)])


def _clear(url: str) -> None:
    """Makes a place that a copy was brought to as it was before: without anything."""
    target = make_url(url)
    if target.get_backend_name() == SQLITE:
        Path(str(target.database)).unlink(missing_ok=True)
        return
    with _disposed(open_database(url)) as engine, speaking(engine):
        tables = MetaData()
        tables.reflect(engine)
        tables.drop_all(engine)


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
