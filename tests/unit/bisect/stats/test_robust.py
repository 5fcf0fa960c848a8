"""Huber's M-estimate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.stats.robust import location, locations, scale

BOOTS = st.lists(st.floats(13, 15), min_size=1, max_size=9)


def test_outlier_has_bounded_influence() -> None:
    near, far = location([14, 14, 14, 14, 13.9], 0.01), location([14, 14, 14, 14, 3.9], 0.01)

    assert near == pytest.approx(far, abs=1e-8)
    assert 14 - 0.01 < near < 14


@given(st.lists(BOOTS, min_size=1, max_size=6), st.floats(0.001, 0.1))
def test_locations_agree_with_location(rows: list[list[float]], sd: float) -> None:
    boots = np.full((len(rows), 9), np.nan)
    for row, values in zip(boots, rows, strict=True):
        row[: len(values)] = values

    assert locations(boots, sd) == pytest.approx([location(row, sd) for row in rows], abs=1e-8)


def test_second_mode_does_not_widen_the_scale() -> None:
    random = np.random.default_rng(1)
    groups = [random.normal(14, 0.01, 8) - 0.4 * (np.arange(8) % 3 == 0) for _ in range(30)]

    assert scale(groups) < 0.025
    assert scale([random.normal(14, 0.01, 8) for _ in range(30)]) == pytest.approx(0.01, rel=0.15)
    assert scale([[14.0], [13.0]]) == 0.0  # single values
