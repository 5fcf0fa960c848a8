"""The watchdog and its records."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netbisect.steps.service import stalls, watchdog
from netbisect.steps.service.stalls import Stall
from netbisect.steps.service.watchdog import EXIT_STATUS, STACKS, WatchedWait, overdue


def test_wait_is_overdue_after_its_limit_plus_the_patience() -> None:
    short, long = WatchedWait("short", began=0.0), WatchedWait("long", seconds=100.0, began=0.0)
    assert overdue([short, long], 10.0, 10.0) is None
    assert overdue([short, long], 10.1, 10.0) is short
    assert overdue([long], 110.0, 10.0) is None
    assert overdue([long], 110.1, 10.0) is long
    assert overdue([], 1e9, 0.0) is None


def test_wait_ends_with_its_block_except_in_a_discarded_coroutine() -> None:
    before = set(watchdog._waits)
    with WatchedWait("one") as one:
        assert one in watchdog._waits
    with pytest.raises(ValueError, match="it failed"), WatchedWait("two"):
        raise ValueError("it failed")
    assert watchdog._waits == before

    async def discarded() -> None:
        with WatchedWait("an event"):
            await asyncio.sleep(0)  # yields once

    coroutine = discarded()
    coroutine.send(None)
    coroutine.close()
    [remaining] = watchdog._waits - before
    assert remaining.what == "an event"
    watchdog._waits.discard(remaining)


def test_stalls_are_counted_and_the_latest_are_kept(tmp_path: Path) -> None:
    now = time.time()
    for number in range(60):
        stalls.add(tmp_path, Stall(now - 60 + number, f"wait {number}", 600.0, host="h"))
    stalls.add(tmp_path, Stall(now, "a response of worker c2558", 300.0, stalls.WORKER, "h"))
    found = stalls.read(tmp_path)
    assert found.counts == {"master": 60, "compute": 0, "worker": 1}
    assert [one.what for one in found.latest][-2:] == ["wait 59", "a response of worker c2558"]
    assert len(found.latest) == 50
    assert len(found.recent) == 6
    assert "waited 5 min for a response of worker c2558; the connection" in found.recent[0]
    assert found.recent[-1] == "45 earlier stalls in a week."
    assert [path.name for path in tmp_path.iterdir()] == ["stalls.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"counts": {}, "latest": [{"x": 1}]}', "{}"])
def test_damaged_record_is_read_as_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "stalls.json").write_text(text)
    assert stalls.read(tmp_path).latest == ()
    stalls.add(tmp_path, Stall(1.0, "the reactor", 1.0))
    assert stalls.read(tmp_path).counts["master"] == 1


_PROGRAM = """
import os, sys, threading, time
from pathlib import Path
from netbisect.steps.service.watchdog import WatchedWait, Watchdog

folder = Path(sys.argv[1])
dog = Watchdog(folder, folder, {"wait": 1.0, "gil": 0.4, "short-waits": 4.0}[sys.argv[2]])
dog.start()
if sys.argv[2] == "wait":
    def never_returns():
        with WatchedWait("the ledger: conclude"):
            time.sleep(600)
    threading.Thread(target=never_returns).start()
elif sys.argv[2] == "gil":
    # PyDLL keeps the GIL.
    import ctypes
    time.sleep(0.2)
    ctypes.PyDLL(None).sleep(600)
elif sys.argv[2] == "short-waits":
    for _ in range(30):
        with WatchedWait("something short"):
            time.sleep(0.03)
    os._exit(0)
time.sleep(600)
"""


def start(folder: Path, scenario: str, **environment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _PROGRAM, str(folder), scenario]
    return subprocess.Popen(command, env={**os.environ, **environment})


def test_endless_wait_ends_the_process(tmp_path: Path) -> None:
    assert start(tmp_path, "wait").wait(300) == EXIT_STATUS == 75
    stacks = (tmp_path / STACKS).read_text()
    assert "for the ledger: conclude; the master ended" in stacks
    assert "in never_returns" in stacks
    [found] = stalls.read(tmp_path).latest
    assert (found.what, found.ended) == ("the ledger: conclude", "master")
    assert found.seconds > 1.0


@pytest.mark.long
def test_process_that_holds_the_gil_ends_and_its_successor_records_it(tmp_path: Path) -> None:
    assert start(tmp_path, "gil").wait(300) == 1
    assert stalls.read(tmp_path).latest == ()
    for _ in range(2):
        assert start(tmp_path, "short-waits").wait(300) == 0
        [found] = stalls.read(tmp_path).latest
        assert "no thread could run (Timeout (0:00:00.400000)!)" in found.sentence


def test_process_within_its_limits_notifies_systemd(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(300)
        process = start(tmp_path, "short-waits", NOTIFY_SOCKET=str(tmp_path / "notify"))
        messages = [manager.recv(100) for _ in range(3)]
        assert messages == 3 * [b"WATCHDOG=1"]
        assert process.wait(300) == 0
    assert stalls.read(tmp_path).latest == ()
