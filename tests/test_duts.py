"""Several testbeds of one make: pooled by their own differences, and busy with different things."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect import pairs, search
from netbisect.bisect.belief import believe, infer
from netbisect.bisect.compare import difference, sides
from netbisect.bisect.gain import information
from netbisect.bisect.line import lay_out
from netbisect.bisect.meanwhile import Meanwhile, Wait
from netbisect.bisect.model import (
    Bisection,
    Candidate,
    Comparison,
    Confirmed,
    Culprit,
    Evidence,
    Noise,
    NotReproduced,
    Prices,
    Reading,
    Visit,
)
from netbisect.bisect.rehearse import PaperLab, play_together

EFFECT = math.log(0.96)
NOISE = Noise(boot=0.004, run=0.005)
PRICES = Prices()


def bisection(count: int = 24, others: int = 1, noise: Noise = NOISE) -> Bisection:
    candidates = tuple(Candidate(f"r{i}") for i in range(1, count + 1))
    names = {f"dut{i}": noise for i in range(2, others + 2)}
    return Bisection("main", "dut1", "r0", candidates, ("v4",), "v4", EFFECT, noise, others=names)


def lab(culprit: int, seed: int, apart: dict[str, float], count: int = 24) -> PaperLab:
    levels = {f"r{i}": 14 + EFFECT * (i >= culprit) for i in range(count + 1)}
    return PaperLab(levels, NOISE, np.random.default_rng(seed), apart=apart)


def ends(paper: PaperLab, count: int = 24) -> Evidence:
    return paper.with_built(paper.with_built(Evidence(), "r0"), f"r{count}")


def readings(boots: list[tuple[str, float, str]], runs: int = 1) -> tuple[Reading, ...]:
    return tuple(
        Reading(
            *(f"b{i}", revision, f"kernel of {revision}", {"v4": level}),
            runs=runs,
            testbed=testbed,
        )
        for i, (revision, level, testbed) in enumerate(boots)
    )


boots = st.lists(
    st.tuples(st.integers(0, 12), st.floats(-0.02, 0.02), st.integers(1, 4)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=15)
@given(boots)
def test_with_one_testbed_nothing_is_decided_otherwise(
    measured: list[tuple[int, float, int]],
) -> None:
    """Whether a testbed is named or not, and asked for alone or as the only one of several."""
    question = replace(bisection(12), others={})
    plain = tuple(
        Reading(f"b{i}", f"r{at}", f"k{at}", {"v4": 14 + EFFECT * (at > 5) + luck}, runs=runs)
        for i, (at, luck, runs) in enumerate(measured)
    )
    named = tuple(replace(reading, testbed="dut1") for reading in plain)
    move = search.next_move(question, Evidence(plain), PRICES)

    assert search.next_move(question, Evidence(named), PRICES) == move
    assert search.next_together(question, Evidence(named), PRICES, Meanwhile()) == move
    there = Meanwhile(testbed="dut1")
    again = search.next_together(question, Evidence(named), PRICES, there)
    if isinstance(move, Visit) and isinstance(again, Visit):
        again = replace(again, testbed="", why=again.why.removesuffix(" on dut1"))
    assert again == move


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_wrong_name_however_far_testbeds_lie_apart(others: int, seed: int) -> None:
    """Their distance is larger than the change, of either sign, and told to nobody."""
    culprit = 5 + 9 * seed
    paper = lab(culprit, seed, {"dut2": 0.05, "dut3": -0.05})
    played = play_together(bisection(others=others), paper, ends(paper), builders=2)
    used = {visit.testbed for visit in played.visits}

    assert isinstance(played.finding, Culprit)
    assert played.finding.revision == f"r{culprit}"
    assert played.finding.effects[0].low < EFFECT < played.finding.effects[0].high
    assert used == {f"dut{i}" for i in range(1, others + 2)}


def test_a_distance_between_testbeds_is_no_drop() -> None:
    """The good end was measured on a fast testbed, the bad one on a slow one as well."""
    paper = lab(99, 4, {"dut2": EFFECT})
    found = play_together(bisection(), paper, ends(paper)).finding

    assert isinstance(found, NotReproduced)


def test_two_testbeds_at_work_are_sooner_done_than_one() -> None:
    """By the clock, with as many builders."""
    hours = []
    for others in (0, 1):
        spent = 0.0
        for seed in (3, 4):
            paper = lab(9 + seed, seed, {"dut2": 0.03})
            played = play_together(bisection(others=others), paper, ends(paper), builders=3)
            assert isinstance(played.finding, Culprit)
            spent += played.seconds
        hours.append(spent)

    assert hours[1] < hours[0]


SPREAD = [
    ("r0", 14.0, "dut1"),
    ("r0", 14.004, "dut1"),
    ("r24", 13.96, "dut1"),
    ("r12", 13.958, "dut1"),
]


@settings(deadline=None, max_examples=10)
@given(st.floats(-0.05, 0.05))
def test_a_kernel_on_one_testbed_alone_tells_nothing(level: float) -> None:
    """A single level of another testbed can be its own level as well as that of a side."""
    question = bisection()
    before = believe(question, Evidence(readings(SPREAD)))
    after = believe(question, Evidence(readings([*SPREAD, ("r6", 14 + level, "dut2")])))

    assert after.none == pytest.approx(before.none, abs=0.02)
    for revision, chance in before.chances.items():
        assert after.chances[revision] == pytest.approx(chance, abs=0.02)


@settings(deadline=None, max_examples=10)
@given(st.floats(-0.05, 0.05))
def test_what_a_testbed_says_does_not_depend_on_its_level(apart: float) -> None:
    """All its boots moved alike leave the chances as they are, or nearly: there is a prior."""
    question = bisection()
    own = [("r0", 14.001), ("r6", 13.998), ("r8", 13.962)]

    def chances(offset: float) -> np.ndarray:
        other = [(revision, level + offset, "dut2") for revision, level in own]
        belief = believe(question, Evidence(readings([*SPREAD, *other], runs=2)))
        return np.array([belief.none, belief.two, belief.drift, *belief.chances.values()])

    moved, still = chances(apart), chances(0.0)

    assert np.abs(moved - still).max() < 0.03
    assert still[3 + 6] + still[3 + 7] > 0.9


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 24), st.integers(1, 3))
def test_what_is_under_way_is_not_counted_twice(position: int, runs: int) -> None:
    """Nothing promises more because others measure, and least of all the same kernel."""
    line = lay_out(bisection(), Evidence(readings(SPREAD)))
    posterior = infer(line, "dut1")
    alone = information(line, posterior, 2)
    under_way = (Visit(f"r{position}", "", runs=runs, testbed="dut2"),)
    given_it = information(line, posterior, 2, under_way)

    assert (given_it <= alone + 1e-6).all()
    assert given_it[position] == pytest.approx((given_it / alone).min() * alone[position], rel=0.5)


def test_boots_are_held_against_those_of_their_own_testbed() -> None:
    """The difference is that of least squares, and one side alone says nothing."""
    good = readings([("a", 1.0, "x"), ("a", 1.02, "x"), ("a", 5.0, "y"), ("a", 9.0, "z")])
    bad = readings([("b", 0.9, "x"), ("b", 4.88, "y"), ("b", 4.9, "y")])
    fast, slow, strata = sides(good, bad, "v4")
    effect = difference(fast, slow, "v4", strata=strata)
    design = np.array(
        [[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [0, 1, 1]], dtype=float
    )
    y = np.array([1.0, 1.02, 5.0, 0.9, 4.88, 4.9])
    expected = np.linalg.lstsq(design, y, rcond=None)[0][2]
    variance = np.linalg.inv(design.T @ design)[2, 2]

    assert (effect.good_boots, effect.bad_boots) == (3, 3)
    assert effect.ln_ratio == pytest.approx(expected)
    assert strata.inflation == pytest.approx(variance / (1 / 3 + 1 / 3))
    assert strata.lost == 1


def test_while_the_last_boots_of_a_proof_are_under_way_others_wait() -> None:
    """Three of each side are enough; a fourth would be for nothing."""
    proof = [("r11", 14.0, "dut1"), ("r11", 14.001, "dut2"), ("r11", 13.999, "dut1")]
    proof += [("r12", 13.96, "dut1"), ("r12", 13.961, "dut2"), ("r0", 14.0, "dut2")]
    question = bisection()
    evidence = Evidence(readings([*SPREAD[:3], *proof], runs=4))
    alone = search.next_together(question, evidence, PRICES, Meanwhile(testbed="dut2"))
    last = (Visit("r12", "", testbed="dut1"),)
    there = Meanwhile(testbed="dut2", under_way=last)

    assert isinstance(alone, Visit)
    assert alone.revision == "r12"
    assert search.next_together(question, evidence, PRICES, there) is Wait.WAIT


def test_a_kernel_that_nobody_waits_for_is_not_ordered_from_the_only_builder() -> None:
    """What is built, or will be, can be measured."""
    paper = lab(9, 1, {})
    known = ends(paper)
    evidence = Evidence(
        readings([("r0", 14.0, "dut1"), ("r24", 13.96, "dut1"), ("r0", 14.0, "dut2")], runs=4),
        known.kernels,
    )
    free = search.next_together(bisection(), evidence, PRICES, Meanwhile(testbed="dut2"))
    busy = Meanwhile(may_build=False, testbed="dut2")
    kept = search.next_together(bisection(), evidence, PRICES, busy)

    assert isinstance(free, Visit)
    assert free.revision not in known.kernels
    assert isinstance(kept, Visit)
    assert kept.revision in known.kernels


COMPARISON = Comparison("main", "dut1", "r0", "r9", ("v4",), "v4", EFFECT)


def compared(boots: list[tuple[str, float, str]], *under_way: Visit) -> object:
    seen = Meanwhile(testbed="dut1", under_way=under_way)
    return pairs.next_together(COMPARISON, Evidence(readings(boots)), seen)


def test_a_retest_looks_at_pairs_of_one_testbed_each() -> None:
    """Boots without a partner are not looked at, however far away their testbed lies."""
    two = [
        ("r0", 14.0, "dut1"),
        ("r9", 13.96, "dut1"),
        ("r0", 13.5, "dut2"),
        ("r9", 13.459, "dut2"),
    ]
    lonely = [("r9", 13.0, "dut3"), ("r9", 13.001, "dut3")]
    third = [("r9", 13.4601, "dut2"), ("r0", 13.501, "dut2")]
    move = compared([*two, *lonely])
    found = compared([*two, *lonely, *third])

    assert isinstance(move, Visit)
    assert (move.revision, move.testbed) == ("r9", "dut1")
    assert isinstance(found, Confirmed)
    assert (found.effects[0].good_boots, found.effects[0].bad_boots) == (3, 3)
    assert found.effects[0].ln_ratio == pytest.approx(EFFECT, abs=0.002)


def test_a_testbed_waits_when_the_pairs_under_way_suffice_for_a_look() -> None:
    """A further pair would not be looked at."""
    two = [("r0", 14.0, "dut1"), ("r9", 13.96, "dut1"), ("r0", 13.5, "dut2"), ("r9", 13.46, "dut2")]
    half = ("r9", 13.461, "dut2")
    last = Visit("r0", "", testbed="dut2")

    assert compared([*two, half], last) is Wait.WAIT
    assert isinstance(compared(two), Visit)
