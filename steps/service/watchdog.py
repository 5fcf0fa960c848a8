"""The watchdog: ends a master that exceeds the time limit of an operation.

Code in any thread registers its waits:

    with WatchedWait("the ledger: conclude"):
        ...

A separate thread checks all waits. When one exceeds its limit, the watchdog writes the stacks of
all threads to `stacks.log`, records the stall (steps/service/stalls.py) and exits with EX_TEMPFAIL,
so that the supervisor restarts the master. If no Python thread can run, faulthandler does the same
without a record.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NoReturn, ParamSpec, Self, TypeVar

from twisted.internet import threads
from twisted.python import log

from netbisect.steps.service import stalls
from netbisect.steps.service.stalls import Stall

P = ParamSpec("P")
T = TypeVar("T")

EXIT_STATUS = os.EX_TEMPFAIL
"""Exit status after a stall."""
STACKS = "stacks.log"
"""File in the folder of the master."""
_MAX_BYTES = 1 << 20
"""Size of stacks.log, in bytes, for rotation."""
_LONGEST_INTERVAL = 5.0
"""Longest interval of checks, in seconds."""
_RECORD_SECONDS = 20.0
"""Time limit for recording a stall, in case the disk hangs."""
_CRASH = re.compile(r"^(Timeout|Fatal Python error).*", re.MULTILINE)


@dataclass(slots=True, eq=False)
class WatchedWait:
    """An operation under watch, within a `with` block."""

    what: str
    """Name of the operation, for messages."""
    seconds: float = 0.0
    """Time limit of the operation, to which the watchdog adds its patience."""
    began: float = field(default_factory=time.monotonic)

    def next(self, what: str) -> None:
        self.what, self.began = what, time.monotonic()

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        _waits.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        # A discarded coroutine waits for an event that never comes: a stall.
        if kind is not GeneratorExit:
            _waits.discard(self)


_waits: set[WatchedWait] = set()


def overdue(waits: Iterable[WatchedWait], now: float, patience: float) -> WatchedWait | None:
    """Returns the wait that exceeds its limit most, or None."""
    late = [(now - one.began - one.seconds - patience, one) for one in waits]
    most, worst = max(late, key=lambda pair: pair[0], default=(0.0, None))
    return worst if most > 0 else None


async def run_in_thread(what: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs `work` in a thread of the reactor's pool, under watch."""
    with WatchedWait(what):
        return await threads.deferToThread(work, *args, **kwargs)


def notify_systemd(state: str) -> None:
    """Notifies systemd, if it is the supervisor; see sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(state.encode(), address.replace("@", "\0", 1))


def exit_for_restart(why: str) -> NoReturn:
    """Ends this process at once, so that the supervisor restarts the master."""
    sentence = (
        f"{why}: the master ends with exit status {EXIT_STATUS}, and continues after a restart"
    )
    log.msg(sentence)
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - the log may be on a full disk
    os._exit(EXIT_STATUS)


def record_stall(state: Path, stall: Stall) -> None:
    """Records and logs a stall."""
    log.msg(f"STALL {stall.sentence}")
    try:
        stalls.add(state, stall)
    except OSError as error:
        log.msg(f"the stall could not be recorded in {state}: {error}")


class Watchdog:
    """The thread that checks all waits of this process."""

    def __init__(self, folder: Path, state: Path, patience: float) -> None:
        """Watches the master in `folder`; waits may exceed their limits by `patience` seconds."""
        self._state = state
        self._patience = patience
        self._interval = min(_LONGEST_INTERVAL, patience / 20)
        self._record_crash(folder / STACKS)
        self._stacks = (folder / STACKS).open("ab", buffering=0)
        self._stopped = threading.Event()

    def start(self) -> None:
        faulthandler.enable(self._stacks)  # systemd sends SIGABRT after WatchdogSec
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        faulthandler.cancel_dump_traceback_later()

    def _record_crash(self, path: Path) -> None:
        """Records a stall that the previous master could not record itself."""
        if not path.is_file():
            return
        at = path.stat().st_mtime
        known = [one.at for one in stalls.read(self._state).latest if one.ended == stalls.MASTER]
        found = [*_CRASH.finditer(path.read_text(errors="replace"))]
        if found and at > max(known, default=0.0) + 1.0:
            what = f"the interpreter: no thread could run ({found[-1][0].strip()})"
            record_stall(self._state, Stall(at, what, 0.0))
        if path.stat().st_size > _MAX_BYTES:
            path.replace(path.with_name(f"{STACKS}.1"))

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(self._interval):
            faulthandler.dump_traceback_later(self._patience, exit=True, file=self._stacks)
            now = time.monotonic()
            # Time when the process was suspended does not count.
            pause = max(0.0, now - last - 2 * self._interval)
            waits, last = tuple(_waits), now
            for one in waits:
                one.began += pause
            late = overdue(waits, now, self._patience)
            if late is not None:
                self._end(Stall(time.time(), late.what, now - late.began))
            notify_systemd("WATCHDOG=1")

    def _end(self, stall: Stall) -> None:
        faulthandler.dump_traceback_later(_RECORD_SECONDS, exit=True, file=self._stacks)
        self._stacks.write(f"\n{stall.sentence}\n".encode())
        faulthandler.dump_traceback(self._stacks)
        record_stall(self._state, stall)
        os._exit(EXIT_STATUS)
