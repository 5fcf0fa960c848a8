"""Effects by Welch's and Yuen's tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from netbisect.bisect.model.evidence import Observation
from netbisect.bisect.stats.effect import difference, effects, welch

BOOTS = st.lists(st.floats(13, 15), min_size=2, max_size=12)


def spread(values: list[float]) -> float:
    return float(np.std(values, ddof=1))


@given(BOOTS, BOOTS)
def test_welch_agrees_with_scipy(good: list[float], bad: list[float]) -> None:
    """Where the boots scatter, it agrees with scipy to the last digits."""
    if min(spread(good), spread(bad)) < 1e-3:
        return
    effect = welch(good, bad, "inet4")
    reference = stats.ttest_ind(bad, good, equal_var=False)
    interval = reference.confidence_interval(0.95)

    assert effect.ln_ratio == pytest.approx(np.mean(bad) - np.mean(good), abs=1e-9)
    assert effect.p == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)
    assert (effect.low, effect.high) == pytest.approx(tuple(interval), rel=1e-6, abs=1e-9)


@given(BOOTS, BOOTS)
def test_sides_are_symmetric(good: list[float], bad: list[float]) -> None:
    """Exchanged, they give the same effect with the other sign."""
    there, back = difference(good, bad, "inet4"), difference(bad, good, "inet4")

    assert there.ln_ratio == pytest.approx(-back.ln_ratio)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p == pytest.approx(back.p)


@given(BOOTS, BOOTS, st.randoms(use_true_random=False))
def test_order_of_boots_does_not_matter(good: list[float], bad: list[float], shuffler) -> None:  # noqa: ANN001
    shuffled = list(good)
    shuffler.shuffle(shuffled)

    assert difference(shuffled, bad, "inet4") == difference(good, bad, "inet4")


@given(BOOTS, BOOTS)
def test_interval_contains_the_effect(good: list[float], bad: list[float]) -> None:
    effect = difference(good, bad, "inet4")

    assert effect.low < effect.ln_ratio < effect.high
    assert 0 <= effect.p <= 1


def test_higher_confidence_widens_the_interval() -> None:
    good, bad = [14.0, 14.01, 14.02], [13.9, 13.92, 13.91]

    wide, narrow = welch(good, bad, "inet4", 0.99), welch(good, bad, "inet4", 0.8)

    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(("good", "bad"), [([], [1.0, 2.0]), ([1.0, 2.0], [1.0])])
def test_single_boot_is_rejected(good: list[float], bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"inet4: a comparison needs at least 2 boots"):
        welch(good, bad, "inet4")


def test_minimum_standard_deviation() -> None:
    """Boots that repeat themselves to the last digit do not prove 0.002 %."""
    effect = welch([14.0] * 5, [14.0 - 2e-5] * 5, "inet4")

    assert effect.p > 0.05
    assert effect.low < 0 < effect.high


def test_constant_boots_can_differ() -> None:
    assert welch([14.0] * 5, [13.99] * 5, "inet4").p < 1e-6


def test_yuens_test_from_eight_boots() -> None:
    """With the extremes of each side left out."""
    rng = np.random.default_rng(5)
    good, bad = rng.normal(14, 0.01, 8).tolist(), rng.normal(13.98, 0.02, 8).tolist()
    reference = stats.ttest_ind(bad, good, equal_var=False, trim=1 / 8)

    effect = difference(good, bad, "inet4")

    assert effect.p == pytest.approx(reference.pvalue)
    assert (effect.low, effect.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))


def test_outlier_does_not_hide_a_drop() -> None:
    """Of nine good boots one is 8 % low, as happens on real routers."""
    scatter = [-0.012, -0.008, -0.004, -0.002, 0.0, 0.002, 0.004, 0.008, 0.012]
    good = [14 + x for x in scatter[:-1]] + [14 - 0.08]
    bad = [14 - 0.032 + x for x in scatter]

    assert welch(good, bad, "inet4").p > 0.01
    assert difference(good, bad, "inet4").p < 0.001


def test_effects_start_with_the_lead() -> None:
    def boots(revision: str, **ln_pps: list[float]) -> list[Observation]:
        return [
            Observation(f"{revision}{i}", revision, "", {name: values[i] for name, values in
                    ln_pps.items() if i < len(values)})
            for i in range(3)
        ]  # fmt: skip

    good = boots("r1", pf=[14.0, 14.01, 14.02], inet6=[13.0, 13.1, 13.2], inet4=[12.0])
    bad = boots("r2", pf=[13.9, 13.91, 13.92], inet6=[13.0, 13.2, 13.1], inet4=[12.0, 12.1])

    found = effects(good, bad, "inet6", ("inet4", "inet6", "pf"))

    assert [effect.scenario for effect in found] == ["inet6", "pf"]
    assert found[1].ln_ratio == pytest.approx(-0.1)
    assert math.expm1(found[1].ln_ratio) * 100 == pytest.approx(found[1].percent)
