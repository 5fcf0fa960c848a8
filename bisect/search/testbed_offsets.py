"""Offsets between testbeds of one model.

Each testbed has its own level, so boots are only compared within a testbed. The offsets are
nuisance parameters with a wide prior; they are integrated out numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from netbisect.bisect.search.likelihood import NoiseHypothesis
from netbisect.bisect.search.search_space import MeasuredImage, SearchSpace, TestbedOffset

_PRIOR_SD = 0.25
"""Prior standard deviation of an offset, ln ratio. 3 to 5 % are common, but with so narrow a prior
a single level of a testbed would favour one side."""
_FINE = 1.5
"""Distance of quadrature nodes, in standard deviations of the offset."""
_DROP = 7.0
"""Nats below the most likely offset; less likely offsets are ignored."""
_MOST_ASKED, _MOST_NODES, _MOST_KEPT = 200, 30, 24
"""Maximum number of offsets tried and kept per testbed, and of combinations kept."""

Offsets = tuple[float, ...]
"""By index of testbed: offset from the first one, ln ratio; may be a prefix."""


def rough_offsets(space: SearchSpace) -> SearchSpace:
    """Sets rough offsets: medians over the kernels measured on several testbeds."""
    if len(space.testbeds) == 1:
        return space
    known = [TestbedOffset()]
    for testbed in range(1, len(space.testbeds)):
        seen = _differences(space, tuple(offset.mean for offset in known), testbed)
        known.append(TestbedOffset(float(np.median(seen)) if seen else 0.0))
    return replace(space, offsets=tuple(known))


def offset_combinations(
    space: SearchSpace, hypothesis: NoiseHypothesis, evidence_of: Callable[[Offsets], float]
) -> list[tuple[Offsets, float]]:
    """Quadrature nodes of the offsets, equally spaced for each testbed.

    Args:
        space: The job and its evidence.
        hypothesis: The usual noise.
        evidence_of: Log evidence of all boots of the first testbeds, given their offsets.

    Returns:
        Offsets of all testbeds and their log prior weights.
    """
    found: list[tuple[float, Offsets]] = [(0.0, (0.0,))]
    while len(found[0][1]) < len(space.testbeds):
        best = max(found)[1]
        nodes = _nodes(space, hypothesis, best, lambda own: evidence_of(own) + _prior(own))
        record = [(*offsets, node) for _, offsets in found for node in nodes]
        weighed = sorted(((evidence_of(one) + _prior(one), one) for one in record), reverse=True)
        found = [one for one in weighed if one[0] > weighed[0][0] - _DROP][:_MOST_KEPT]
    return [(offsets, _prior(offsets)) for _, offsets in found]


def summarize(offsets: np.ndarray, mass: np.ndarray) -> tuple[TestbedOffset, ...]:
    """Mean and standard deviation of the offset of each testbed.

    Args:
        offsets: One row per combination, a column per testbed.
        mass: Probabilities of the combinations.
    """
    means = mass @ offsets
    sds = np.sqrt(np.maximum(mass @ (offsets - means) ** 2, 0.0))
    return tuple(TestbedOffset(float(mean), float(sd)) for mean, sd in zip(means, sds, strict=True))


def _prior(offsets: Offsets) -> float:
    return -math.fsum((offset / _PRIOR_SD) ** 2 for offset in offsets[1:]) / 2


def _nodes(
    space: SearchSpace,
    hypothesis: NoiseHypothesis,
    before: Offsets,
    evidence_of: Callable[[Offsets], float],
) -> list[float]:
    """All plausible offsets of the next testbed, on a lattice.

    Starts at the differences of single boots and expands to the neighbours, because a boot may be
    an outlier and testbeds may have two modes.
    """
    testbed = len(before)
    step = _FINE * _sd(space, hypothesis, testbed)
    seen = _differences(space, before, testbed)
    gap = hypothesis.noises[testbed].slow_gap
    shifts = (-gap, 0.0, gap) if gap else (0.0,)
    starts = [x + shift for x in seen or _levels_apart(space, before, testbed) for shift in shifts]
    waiting = sorted({round(x / step) for x in starts})
    logs: dict[int, float] = {}
    while waiting and len(logs) < _MOST_ASKED:
        for k in waiting:
            logs[k] = evidence_of((*before, k * step))
        least = max(logs.values()) - _DROP
        waiting = sorted(
            {k + way for k, log in logs.items() if log > least for way in (-1, 1)} - logs.keys()
        )
    kept = sorted(k for k, log in logs.items() if log > max(logs.values()) - _DROP)
    every = -(-len(kept) // _MOST_NODES)
    best = max(kept, key=logs.__getitem__)
    return [k * step for k in kept if (k - best) % every == 0]


def _sd(space: SearchSpace, hypothesis: NoiseHypothesis, testbed: int) -> float:
    """Lower bound of the standard deviation of an offset: all boots compared."""
    weights = [0.0, 0.0]
    for image in space.images:
        for runs, measured_on in zip(image.runs, image.testbeds, strict=True):
            if measured_on <= testbed:
                weights[measured_on == testbed] += 1 / hypothesis.variance(runs, measured_on)
    return math.sqrt(sum(1 / weight for weight in weights if weight))


def _levels_apart(space: SearchSpace, before: Offsets, testbed: int) -> list[float]:
    """Possible offsets without a common kernel: each boot is on either side of the step."""
    effect = space.job.effect
    found = _between(space.images, before, testbed)
    return [apart + step for apart in found for step in (-effect, 0.0, effect)]


def _differences(space: SearchSpace, before: Offsets, testbed: int) -> list[float]:
    """Differences of single boots of one kernel between this testbed and earlier ones."""
    return [x for image in space.images for x in _between([image], before, testbed)]


def _between(images: Iterable[MeasuredImage], before: Offsets, testbed: int) -> list[float]:
    boots = [(x, i) for image in images for x, i in zip(image.ln_pps, image.testbeds, strict=True)]
    other = [x - before[i] for x, i in boots if i < testbed]
    own = [x for x, i in boots if i == testbed]
    return [x - y for x in own for y in other]
