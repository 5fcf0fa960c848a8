"""Does something in a process of its own that ends with it, so that its memory is given back.

A visit lasts for minutes. What it needs once, as to read its lab file, would leave it with pages
that it has written to and no longer shares with other visits; what comes of it is small.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T]) -> T:
    """What `work` returns or raises, as if it had been called here.

    Args:
        work: What it changes in this process's memory is lost.

    Raises:
        ChildProcessError: its process was ended from outside.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _tell(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    if not said:
        raise ChildProcessError("a process that was to read something was ended")
    good, found = pickle.loads(said)  # noqa: S301 - by this very program
    if not good:
        raise found
    result: T = found
    return result


def _tell(work: Callable[[], T], writing: int) -> None:
    """What the process does; it never returns."""
    try:
        try:
            said = pickle.dumps((True, work()))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where it was asked
            said = pickle.dumps((False, error))
        sys.stdout.flush()
        sys.stderr.flush()
        with os.fdopen(writing, "wb") as stream:
            stream.write(said)
    finally:
        os._exit(0)
