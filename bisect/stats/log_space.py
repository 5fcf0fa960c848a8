"""Sums of probabilities in log space."""

from __future__ import annotations

import numpy as np

from netbisect.bisect.stats.arrays import Floats


def log_sum(logs: Floats, axis: int | tuple[int, ...] | None = None) -> Floats:
    """Log of the sum of exponentials; the largest log must be finite.

    `scipy.special.logsumexp` is about ten times slower for small arrays.
    """
    top = logs.max(axis=axis, keepdims=True)
    total: Floats = np.log(np.exp(logs - top).sum(axis=axis, keepdims=True)) + top
    return np.squeeze(total, axis)
