"""Further layouts of a revision average its image noise out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.evidence import (
    Evidence,
    Observation,
    Prices,
)
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.bisect.model.results import Culprit, Trial
from netbisect.bisect.search import link_order
from netbisect.bisect.search.engine import next_move
from netbisect.bisect.search.search_space import SearchSpace, Target, build_search_space
from netbisect.bisect.simulate import (
    JobSimulation,
    LabSimulation,
    simulate_job,
    simulate_shared_job,
)

LEAD = "inet4"
DROP = math.log(1 - 0.05)
NOISY = Noise(boot=0.006, image=0.014)


def bisection(count: int, noise: Noise = NOISY, most: int = 12) -> BisectJob:
    candidates = tuple(Candidate(f"r{i}") for i in range(1, count + 1))
    return BisectJob("main", "apu", "r0", candidates, (LEAD,), LEAD, DROP, noise, layouts=most)


def lab_of(
    seed: int, count: int, culprit: int, noise: Noise = NOISY, **more: object
) -> LabSimulation:
    levels = {f"r{i}": 14 + DROP * (i >= culprit) for i in range(count + 1)}
    return LabSimulation(levels, noise, np.random.default_rng(seed), **more)  # type: ignore[arg-type]


def simulated(job: BisectJob, lab: LabSimulation, *, builders: int = 1) -> JobSimulation:
    """A search with both ends built."""
    evidence = Evidence()
    for revision in ("r0", job.candidates[-1].revision):
        evidence = lab.with_built(evidence, revision)
    return simulate_job(job, lab, evidence, builders)


def seen(rehearsal: JobSimulation, revision: str) -> set[int]:
    """Booted layouts of a revision."""
    return {trial.layout for trial in rehearsal.trials if trial.revision == revision}


def read(*boots: tuple[str, int, float]) -> Evidence:
    """Fresh boots: revision, layout, and level above 14."""
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


# ---------------------------------------------------------------------------------- search


def test_culprit_hidden_by_image_noise_is_verified_in_several_layouts() -> None:
    culprit = 9
    done = simulated(bisection(16), lab_of(culprit, 16, culprit))

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
    both = [
        simulated(bisection(8, plain, most), lab_of(seed, 8, culprit, plain)) for most in (0, 12)
    ]

    assert both[0].trials == both[1].trials
    assert both[0].result == both[1].result


def test_number_of_layouts_is_limited_by_the_lab() -> None:
    evidence = read(("r0", 0, 0.0), ("r0", 1, 0.0))
    none, one = (build_search_space(bisection(4, most=most), evidence) for most in (0, 1))

    assert targets(none) == []
    assert targets(one) == [("r0", 1)]


def test_expensive_layouts_are_only_used_for_verification() -> None:
    def relinked(price: float) -> int:
        lab = lab_of(2, 4, 2, prices=Prices(relink=price))
        done = simulated(bisection(4), lab)
        exploring = [trial for trial in done.trials if not trial.why.startswith("verifies")]
        return len({(trial.revision, trial.layout) for trial in exploring if trial.layout})

    assert relinked(30.0) > relinked(100_000.0)


@pytest.mark.long
def test_testbeds_share_layouts() -> None:
    job = replace(bisection(12), others={"apu2": NOISY})
    lab = lab_of(4, 12, 7, offsets={"apu2": 0.04})
    evidence = Evidence()
    for revision in ("r0", "r12"):
        evidence = lab.with_built(evidence, revision)
    done = simulate_shared_job(job, lab, evidence, builders=2)

    assert isinstance(done.result, Culprit)
    assert done.result.revision == "r7"
    assert {trial.testbed for trial in done.trials if trial.layout} == {"apu", "apu2"}


# ------------------------------------------------------------------------- further layouts


def test_each_measured_kernel_has_one_new_layout() -> None:
    space = build_search_space(bisection(4), read(("r0", 0, 0.0), ("r2", 0, 0.0), ("r2", 1, 0.01)))

    assert targets(space) == [("r0", 1), ("r2", 1), ("r2", 2)]


def test_layouts_in_flight_keep_their_numbers() -> None:
    space = build_search_space(bisection(4), read(("r0", 0, 0.0)))
    trial = Trial("r0", "elsewhere", layout=2)
    seen_there = targets(space, InFlight(building={"r0#1": 60.0}, under_way=(trial,)))

    assert seen_there == [("r0", 1), ("r0", 2), ("r0", 3)]


def test_failed_layout_is_the_last_of_its_revision() -> None:
    evidence = replace(read(("r0", 0, 0.0), ("r4", 0, 0.0)), skipped={"r0#1": "no such option"})
    space = build_search_space(bisection(4), evidence)

    assert targets(space) == [("r4", 1)]
    assert space.target_at[0] is not None


def test_no_new_layouts_after_two_identical_ones() -> None:
    boots = (("1", 0), ("2", 1))
    same = tuple(Observation(i, "r0", "same", {LEAD: 14.0}, layout=layout) for i, layout in boots)
    space = build_search_space(bisection(4), Evidence(same))

    assert targets(space) == [("r0", 1)]
    assert len(space.images) == 1


def test_layouts_are_separate_images_of_one_target() -> None:
    named = read(("r2", 0, 0.0), ("r2", 1, 0.02), ("r2", 1, 0.03))
    bare = Evidence(tuple(replace(observation, identity="") for observation in named.observations))
    for evidence in (named, bare):
        space = build_search_space(bisection(4), evidence)
        assert [(image.position, len(image.ln_pps)) for image in space.images] == [(2, 1), (2, 2)]
        assert target_of(space, 2).boots == 1
        assert len(link_order.observations_of(space, target_of(space, 2))) == 3


def test_revisions_with_one_kernel_share_layouts() -> None:
    boots = (("1", "r1", "k", 0), ("2", "r2", "k", 0), ("3", "r2", "k in order 1", 1))
    observations = tuple(
        Observation(i, name, identity, {LEAD: 14.0}, layout=layout)
        for i, name, identity, layout in boots
    )
    space = build_search_space(bisection(4), Evidence(observations))

    assert target_of(space, 1) is target_of(space, 2)
    assert len(link_order.observations_of(space, target_of(space, 1))) == 3
    assert targets(space) == [("r2", 1), ("r1", 2)]


# ---------------------------------------------------------------------------- verification


def test_verification_prefers_built_layouts() -> None:
    evidence = read(("r1", 0, 0.0), ("r1", 1, 0.0))
    built = Kernel("r1", "", "", "r1 in order 5", "key", "", 0, 0.0, 600.0, layout=5)
    space = build_search_space(bisection(4), replace(evidence, kernels={"r1#5": built}))

    assert link_order.next_layout(space, target_of(space, 1), 3, NOTHING_IN_FLIGHT).layout == 5
    assert link_order.next_layout(space, target_of(space, 1), 2, NOTHING_IN_FLIGHT).layout == 0


def test_more_image_noise_needs_more_layouts() -> None:

    def wanted(image: float, most: int = 20) -> int:
        space = build_search_space(bisection(4, Noise(0.002, image), most), Evidence())
        return link_order.layouts_needed(space, abs(DROP))

    assert wanted(0.001) == 1
    assert wanted(0.001) < wanted(0.016) < wanted(0.03)
    assert wanted(0.03, most=3) == 4


@settings(max_examples=12, deadline=None)
@given(
    offs=st.lists(st.floats(-0.03, 0.03), min_size=2, max_size=6),
    image=st.floats(0.002, 0.03),
)
def test_image_noise_widens_the_interval(offs: list[float], image: float) -> None:
    boots = [("r1", i, off) for i, off in enumerate(offs)]
    boots += [("r2", i, off + DROP) for i, off in enumerate(reversed(offs))]

    def found(noise: float) -> tuple[float, float, float]:
        space = build_search_space(bisection(4, Noise(0.002, noise)), read(*boots))
        effect = link_order.difference(space, target_of(space, 1), target_of(space, 2))
        assert effect is not None
        return effect.ln_ratio, effect.high - effect.low, effect.p

    less, more = found(image), found(2 * image)
    assert less[0] == pytest.approx(DROP)
    assert more[0] == pytest.approx(DROP)
    assert less[1] < more[1]
    assert less[2] <= more[2]


def test_no_effect_without_boots_of_both_sides() -> None:
    space = build_search_space(bisection(4), read(("r1", 0, 0.0)))

    assert link_order.difference(space, target_of(space, 1), target_of(space, 2)) is None


def test_order_of_facts_does_not_matter() -> None:
    offs = [("r0", 0, 0.01), ("r4", 0, -0.06), ("r2", 0, -0.02), ("r2", 1, 0.01), ("r2", 2, 0.0)]
    evidence = read(*offs)
    turned = replace(evidence, observations=evidence.observations[::-1])
    job = bisection(4)

    one, other = (next_move(job, facts, Prices()) for facts in (evidence, turned))
    assert isinstance(one, Trial)
    assert isinstance(other, Trial)
    assert (one.revision, one.layout, one.why) == (other.revision, other.layout, other.why)
