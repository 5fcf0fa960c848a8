"""Confirmation over pairs of images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection.confirmation import MOST_PAIRS, judge
from netbisect.bisect.model.detection_results import RetestVerdict
from netbisect.bisect.model.results import Effect

BOOTS = 0.001
"""Standard error of a retest, ln ratio."""


def pair(ln_ratio: float, error: float = BOOTS, boots: int = 6) -> Effect:
    reach = 3 * error
    return Effect("inet4", ln_ratio, ln_ratio - reach, ln_ratio + reach, 1e-6, boots, boots + 1)


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


def test_verdict_needs_a_pair() -> None:
    with pytest.raises(ValueError, match="at least one pair of images"):
        judge([], 0.01)


# ------------------------------------------------------------------------------- more of them


def test_contradicting_pairs_are_no_change() -> None:
    verdict = judge([pair(-0.03), pair(0.02)], 0.01)

    assert verdict.word is RetestVerdict.NO
    assert "2 pairs of images differ no more than any two images" in verdict.why


def test_change_far_below_min_effect_is_given_up() -> None:
    assert judge([pair(-0.009)] * 2, 0.0, min_effect=0.02).word is RetestVerdict.NO
    assert judge([pair(-0.015)] * 2, 0.0, min_effect=0.02).word is RetestVerdict.MORE
    assert judge([pair(-0.015)] * MOST_PAIRS, 0.0, min_effect=0.02).word is RetestVerdict.NO


# -------------------------------------------------------------------------------- the numbers


PAIRS = st.lists(
    st.builds(pair, st.floats(-0.1, 0.1), st.floats(1e-4, 0.03)), min_size=1, max_size=MOST_PAIRS
)


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
            error = 0.009 * math.sqrt(2 / 8)
            pairs.append(pair(bad - good + rng.normal(0, error), error))
            word = judge(pairs, 0.01).word
        changed += word is RetestVerdict.CHANGED

    assert changed <= 4
