"""Gaps between the boots of an image."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.stats.bimodality import BootGap, widest_gap


def logs(*kpps: float) -> list[float]:
    return [math.log(1000 * rate) for rate in kpps]


def test_gap_between_two_groups() -> None:
    """An Atom C2758 that came up in either of two modes."""
    gap = widest_gap(logs(1252, 853, 855, 865, 1215))

    assert gap is not None
    assert (gap.slow, gap.fast) == (3, 2)
    assert gap.ln_ratio == pytest.approx(math.log(1233 / 857.6), abs=0.01)


def test_gap_of_one_outlier() -> None:
    gap = widest_gap(logs(1000, 1002, 998, 700, 1001))

    assert gap is not None
    assert (gap.slow, gap.fast) == (1, 4)


@pytest.mark.parametrize(
    "boots",
    [
        logs(),
        logs(100, 200, 300),
        logs(1000, 1000, 1000, 1000, 1000),
        logs(1000, 1000, 1000, 1015, 1015),
        logs(900, 1000, 1100, 1200, 1300),
    ],
)
def test_no_gap(boots: list[float]) -> None:
    assert widest_gap(boots) is None


def test_normal_boots_rarely_have_a_gap() -> None:
    chance = Random(1)
    found = {
        boots: sum(
            widest_gap([chance.gauss(0, 0.01) for _ in range(boots)]) is not None
            for _ in range(2000)
        )
        for boots in (5, 10)
    }

    assert 20 < found[5] < 100
    assert found[10] < 12


@given(st.lists(st.floats(5, 18), min_size=4, max_size=12), st.floats(-3, 3), st.randoms())
def test_order_and_unit_do_not_matter(boots: list[float], shift: float, chance: Random) -> None:
    gap = widest_gap(boots)
    moved = [boot + shift for boot in boots]
    chance.shuffle(moved)
    again = widest_gap(moved)

    if gap is not None and gap.ln_ratio > 0.1:
        assert again is not None
        assert (again.slow, again.fast) == (gap.slow, gap.fast)
        assert isinstance(again, BootGap)
