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
from io import BytesIO, RawIOBase
from pathlib import Path

MOST_BYTES = 4 << 20
"""Limit per file; pkt-gen prints some hundred bytes per second."""
_BLOCK = 1 << 16
_LOOK = 1.0
"""Seconds between checks for the end, if the writer keeps the pipe open."""


class HeadAndTail:
    """Keeps the beginning and the end of an output."""

    def __init__(self, write: Callable[[bytes], object], most: int) -> None:
        """Keeps at most `most` bytes; half of them are the beginning.

        `write` receives the beginning at once, the end in `finish`.
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

    def __init__(
        self, process: subprocess.Popen[bytes], log: RawIOBase | BytesIO, most: int
    ) -> None:
        """Starts to read.

        Args:
            process: Its standard output is a pipe, which will be closed.
            log: Receives the output; unbuffered.
            most: Bytes to keep, of the beginning and the end.
        """
        assert process.stdout is not None
        self._stream = process.stdout
        self._ends = HeadAndTail(lambda block: write_all(log, block), most)
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


def write_log(path: Path, text: str) -> None:
    """Writes a log of a run; an error such as a full disk does not end the run."""
    with contextlib.suppress(OSError):
        path.write_text(text)


def write_all(log: RawIOBase | BytesIO, output: bytes) -> None:
    """Writes all bytes; a nearly full disk may accept only a part."""
    while output:
        output = output[log.write(output) :]


def _blocks(reading: int, over: threading.Event) -> Iterator[bytes]:
    """Blocks of output until end of file, or until `over` is set and no more comes."""
    end = math.inf
    while time.monotonic() < end:
        if select.select([reading], [], [], _LOOK)[0]:
            block = os.read(reading, _BLOCK)
            if not block:
                return
            yield block
        elif over.is_set():
            return
        if over.is_set() and end == math.inf:
            end = time.monotonic() + _LOOK
