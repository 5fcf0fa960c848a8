"""A disk that was full: the master begins afresh when there is room, and only then."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_master import RealMaster, case
from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.pool import NullPool
from twisted.internet import reactor, task

from netbisect.bisect.model import NightDone
from netbisect.demo.house import House
from netbisect.demo.mailbox import read
from netbisect.steps import afresh, control
from netbisect.steps.casework import open_nights
from netbisect.steps.memory import history_of, ledger_of
from netbisect.steps.settings import load
from netbisect.store.room import listen

FULL = "database or disk is full"


@contextlib.contextmanager
def without_room(engine: Engine) -> Iterator[None]:
    """No transaction lets its SQLite file grow."""

    def limited(connection: Connection, most: int = 1) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {most}")

    event.listen(engine, "begin", limited)
    yield
    event.remove(engine, "begin", limited)
    with engine.connect() as connection:
        limited(connection, 1 << 30)


def test_only_what_cannot_be_written_is_heard(tmp_path: Path) -> None:
    """Neither a question that is wrong, nor anything after the end of the listening."""
    engine = create_engine(f"sqlite:///{tmp_path}/one", poolclass=NullPool)
    heard: list[str] = []
    end = listen(engine, heard.append)

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
    assert heard == []
    with without_room(engine), pytest.raises(exc.OperationalError, match=FULL):
        write()
    assert heard == [FULL]
    end()
    with without_room(engine), pytest.raises(exc.OperationalError, match=FULL):
        write()
    assert heard == [FULL]


class Full(RealMaster):
    """Buildbot's database is full for a while."""

    def setUp(self) -> Any:
        self.begun: list[Path] = []
        self.patch(afresh, "begin", self.begun.append)
        self.patch(afresh, "_TICK", 0.1)
        self.patch(afresh, "_LEAST_SECONDS", 0.0)
        return super().setUp()

    async def write(self, size: int) -> None:
        await self.master.db.state.setState(1, "much", "x" * size)

    @case
    async def test_it_begins_afresh_when_there_is_room_and_says_so_once_a_day(self: Any) -> None:
        """The people that netbisect tells get a mail, and no other one of the next time."""
        await self.start(services=[afresh.Afresh(settings=self.settings)])
        await self.write(1000)
        await task.deferLater(reactor, 0.5)
        assert self.begun == []
        with without_room(self.master.db.pool.engine):
            with pytest.raises(exc.OperationalError):
                await self.write(1_000_000)
            self.patch(self.master, "basedir", "/nowhere")  # no file can be written
            await task.deferLater(reactor, 0.5)
            assert self.begun == []
            assert self.ledger.waiting_mails() == []
        self.patch(self.master, "basedir", str(self.folder))
        await self.until(lambda: self.begun != [])
        assert {*self.begun} == {self.folder}
        [mail] = self.ledger.waiting_mails()
        assert mail.recipients == ("people@lab.invalid",)
        assert "had no room" in mail.subject
        assert FULL in mail.body
        assert str(self.folder) in mail.body.replace("\n", "")
        number = len(self.begun)
        await self.until(lambda: len(self.begun) > number)
        assert len(self.ledger.waiting_mails()) == 1
        assert self.flushLoggedErrors(exc.OperationalError)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.1)


def limit_files(process: int, size: int) -> None:
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.long
@pytest.mark.xdist_group("service")
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process is set")
def test_a_master_is_a_new_one_in_the_same_process(tmp_path: Path) -> None:
    """For an init system it is the same one; the night that was under way is measured."""
    house = House(tmp_path / "house")
    house.build(testbeds=["c2558"])
    settings, lab = load(house.place / control.SETTINGS)
    ledger, history = ledger_of(settings), history_of(settings, lab)
    house.start()
    try:
        process = control.running(house.place)
        assert process is not None
        open_nights(ledger, history, settings, lab.testbeds, settings.branches)
        until(lambda: any(one.buildset for one in ledger.open_decisions()))
        limit_files(process, 0)
        time.sleep(3.0)
        limit_files(process, resource.RLIM_INFINITY)
        log = house.place / "twistd.log"
        until(lambda: "begins afresh" in log.read_text())
        until(lambda: ledger.open_questions() == [] and ledger.waiting_mails() == [])
        assert control.running(house.place) == process
        [mail] = read(house.mails)
        assert "had no room" in mail["Subject"]
        assert isinstance(ledger.question(1).finding, NightDone)
    finally:
        house.stop()
    assert control.running(house.place) is None
