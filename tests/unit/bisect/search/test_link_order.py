"""Further link orders of a revision average out its image noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_fixtures import LEAD, ends_built, stepped
from search_fixtures import bisection as plain_bisection

from benchmarks.simulate import JobSimulation, LabSimulation, simulate_job
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Culprit, Trial
from netbisect.bisect.search import link_order
from netbisect.bisect.search.search_space import SearchSpace, Target, build_search_space

DROP = math.log(1 - 0.05)
NOISY = Noise(boot=0.006, image=0.014)


def bisection(count: int, noise: Noise = NOISY, most: int = 12) -> BisectJob:
    return replace(plain_bisection(count, noise=noise), scenarios=(LEAD,), layouts=most)


def simulated(
    job: BisectJob, seed: int, culprit: int, builders: int = 1, **more: object
) -> JobSimulation:
    """Simulates a search whose ends are built."""
    count, random = len(job.candidates), np.random.default_rng(seed)
    lab = LabSimulation(stepped(count, culprit, DROP), job.noise, random, **more)  # type: ignore[arg-type]
    return simulate_job(job, lab, ends_built(lab, count), builders)


def seen(simulation: JobSimulation, revision: str) -> set[int]:
    """Booted layouts of a revision."""
    return {trial.layout for trial in simulation.trials if trial.revision == revision}


def read(*boots: tuple[str, int, float]) -> Evidence:
    """Evidence of fresh boots: revision, layout, and level above 14."""
    return Evidence(
        tuple(
            Observation(str(i), name, f"{name} {layout}", {LEAD: 14 + off}, layout=layout)
            for i, (name, layout, off) in enumerate(boots)
        )
    )


def targets(space: SearchSpace, in_flight: InFlight = NOTHING_IN_FLIGHT) -> list[tuple[str, int]]:
    return [
        (target.revision, target.layout) for target in link_order.further_layouts(space, in_flight)
    ]


def target_of(space: SearchSpace, position: int) -> Target:
    target = space.target_at[position]
    assert target is not None
    return target


def test_culprit_hidden_by_image_noise_is_verified_in_several_layouts() -> None:
    culprit = 9
    done = simulated(bisection(16), culprit, culprit)

    assert isinstance(done.result, Culprit)
    assert done.result.revision == f"r{culprit}"
    assert len(seen(done, f"r{culprit}")) > 1
    assert len(seen(done, f"r{culprit - 1}")) > 1
    (effect,) = done.result.effects
    assert effect.low < DROP < effect.high
    assert min(effect.good_boots, effect.bad_boots) >= 3


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1000), culprit=st.integers(1, 8))
def test_no_layouts_without_image_noise(seed: int, culprit: int) -> None:
    plain = Noise(0.006, 0.0)
    both = [simulated(bisection(8, plain, most), seed, culprit) for most in (0, 12)]

    assert (both[0].trials, both[0].result) == (both[1].trials, both[1].result)


def test_expensive_layouts_are_only_used_for_verification() -> None:
    def relinked(price: float) -> int:
        done = simulated(bisection(4), 2, 2, prices=Prices(relink=price))
        exploring = [trial for trial in done.trials if not trial.why.startswith("verifies")]
        return len({(trial.revision, trial.layout) for trial in exploring if trial.layout})

    assert relinked(30.0) > relinked(100_000.0)


@pytest.mark.long
def test_testbeds_share_layouts() -> None:
    job = replace(bisection(4), others={"apu2": NOISY})
    done = simulated(job, 4, 3, builders=2, offsets={"apu2": 0.04})

    assert isinstance(done.result, Culprit)
    assert done.result.revision == "r3"
    assert {trial.testbed for trial in done.trials if trial.layout} == {"apu", "apu2"}


def test_layouts_in_flight_keep_their_numbers() -> None:
    space = build_search_space(bisection(4), read(("r0", 0, 0.0)))
    trial = Trial("r0", "elsewhere", layout=2)
    seen_there = targets(space, InFlight(building={"r0#1": 60.0}, under_way=(trial,)))

    assert seen_there == [("r0", 1), ("r0", 2), ("r0", 3)]


def test_no_new_layouts_after_identical_ones_and_no_effect_of_one_side() -> None:
    boots = (("1", 0), ("2", 1))
    same = tuple(Observation(i, "r0", "same", {LEAD: 14.0}, layout=layout) for i, layout in boots)
    space = build_search_space(bisection(4), Evidence(same))

    assert targets(space) == [("r0", 1)]
    assert len(space.images) == 1

    space = build_search_space(bisection(4), read(("r1", 0, 0.0)))

    assert link_order.difference(space, target_of(space, 1), target_of(space, 2)) is None
