"""Time in the lab passes faster than on the wall."""

from __future__ import annotations

import asyncio
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

    async def sleep(self, seconds: float) -> None:
        """Waits `seconds` of the lab."""
        await asyncio.sleep(max(0.0, seconds) / self.compression)

    async def until(self, moment: float) -> None:
        """Waits for a moment of the lab; not at all when it has passed."""
        await self.sleep(moment - self.now())
