"""Self-checks: sensitivity, A/A tests, sign test, overlap and repeated nights of one kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from histories import history, nights
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection.nightly_screen import screen
from netbisect.bisect.detection.self_check import (
    compare_repeated_night,
    count_repeated_nights,
    false_call_p,
    night_overlap,
    sign_test,
    smallest_drop,
    split_half_test,
)
from netbisect.bisect.model.detection_results import (
    ALPHA,
    MIN_EFFECT,
    SCREEN_ALPHA_TWO_SIDED,
    RepeatedNight,
    SplitHalfTest,
)
from netbisect.bisect.model.entities import Level, Noise

NOISE = Noise(boot=0.009, image=0.008)


@pytest.mark.long
@pytest.mark.parametrize(("images", "latest"), [(10, 1), (30, 1), (10, 5), (30, 5)])
def test_smallest_drop_has_80_percent_power(images: int, latest: int) -> None:
    """The screen finds this drop in 80 % of cases, with its own estimate of the noise."""
    seen = []
    for seed in range(40):
        levels = history(seed, (images + latest, 0.0), stray=0)
        before = levels[:images]
        noise = screen([*before, levels[images]]).noise
        assert noise is not None
        drop = smallest_drop(noise, images, boots=5, nights=latest)
        lower = [replace(x, ln_pps=tuple(y - drop for y in x.ln_pps)) for x in levels[images:]]
        seen.append(screen([*before, *lower]).suspicious)

    assert np.mean(seen) == pytest.approx(0.8, abs=0.12)


@given(
    st.floats(0.001, 0.03),
    st.floats(0, 0.03),
    st.integers(1, 60),
    st.integers(1, 9),
    st.integers(1, 8),
)
def test_smallest_drop_is_monotonic(
    boot: float, image: float, images: int, boots: int, latest: int
) -> None:
    noise = Noise(boot, image)
    drop = smallest_drop(noise, images, boots=boots, nights=latest)

    assert drop > 0
    assert smallest_drop(noise, images + 1, boots=boots, nights=latest) <= drop
    assert smallest_drop(noise, images, boots=boots + 1, nights=latest) <= drop
    assert smallest_drop(noise, images, boots=boots, nights=latest + 1) <= drop
    assert smallest_drop(Noise(2 * boot, image), images, boots=boots, nights=latest) >= drop
    assert smallest_drop(Noise(boot, image + 0.01), images, boots=boots, nights=latest) >= drop


def test_boots_do_not_average_image_noise_out() -> None:
    assert smallest_drop(NOISE, 30, boots=10**6) > 2 * NOISE.image


def test_halves_of_a_night_differ_by_chance_or_by_a_drift() -> None:
    """Ministat calls about 5 % of 400 equal halves different; a retest calls 0.3 %.

    Both call all of 20 nights whose second half is slower, which indicates a fault of the lab.
    """
    found = split_half_test(history(1, (400, 0.0), boots=12, stray=0))

    assert found.images == 400
    assert found.ministat == pytest.approx(20, abs=12)
    assert found.called <= 5
    rows = 14 + np.random.default_rng(3).normal(0, 0.001, (20, 6))
    rows[:, 3:] -= 0.05
    assert split_half_test(nights(rows)) == SplitHalfTest(20, 20, 20)


def test_overlap_is_the_mean_over_pairs() -> None:
    """The pairs overlap by 2/3 and 0; a pair of nights without suspicions does not count."""
    quiet: frozenset[str] = frozenset()
    suspicious = [frozenset("ab"), frozenset("abc"), quiet, quiet]

    assert night_overlap(suspicious) == pytest.approx((2 / 3 + 0) / 2)


def again(level: Level, seed: int, by: float = 0.0, boot: float = 0.009) -> Level:
    """Another night of the same image, at the mean of its level plus `by`."""
    rng = np.random.default_rng(seed)
    mean = np.mean(level.ln_pps) + by
    return replace(level, ln_pps=tuple(float(x) for x in mean + rng.normal(0, boot, 5)))


def pairs(count: int, by: float = 0.0) -> list[RepeatedNight]:
    """Repeated nights, each with a different history."""
    found = []
    for seed in range(count):
        *levels, first = history(seed, (21, 0.0), stray=0)
        found.append(compare_repeated_night(levels, first, again(first, seed + 1000, by)))
    return found


@pytest.mark.long
def test_false_call_rates_are_nominal() -> None:
    """The rates do not exceed the levels of significance of screen and retest."""
    found = count_repeated_nights(pairs(50))

    assert found.nights == 50
    assert found.screened <= 50 * SCREEN_ALPHA_TWO_SIDED
    assert found.retested <= 50 * ALPHA
    assert found.night_sd is not None
    assert found.night_sd < 0.005


def test_repeated_night_differs_if_it_is_slower_by_more_than_min_effect() -> None:
    found = count_repeated_nights(pairs(10, by=-0.1))

    assert (found.screened, found.retested) == (10, 10)
    assert found.night_sd == pytest.approx(0.1 / np.sqrt(2), rel=0.1)
    *levels, first = history(1, (21, 0.0), boot=0.0005)
    small = compare_repeated_night(levels, first, again(first, 2, by=-MIN_EFFECT / 2, boot=0.0005))
    assert abs(small.ln_ratio) > 0.4 * MIN_EFFECT
    assert not small.retested


def test_p_values() -> None:
    assert sign_test(0, 0) == 1
    assert sign_test(7, 7) == pytest.approx(1)
    assert sign_test(1, 0) == pytest.approx(1)
    assert false_call_p(1, 10000, 0.01) == pytest.approx(1)
    assert false_call_p(5, 10, 0.01) < 1e-6
    assert false_call_p(0, 10, 0.01) == 1
    assert false_call_p(0, 0, 0.01) == 1
