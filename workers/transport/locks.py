"""Locks in files whose content names their holder; they end with their process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.transport.errors import BusyError

LOOK = 0.2
"""Seconds between attempts to take a lock."""


def take(lock: TextIO) -> bool:
    """Takes a lock without waiting; returns whether it was free."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def note(lock: int, text: str) -> None:
    """Replaces the content of a lock file."""
    os.ftruncate(lock, 0)
    os.write(lock, text.encode())


def content(lock: TextIO) -> str:
    """The content of a lock file."""
    lock.seek(0)
    return lock.read().strip()


def hold(
    lock: TextIO, doing: str, seconds: float, say: Callable[[str], object], where: str = ""
) -> str:
    """Waits for a lock, takes it, and notes what this process is doing.

    Args:
        lock: A file that is open for appending and reading.
        doing: For other processes, such as `building 0a1b2c3d`.
        seconds: Maximal wait; 0: none.
        say: Gets a message about the holder at the beginning of a wait.
        where: End of the sentence about the holder.

    Returns:
        "", or a clause about the holder, which still has it.
    """
    end = time.monotonic() + seconds
    message = ""
    while not take(lock):
        who = f"{content(lock) or 'another process has the lock'}{where}"
        if time.monotonic() >= end:
            return f"{who}; it had not ended after {seconds:g} s" if seconds else who
        if who != message:
            message = who
            say(f"{who}: waiting for its end")
        time.sleep(LOOK)
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    with contextlib.suppress(OSError):  # a full disk; the lock holds without its note
        note(lock.fileno(), f"process {os.getpid()} has been {doing} since {since}")
    return ""


@contextlib.contextmanager
def lock_testbed(
    lab: Lab,
    testbed: Testbed,
    doing: str,
    say: Callable[[str], object] = lambda _: None,
    *,
    seconds: float = 0.0,
) -> Iterator[None]:
    """Locks a testbed, so that two commands on this host do not disturb each other.

    Waits up to `seconds` for another command, and then continues beside it, as where files cannot
    be locked: a lock that is never released must not end the service.

    Raises:
        BusyError: `seconds` is 0, and another command has it.
    """
    with contextlib.ExitStack() as stack:
        who = ""
        try:
            lab.kernels.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(_open(lab.kernels / f".{testbed.name}.lock"))
            who = hold(stream, doing, seconds, lambda text: say(f"{testbed.name}: {text}"))
        except OSError as error:
            say(f"{testbed.name} cannot be locked: {error}")
        if who and not seconds:
            raise BusyError(f"{testbed.name}: {who}")
        if who:
            say(f"{testbed.name}: {who}; continuing beside it")
        yield


def _open(path: Path) -> TextIO:
    try:
        return path.open("a+")
    except PermissionError:  # of another user; most file systems lock it nevertheless
        return path.open()
