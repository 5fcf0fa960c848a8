"""Simulated searches: a changed good end, builders and budgets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from search_fixtures import ends_built

from benchmarks.simulate import LabSimulation, simulate_job
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.bisect.model.results import Culprit, NotReproduced, Suspects, Unfinished

EFFECT = math.log(0.95)
NOISE = Noise(boot=0.001, run=0.006)
COMMITS = 32


def bisection(budget: float = math.inf) -> BisectJob:
    candidates = tuple(Candidate(f"r{i}") for i in range(1, COMMITS + 1))
    return BisectJob("main", "apu", "r0", candidates, ("v4",), "v4", EFFECT, NOISE, budget)


def lab(steps: dict[int, float]) -> LabSimulation:
    levels = {f"r{i}": 14 + sum(x for k, x in steps.items() if k <= i) for i in range(COMMITS + 1)}
    return LabSimulation(levels, NOISE, np.random.default_rng(1))


@pytest.mark.long
def test_changed_good_end_is_detected() -> None:
    """Inherited boots of the good end are fast, and all fresh boots are slow."""
    simulated = lab({})
    evidence = ends_built(simulated, COMMITS)
    for _ in range(6):
        evidence = simulated.boot(evidence, "r0", ("v4",), fresh=False, runs=4)
    simulated.levels = {name: level + EFFECT for name, level in simulated.levels.items()}
    found = simulate_job(bisection(), simulated, evidence).result

    assert isinstance(found, NotReproduced)
    assert "good end itself" in found.why


@pytest.mark.long
def test_drop_is_found_although_the_testbed_changed_by_as_much() -> None:
    """Inherited boots of the good end do not count after a change of the testbed."""
    noise = Noise(boot=0.003, run=0.006, image=0.01)
    simulated = replace(lab({8: EFFECT}), noise=noise)
    evidence = ends_built(simulated, COMMITS)
    for end in ("r0", "r0", "r0", f"r{COMMITS}", f"r{COMMITS}"):
        evidence = simulated.boot(evidence, end, ("v4",), fresh=False, runs=4)
    simulated.levels = {name: level + EFFECT for name, level in simulated.levels.items()}
    found = simulate_job(replace(bisection(), noise=noise), simulated, evidence).result

    named = found.revisions if isinstance(found, Suspects) else (getattr(found, "revision", ""),)
    assert "r8" in named


@pytest.mark.long
def test_builders_save_time_and_cost_builds() -> None:
    one_builder, three_builders = lab({20: EFFECT}), lab({20: EFFECT})
    one = simulate_job(bisection(), one_builder, ends_built(one_builder, COMMITS))
    three = simulate_job(
        bisection(), three_builders, ends_built(three_builders, COMMITS), builders=3
    )

    assert isinstance(one.result, Culprit)
    assert isinstance(three.result, Culprit)
    assert three.result.revision == one.result.revision == "r20"
    assert three.seconds < 0.8 * one.seconds
    assert three.builds > one.builds
    assert one.runs == sum(trial.runs for trial in one.trials)
    assert one.boots == len(one.trials)
    assert one.seconds == pytest.approx(one.builds * 600 + one.boots * 180 + one.runs * 30)


def test_budget_ends_a_search() -> None:
    simulated = lab({20: EFFECT})
    played = simulate_job(bisection(budget=3600), simulated, ends_built(simulated, COMMITS))

    assert isinstance(played.result, Unfinished)
    assert "budget" in played.result.why
    assert played.seconds < 3600 + 900
