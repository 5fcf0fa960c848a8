"""Confirmation over pairs of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection import confirmation
from netbisect.bisect.detection.confirmation import MOST_PAIRS
from netbisect.bisect.model.detection_results import RetestJudgement, RetestVerdict
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.results import Effect

BOOT_SD = 0.002


def pair(ln_ratio: float, boots: int = 6) -> Effect:
    return Effect("inet4", ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-6, boots, boots + 1)


def judge(pairs: list[Effect], image_sd: float, **others: Any) -> RetestJudgement:
    return confirmation.judge(pairs, Noise(BOOT_SD, image_sd), **others)


# --------------------------------------------------------------------------------- one pair


@pytest.mark.parametrize("sign", [-1, 1])
def test_change_of_ten_standard_deviations_needs_one_pair(sign: int) -> None:
    verdict = judge([pair(sign * 0.07)], 0.005, sign=sign)

    assert (verdict.word, verdict.why) == (RetestVerdict.CHANGED, "one pair of images")


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("size", [0.025, 0.03])
def test_moderate_change_needs_two_pairs(sign: int, size: float) -> None:
    """It may be the offset of an odd image, up to four standard deviations of a difference."""
    assert judge([pair(sign * size)], 0.005, sign=sign).word is RetestVerdict.MORE
    assert judge([pair(sign * size)] * 3, 0.005, sign=sign).word is RetestVerdict.CHANGED


def test_pairs_with_one_good_image_count_as_one() -> None:
    """The good image may be the odd one."""
    pairs = [pair(-0.03)] * 3

    assert judge(pairs, 0.005, goods=["r1", "r2", "r3"]).word is RetestVerdict.CHANGED
    assert judge(pairs, 0.005, goods=["r1", "r1", "r1"]).word is RetestVerdict.MORE


def test_image_noise_needs_more_pairs() -> None:
    """10 % is no more than two images of 3 % may differ by."""
    assert judge([pair(-0.1)], 0.005).word is RetestVerdict.CHANGED
    assert judge([pair(-0.1)], 0.03).word is RetestVerdict.MORE


def test_one_pair_is_not_given_up() -> None:
    for ln_ratio in (0.0, -0.01, 0.02):
        assert judge([pair(ln_ratio)], 0.01).word is RetestVerdict.MORE


def test_verdict_needs_a_pair() -> None:
    with pytest.raises(ValueError, match="at least one pair of images"):
        judge([], 0.01)


# ------------------------------------------------------------------------------- more of them


def test_contradicting_pairs_are_no_change() -> None:
    verdict = judge([pair(-0.03), pair(0.02)], 0.01)

    assert verdict.word is RetestVerdict.NO
    assert "2 pairs of images differ no more than any two images" in verdict.why


def test_opposite_pairs_are_no_change() -> None:
    """A drop is looked for, and there is a gain."""
    assert judge([pair(0.06)] * 2, 0.005).word is RetestVerdict.NO
    assert judge([pair(-0.06)] * 2, 0.005, sign=1).word is RetestVerdict.NO


def test_change_far_below_min_effect_is_given_up() -> None:
    assert judge([pair(-0.009)] * 2, 0.0, min_effect=0.02).word is RetestVerdict.NO
    assert judge([pair(-0.015)] * 2, 0.0, min_effect=0.02).word is RetestVerdict.MORE
    assert judge([pair(-0.015)] * MOST_PAIRS, 0.0, min_effect=0.02).word is RetestVerdict.NO


def test_min_effect_decides() -> None:
    assert judge([pair(-0.01)] * 2, 0.0, min_effect=0.005).word is RetestVerdict.CHANGED


def test_given_up_after_most_pairs() -> None:
    verdicts = [judge([pair(-0.03)] * k, 0.05) for k in range(1, MOST_PAIRS + 1)]

    assert [one.word for one in verdicts] == [RetestVerdict.MORE] * (MOST_PAIRS - 1) + [
        RetestVerdict.NO
    ]
    assert verdicts[-1].why == f"{MOST_PAIRS} pairs of images do not settle it"


# -------------------------------------------------------------------------------- the numbers


def test_pairs_and_image_noise_are_averaged() -> None:
    """The mean of k pairs lies off by the boots of each and by sqrt(2 / k) of the image noise."""
    effect = judge([pair(-0.04, 2), pair(-0.06, 6)], 0.01).effect
    boots = BOOT_SD**2 * (1 / 2 + 1 / 3 + 1 / 6 + 1 / 7)
    error = math.sqrt(boots / 4 + 0.01**2)

    assert effect.scenario == "inet4"
    assert effect.ln_ratio == pytest.approx(-0.05)
    assert effect.high - effect.low == pytest.approx(2 * 1.96 * error, rel=1e-4)
    assert (effect.good_boots, effect.bad_boots) == (8, 10)
    assert effect.p == pytest.approx(math.erfc(0.05 / error / math.sqrt(2)), rel=1e-2)


def test_change_without_noise_is_certain() -> None:
    certain = confirmation.judge([pair(-0.06)], Noise(0.0, 0.0))

    assert certain.word is RetestVerdict.CHANGED
    assert certain.effect.p == 0


PAIRS = st.lists(
    st.builds(pair, st.floats(-0.1, 0.1), st.integers(1, 20)), min_size=1, max_size=MOST_PAIRS
)


@given(PAIRS, st.floats(0, 0.05))
def test_gains_and_drops_are_symmetric(pairs: list[Effect], image_sd: float) -> None:
    mirrored = [
        Effect(
            one.scenario, -one.ln_ratio, -one.high, -one.low, one.p, one.good_boots, one.bad_boots
        )
        for one in pairs
    ]
    drop, gain = judge(pairs, image_sd), judge(mirrored, image_sd, sign=1)

    assert (drop.word, drop.why) == (gain.word, gain.why)
    assert drop.effect.ln_ratio == -gain.effect.ln_ratio


@given(PAIRS, st.floats(0, 0.05), st.floats(0, 0.05))
def test_more_image_noise_is_never_more_significant(
    pairs: list[Effect], image_sd: float, more: float
) -> None:
    if judge(pairs, image_sd + more).word is RetestVerdict.CHANGED:
        assert judge(pairs, image_sd).word is RetestVerdict.CHANGED


@given(PAIRS, st.floats(0, 0.05))
def test_confirmed_change_is_at_least_min_effect(pairs: list[Effect], image_sd: float) -> None:
    verdict = judge(pairs, image_sd, min_effect=0.02)
    if verdict.word is RetestVerdict.CHANGED:
        assert verdict.effect.ln_ratio <= -0.9 * 0.02
        assert verdict.effect.high < 0
    if len(pairs) == MOST_PAIRS:
        assert verdict.word is not RetestVerdict.MORE


def test_image_noise_is_rarely_a_change() -> None:
    """Images without a change that differ by 1 %, asked again while there is doubt: 4 of 400."""
    rng = np.random.default_rng(1)
    changed = 0
    for _ in range(400):
        pairs: list[Effect] = []
        word = RetestVerdict.MORE
        while word is RetestVerdict.MORE:
            good, bad = rng.normal(14, 0.01, 2)
            pairs.append(pair(bad - good + rng.normal(0, BOOT_SD * math.sqrt(2 / 8)), 8))
            word = judge(pairs, 0.01).word
        changed += word is RetestVerdict.CHANGED

    assert changed <= 4
