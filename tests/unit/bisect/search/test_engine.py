"""Search: results, priors and skipped revisions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_fixtures import (
    LEAD,
    PRICES,
    SCENARIOS,
    bisection,
    ends_built,
    evidence_of,
    names,
    proof,
    simulated,
    stepped,
)

from benchmarks.simulate import LabSimulation, simulate_job
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    NotReproduced,
    Posterior,
    Suspects,
    Trial,
    Unfinished,
)
from netbisect.bisect.search.engine import next_move
from netbisect.bisect.search.posterior import posterior_of
from netbisect.bisect.search.search_space import build_search_space
from netbisect.bisect.search.verification import CandidateGroup, credible_range, verify
from netbisect.bisect.stats.sequential import COMPARES_ENDS


@pytest.mark.parametrize("culprit", [1, 9, 20])
def test_culprit_is_found_and_verified(culprit: int) -> None:
    """The verification uses interleaved boots and shows a significant difference."""
    played = simulated(culprit, 20, culprit)

    assert isinstance(played.result, Culprit)
    assert played.result.revision == f"r{culprit}"
    assert played.result.parent == f"r{culprit - 1}"
    assert played.result.chance >= 0.99
    lead = played.result.effects[0]
    assert lead.scenario == LEAD
    assert [effect.scenario for effect in played.result.effects] == list(SCENARIOS)
    order = [trial.revision for trial in played.trials if trial.why.startswith("verifies")]
    assert lead.good_boots == lead.bad_boots == len(order) / 2 >= 2
    for first, second, third, last in zip(*(order[i::4] for i in range(4)), strict=True):
        assert first == last
        assert {first, second} == {played.result.parent, played.result.revision}
        assert second == third
    assert lead.p < 0.01
    assert lead.ln_ratio < math.log(0.95) / 2


def test_interval_of_a_culprit_includes_image_noise() -> None:
    """At least 90 % of the 95 % intervals contain the effect of the commit."""
    random, effect, held = np.random.default_rng(1), math.log(0.95), []
    job = bisection(2, noise=Noise(boot=0.001, image=0.006))
    for offsets in random.normal(0, 0.006, (100, 2)):
        boots = proof("r0", "r1", (14 + offsets[0], 14 + effect + offsets[1]))
        space = build_search_space(job, Evidence(boots))
        group = CandidateGroup((1,), 1.0, *space.target_at[:2])
        found = verify(space, group, Posterior({}, 0.0), PRICES)
        if isinstance(found, Culprit):
            held.append(found.effects[0].low < effect < found.effects[0].high)

    assert len(held) >= 90
    assert sum(held) >= 0.9 * len(held)


@pytest.mark.long
def test_overestimated_effect_does_not_hide_the_culprit() -> None:
    """The retest confirmed 9 %, and the drop is 3 %."""
    noise, count = Noise(0.02, 0.0), 16
    lab = LabSimulation(stepped(count, 11, -0.03), noise, np.random.default_rng(0))
    played = simulate_job(bisection(count, 0.086, noise), lab, ends_built(lab, count))

    assert isinstance(played.result, Culprit)
    assert played.result.revision == "r11"


@pytest.mark.parametrize(("boots", "ends"), [(2, False), (3, True)])
def test_drift_needs_the_same_probability_as_a_culprit(boots: int, ends: bool) -> None:
    """Two boots of each of five kernels on a slope give a probability of 98 %."""
    slope = {f"r{k}": [14 - 0.0508 * k / 64 + 0.001 * (b % 2) for b in range(boots)]
             for k in (0, 16, 32, 48, 64)}  # fmt: skip

    move = next_move(bisection(64), evidence_of(slope), PRICES)

    assert isinstance(move, Drift) is ends


@pytest.mark.long
def test_named_culprits_are_right() -> None:
    """All of 10 searches for drops of 5 and 3.2 % with outliers find the culprit."""
    results = Counter(
        "wrong"
        if isinstance(played.result, Culprit) and played.result.revision != f"r{culprit}"
        else type(played.result).__name__
        for seed in range(10)
        for culprit in [1 + seed * 7 % 32]
        for played in [
            simulated(seed, culprit=culprit, drop=(0.05, 0.032)[seed % 2], outliers=0.02)
        ]
    )

    assert results == {"Culprit": 10}


@pytest.mark.long
def test_image_noise_gives_ranges_instead_of_wrong_culprits() -> None:
    """With 1 % image noise, drops of 5 % are narrowed down to at most five commits."""
    noise = Noise(0.009, 0.01)
    played = [
        (f"r{1 + seed}", simulated(seed, 16, 1 + seed, noise=noise).result) for seed in range(8)
    ]
    named = [(culprit, one) for culprit, one in played if isinstance(one, Culprit)]
    ranges = [(culprit, one) for culprit, one in played if isinstance(one, Suspects)]

    assert not [one for culprit, one in named if one.revision != culprit]
    assert not [one for culprit, one in ranges if culprit not in one.revisions]
    assert len(named) >= 4
    assert len(named) + len(ranges) == 8
    assert max(len(one.revisions) for _, one in ranges) <= 5


@pytest.mark.long
def test_no_culprit_without_a_change() -> None:
    """All of 20 searches after a wrong retest are NotReproduced, mostly without builds."""
    played = [
        simulated(seed, drop=(0.11, 0.05)[seed % 2], outliers=0.02, retest=0) for seed in range(20)
    ]

    assert all(isinstance(one.result, NotReproduced) for one in played)
    assert np.mean([one.builds for one in played]) < 0.5


def test_no_change_is_concluded_from_a_comparison_of_the_ends() -> None:
    """Earlier boots of the ends do not count, because the level may have drifted."""
    job = bisection(8, drop=0.1)
    alike = evidence_of({"r0": [13.9, 13.901], "r8": [13.9, 13.899]}).observations
    equal, apart = (
        Evidence((*alike, *proof("r0", "r8", levels, blocks=2, why=COMPARES_ENDS)))
        for levels in ((13.9, 13.9), (13.95, 13.85))
    )
    move = next_move(job, Evidence(alike), PRICES)

    assert posterior_of(job, Evidence(alike)).none > 0.95
    assert isinstance(move, Trial)
    assert move.why == COMPARES_ENDS
    assert isinstance(next_move(job, equal, PRICES), NotReproduced)
    assert isinstance(next_move(job, apart, PRICES), Trial)
    assert posterior_of(job, apart).none < 1e-6


def test_undecided_comparison_of_the_ends_is_unfinished() -> None:
    """Thirty pairs of boots differ by 4 %, with a scatter of 8 %."""
    level = [13.9 + i * 1e-3 for i in range(20)]
    alike = evidence_of({"r0": level, "r8": level}).observations
    boots = proof("r0", "r8", (13.94, 13.9), blocks=15, why=COMPARES_ENDS)
    shifted = tuple(
        replace(r, ln_pps={LEAD: r.ln_pps[LEAD] + (0.08, -0.08)[i // 2 % 2]})
        if r.revision == "r8"
        else r
        for i, r in enumerate(boots)
    )
    move = next_move(bisection(8, drop=0.1), Evidence((*alike, *shifted)), PRICES)

    assert isinstance(move, Unfinished)
    assert move.why.startswith("30 boots of each end leave a change of -")
    assert move.why.endswith("further boots would decide it")


RANGE_SPACE = build_search_space(
    bisection(40, noise=Noise(0.002, 0.004)),
    evidence_of({f"r{i}": [14.0 if i < 15 else 13.95] for i in (*range(15), *range(23, 41))}),
)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.floats(-4, 0), min_size=9, max_size=9))
def test_credible_range_is_the_shortest_with_95_percent(powers: list[float]) -> None:
    """A credible range has two to five candidates."""
    chances = np.zeros(41)
    chances[15:24] = np.power(10.0, powers)
    chances /= chances.sum()
    masses = {
        (start, stop): chances[start:stop].sum()
        for start in range(1, 41)
        for stop in range(start + 2, 42)
    }
    shortest = min(stop - start for (start, stop), mass in masses.items() if mass >= 0.95)
    found = credible_range(RANGE_SPACE, chances, Posterior({}, 0.0))

    assert (found is None) == (shortest > 5)
    if found is not None:
        positions = [RANGE_SPACE.revisions.index(name) for name in found.revisions]
        assert positions == list(range(positions[0], positions[0] + shortest))
        assert masses[positions[0], positions[-1] + 1] >= 0.95 - 1e-9


def test_refuted_candidate_and_its_neighbour_are_no_credible_range() -> None:
    """Nor are others, with an unknown noise, once six candidates were to be verified."""
    chances = np.zeros(41)
    chances[18:20] = 0.97, 0.03
    tried = tuple(proof(f"r{i}", f"r{i + 1}", (14.0, 14.0))[0] for i in range(6))
    refuted = proof("r17", "r18", (13.97, 13.97), blocks=4)

    cases = (20, tried, True), (0, tried[1:], True), (0, tried, False), (20, refuted, False)
    for weight, boots, expected in cases:
        job = replace(RANGE_SPACE.job, noise=Noise(0.002, 0.004, boot_weight=weight))
        evidence = Evidence((*RANGE_SPACE.evidence.observations, *boots))
        found = credible_range(build_search_space(job, evidence), chances, Posterior({}, 0.0))
        assert (found is not None) == expected


def test_gain_is_searched_like_a_drop() -> None:
    found = simulated(2, 8, 5, drop=-0.08).result

    assert isinstance(found, Culprit)
    assert found.revision == "r5"


@given(st.integers(1, 8), st.sets(st.integers(1, 7), max_size=4), st.integers(0, 99))
@settings(max_examples=2)
def test_skipped_revisions_are_not_booted_and_suspects_include_the_culprit(
    culprit: int, broken: set[int], seed: int
) -> None:
    played = simulated(seed, 8, culprit, drop=0.11, broken=broken)
    skipped = {f"r{i}" for i in broken}

    assert not skipped & {trial.revision for trial in played.trials}
    match played.result:
        case Culprit(revision=revision):
            assert revision == f"r{culprit}"
        case Suspects(revisions=revisions):
            assert f"r{culprit}" in revisions
            # None of the suspects but the last can be measured.
            assert set(revisions[:-1]) <= skipped
            numbers = [int(name[1:]) for name in revisions]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
        case _:
            pytest.fail(f"{played.result}")


def test_suspects_are_verified_by_their_neighbours() -> None:
    played = simulated(3, 12, 8, drop=0.11, broken=[7, 8, 9])

    assert isinstance(played.result, Suspects)
    assert played.result.revisions == ("r7", "r8", "r9", "r10")
    assert "3 of them cannot be measured" in played.result.why
    assert "it does not build" in played.result.why
    for beside in ("r6", "r10"):
        assert sum(observation.fresh for observation in played.evidence.of(beside)) >= 2


def test_another_step_is_verified_if_one_is_among_skipped_revisions() -> None:
    levels = {
        f"r{i}": 14 + math.log(0.95) * (i >= 4) + math.log(0.96) * (i >= 12) for i in range(17)
    }
    broken = dict.fromkeys(("r3", "r4", "r5"), "it does not build")
    lab = LabSimulation(levels, Noise(0.009, 0.0), np.random.default_rng(1), broken=broken)
    found = simulate_job(bisection(16, 1 - 0.95 * 0.96), lab, ends_built(lab, 16)).result

    assert isinstance(found, Culprit)
    assert found.revision == "r12"


def test_suspects_between_the_ends_need_no_further_boots() -> None:
    """The comparison of the ends has shown that something changed."""
    boots = proof("r0", "r4", (13.95, 13.85), blocks=2, why=COMPARES_ENDS)
    broken = dict.fromkeys(("r1", "r2", "r3"), "it does not build")
    found = next_move(bisection(4, drop=0.1), Evidence(boots, skipped=broken), PRICES)

    assert isinstance(found, Suspects)
    assert found.revisions == ("r1", "r2", "r3", "r4")


@pytest.mark.parametrize(("broken", "end"), [(8, "bad"), (0, "good")])
def test_unmeasurable_end_next_to_the_culprit_is_unfinished(broken: int, end: str) -> None:
    culprit = 8 if end == "bad" else 1
    measured = {
        f"r{i}": [14.0 - 0.12 * (i >= culprit) + 1e-3 * boot for boot in range(4)]
        for i in {0, culprit - 1, culprit, 8}
    }
    evidence = replace(evidence_of(measured), skipped={f"r{broken}": "it panics"})
    found = next_move(bisection(8, 0.11), evidence, PRICES)

    assert isinstance(found, Unfinished)
    assert found.why == f"the {end} end cannot be measured: it panics"

    nothing = Evidence(skipped=dict.fromkeys(names(8), "the tree does not build"))
    found = next_move(bisection(8), nothing, PRICES)
    assert isinstance(found, Unfinished)
    assert "none of the revisions can be measured" in found.why


@pytest.mark.parametrize(("boots", "own"), [(2, True), (3, True), (9, False)])
def test_revision_is_skipped_after_three_own_boots_without_samples(boots: int, own: bool) -> None:
    """Another job may have measured the other scenario alone."""
    known = evidence_of({"r0": [14.0] * 4, "r32": [13.95] * 4}).observations
    lost = tuple(Observation(f"boot {i}", "r16", "", {"pf": 12.0}, own) for i in range(boots))
    trial = next_move(bisection(32), Evidence((*known, *lost)), PRICES)

    assert isinstance(trial, Trial)
    assert (trial.revision != "r16") == (own and boots > 2)
