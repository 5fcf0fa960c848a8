"""The test for a shift over the images of a history."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from netbisect.bisect.detection.image_shift import ImageShift, image_shift
from netbisect.bisect.model.detection_results import MIN_EFFECT


def images(seed: int, before: int, after: int, drop: float, sd: float) -> NDArray[np.float64]:
    """Levels with heavy tails: Student's t with 4 degrees of freedom."""
    rng = np.random.default_rng(seed)
    y = 14 + sd / math.sqrt(2) * rng.standard_t(4, before + after)
    y[before:] += math.log1p(-drop)
    return y


def evidence_of(y: NDArray[np.float64], effect: float = -MIN_EFFECT) -> ImageShift:
    found = image_shift(y, effect)
    assert found is not None
    return found


@pytest.mark.parametrize(("drop", "after", "least"), [(0.1, 3, 19), (0.05, 12, 18)])
def test_lasting_drop_is_shown_at_its_place(drop: float, after: int, least: int) -> None:
    """The images scatter by 2 %."""
    found = [evidence_of(images(seed, 30, after, drop, 0.02)) for seed in range(20)]

    assert sum(one.shown for one in found) >= least
    assert sum(one.first <= 30 for one in found) >= 19
    assert all(abs(one.at - 30) <= 2 for one in found if one.shown)


@pytest.mark.long
def test_drop_two_images_after_another_change_is_shown_at_its_place() -> None:
    """The baseline has two images; the drop is 10 %, and images scatter by 2 %."""
    found = []
    for seed in range(20):
        y = images(seed, 2, 14, 0.1, 0.02)
        shown = (evidence_of(y[:length]) for length in range(3, 17))
        found += [one.at for one in list(shown) if one.shown][:1]

    assert len(found) >= 10
    assert all(abs(at - 2) <= 1 for at in found)


@pytest.mark.parametrize("percent", [13, 14, 20])
def test_drop_is_shown_with_a_large_min_effect(percent: float) -> None:
    y = images(4, 30, 5, 0.3, 0.02)

    assert evidence_of(y, math.log1p(-percent / 100)).shown


def test_few_images_are_uncertain() -> None:
    """A single image is no shift; thirty images before the drop show it, and four do not."""
    y = images(1, 30, 1, 0.0, 0.01)
    y[-1] = 14 - 0.07
    assert not evidence_of(y).shown
    assert evidence_of(np.append(y, [y[-1], y[-1]])).shown

    y = images(2, 30, 4, 0.05, 0.008)

    assert evidence_of(y).shown
    assert not evidence_of(y[-8:]).shown
    assert image_shift(y[:1], -MIN_EFFECT) is None


def test_correlated_images_need_more_evidence() -> None:
    """The same images in random order are stronger evidence than a random walk."""
    rng = np.random.default_rng(3)
    walk = np.zeros(40)
    for i in range(1, 40):
        walk[i] = 0.5 * walk[i - 1] + rng.normal(0, 0.03)
    walk[-4:] -= 0.08
    shuffled = np.concatenate([rng.permutation(walk[:-4]), walk[-4:]])

    assert evidence_of(walk).log_ratio < evidence_of(shuffled).log_ratio


def test_gains_and_drops_are_symmetric() -> None:
    y = images(4, 20, 5, 0.06, 0.01)
    drop, gain = evidence_of(y), evidence_of(28 - y, MIN_EFFECT)

    assert drop.log_ratio == pytest.approx(gain.log_ratio)
    assert (drop.first, drop.at) == (gain.first, gain.at)
    assert evidence_of(y, MIN_EFFECT).log_ratio < 0


@pytest.mark.long
def test_false_calls_are_rare() -> None:
    """None of 30 histories of 40 nights has a false call; 0.4 are expected."""
    for seed in range(30):
        y = images(seed, 40, 0, 0.0, 0.03)

        assert not any(evidence_of(y[:length]).shown for length in range(2, 41, 2))
