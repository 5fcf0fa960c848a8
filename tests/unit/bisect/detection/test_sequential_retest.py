"""Retest of ends by the sequential test."""

from __future__ import annotations

import math

import numpy as np

from netbisect.bisect import plan
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Confirmed, NotConfirmed, Trial
from netbisect.bisect.simulate import JobSimulation, LabSimulation, simulate_job

LEAST = -math.log(0.98)


def retest(seed: int, drop: float, boot: float, commits: int = 128) -> JobSimulation:
    """A retest that takes the noise for 0.9 %."""
    levels = {"good": 14.0, "bad": 14.0 + math.log(1 - drop)}
    lab = LabSimulation(levels, Noise(boot), np.random.default_rng(seed))
    lab.prices = Prices(build=0.0, boot=0.0, run=1.0)
    job = CompareJob("", "", "good", "bad", ("n",), "n", -0.02, noise=Noise(), commits=commits)
    return simulate_job(job, lab)


def is_undecided(played: JobSimulation) -> bool:
    found = played.result
    return isinstance(found, NotConfirmed) and found.effects[0].low <= -LEAST


def test_drop_is_confirmed_however_large_the_noise() -> None:
    """5 % at a scatter of 2 and 3 %; nothing but "undecided" otherwise."""
    for boot, least in ((0.02, 38), (0.03, 34)):
        played = [retest(seed, 0.05, boot) for seed in range(40)]

        assert sum(isinstance(one.result, Confirmed) for one in played) >= least
        assert all(isinstance(one.result, Confirmed) or is_undecided(one) for one in played)


def test_equal_ends_are_seldom_confirmed() -> None:
    played = [retest(seed, 0.0, 0.009) for seed in range(100)]

    assert sum(isinstance(one.result, Confirmed) for one in played) <= 2
    assert sum(not is_undecided(one) for one in played) >= 85


def test_undecided_retest_says_what_more_would_cost() -> None:
    played = retest(1, 0.01, 0.08)

    assert is_undecided(played)
    assert isinstance(played.result, NotConfirmed)
    assert "do not decide it; about " in played.result.why


def test_dearer_search_allows_a_longer_retest() -> None:
    few, many = (
        np.mean([retest(seed, 0.02, 0.03, commits).boots for seed in range(20)])
        for commits in (2, 1000)
    )

    assert few < many


def test_device_waits_for_the_end_of_a_running_block() -> None:
    played = retest(3, 0.02, 0.03)
    begun = Evidence(played.evidence.observations[:3], played.evidence.kernels)
    job = CompareJob("", "", "good", "bad", ("n",), "n", -0.02, noise=Noise(), commits=9)
    running = InFlight(testbed="2", under_way=(Trial(played.trials[3].revision, "", testbed=""),))

    assert plan.next_move_on(job, begun, Prices(), running) is Wait.WAIT
