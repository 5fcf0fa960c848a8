"""Product partition with heavy tails."""

from __future__ import annotations

import numpy as np
import pytest

from netbisect.bisect.stats.partition import CORRELATIONS, STUDENT_SCALE, partition
from netbisect.bisect.stats.robust import Floats

BOOTS = 5.0


def cuts_of(y: Floats, correlations: tuple[float, ...] = CORRELATIONS) -> tuple[int, ...]:
    n = len(y)
    least = np.full(n, 0.008**2 / BOOTS)
    steps = np.full(n, 0.05)
    return partition(y, least, np.full(n, BOOTS), (0.01, 4.0), steps, correlations).cuts


@pytest.mark.parametrize("place", [2, 20, 38])
def test_lasting_shift_is_a_cut_and_outliers_are_not(place: int) -> None:
    """The shift may be near an end of the series."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng([seed, place])
        y = 14 + rng.normal(0, 0.008, 40)
        y[rng.integers(5, 15)] -= 0.06
        y[rng.integers(25, 35)] -= 0.06
        y[place:] -= 0.08
        found.append(cuts_of(y))

    assert sum(cuts == (place,) for cuts in found) >= 19


@pytest.mark.parametrize("quiet_first", [True, False])
def test_noise_of_a_stretch_is_no_step(quiet_first: bool) -> None:
    """The noise changes between 0.5 % and 5 %; the step in the quiet half is found."""
    sd = np.where(np.arange(80) < 40, 0.005, 0.05)
    false = 0
    for seed in range(20):
        y = 14 + np.random.default_rng(seed).normal(0, sd)
        y[20:] -= 0.04
        place = 20 if quiet_first else 60
        found = cuts_of(y if quiet_first else y[::-1])
        assert place in found
        false += len(found) - 1

    assert false <= 8


def test_correlated_level_has_fewer_cuts() -> None:
    """AR(1) with a correlation of 0.7 and a standard deviation of 1.2 %."""
    independent = correlated = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = np.zeros(80)
        for i in range(1, 80):
            y[i] = 0.7 * y[i - 1] + rng.normal(0, 0.012 * np.sqrt(1 - 0.49))
        independent += len(cuts_of(y, (0.0,)))
        correlated += len(cuts_of(y))

    assert correlated < independent / 2


def test_estimated_scatter_equals_that_of_normal_offsets() -> None:
    """The mean estimate over 10 histories of 120 images is within 10 %."""
    n, scales = 120, []
    for seed in range(10):
        y = np.random.default_rng(seed).normal(0, 0.02, n)
        found = partition(y, np.zeros(n), np.full(n, BOOTS), (0.01, 4.0), np.full(n, 0.05))
        scales.append(np.sqrt(found.variance[-1]) / STUDENT_SCALE)

    assert np.mean(scales) == pytest.approx(0.02, rel=0.1)
