"""Searches on several testbeds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_fixtures import ends_built, proof, stepped

from benchmarks.simulate import LabSimulation, simulate_job
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.bisect.model.results import Culprit, NotReproduced, Trial
from netbisect.bisect.search import engine

EFFECT = math.log(0.96)
NOISE = Noise(boot=0.004, run=0.005)
PRICES = Prices()


def bisection(count: int = 24, others: int = 1) -> BisectJob:
    candidates = tuple(Candidate(f"r{i}") for i in range(1, count + 1))
    names = {f"dut{i}": NOISE for i in range(2, others + 2)}
    return BisectJob("main", "dut1", "r0", candidates, ("v4",), "v4", EFFECT, NOISE, others=names)


def lab(culprit: int, seed: int, offsets: dict[str, float], count: int = 24) -> LabSimulation:
    levels = stepped(count, culprit, EFFECT)
    return LabSimulation(levels, NOISE, np.random.default_rng(seed), offsets=offsets)


boots = st.lists(
    st.tuples(st.integers(0, 12), st.floats(-0.02, 0.02), st.integers(1, 4)), min_size=1, max_size=8
)


@settings(deadline=None, max_examples=5)
@given(boots)
def test_single_testbed_gives_the_same_moves(measured: list[tuple[int, float, int]]) -> None:
    job = replace(bisection(12), others={})
    plain = tuple(
        Observation(
            f"b{i}", f"r{at}", f"k{at}", {"v4": 14 + EFFECT * (at > 5) + deviation}, runs=runs
        )
        for i, (at, deviation, runs) in enumerate(measured)
    )
    named = tuple(replace(observation, testbed="dut1") for observation in plain)
    move = engine.next_move(job, Evidence(plain), PRICES)

    assert engine.next_move(job, Evidence(named), PRICES) == move
    assert engine.next_move(job, Evidence(named), PRICES, InFlight()) == move
    in_flight = InFlight(testbed="dut1")
    on_dut1 = engine.next_move(job, Evidence(named), PRICES, in_flight)
    if isinstance(move, Trial) and isinstance(on_dut1, Trial):
        on_dut1 = replace(on_dut1, testbed="", why=on_dut1.why.removesuffix(" on dut1"))
    assert on_dut1 == move


@pytest.mark.long
def test_culprit_is_found_with_large_testbed_offsets() -> None:
    """The offsets of the testbeds exceed the effect."""
    simulated = lab(3, 1, {"dut2": 0.05, "dut3": -0.05}, count=6)
    evidence = ends_built(simulated, 6)
    played = simulate_job(bisection(6, others=2), simulated, evidence, builders=2)

    assert isinstance(played.result, Culprit)
    assert played.result.revision == "r3"
    assert played.result.effects[0].ln_ratio == pytest.approx(EFFECT, abs=0.015)
    assert {trial.testbed for trial in played.trials} == {"dut1", "dut2", "dut3"}


def test_testbed_offset_is_not_a_drop() -> None:
    """Only the fast testbed measured the good end."""
    simulated = lab(99, 4, {"dut2": EFFECT})
    found = simulate_job(bisection(), simulated, ends_built(simulated, 24)).result

    assert isinstance(found, NotReproduced)


def test_testbed_waits_for_the_last_boots_of_a_verification() -> None:
    """The running boot completes a block, which may decide the verification."""
    clear = [("r11", 14.0), ("r12", 13.96)] * 3
    known = tuple(
        Observation(f"b{i}", name, f"kernel of {name}", {"v4": x}, runs=4, testbed="dut1")
        for i, (name, x) in enumerate([("r0", 14.0), ("r0", 14.004), ("r24", 13.96), *clear])
    )
    names = "kernel of r11", "kernel of r12"
    begun = proof("r11", "r12", (14.0, 13.96), testbed="dut1", lead="v4", identities=names)
    evidence = Evidence((*known, *begun[:3]))
    alone = engine.next_move(bisection(), evidence, PRICES, InFlight(testbed="dut2"))
    last = (Trial(begun[3].revision, begun[3].order, testbed="dut1"),)
    in_flight = InFlight(testbed="dut2", under_way=last)

    assert isinstance(alone, Trial)
    assert alone.why == begun[3].order
    assert engine.next_move(bisection(), evidence, PRICES, in_flight) is Wait.WAIT
