"""How often somebody may call."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

_MOST_CALLERS = 10_000
"""Who is remembered; beyond it those who have not called for longest are forgotten."""


@dataclass
class Limiter:
    """Lets everybody call so often in a minute, and all of it at once after a pause."""

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _left: dict[Hashable, tuple[float, float]] = field(default_factory=dict)
    """By caller: how many calls were left, and when that was; the latest caller last."""

    def wait(self, caller: Hashable) -> int:
        """Counts a call; 0 when it may be made, else seconds after which one may."""
        now = self.clock()
        left, before = self._left.pop(caller, (float(self.per_minute), now))
        left = min(left + (now - before) * self.per_minute / 60, self.per_minute)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return 0 if allowed else math.ceil((1 - left) * 60 / self.per_minute)
