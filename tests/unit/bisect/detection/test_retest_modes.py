"""Retest with boot modes, and of gains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from netbisect.bisect.detection.retest import next_move
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    Move,
    NotConfirmed,
    Trial,
)

LEAD = "inet4"
GAP = 0.12
MODES = Noise(boot=0.005, slow_share=0.3, slow_gap=GAP)
DROP = CompareJob("main", "apu", "good", "bad", (LEAD,), LEAD, suspected=-0.1)
FAST = (14.0, 14.004, 13.996, 14.001, 13.999, 14.003, 13.997, 14.002, 13.998)


def ask(job: CompareJob, good: list[float], bad: list[float]) -> Move:
    observations = [
        Observation(f"{name} {i}", name, name, {LEAD: x})
        for name, side in (("good", good), ("bad", bad))
        for i, x in enumerate(side)
    ]
    return next_move(job, Evidence(tuple(observations)))


def side(boots: int, slow: int = 0, by: float = 0.0) -> list[float]:
    """The first `slow` of them came up slow."""
    return [x + by - GAP * (i < slow) for i, x in enumerate(FAST[:boots])]


# ------------------------------------------------------------------------------------ two modes


def test_three_slow_boots_are_no_drop() -> None:
    job = replace(DROP, noise=MODES)

    assert isinstance(ask(DROP, side(3), side(3, 3)), Confirmed)
    assert isinstance(ask(job, side(3), side(3, 3)), Trial)


@pytest.mark.parametrize(("good", "bad"), [(0, 2), (2, 0), (2, 1), (2, 2)])
def test_slow_boots_do_not_hide_a_drop(good: int, bad: int) -> None:
    """Of a third of the distance of the modes, whichever boots were slow."""
    ended = ask(replace(DROP, noise=MODES), side(3, good), side(3, bad, by=-0.04))

    assert isinstance(ended, Confirmed)
    assert ended.effects[0].ln_ratio == pytest.approx(-0.04, abs=0.005)


def test_drop_unlike_the_gap_is_confirmed_at_once() -> None:
    """No mode explains it."""
    for drop in (-0.05, -0.2):
        job = replace(DROP, noise=MODES)
        assert isinstance(ask(job, side(3), side(3, by=drop)), Confirmed)


def test_modes_are_no_drop() -> None:
    """In 200 retests of equal kernels none is confirmed."""
    job = replace(DROP, noise=MODES)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        boots = 14 + rng.normal(0, 0.005, (2, 9)) - GAP * (rng.random((2, 9)) < 0.3)
        for look in (3, 6, 9):
            ended = ask(job, list(boots[0, :look]), list(boots[1, :look]))
            assert not isinstance(ended, Confirmed)
            if isinstance(ended, NotConfirmed):
                break
