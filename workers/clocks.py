"""Whether the clocks that stand behind a visit's times jump while something is measured.

The times of facts are of the worker's clock, and a DUT whose clock is set has another boot time
than before. What is told in seconds by either is of no worth then.
"""

from __future__ import annotations

import time

_SLACK = 2.0
"""Seconds by which a clock may be moved: time services correct that much, step by step."""


class Clocks:
    """The clock of this host and that of the router."""

    def __init__(self) -> None:
        self.router = 0.0
        """When the router's kernel started, by its own clock, as it said last."""
        self._offset = _offset()

    def begin(self) -> None:
        """From now on nothing may jump."""
        self._offset = _offset()

    def jumps(self, boottime: float) -> list[str]:
        """What has jumped since `begin`, a sentence each.

        Args:
            boottime: When the router's kernel started, by its own clock as it is now.
        """
        moved = {"this host": _offset() - self._offset, "the router": boottime - self.router}
        self.router = boottime
        self.begin()
        return [
            f"the clock of {who} jumped by {seconds:+.0f} s during the run"
            for who, seconds in moved.items()
            if abs(seconds) > _SLACK
        ]


def _offset() -> float:
    return time.time() - time.monotonic()
