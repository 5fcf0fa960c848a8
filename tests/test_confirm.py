"""A difference of two kernels is a change of the code when no offset of images explains it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.compare import welch
from netbisect.bisect.confirm import LARGE, MOST_PAIRS, Word, judge
from netbisect.bisect.model import Effect

BOOTS = 0.001
"""Standard error of a retest, ln ratio."""


def pair(ln_ratio: float, error: float = BOOTS, boots: int = 6) -> Effect:
    reach = 1.96 * error
    return Effect("inet4", ln_ratio, ln_ratio - reach, ln_ratio + reach, 1e-6, boots, boots + 1)


# --------------------------------------------------------------------------------- one pair


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_large_change_takes_one_pair(sign: int) -> None:
    verdict = judge([pair(sign * 0.06)], 0.005, sign=sign)

    assert (verdict.word, verdict.why) == (Word.CHANGED, "one pair of images")


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("size", [0.025, 0.05])
def test_a_small_change_takes_another_pair(sign: int, size: float) -> None:
    """Below 5 % it may be the offset of an image."""
    assert size < LARGE
    assert judge([pair(sign * size)], 0.005, sign=sign).word is Word.MORE
    assert judge([pair(sign * size)] * 2, 0.003, sign=sign).word is Word.CHANGED


def test_where_images_differ_much_a_large_change_takes_more_pairs_too() -> None:
    """10 % is no more than two images of 3 % may differ by."""
    assert judge([pair(-0.1)], 0.005).word is Word.CHANGED
    assert judge([pair(-0.1)], 0.03).word is Word.MORE


def test_one_pair_alone_is_not_given_up() -> None:
    """Whatever it shows: images may hide a change as well."""
    for ln_ratio in (0.0, -0.01, 0.02):
        assert judge([pair(ln_ratio)], 0.01).word is Word.MORE


def test_a_verdict_needs_a_pair() -> None:
    with pytest.raises(ValueError, match="one pair of images at least"):
        judge([], 0.01)


# ------------------------------------------------------------------------------- more of them


def test_pairs_that_contradict_each_other_show_nothing() -> None:
    verdict = judge([pair(-0.03), pair(0.02)], 0.01)

    assert verdict.word is Word.NO
    assert "2 pairs of images differ no more than any two images" in verdict.why


def test_pairs_that_go_the_other_way_show_nothing() -> None:
    """A drop is looked for, and there is a gain."""
    assert judge([pair(0.06)] * 2, 0.005).word is Word.NO
    assert judge([pair(-0.06)] * 2, 0.005, sign=1).word is Word.NO


def test_far_less_than_is_worth_an_alert_is_given_up() -> None:
    """However sure it is; what is nearly worth one is looked at further."""
    assert judge([pair(-0.009)] * 2, 0.0, min_effect=0.02).word is Word.NO
    assert judge([pair(-0.015)] * 2, 0.0, min_effect=0.02).word is Word.MORE
    assert judge([pair(-0.015)] * MOST_PAIRS, 0.0, min_effect=0.02).word is Word.NO


def test_the_least_effect_decides_what_is_worth_one() -> None:
    assert judge([pair(-0.01)] * 2, 0.0, min_effect=0.005).word is Word.CHANGED


def test_it_is_given_up_after_so_many_pairs() -> None:
    """Images that differ by as much as the change may be."""
    verdicts = [judge([pair(-0.03)] * k, 0.05) for k in range(1, MOST_PAIRS + 1)]

    assert [one.word for one in verdicts] == [Word.MORE] * (MOST_PAIRS - 1) + [Word.NO]
    assert verdicts[-1].why == f"{MOST_PAIRS} pairs of images do not settle it"


# -------------------------------------------------------------------------------- the numbers


def test_all_pairs_count_alike_and_so_do_the_offsets_of_images() -> None:
    """The mean of k pairs lies off by the boots of each and by sqrt(2 / k) of the image noise."""
    effect = judge([pair(-0.04, 0.01), pair(-0.06, 0.02)], 0.01).effect
    error = math.sqrt((0.01**2 + 0.02**2) / 4 + 0.01**2)

    assert effect.scenario == "inet4"
    assert effect.ln_ratio == pytest.approx(-0.05)
    assert effect.high - effect.low == pytest.approx(2 * 1.96 * error, rel=1e-4)
    assert (effect.good_boots, effect.bad_boots) == (12, 14)
    assert effect.p == pytest.approx(math.erfc(0.05 / error / math.sqrt(2)), rel=1e-2)


def test_without_any_noise_the_change_is_certain() -> None:
    """A simulated router, whose images do not differ."""
    certain = Effect("inet4", -0.06, -0.06, -0.06, 0.0, 3, 3)

    assert judge([certain], 0.0).word is Word.CHANGED
    assert judge([certain], 0.0).effect.p == 0


def test_without_any_noise_and_difference_nothing_is_certain() -> None:
    """Nothing differs, which no chance has to explain."""
    none = Effect("inet4", 0.0, 0.0, 0.0, 1.0, 3, 3)

    assert judge([none], 0.0).word is Word.MORE
    assert judge([none] * 2, 0.0).word is Word.NO


PAIRS = st.lists(
    st.builds(pair, st.floats(-0.1, 0.1), st.floats(1e-4, 0.03)), min_size=1, max_size=MOST_PAIRS
)


@given(PAIRS, st.floats(0, 0.05))
def test_a_gain_is_judged_as_a_drop_is(pairs: list[Effect], image_sd: float) -> None:
    mirrored = [
        Effect(one.scenario, -one.ln_ratio, -one.high, -one.low, one.p, 6, 7) for one in pairs
    ]
    drop, gain = judge(pairs, image_sd), judge(mirrored, image_sd, sign=1)

    assert (drop.word, drop.why) == (gain.word, gain.why)
    assert drop.effect.ln_ratio == -gain.effect.ln_ratio


@given(PAIRS, st.floats(0, 0.05), st.floats(0, 0.05))
def test_more_image_noise_never_turns_doubt_into_a_change(
    pairs: list[Effect], image_sd: float, more: float
) -> None:
    if judge(pairs, image_sd + more).word is Word.CHANGED:
        assert judge(pairs, image_sd).word is Word.CHANGED


@given(PAIRS, st.floats(0, 0.05))
def test_what_changed_is_worth_an_alert(pairs: list[Effect], image_sd: float) -> None:
    """And its interval lies on one side; after the last pair there is an answer."""
    verdict = judge(pairs, image_sd, min_effect=0.02)
    if verdict.word is Word.CHANGED:
        assert verdict.effect.ln_ratio <= -0.9 * 0.02
        assert verdict.effect.high < 0
    if len(pairs) == MOST_PAIRS:
        assert verdict.word is not Word.MORE


def test_offsets_of_images_are_hardly_ever_called_a_change() -> None:
    """Images without a change that differ by 1 %, asked again while there is doubt: 4 of 400."""
    rng = np.random.default_rng(1)
    changed = 0
    for _ in range(400):
        pairs: list[Effect] = []
        word = Word.MORE
        while word is Word.MORE:
            good, bad = rng.normal(14, 0.01, 2)
            boots = rng.normal(0, 0.009, (2, 9))
            pairs.append(welch(list(good + boots[0]), list(bad + boots[1]), "inet4"))
            word = judge(pairs, 0.01).word
        changed += word is Word.CHANGED

    assert changed <= 4
