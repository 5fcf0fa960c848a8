"""Detects jumps of the clocks of worker and DUT during a run.

The times of facts are the worker's; the DUT's boot time changes when its clock is set. Durations
by either clock are then invalid.
"""

from __future__ import annotations

import time

_SLACK = 2.0
"""Tolerated seconds: time services correct that much in steps."""


class Clocks:
    """Clocks of this host and the router."""

    def __init__(self) -> None:
        self.router = 0.0
        """Boot time of the router, by its clock."""
        self._offset = _offset()

    def begin(self) -> None:
        """Starts to watch the clocks."""
        self._offset = _offset()

    def jumps(self, boottime: float) -> list[str]:
        """Clock jumps since `begin`, one sentence each.

        Args:
            boottime: Current boot time of the router, by its clock.
        """
        moved = {"this host": _offset() - self._offset, "the router": boottime - self.router}
        self.router = boottime
        return [
            f"the clock of {who} jumped by {seconds:+.0f} s during the run"
            for who, seconds in moved.items()
            if abs(seconds) > _SLACK
        ]


def _offset() -> float:
    return time.time() - time.monotonic()
