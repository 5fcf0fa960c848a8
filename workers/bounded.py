"""Files that take what a machine says, up to a limit: a machine gone mad fills no disk."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterator
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
    while left >= 0:
        if not select.select([reading], [], [], _LOOK)[0]:
            if over.is_set():
                return
            continue
        block = os.read(reading, _BLOCK)
        if not block:
            return
        os.write(log, block[:left])
        left -= len(block)
    os.write(log, b"\n[netbisect: it said more; that is left out]\n")
