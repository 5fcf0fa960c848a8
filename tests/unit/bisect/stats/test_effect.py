"""Effects by Welch's and Yuen's tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from netbisect.bisect.stats.effect import difference

BOOTS = st.lists(st.floats(13, 15), min_size=2, max_size=12)


@given(BOOTS, BOOTS)
def test_welch_agrees_with_scipy(good: list[float], bad: list[float]) -> None:
    """Samples with a standard deviation below 0.001 are excluded."""
    if min(np.std(good, ddof=1), np.std(bad, ddof=1)) < 1e-3:
        return
    effect = difference(good, bad, "inet4", robust=False)
    reference = stats.ttest_ind(bad, good, equal_var=False)
    interval = reference.confidence_interval(0.95)

    assert effect.ln_ratio == pytest.approx(np.mean(bad) - np.mean(good), abs=1e-9)
    assert effect.p == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)
    assert (effect.low, effect.high) == pytest.approx(tuple(interval), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("good", "bad"), [([], [1.0, 2.0]), ([1.0, 2.0], [1.0])])
def test_single_boot_is_rejected(good: list[float], bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"inet4: a comparison needs at least 2 boots"):
        difference(good, bad, "inet4", robust=False)


def test_minimum_standard_deviation() -> None:
    """A difference of 0.002 % between constant samples is not significant."""
    effect = difference([14.0] * 5, [14.0 - 2e-5] * 5, "inet4")

    assert effect.p > 0.05
    assert effect.low < 0 < effect.high


def test_yuens_test_from_eight_boots() -> None:
    """The smallest and largest value of each side are trimmed."""
    rng = np.random.default_rng(5)
    good, bad = rng.normal(14, 0.01, 8).tolist(), rng.normal(13.98, 0.02, 8).tolist()
    reference = stats.ttest_ind(bad, good, equal_var=False, trim=1 / 8)

    effect = difference(good, bad, "inet4")

    assert effect.p == pytest.approx(reference.pvalue)
    assert (effect.low, effect.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))
