"""Ten years of 300 series, analysed at once."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np

from netbisect.bisect import modes
from netbisect.bisect.segments import segment_boots

_SERIES, _LEVELS, _BOOTS = 300, 667, 5
"""A million samples: on average every fifth or sixth night has a new revision."""


def measure() -> dict[str, Any]:
    """Finds the steps and the noise of all series; seconds of the processor, and megabytes."""
    random = np.random.default_rng(1)
    series = []
    for _ in range(_SERIES):
        level = 14 + random.normal(0, 0.008, _LEVELS)
        for at in random.integers(_LEVELS, size=4):
            level[at:] += random.normal(0, 0.05)
        series.append(level[:, None] + 0.01 * random.standard_t(5, (_LEVELS, _BOOTS)))
    segment_boots(series[0], modes.learn(series[0]))
    began = time.process_time()
    cuts = sum(len(segment_boots(boots, modes.learn(boots)).cuts) for boots in series)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "engine": "netbisect",
        "case": "speed",
        "samples": _SERIES * _LEVELS * _BOOTS,
        "steps": cuts,
        "seconds": round(seconds, 2),
        "megabytes": round(peak * unit / 2**20),
    }
