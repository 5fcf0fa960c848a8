"""Boot modes: learning, levels and shifts."""

from __future__ import annotations

import numpy as np
import pytest
from histories import history

from netbisect.bisect.model.detection_results import BootModes
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.stats.boot_modes import (
    Floats,
    fast_levels,
    learn_modes,
    local_modes,
    modes_of,
)
from netbisect.bisect.stats.changepoints import boot_matrix


def two_modes(seed: int, images: int = 40, *, boots: int = 5, share: float = 0.3) -> Floats:
    return boot_matrix(
        history(seed, (images, 0.0), share=share, boots=boots, boot=0.005, image=0.005, stray=0.01)
    )


def test_bimodal_stretch_is_located() -> None:
    boots = np.concatenate([two_modes(1, 20, share=0), two_modes(2, 20), two_modes(3, 20, share=0)])
    found = local_modes(boots)
    changes = [i for i in range(1, 60) if found[i] != found[i - 1]]

    assert found[0] is None
    assert found[30] is not None
    assert found[59] is None
    assert changes == pytest.approx([20, 40], abs=3)
    for images in (0, 1, 20):
        assert local_modes(boots[:images]) == [None] * images


def test_changed_gap_between_modes_is_followed() -> None:
    boots = np.concatenate([two_modes(4, 25), two_modes(5, 25)])
    near = boots[25:] < np.nanmax(boots[25:], axis=1)[:, None] - 0.06
    boots[25:] += np.where(near, 0.06, 0.0)
    found = local_modes(boots)

    assert found[0] is not None
    assert found[49] is not None
    assert (found[0].gap, found[49].gap) == pytest.approx((0.12, 0.06), rel=0.15)


@pytest.mark.parametrize("share", [0.15, 0.5, 0.85])
@pytest.mark.parametrize("boots", [3, 5])
def test_two_modes_are_learned(share: float, boots: int) -> None:
    found = learn_modes(two_modes(1, 60, boots=boots, share=share))

    assert found is not None
    # With few boots, all boots of an image may be slow, and are counted as fast.
    assert found.share == pytest.approx(share, abs=0.18 if boots == 3 else 0.1)
    assert found.gap == pytest.approx(0.12, rel=0.1)
    assert found.boot == pytest.approx(0.005, rel=0.3)


@pytest.mark.parametrize(("stray", "most"), [(0.0, 0), (0.02, 0), (0.04, 2)])
def test_single_mode_is_rarely_split(stray: float, most: int) -> None:
    """At most `most` of 40 unimodal histories with outliers, steps and image noise are split."""
    split = 0
    for seed in range(40):
        scatter = (0.0, 0.008, 0.03)[seed % 3]
        shape = ((30, 0.0), (30, -0.1), (1 + seed % 5, 0.2))
        boots = boot_matrix(history(seed, *shape, image=scatter, stray=0, boots=3 + seed % 4))
        rng = np.random.default_rng(seed)
        outliers = rng.random(boots.shape) < stray
        split += learn_modes(boots - outliers * rng.uniform(0.03, 0.15, boots.shape)) is not None

    assert split <= most


def test_modes_of_a_noise() -> None:
    known = BootModes(share=0.3, gap=0.12, boot=0.005)
    assert modes_of(Noise(0.005, slow_share=0.3, slow_gap=0.12)) == known
    assert modes_of(Noise(0.005)) is None
    assert modes_of(Noise(0.005, slow_share=0.3)) is None
    assert modes_of(Noise(0.005, slow_gap=0.12)) is None


def test_mostly_slow_series_keeps_its_level() -> None:
    """The level is that of the fast mode, even without fast boots."""
    mostly_slow = BootModes(share=0.999, gap=0.12, boot=0.005)

    assert fast_levels(np.array([[13.88, 13.881, 13.879]]), mostly_slow) == pytest.approx(
        [14.0], abs=0.002
    )


def test_image_with_slow_boots_only_has_the_level_of_its_neighbours() -> None:
    """This holds near the end of the history and for an unlikely share of slow boots."""
    boots = 14 + np.random.default_rng(1).normal(0, 0.005, (20, 5))
    boots[[8, 18]] -= 0.12
    level = fast_levels(boots, BootModes(share=0.2, gap=0.12, boot=0.005))

    assert level[[8, 18]] == pytest.approx(14, abs=0.02)
