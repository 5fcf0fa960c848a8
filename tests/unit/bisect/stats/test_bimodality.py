"""Gaps between the boots of an image."""

from __future__ import annotations

import math

import pytest

from netbisect.bisect.stats.bimodality import widest_gap


def logs(*kpps: float) -> list[float]:
    return [math.log(1000 * rate) for rate in kpps]


def test_gap_between_two_groups() -> None:
    """Boots of an Atom C2758 in two modes."""
    gap = widest_gap(logs(1252, 853, 855, 865, 1215))

    assert gap is not None
    assert (gap.slow, gap.fast) == (3, 2)
    assert gap.ln_ratio == pytest.approx(math.log(1233 / 857.6), abs=0.01)


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
