"""Keeps what a machine says on its console while it boots, and finds the panic in it."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from netbisect.workers.lab import Console

_PANIC = re.compile(r"^(panic: .*?|Fatal trap \d+: .*?)\r?$", re.MULTILINE)


def panic_in(said: str) -> str:
    """The first panic message in a console's output; "" when there is none."""
    found = _PANIC.search(said)
    return found[1] if found else ""


class ConsoleTap:
    """Writes the console into a file for as long as the block lasts."""

    def __init__(self, console: Console | None, log: Path) -> None:
        self._console = console
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        # Also where nothing can be heard, lest what an earlier boot said be taken for this one's.
        with self._log.open("wb") as stream:
            if self._console is not None:
                # Without a console the boot goes on: its log is worth less than the night.
                with contextlib.suppress(OSError):
                    self._process = subprocess.Popen(
                        self._console.command,
                        stdin=subprocess.DEVNULL,
                        stdout=stream,
                        stderr=subprocess.DEVNULL,
                    )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
