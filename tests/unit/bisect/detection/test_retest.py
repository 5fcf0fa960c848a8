"""Retests: blocks of interleaved boots, verdicts, prices, modes and gains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_fixtures import LEAD, kernel

from benchmarks.simulate import JobSimulation, LabSimulation, simulate_job
from netbisect.bisect import plan
from netbisect.bisect.detection.retest import next_move
from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Confirmed, Move, NotConfirmed, Trial, Unfinished
from netbisect.bisect.stats.sequential import BLOCK, good_begins

DROP = CompareJob("main", "apu", "good", "bad", (LEAD, "pf"), LEAD, suspected=-0.08, commits=30)
GAIN = replace(DROP, suspected=0.08)
LEAST = DROP.min_effect
GAP = 0.12
MODES = Noise(boot=0.005, slow_share=0.3, slow_gap=GAP)


def built(good: str = "one", bad: str = "other") -> dict[str, Kernel]:
    return {"good": kernel("good", good), "bad": kernel("bad", bad)}


def blocks(
    good: Sequence[float], bad: Sequence[float], *, fresh: bool = True, testbed: str = "apu"
) -> list[Observation]:
    """Boots of both sides in the order of a retest."""
    left = {True: iter(good), False: iter(bad)}
    found = []
    for i in range(len(good) + len(bad)):
        side = good_begins(f"good bad {testbed}", i // BLOCK) == (i % BLOCK in (0, BLOCK - 1))
        name = "good" if side else "bad"
        values = {LEAD: next(left[side])}
        found.append(Observation(f"{i} {testbed} {fresh}", name, "", values, fresh, 1, testbed))
    return found


def decide(job: CompareJob, observations: Sequence[Observation], **kernels: Kernel) -> Move | Wait:
    return next_move(job, Evidence(tuple(observations), kernels), Prices())


def side(boots: int, slow: int = 0, by: float = 0.0) -> list[float]:
    """Levels of the boots of one side; the first `slow` boots are in the slow mode."""
    values = (14.0, 14.004, 13.996, 14.001, 13.999, 14.003, 13.997, 14.002)
    return [x + by - GAP * (i < slow) for i, x in enumerate(values[:boots])]


def retest(
    seed: int,
    drop: float,
    noise: Noise = Noise(),  # noqa: B008 - frozen
    job: CompareJob = DROP,
    outliers: float = 0.0,
    prices: Prices = Prices(),  # noqa: B008 - frozen
) -> JobSimulation:
    levels = {"good": 14.0, "bad": 14.0 + math.log(1 - drop)}
    lab = LabSimulation(levels, noise, np.random.default_rng(seed), outliers, prices=prices)
    return simulate_job(job, lab)


def is_undecided(played: JobSimulation) -> bool:
    return isinstance(played.result, NotConfirmed) and "do not decide it" in played.result.why


def test_large_drop_is_confirmed_within_two_blocks() -> None:
    played = retest(2, 0.11)

    assert isinstance(played.result, Confirmed)
    assert played.boots <= 2 * BLOCK
    lead, other = played.result.effects
    assert (lead.scenario, other.scenario) == (LEAD, "pf")
    assert lead.low < math.log(0.89) < lead.high


@pytest.mark.long
def test_equal_kernels_are_not_confirmed() -> None:
    played = [retest(seed, 0.0, outliers=0.02) for seed in range(20)]

    assert not [one for one in played if isinstance(one.result, Confirmed)]
    assert np.mean([one.boots for one in played]) < 25


def test_drop_of_five_percent_is_confirmed() -> None:
    """All of 20 drops are confirmed, with 2 % of outliers."""
    results = Counter(type(retest(seed, 0.05, outliers=0.02).result) for seed in range(20))

    assert results[Confirmed] == 20


def test_noise_larger_than_known_is_confirmed_or_undecided() -> None:
    prices, job = Prices(build=0.0, boot=0.0, run=1.0), replace(DROP, commits=128, noise=Noise())
    for boot, least in ((0.02, 19), (0.03, 17)):
        played = [retest(seed, 0.05, Noise(boot), job, prices=prices) for seed in range(20)]

        assert sum(isinstance(one.result, Confirmed) for one in played) >= least
        assert all(isinstance(one.result, Confirmed) or is_undecided(one) for one in played)


@pytest.mark.long
def test_undecided_retest_gives_the_price_of_a_decision() -> None:
    played = retest(1, 0.01, Noise(0.08))

    assert isinstance(played.result, NotConfirmed)
    assert "do not decide it; about " in played.result.why
    assert played.result.effects[0].low < -LEAST


@pytest.mark.long
def test_more_expensive_search_allows_a_longer_retest() -> None:
    prices = Prices(build=0.0, boot=0.0, run=30.0)
    few, many = (
        sum(
            retest(seed, 0.02, Noise(0.03), replace(DROP, commits=commits), prices=prices).boots
            for seed in range(3)
        )
        for commits in (2, 1000)
    )

    assert few < many


def test_boot_after_a_long_set_up_has_several_runs() -> None:
    prices, job = Prices(build=80.0, boot=0.0, run=1.0), replace(DROP, scenarios=(LEAD,))
    split, one = replace(job, noise=Noise(0.002, run=0.006)), {"good": kernel("good", "one")}

    def runs(job: CompareJob, kernels: dict[str, Kernel], prices: Prices = prices) -> int:
        trial = next_move(job, Evidence((), kernels), prices)
        assert isinstance(trial, Trial)
        return trial.runs

    assert runs(split, one) == 9  # half of 0.006 / 0.002 * sqrt(40 s / 1 s)
    assert runs(split, one, replace(prices, build=1e6)) == 12
    assert runs(split, one, replace(prices, build=1.0)) == 1
    assert runs(split, built()) == 1  # nothing to set up
    assert runs(job, one) == 1  # runs of a boot do not differ


def test_drop_below_min_effect_is_not_confirmed() -> None:
    played = retest(3, 0.012, Noise(0.001), replace(DROP, noise=Noise(0.001)))

    assert isinstance(played.result, NotConfirmed)
    assert "no room for a drop of 2 %" in played.result.why
    assert played.result.effects[0].high < 0


def test_inherited_boots_do_not_count() -> None:
    night = blocks([14.0] * 8, [13.9] * 8, fresh=False)

    assert decide(DROP, night) == decide(DROP, [])


SIDE = st.lists(st.floats(13, 15), min_size=8, max_size=8)


@given(SIDE, SIDE, st.sampled_from([2, 4, 8]))
def test_confirmed_drop_is_significant(good: list[float], bad: list[float], boots: int) -> None:
    move = decide(DROP, blocks(good[:boots], bad[:boots]))
    if isinstance(move, Confirmed):
        assert move.effects[0].ln_ratio <= -LEAST
        assert move.effects[0].p <= 0.01


@given(SIDE, SIDE)
def test_gains_and_drops_are_symmetric(good: list[float], bad: list[float]) -> None:
    drop = decide(DROP, blocks(good, bad))
    gain = decide(GAIN, blocks([28 - x for x in good], [28 - x for x in bad]))

    assert type(drop) is type(gain)
    if isinstance(drop, NotConfirmed) and isinstance(gain, NotConfirmed):
        assert drop.why.replace("drop", "gain") == gain.why


@pytest.mark.parametrize(("job", "by"), [(DROP, -0.1), (GAIN, 0.1)])
def test_only_the_suspected_sign_is_confirmed(job: CompareJob, by: float) -> None:
    found = decide(job, blocks(side(8), side(8, by=by)))
    opposite_sign = decide(job, blocks(side(8), side(8, by=-by)))

    assert isinstance(found, Confirmed)
    assert found.effects[0].ln_ratio == pytest.approx(by)
    assert isinstance(opposite_sign, NotConfirmed)
    assert "no room for a " in opposite_sign.why


def test_only_known_identical_kernels_need_no_boot() -> None:
    move = decide(DROP, [], **built("same", "same"))

    assert move == NotConfirmed((), "both revisions build the same kernel")
    assert isinstance(decide(DROP, [], **built("", "")), Trial)


@pytest.mark.parametrize("revision", ["good", "bad"])
def test_unmeasurable_side_is_unfinished(revision: str) -> None:
    move = next_move(DROP, Evidence(skipped={revision: "it does not build"}), Prices())

    assert move == Unfinished(f"{revision} cannot be measured: it does not build")


def test_boots_without_samples_are_unfinished() -> None:
    """The retest ends after three boots without samples."""
    order = blocks([14.0] * 4, [13.9] * 4)
    bad = [replace(one, ln_pps={"pf": 13.9}) for one in order if one.revision == "bad"]
    good = [one for one in order if one.revision == "good"]

    assert isinstance(decide(DROP, [*good[:1], *bad[:2]]), Trial)
    move = decide(DROP, [*good[:1], *bad[:3]])
    assert isinstance(move, Unfinished)
    assert LEAD in move.why


def test_boots_are_compared_within_their_testbed() -> None:
    """The levels of the testbeds differ by 50 %."""
    far = blocks(side(4, by=-0.5), side(4, by=-0.56), testbed="2")
    found = decide(DROP, [*blocks(side(4), side(4, by=-0.06)), *far])

    assert isinstance(found, Confirmed)
    assert found.effects[0].ln_ratio == pytest.approx(-0.06, abs=0.005)


def test_testbed_waits_for_the_end_of_a_running_block() -> None:
    begun = blocks([14.0, 14.0], [13.9, 13.9])
    running = InFlight(testbed="2", under_way=(Trial(begun[3].revision, "", testbed=""),))

    assert plan.next_move(DROP, Evidence(tuple(begun[:3])), Prices(), running) is Wait.WAIT


def test_slow_boots_of_one_side_are_not_a_change() -> None:
    """With a slow mode of 30 %, four of four slow boots stay open, and eight of eight do not."""
    job = replace(DROP, noise=MODES)

    assert isinstance(decide(DROP, blocks(side(4), side(4, 4))), Confirmed)
    assert isinstance(decide(job, blocks(side(4), side(4, 4))), Trial)
    assert isinstance(decide(job, blocks(side(8), side(8, 8))), Confirmed)
    # One fast boot of eight shows that both kernels are equally fast.
    played = decide(job, blocks(side(8), side(8, 7)))
    assert isinstance(played, NotConfirmed)
    assert played.effects[0].ln_ratio == pytest.approx(0, abs=0.01)
    job = replace(GAIN, noise=MODES)
    assert isinstance(decide(job, blocks(side(4, 4), side(4))), Trial)


@pytest.mark.parametrize(("good", "bad"), [(0, 2), (2, 0), (2, 1), (2, 2)])
def test_slow_boots_do_not_hide_a_drop(good: int, bad: int) -> None:
    """The drop is a third of the gap."""
    job = replace(DROP, noise=MODES)
    played = decide(job, blocks(side(4, good), side(4, bad, by=-0.04)))

    assert isinstance(played, Confirmed)
    assert played.effects[0].ln_ratio == pytest.approx(-0.04, abs=0.005)
    # The slow mode cannot explain drops much smaller or larger than the gap.
    for drop in (-0.05, -0.2):
        assert isinstance(decide(job, blocks(side(4), side(4, by=drop))), Confirmed)


def test_two_unknown_modes_are_no_change() -> None:
    """Half of the runs of a program are 20 % faster."""
    wrong: Counter[int] = Counter()
    for weight in (0, 100):
        job = replace(DROP, noise=Noise(boot=0.02, boot_weight=weight))
        for seed in range(40):
            levels = 14.0 + 0.2 * (np.random.default_rng(seed).random(16) < 0.5)
            for boots in (4, 8, 12, 16):
                half = boots // 2
                move = decide(job, blocks(levels[:half].tolist(), levels[8 : 8 + half].tolist()))
                if not isinstance(move, Trial):
                    wrong[weight] += isinstance(move, Confirmed)
                    break

    assert wrong[0] == 0
    assert wrong[100] >= 3  # two runs of each side are equal by chance
