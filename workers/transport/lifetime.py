"""Ends the processes of a trial with the trial, even if it is killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

_GRACE = 3.0
"""Seconds to clean up after Ctrl-C, which also ends the reader of the output."""
KILL_SECONDS = 5.0
"""Maximum wait for a process after SIGKILL."""
_GUARD = """
trap '' HUP INT TERM
read -r _
rm -rf "$2"
kill -KILL "$1"
"""
"""Waits for end of file on a pipe from the guarded process."""


class ProcessGroup:
    """A process group that ends with this process.

    It differs from the terminal's group, so machines can be cleaned up after Ctrl-C.
    """

    def __init__(self, number: int = 0, folder: Path | str = "") -> None:
        """Starts the guard process.

        Args:
            number: The group; 0: a new one.
            folder: Temporary files; removed with the group.
        """
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(-number), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        self.number = number or self._guard.pid
        """For `process_group` of subprocess.Popen."""

    def end(self) -> None:
        """Kills the group and removes its folder."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        await_killed(self._guard)


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signals a process in a group of its own, and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def await_killed(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a killed process, for a limited time.

    It may not end if a system call hangs, or if it belongs to another user, as with sudo(8).
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)


@contextlib.contextmanager
def ending_with_reader() -> Iterator[None]:
    """Kills this process when the reader of its standard output ends.

    The reader is the worker: after a restart, its next trial needs the testbed. Applies to
    pipes only.
    """
    output = sys.__stdout__.fileno() if sys.__stdout__ is not None else -1
    if output < 0 or not stat.S_ISFIFO(os.fstat(output).st_mode):
        yield
        return
    over, end = os.pipe()
    watch = threading.Thread(target=_watch, args=(output, over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        os.close(end)
        watch.join()
        os.close(over)


def _watch(output: int, over: int) -> None:
    """Waits until one of the pipes loses its other end."""
    pipes = select.poll()
    for pipe in (output, over):
        pipes.register(pipe, 0)  # errors and hang-ups are always reported
    if over in dict(pipes.poll()):
        return
    pipes.unregister(output)
    if not pipes.poll(_GRACE * 1000):
        os.kill(os.getpid(), signal.SIGKILL)
