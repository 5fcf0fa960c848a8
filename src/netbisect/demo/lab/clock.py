"""The clock of the lab, faster than real time."""

from __future__ import annotations

import asyncio
import contextlib
import time


class Clock:
    """The clock of the machines."""

    def __init__(self, compression: float) -> None:
        self.compression = compression
        self._start = time.time()
        self._wall = time.monotonic()

    def now(self) -> float:
        """Lab time in seconds since the epoch."""
        return self._start + (time.monotonic() - self._wall) * self.compression

    def wall(self, seconds: float) -> float:
        """Real duration of `seconds` of lab time."""
        return max(0.0, seconds) / self.compression

    async def sleep(self, seconds: float) -> None:
        """Waits `seconds` of lab time."""
        await asyncio.sleep(self.wall(seconds))

    async def until(self, moment: float, event: asyncio.Event) -> bool:
        """Waits for a lab time or an event; True for the event."""
        left = self.wall(moment - self.now())
        if not left:  # a program that is late lets the others have their turn, too
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), left)
        return event.is_set()
