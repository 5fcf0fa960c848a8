"""Limits the recorded output of programs, so that no program fills the disk."""

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
"""Limit per file; pkt-gen prints some hundred bytes per second."""
_BLOCK = 1 << 16
_LOOK = 1.0
"""Seconds between checks for the end, if the writer keeps the pipe open."""


@contextlib.contextmanager
def limited_log(log: Path) -> Iterator[int]:
    """A file descriptor whose input is copied to `log`, up to a limit.

    At the limit (noted in the last line) or on a full disk nothing more is read: the writer blocks
    until the block ends and then gets SIGPIPE.
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


class HeadAndTail:
    """Keeps the beginning and the end of an output."""

    def __init__(self, write: Callable[[bytes], object], most: int) -> None:
        """Keeps at most `most` bytes; half of them are the beginning.

        Args:
            write: Receives the beginning at once, the end in `finish`.
            most: Bytes.
        """
        self._write = write
        self._half = self._room = most // 2
        self._end = bytearray()
        self._left_out = 0

    def take(self, block: bytes) -> None:
        """Adds a block; after an error of `write` the block counts as end."""
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
        """Writes the number of omitted bytes, and the end."""
        self._shorten()
        if self._left_out:
            notice = f"\n[netbisect: {self._left_out} more bytes left out]\n"
            self._write(notice.encode())
        self._write(bytes(self._end))

    def _shorten(self) -> None:
        more = len(self._end) - self._half
        if more > 0:
            del self._end[:more]
            self._left_out += more


class OutputReader:
    """Reads the output of a process in a thread, so that it never blocks."""

    def __init__(self, process: subprocess.Popen[bytes], ends: HeadAndTail) -> None:
        """Starts to read.

        Args:
            process: Its standard output is a pipe, which will be closed.
            ends: Receives the output.
        """
        assert process.stdout is not None
        self._stream = process.stdout
        self._ends = ends
        self._over = threading.Event()
        self._failed: OSError | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Reads the rest of an ended process, without waiting for its children.

        Raises:
            OSError: the output could not be written.
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
    """Blocks of output until end of file, or until `over` is set and no more comes."""
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
    """Copies until end of file, the limit, or `over`."""
    left = MOST_BYTES
    for block in _blocks(reading, over):
        os.write(log, block[:left])
        left -= len(block)
        if left < 0:
            os.write(log, b"\n[netbisect: further output left out]\n")
            return
