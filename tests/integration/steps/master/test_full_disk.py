"""A master with a full disk ends, and continues after a restart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import forked
from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.pool import NullPool

from netbisect.steps.master.full_disk import FullDiskExit
from netbisect.store.db.database import on_write_error

FULL = "database or disk is full"


@contextlib.contextmanager
def full(engine: Engine) -> Iterator[None]:
    """Prevents the SQLite file from growing."""

    def limit(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    event.listen(engine, "begin", limit)
    yield
    event.remove(engine, "begin", limit)


def test_only_write_errors_are_reported(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/one", poolclass=NullPool)
    reported: list[str] = []
    stop = on_write_error(engine, reported.append)

    def write() -> None:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO t VALUES (zeroblob(100000))"))

    with pytest.raises(exc.OperationalError, match="no such table"):
        write()
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (x PRIMARY KEY)"))
        connection.execute(text("INSERT INTO t VALUES (1)"))
    with pytest.raises(exc.IntegrityError), engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
    assert reported == []
    with full(engine), pytest.raises(exc.OperationalError, match=FULL):
        write()
    stop()
    with full(engine), pytest.raises(exc.OperationalError, match=FULL):
        write()
    assert reported == [FULL]


def write_on_full_disk(folder: Path) -> None:
    """Writes to the database of a master, which ends the process."""
    engine = create_engine(f"sqlite:///{folder}/state.sqlite")
    service = FullDiskExit()
    database = SimpleNamespace(pool=SimpleNamespace(engine=engine))
    service.parent = SimpleNamespace(master=SimpleNamespace(db=database))
    service.startService()
    with full(engine), engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (x)"))


def test_a_full_disk_ends_the_master_with_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = forked(write_on_full_disk, tmp_path)
    printed = capfd.readouterr().err

    assert status == 75
    assert printed.startswith(f"the master's database cannot be written ({FULL}): the master")
    assert printed.count("\n") == 1
