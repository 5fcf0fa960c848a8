"""Recovery: the first revision at the earlier level."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.stats.robust import location

_RECOVERED_LEVELS = 3
"""Consecutive recovered levels required."""
_RECOVERED_WITHIN = math.log(1.01)
"""Minimum tolerance around the earlier level, ln ratio: 1 %."""


def recovery(
    before: Sequence[Level], after: Sequence[Level], noise: Noise, effect: float
) -> str | None:
    """The first revision of the recovered levels at the end, or None.

    A series is recovered if its last three levels are within 1 %, or one standard deviation of a
    level if that is more, of the robust level before the alert, or beyond it, and nearer to it
    than to the level of the alert.

    Args:
        before: The baseline of the alert; if empty, there is no recovery.
        after: Levels since the change, in branch order.
        noise: Noise of the series.
        effect: Effect of the alert, ln ratio.
    """
    if not before:
        return None
    spread = max(math.sqrt(noise.variance_of_mean(1)), 1e-6)
    level = location([one.mean for one in before], spread)
    sign = 1 if effect < 0 else -1

    def back(one: Level) -> bool:
        sd = math.sqrt(noise.variance_of_mean(len(one.ln_pps)))
        within = min(max(_RECOVERED_WITHIN, sd), abs(effect) / 2)
        return sign * (one.mean - level) >= -within

    row = list(itertools.takewhile(back, reversed(after)))
    return row[-1].revision if len(row) >= _RECOVERED_LEVELS else None
