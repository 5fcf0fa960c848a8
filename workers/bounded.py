"""What takes what a machine or a program says, up to a limit: one gone mad fills no disk."""

from __future__ import annotations

import contextlib
import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_BYTES = 4 << 20
"""Of one file: pkt-gen says some hundred bytes a second."""
_BLOCK = 1 << 16
_LOOK = 1.0
"""Seconds between two looks whether it is over, where whoever writes keeps the pipe open."""


@contextlib.contextmanager
def bounded(log: Path) -> Iterator[int]:
    """A file descriptor to write to; what comes is in `log` at once, when the block ends all of it.

    At the limit, of which the log's last line tells, and where the disk is full, nothing more is
    read: who goes on writing waits, until the block ends, and has a broken pipe then.
    """
    reading, writing = os.pipe()
    over = threading.Event()
    with log.open("wb", buffering=0) as stream:
        copier = threading.Thread(target=_copy, args=(reading, stream.fileno(), over), daemon=True)
        copier.start()
        try:
            yield writing
        finally:
            os.close(writing)
            over.set()
            copier.join()


class Ends:
    """Takes what a program says, and keeps its beginning and its end."""

    def __init__(self, write: Callable[[bytes], object], most: int) -> None:
        """Nothing has come yet.

        Args:
            write: Takes what is kept: the beginning at once, and what follows in `finish`.
            most: Bytes that are kept, half of them of the beginning.
        """
        self._write = write
        self._half = self._room = most // 2
        self._end = bytearray()
        self._left_out = 0

    def take(self, block: bytes) -> None:
        """Takes what comes next; what `write` raises is raised, with the block kept for the end."""
        begins, goes_on = block[: self._room], block[self._room :]
        try:
            if begins:
                self._write(begins)
                self._room -= len(begins)
        except OSError:
            self._room, goes_on = 0, block
            raise
        finally:
            self._end += goes_on
            if len(self._end) > 2 * self._half:
                self._shorten()

    def finish(self) -> None:
        """Writes the end, and in one line what was left out before it."""
        self._shorten()
        if self._left_out:
            said = f"\n[netbisect: it said {self._left_out} bytes more; they are left out]\n"
            self._write(said.encode())
        self._write(bytes(self._end))

    def _shorten(self) -> None:
        more = len(self._end) - self._half
        if more > 0:
            del self._end[:more]
            self._left_out += more


class Listener:
    """Takes all that a process says, in a thread: none waits for a full pipe, or for a disk."""

    def __init__(self, process: subprocess.Popen[bytes], ends: Ends) -> None:
        """Begins to listen.

        Args:
            process: Its standard output is a pipe, which is closed in the end.
            ends: Takes what comes.
        """
        assert process.stdout is not None
        self._stream = process.stdout
        self._ends = ends
        self._over = threading.Event()
        self._failed: OSError | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Takes what is left of an ended process; what its children say later is not waited for.

        Raises:
            OSError: what it said could not be kept.
        """
        self._over.set()
        self._thread.join()
        self._stream.close()
        self._ends.finish()
        if self._failed is not None:
            raise self._failed

    def _listen(self) -> None:
        for block in _blocks(self._stream.fileno(), self._over):
            try:
                self._ends.take(block)
            except OSError as error:
                self._failed = error


def _blocks(reading: int, over: threading.Event) -> Iterator[bytes]:
    """What comes, until all has come, or until it is over for as long as a look takes."""
    end = math.inf
    while time.monotonic() < end:
        there = select.select([reading], [], [], _LOOK)[0]
        if there:
            block = os.read(reading, _BLOCK)
            if not block:
                return
            yield block
        elif over.is_set():
            return
        if over.is_set() and end == math.inf:
            end = time.monotonic() + _LOOK


def _copy(reading: int, log: int, over: threading.Event) -> None:
    try:
        # A full disk of the worker: what is missing in the log makes no good sample.
        with contextlib.suppress(OSError):
            _fill(reading, log, over)
        over.wait()
    finally:
        os.close(reading)


def _fill(reading: int, log: int, over: threading.Event) -> None:
    """Until all has come, the log is full, or nothing comes any more."""
    left = MOST_BYTES
    for block in _blocks(reading, over):
        os.write(log, block[:left])
        left -= len(block)
        if left < 0:
            os.write(log, b"\n[netbisect: it said more; that is left out]\n")
            return
