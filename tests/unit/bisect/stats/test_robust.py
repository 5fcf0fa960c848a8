"""Huber's M-estimate."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.stats.robust import location, locations

BOOTS = st.lists(st.floats(13, 15), min_size=1, max_size=9)


def test_one_or_two_boots_give_their_mean() -> None:
    assert location([14.0], 0.01) == 14
    assert location([14.0, 15.0], 0.01) == 14.5


def test_boots_within_reach_give_their_mean() -> None:
    assert location([13.99, 14.0, 14.013], 0.02) == pytest.approx(14.001)


def test_outlier_has_bounded_influence() -> None:
    """However far off it is."""
    near, far = location([14, 14, 14, 14, 13.9], 0.01), location([14, 14, 14, 14, 3.9], 0.01)

    assert near == pytest.approx(far, abs=1e-8)
    assert 14 - 0.01 < near < 14


def test_no_rows_have_no_levels() -> None:
    assert locations(np.empty((0, 3)), 0.01).shape == (0,)


@given(st.lists(BOOTS, min_size=1, max_size=6), st.floats(0.001, 0.1))
def test_locations_agree_with_location(rows: list[list[float]], sd: float) -> None:
    boots = np.full((len(rows), 9), np.nan)
    for row, values in zip(boots, rows, strict=True):
        row[: len(values)] = values

    assert locations(boots, sd) == pytest.approx([location(row, sd) for row in rows], abs=1e-8)


@given(BOOTS, st.floats(-5, 5), st.randoms(use_true_random=False))
def test_location_is_equivariant(boots: list[float], by: float, shuffler: Random) -> None:
    level = location(boots, 0.01)
    shuffler.shuffle(boots)

    assert location([x + by for x in boots], 0.01) == pytest.approx(level + by, abs=1e-7)
    assert min(boots) - 1e-9 <= level <= max(boots) + 1e-9
