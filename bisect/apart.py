"""How far testbeds of one make lie apart.

Each testbed has a level of its own, so that what one of them says is only ever held against what
the same one says of another kernel. The distances between the testbeds are as good as unknown;
they are integrated out, over those that the kernels measured on several testbeds leave possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from netbisect.bisect.levels import Scatter
from netbisect.bisect.line import Line, Offset

_USUAL = 0.25
"""Standard deviation of the distance of two testbeds, ln ratio. 3 to 5 % are common; a prior that
knew so much would take a single level of a testbed for news of the side that it is on."""
_FINE = 1.5
"""Distance of neighbours of the quadrature, in standard deviations of what is known of it."""
_DROP = 7.0
"""Nats below the likeliest distance at which another one is passed over."""
_MOST_ASKED, _MOST_NODES, _MOST_KEPT = 200, 30, 24
"""Distances that are looked at for one more testbed, that are kept of them, and combinations."""

Offsets = tuple[float, ...]
"""By index of testbed, of the first ones; ln ratios to the very first."""


def roughly(line: Line) -> Line:
    """Puts the testbeds about where they lie, by the kernels that several of them measured."""
    if len(line.testbeds) == 1:
        return line
    known = [Offset()]
    for testbed in range(1, len(line.testbeds)):
        seen = _differences(line, tuple(offset.mean for offset in known), testbed)
        known.append(Offset(float(np.median(seen)) if seen else 0.0))
    return replace(line, offsets=tuple(known))


def combinations(
    line: Line, scatter: Scatter, evidence_of: Callable[[Offsets], float]
) -> list[tuple[Offsets, float]]:
    """Finds the distances that a sum over them cannot do without, equally spaced for each testbed.

    Args:
        line: The question and its evidence.
        scatter: The usual noise.
        evidence_of: Log evidence of all boots of the first testbeds, if they lie so.

    Returns:
        Distances of all testbeds from the first one and their prior weights, as logs.
    """
    found: list[tuple[float, Offsets]] = [(0.0, (0.0,))]
    while len(found[0][1]) < len(line.testbeds):
        best = max(found)[1]
        nodes = _nodes(line, scatter, best, lambda own: evidence_of(own) + _prior(own))
        asked = [(*offsets, node) for _, offsets in found for node in nodes]
        weighed = sorted(((evidence_of(one) + _prior(one), one) for one in asked), reverse=True)
        found = [one for one in weighed if one[0] > weighed[0][0] - _DROP][:_MOST_KEPT]
    return [(offsets, _prior(offsets)) for _, offsets in found]


def summary(offsets: np.ndarray, mass: np.ndarray) -> tuple[Offset, ...]:
    """Mean and standard deviation of the distance of each testbed.

    Args:
        offsets: One row per combination, a column per testbed.
        mass: Chances of the combinations.
    """
    means = mass @ offsets
    sds = np.sqrt(np.maximum(mass @ (offsets - means) ** 2, 0.0))
    return tuple(Offset(float(mean), float(sd)) for mean, sd in zip(means, sds, strict=True))


def _prior(offsets: Offsets) -> float:
    return -math.fsum((offset / _USUAL) ** 2 for offset in offsets[1:]) / 2


def _nodes(
    line: Line, scatter: Scatter, before: Offsets, evidence_of: Callable[[Offsets], float]
) -> list[float]:
    """Distances of one more testbed, on a lattice: all that are likely enough.

    It begins where single boots say that it lies and goes on from there to the neighbours, for a
    boot may be astray and the testbeds may have two modes.
    """
    testbed = len(before)
    step = _FINE * _sd(line, scatter, testbed)
    seen = _differences(line, before, testbed)
    gap = scatter.of(testbed).slow_gap
    shifts = (-gap, 0.0, gap) if gap else (0.0,)
    starts = [x + shift for x in seen or _levels_apart(line, before, testbed) for shift in shifts]
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


def _sd(line: Line, scatter: Scatter, testbed: int) -> float:
    """How well the distance could be known at best, all boots compared with each other."""
    weights = [0.0, 0.0]
    for image in line.images:
        for runs, measured_on in zip(image.runs, image.testbeds, strict=True):
            if measured_on <= testbed:
                weights[measured_on == testbed] += 1 / scatter.variance(runs, measured_on)
    return math.sqrt(sum(1 / weight for weight in weights if weight))


def _levels_apart(line: Line, before: Offsets, testbed: int) -> list[float]:
    """Where it may lie when no kernel was measured on both: its levels are those of a side."""
    boots = [
        (x, i) for image in line.images for x, i in zip(image.ln_pps, image.testbeds, strict=True)
    ]
    other = [x - before[i] for x, i in boots if i < testbed]
    own = [x for x, i in boots if i == testbed]
    effect = line.question.effect
    return [x - y + step for x in own for y in other for step in (-effect, 0.0, effect)]


def _differences(line: Line, before: Offsets, testbed: int) -> list[float]:
    """What single boots of one kernel say of its distance from those before it."""
    found = []
    for image in line.images:
        boots = list(zip(image.ln_pps, image.testbeds, strict=True))
        other = [x - before[i] for x, i in boots if i < testbed]
        own = [x for x, i in boots if i == testbed]
        found += [x - y for x in own for y in other]
    return found
