"""Nightly screen: drops, gains and changes of boot modes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from histories import history, measured

from netbisect.bisect.detection.nightly_screen import screen
from netbisect.bisect.detection.screening import retest_decides
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.entities import Level, Noise


@pytest.mark.parametrize(
    ("nights", "drop", "least"), [(1, 0.11, 38), (7, 0.05, 35), (20, 0.03, 20)]
)
def test_drop_is_suspicious_after_a_number_of_nights(nights: int, drop: float, least: int) -> None:
    """At least `least` of 40 histories are suspicious."""
    seen = (history(seed, (nights, 0.0), (1, math.log(1 - drop))) for seed in range(40))

    assert sum(screen(levels).suspicious for levels in seen) >= least


@pytest.mark.long
@pytest.mark.parametrize("nights", [1, 3, 7, 20])
@pytest.mark.parametrize("image", [0.0, 0.015])
def test_false_suspicions_are_rare(nights: int, image: float) -> None:
    """At most one of 50 histories without a change is suspicious."""
    seen = (history(seed, (nights + 1, 0.0), image=image) for seed in range(50))

    assert sum(screen(levels).suspicious for levels in seen) <= 1


def test_images_confirm_a_lasting_drop_until_it_becomes_the_baseline() -> None:
    """Every night is suspicious, and the range is that of the drop."""
    found = [
        screen(history(32, (15, 0.0), (lower, -0.1), image=0.003, stray=0))
        for lower in range(1, 31)
    ]
    shown = [i for i, one in enumerate(found, 1) if one.agreed is not None]

    assert shown[:12] == list(range(shown[0], shown[0] + 12))
    assert shown[0] <= 3
    assert shown[-1] < 30
    for one in (found[i - 1] for i in shown[:12]):
        assert (one.good, one.asks) == ("r14", True)
        assert one.agreed is not None
        assert one.agreed.low < -0.1 < one.agreed.high


def test_drop_two_images_after_another_change_is_confirmed() -> None:
    """The baseline begins at the earlier change; one pair of images would not decide."""
    levels = history(33, (2, 0.0), (14, -0.1), image=0.015, stray=0)
    found = [screen(levels[:length]) for length in range(3, 17)]
    shown = [one for one in found if one.agreed is not None]

    assert shown
    assert not any(retest_decides(one, Noise(image=0.015)) for one in found if one not in shown)
    assert {one.good for one in shown} == {"r1"}


def test_slow_boots_of_a_known_mode_are_not_a_drop() -> None:
    """Three of five boots are slow in a series with known modes."""
    for seed in range(20):
        levels = history(seed, (30, 0.0), share=0.3, boot=0.005, image=0.004, stray=0)
        fast = np.random.default_rng(seed).normal(14, 0.005, 5)
        night = Level("tonight", "its kernel", 30.0, tuple(fast - 0.12 * (np.arange(5) < 3)))

        assert not screen([*levels, night]).suspicious


def test_vanished_slow_mode_is_of_kind_modes() -> None:
    """Half of the earlier boots were slow, and no boot of the latest three images is."""
    shape = {"boot": 0.005, "image": 0.004, "stray": 0.0}
    before = history(38, (40, 0.0), share=0.5, boots=8, **shape)
    after = [
        replace(one, revision=f"new {one.revision}", identity=f"new {one.identity}")
        for one in history(39, (3, 0.0), boots=8, **shape)
    ]
    found = screen([*before, *after])

    assert found.suspicious
    assert found.kind is AlertKind.MODES
    assert not screen(before).suspicious


def test_saturated_levels_are_not_suspicious() -> None:
    drop = [replace(one, saturated=True) for one in history(50, (15, 0.0), (1, -0.1))]

    assert not screen(drop).suspicious


@pytest.mark.data
def test_images_of_a_published_year_show_its_documented_changes() -> None:
    """Only r303643 and r309257 are found, and every range includes the commit."""
    levels = measured("Atom_C2558", "pf-statefull", "history")
    order = [level.revision for level in levels]
    changes = [order.index(name) for name in ("r303643", "r309257")]
    found = [screen(levels[: i + 1]) for i in range(1, len(levels))]
    covered = [
        [change for change in changes if order.index(one.good) < change <= i]
        for i, one in enumerate(found, 1)
        if one.agreed is not None
    ]

    assert {min(own) for own in covered} == set(changes)
    assert sum(one.suspicious and one.agreed is None for one in found) <= 4
