"""A full file system, and a locked ledger."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from netbisect.bisect.model.entities import Reaction
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.store.db.database import DatabaseError
from netbisect.store.ledger import Ledger, open_ledger
from netbisect.workers.build.logged_process import LoggedCommands
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.testbed import Console
from netbisect.workers.transport.console import ConsoleTap
from netbisect.workers.transport.errors import LabFault

_SIZE = 4 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs permission to mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def without_room(place: Path) -> Iterator[None]:
    """A file takes all free space within the block."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(4096))
    yield
    filler.unlink()


def night(ledger: Ledger, number: int) -> int:
    """Adds a nightly job; returns its id."""
    job = NightlyJob("main", "c2558", f"{number:040x}", ("inet4-forwarding",), 3)
    return ledger.jobs.add(job, key=f"night:{number}").id


def test_a_full_disk_rolls_back_and_later_writes_succeed(small: Path) -> None:
    """The failed transaction leaves no rows."""
    ledger = open_ledger(f"sqlite:///{small}/ledger.sqlite")
    assert night(ledger, 1) == 1
    number = 1

    def fill() -> None:
        nonlocal number
        while True:
            night(ledger, number + 1)
            number += 1

    message = r"ledger\.sqlite refused: .*(disk is full|I/O error)"
    with without_room(small), pytest.raises(DatabaseError, match=message):
        fill()
    assert number == len(ledger.jobs.all_open()) == ledger.events.last()
    assert night(ledger, number + 1) == number + 1
    with contextlib.closing(sqlite3.connect(small / "ledger.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_full_disk_ends_console_logs_only(small: Path) -> None:
    """Console output is still evaluated, and logging resumes once there is space."""
    console = Console(("sh", "-c", "echo panic; exec sleep 60"))
    log = small / "console.log"
    log.touch()
    with without_room(small), ConsoleTap(console, log) as tap:
        wait_until(lambda: "panic" in tap.output())
    assert log.read_bytes() == b""
    with ConsoleTap(console, log) as tap:
        wait_until(lambda: "panic" in tap.output())
    assert b"panic" in log.read_bytes()


def test_a_full_disk_of_the_builder_is_an_infrastructure_fault(small: Path) -> None:
    """The command runs to its end; it does not wait for space."""
    builder = Builder("one", "amd64", small)
    commands = LoggedCommands(builder, small / "log", lambda _: None)
    commands.begin()
    with without_room(small):
        with pytest.raises(LabFault) as caught:
            commands.run(["echo", "something"])
        os.truncate(small / "filler", (small / "filler").stat().st_size - 8192)
        with pytest.raises(LabFault) as later:
            commands.run(["sh", "-c", f"seq 100000; echo end >{small.parent}/end"])
    for one in (caught, later):
        assert one.value.reaction is Reaction.INFRA
        assert one.value.why.startswith("builder one: what ")
        assert one.value.why.endswith(f" cannot be kept in {small}/log: No space left on device")
    assert (small.parent / "end").read_text() == "end\n"
    assert commands.run(["echo", "again"]) == 0
    assert commands.last_line() == "again"


@pytest.mark.long
def test_writers_wait_for_a_locked_ledger(tmp_path: Path) -> None:
    """Readers do not wait, and no write is lost."""
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(f"sqlite:///{path}")
    night(ledger, 1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        writers = [threading.Thread(target=night, args=(ledger, one)) for one in range(2, 6)]
        for one in writers:
            one.start()
        time.sleep(6.0)  # longer than the default timeout of five seconds of sqlite3
        assert all(one.is_alive() for one in writers)
        assert len(ledger.jobs.all_open()) == 1
        other.execute("COMMIT")
    for one in writers:
        one.join(30.0)
    assert {record.key for record in ledger.jobs.all_open()} == {
        f"night:{number}" for number in range(1, 6)
    }
