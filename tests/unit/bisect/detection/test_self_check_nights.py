"""Self-checks: repeated nights of one kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from histories import history

from netbisect.bisect.detection.self_check import (
    compare_repeated_night,
    count_repeated_nights,
    false_call_p,
)
from netbisect.bisect.model.detection_results import (
    ALPHA,
    MIN_EFFECT,
    SCREEN_ALPHA_TWO_SIDED,
    RepeatedNight,
)
from netbisect.bisect.model.entities import Level


def again(level: Level, seed: int, by: float = 0.0, boot: float = 0.009) -> Level:
    """Another night of the same image, at the mean of its level plus `by`."""
    rng = np.random.default_rng(seed)
    mean = np.mean(level.ln_pps) + by
    return replace(level, ln_pps=tuple(float(x) for x in mean + rng.normal(0, boot, 5)))


def pairs(count: int, by: float = 0.0) -> list[RepeatedNight]:
    """Repeated nights, each with a different history."""
    found = []
    for seed in range(count):
        *levels, first = history(seed, (21, 0.0), stray=0)
        found.append(compare_repeated_night(levels, first, again(first, seed + 1000, by)))
    return found


@pytest.mark.long
def test_false_call_rates_are_nominal() -> None:
    """The rates do not exceed the levels of significance of screen and retest."""
    found = count_repeated_nights(pairs(150))

    assert found.nights == 150
    assert false_call_p(found.screened, 150, SCREEN_ALPHA_TWO_SIDED) > 0.05
    assert false_call_p(found.retested, 150, ALPHA) > 0.05
    assert found.night_sd is not None
    assert found.night_sd < 0.005


def test_slower_second_night_is_detected() -> None:
    found = count_repeated_nights(pairs(10, by=-0.1))

    assert (found.screened, found.retested) == (10, 10)
    assert found.night_sd == pytest.approx(0.1 / np.sqrt(2), rel=0.1)


def test_difference_below_min_effect_is_not_counted() -> None:
    *levels, first = history(1, (21, 0.0), boot=0.0005)
    found = compare_repeated_night(levels, first, again(first, 2, by=-MIN_EFFECT / 2, boot=0.0005))

    assert abs(found.ln_ratio) > 0.4 * MIN_EFFECT
    assert not found.retested


def test_false_call_p() -> None:
    assert false_call_p(1, 10000, 0.01) == pytest.approx(1)
    assert false_call_p(5, 10, 0.01) < 1e-6
    assert false_call_p(0, 10, 0.01) == 1
    assert false_call_p(0, 0, 0.01) == 1
