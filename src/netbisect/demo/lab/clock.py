"""Time in the lab passes faster than on the wall."""

from __future__ import annotations

import asyncio
import contextlib
import time


class Clock:
    """Seconds since the epoch, as the machines see them."""

    def __init__(self, compression: float) -> None:
        self.compression = compression
        self._start = time.time()
        self._wall = time.monotonic()

    def now(self) -> float:
        """Now, in the lab."""
        return self._start + (time.monotonic() - self._wall) * self.compression

    def wall(self, seconds: float) -> float:
        """How long `seconds` of the lab take on the wall."""
        return max(0.0, seconds) / self.compression

    async def sleep(self, seconds: float) -> None:
        """Waits `seconds` of the lab."""
        await asyncio.sleep(self.wall(seconds))

    async def until(self, moment: float, event: asyncio.Event) -> bool:
        """Waits for a moment of the lab or for an event; True when it was the event."""
        left = self.wall(moment - self.now())
        if not left:  # a program that is late lets the others have their turn, too
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), left)
        return event.is_set()
