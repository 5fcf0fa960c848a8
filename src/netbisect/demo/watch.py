"""Reports long waits, and fails without progress.

An alarm signal in the main thread covers every kind of wait, without an additional thread.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

SILENCE_SECONDS = 15.0
"""Silence after which a line describes the current wait."""
LIMIT_SECONDS = 120.0
"""Time without progress after which the demonstration fails."""
_TICK = 1.0


class StuckError(Exception):
    """There was no progress."""


class ProgressWatch:
    """The current wait of the demonstration."""

    def __init__(self, silence: float = SILENCE_SECONDS, limit: float = LIMIT_SECONDS) -> None:
        """Does nothing until `begin`.

        Args:
            silence: Seconds without output.
            limit: Seconds without progress.
        """
        self.silence = silence
        self.limit = limit
        self.log = ""
        """Location of the logs."""
        self._what = ""
        self._moved = self._said = time.monotonic()

    def begin(self) -> None:
        """Starts the timer, in the main thread."""
        signal.signal(signal.SIGALRM, self._check)
        signal.setitimer(signal.ITIMER_REAL, min(_TICK, self.silence), min(_TICK, self.silence))

    def end(self) -> None:
        """Stops the timer."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def say(self, line: str) -> None:
        """Prints a line."""
        print(line, flush=True)
        self._said = time.monotonic()

    def waits_for(self, what: str) -> None:
        """Starts a new wait."""
        self._what = what
        self._moved = time.monotonic()

    def _check(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now > self._moved + self.limit:
            where = f"; see {self.log}" if self.log else ""
            raise StuckError(
                f"nothing has happened for {now - self._moved:.0f} s; "
                f"it was waiting for {self._what}{where}"
            )
        if now > self._said + self.silence:
            self._said = now
            line = f"... waiting for {self._what}, {now - self._moved:.0f} s without news\n"
            os.write(sys.stdout.fileno(), line.encode())  # print() may be interrupted
