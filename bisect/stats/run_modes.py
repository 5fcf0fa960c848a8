"""Modes of series with one run per image.

A program that is fast in one run and slow in the next one has no image with runs in both modes,
from which `boot_modes` could learn them. Here, each run is in the slow mode with equal probability,
and levels change as in `partition`.
"""

from __future__ import annotations

import itertools

import numpy as np

from netbisect.bisect.stats import partition
from netbisect.bisect.stats.arrays import Floats

_SHARES = (0.15, 0.3, 0.5, 0.7)
"""Shares of the slow mode tried."""
_TYPICAL = 0.3
"""Share of the slow mode tried first."""
_GAPS = (0.25, 0.5, 0.75, 0.9)
"""Gaps tried: quantiles of the differences of neighbours."""
_LEAST_GAP = 0.015
"""Minimum gap, ln ratio."""
_CLEAR = 4.0
"""Minimum gap, in scales of the offsets within a mode."""
_LEAST_SWITCHES = 3
"""Minimum switches to either mode."""
_EVIDENCE = 8.0
"""Minimum log likelihood ratio of two modes over one."""


def shift_slow_runs(y: Floats, prior: tuple[float, float], step: float) -> Floats:
    """Shifts slow runs to the fast mode if two modes are e^8 times as likely as one.

    Args:
        y: Runs, ln ratio, oldest first.
        prior: Prior scatter of runs, and its degrees of freedom.
        step: Prior probability of a new level at each run.

    Returns:
        The runs, as they are if there is one mode.
    """
    moves = np.diff(y)
    wide = np.abs(moves)[np.abs(moves) >= _LEAST_GAP]
    if min((moves >= _LEAST_GAP).sum(), (moves <= -_LEAST_GAP).sum()) < _LEAST_SWITCHES:
        return y
    scatters = partition.SCATTERS[::2]
    lately = y[-partition.LATEST :]
    steps = np.full(len(y), step)

    def evidence(share: float, gap: float) -> Floats:
        densities, levels, _ = _mixture(lately, scatters, share, gap)
        logs, _ = partition.recursions(levels, densities, densities, steps)
        return logs - prior[1] * np.log(scatters / prior[0]) ** 2

    one = float(evidence(0.0, 0.0).max())
    gaps = np.unique(np.quantile(wide, _GAPS)).tolist()
    if max(float(evidence(_TYPICAL, gap).max()) for gap in gaps) < one:
        return y  # quick exit for most series
    tried = list(itertools.product(_SHARES, gaps))
    logs = np.array([evidence(*modes) for modes in tried])
    best, scale = np.unravel_index(np.argmax(logs), logs.shape)
    (share, gap), scatter = tried[best], scatters[scale]
    if logs.max() < one + _EVIDENCE or gap < _CLEAR * scatter:
        return y
    densities, levels, grid = _mixture(y, scatters[[scale]], share, gap)
    _, chances = partition.recursions(levels, densities, densities, steps)
    likely = densities[:, 0]
    cuts = partition.best_cuts(levels * likely, likely, np.ones(len(y)), steps, chances[:, 0])
    fast = np.empty(len(y))
    for start, stop in itertools.pairwise([0, *cuts, len(y)]):
        fast[start:stop] = grid[np.argmax(np.log(likely[start:stop]).sum(axis=0))]
    return np.where(y < fast - gap / 2, y + gap, y)


def _mixture(y: Floats, scatters: Floats, share: float, gap: float) -> tuple[Floats, ...]:
    """Densities of n runs, n by scatters by levels of the fast mode; prior and grid of levels."""
    levels, grid = partition.level_grid(np.concatenate([y, y + gap]))
    off, scale = (y[:, None] - grid)[:, None], scatters[:, None]
    fast, slow = partition.student(off, scale), partition.student(off + gap, scale)
    return (1 - share) * fast + share * slow, levels, grid
