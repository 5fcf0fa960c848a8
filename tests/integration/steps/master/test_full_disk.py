"""A master with a full disk ends, and continues after a restart."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import captured
from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.pool import NullPool

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


_MASTER = """
import sys
from types import SimpleNamespace
from sqlalchemy import create_engine, text
from netbisect.steps.master.full_disk import FullDiskExit
engine = create_engine(f"sqlite:///{sys.argv[1]}/state.sqlite")
service = FullDiskExit()
pool = SimpleNamespace(engine=engine)
service.parent = SimpleNamespace(master=SimpleNamespace(db=SimpleNamespace(pool=pool)))
service.startService()
with engine.begin() as connection:
    connection.execute(text("PRAGMA max_page_count = 1"))
    connection.execute(text("CREATE TABLE t (x)"))
"""


def test_a_full_disk_ends_the_master_with_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _MASTER, str(tmp_path)]
    done = captured(command)

    assert done.returncode == 75
    assert done.stderr.startswith(f"the master's database cannot be written ({FULL}): the master")
    assert done.stderr.count("\n") == 1
