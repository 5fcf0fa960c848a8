"""Drift: many small steps that add up.

As in FD.io's CSIT, the latest week is compared with the best level of the quarter before. Drifts
are reported in the digest only.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np

from netbisect.bisect.detection.nightly_screen import Z_95, image_levels
from netbisect.bisect.model.detection_results import DriftEstimate
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.stats.changepoints import (
    boot_matrix,
    group_by_image,
    merge_levels,
    weighted_mean,
)

DRIFT = -math.log1p(-0.03)
"""Smallest |ln ratio| reported: 3 %."""
_DAY = 86400.0
_WEEK = 7 * _DAY
_QUARTER = 91 * _DAY
_STRETCH = 20
"""Images per level of the quarter."""
_LEAST = 5
"""Minimum images of the latest week, and of the quarter."""
_SURE = 4.0
"""Standard errors. Neighbouring images scatter less than distant ones, so that 3 are too few."""


def drift(levels: Sequence[Level], noise: Noise) -> DriftEstimate | None:
    """Compares the latest week with the best 20 images of the quarter before.

    Args:
        levels: Since the last known change, in the order of the branch.
        noise: Noise of the series.

    Returns:
        The drift, or None if it is below 3 % or four standard errors, or with too few images.
    """
    images = [merge_levels(group) for group in group_by_image(chronological(levels))]
    if len(images) < 2 * _LEAST:
        return None
    at = np.array([image.at for image in images])
    recent = max(int((at > at[-1] - _WEEK).sum()), _LEAST)
    first = int(np.searchsorted(at, at[-1] - _WEEK - _QUARTER))
    before = len(images) - recent - first
    if before < _LEAST:
        return None
    images = images[first:]
    y, variance = image_levels(boot_matrix(images), noise)
    latest, error = weighted_mean(y[-recent:], variance[-recent:])
    size = min(_STRETCH, before)
    stretches = [
        (i, *weighted_mean(y[i : i + size], variance[i : i + size]))
        for i in range(before - size + 1)
    ]
    start, best, spread = max(stretches, key=lambda one: one[1])
    # Selection bias of the maximum of about n / size independent stretches.
    tries = max(before / size, 1.0)
    # The noise learned from few images may be too small.
    off = np.concatenate([y[-recent:] - latest, y[start : start + size] - best])
    scatter = float(off @ off) / (len(off) - 2)
    error, spread = max(error, scatter / recent), max(spread, scatter / size)
    best -= math.sqrt(2 * math.log(tries) * spread)
    deviation = math.sqrt(error + spread)
    ratio = latest - best
    if -ratio < max(DRIFT, _SURE * deviation):
        return None
    return DriftEstimate(
        ln_ratio=ratio,
        low=ratio - Z_95 * deviation,
        high=ratio + Z_95 * deviation,
        score=-ratio / deviation,
        best=images[start + size - 1].revision,
        latest=images[-1].revision,
    )


def chronological(levels: Sequence[Level]) -> list[Level]:
    """The longest subsequence of levels with non-decreasing times.

    It excludes old revisions measured late, and boots with a wrong clock.
    """
    ends: list[float] = []  # by length of a subsequence: its earliest end
    last: list[int] = []  # by length: index of its last level
    previous = []
    for i, level in enumerate(levels):
        length = bisect.bisect_right(ends, level.at)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [level.at]
        last[length : length + 1] = [i]
    kept = []
    i = last[-1] if last else -1
    while i >= 0:
        kept.append(levels[i])
        i = previous[i]
    return kept[::-1]
