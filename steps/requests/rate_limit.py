"""Rate limiting for API callers, and delays after failed logins."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

_MOST_CALLERS = 10_000
"""Callers in memory; the least recent ones are dropped beyond it."""


@dataclass
class RateLimiter:
    """Token bucket per caller, with a capacity of one minute's calls."""

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _left: dict[Hashable, tuple[float, float]] = field(default_factory=dict)
    """Remaining calls and time of the last call, by caller; the latest caller last."""

    def wait(self, caller: Hashable) -> int:
        """Counts a call; returns 0 if it is allowed, else the seconds until the next one is."""
        now = self.clock()
        left, before = self._left.pop(caller, (float(self.per_minute), now))
        left = min(left + (now - before) * self.per_minute / 60, self.per_minute)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return 0 if allowed else math.ceil((1 - left) * 60 / self.per_minute)


_FREE_FAILURES = 5
"""Failures without a delay."""
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 900.0
"""Seconds; each delay is twice the previous one."""
_FORGOTTEN = 3600.0
"""Seconds after the last failure, when the count starts again."""


@dataclass
class LoginBackoff:
    """Exponential delay after failed logins, per caller."""

    clock: Callable[[], float] = time.monotonic
    _failures: dict[Hashable, tuple[int, float]] = field(default_factory=dict)
    """Number of failures and time of the last one, by caller; the latest caller last."""

    def wait(self, caller: Hashable) -> int:
        """Returns the seconds until the next try; 0 counts a failure until `succeeded`."""
        now = self.clock()
        failures, last = self._failures.get(caller, (0, now))
        if now - last >= _FORGOTTEN:
            failures = 0
        delay = 0.0
        if failures >= _FREE_FAILURES:
            doublings = min(failures - _FREE_FAILURES, 16)
            delay = min(_FIRST_DELAY * 2**doublings, _LONGEST_DELAY)
        if now - last < delay:
            return math.ceil(last + delay - now)
        self._failures.pop(caller, None)
        self._failures[caller] = (failures + 1, now)
        if len(self._failures) > _MOST_CALLERS:
            del self._failures[next(iter(self._failures))]
        return 0

    def succeeded(self, caller: Hashable) -> None:
        self._failures.pop(caller, None)
