"""A master with a full disk ends, and continues after a restart."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import captured
from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.pool import NullPool
from waiting import wait_until

from netbisect.bisect.model.results import NightlyResult
from netbisect.demo.service import DemoService
from netbisect.steps.scheduler.followups import open_nights
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_history, open_service_ledger
from netbisect.steps.service.settings import load
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


@pytest.mark.long
@pytest.mark.xdist_group("service")
@pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is of Linux")
def test_a_master_continues_after_a_full_disk(tmp_path: Path) -> None:
    service = DemoService(tmp_path / "service")
    service.build(testbeds=["c2558"])
    settings, lab = load(service.place / control.SETTINGS)
    ledger, history = open_service_ledger(settings), open_history(settings, lab)
    history.update()
    service.start()
    try:
        process = control.master_pid(service.place)
        assert process is not None
        open_nights(ledger, history, settings, lab.testbeds, settings.branches)
        wait_until(lambda: any(one.buildset for one in ledger.actions.all_open()))
        resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        wait_until(lambda: control.master_pid(service.place) is None)
        control.start(service.place, service.environment)
        wait_until(lambda: ledger.jobs.all_open() == [])
        assert isinstance(ledger.jobs.get(1).result, NightlyResult)
    finally:
        service.stop()
