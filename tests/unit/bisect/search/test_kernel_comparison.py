"""Comparison of two kernels of a search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from search_fixtures import bisection, evidence_of, proof

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, Wait
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Posterior
from netbisect.bisect.search.kernel_comparison import KernelComparison, max_boots
from netbisect.bisect.search.search_space import SearchSpace, build_search_space


def comparison(job: BisectJob, evidence: Evidence) -> tuple[SearchSpace, KernelComparison]:
    space = build_search_space(job, evidence)
    good, bad = space.target_at[2], space.target_at[3]
    assert good is not None
    assert bad is not None
    why = "verifies r3 against its parent r2"
    return space, KernelComparison(good, bad, why, abs(job.effect) / 2)


def runs(noise: Noise, prices: Prices) -> int:
    kernels = evidence_of({}, r2="a", r3="b").kernels
    space, compared = comparison(bisection(6, 0.01, noise), Evidence(kernels=kernels))
    ordered = compared.next_trial(space, Posterior({}, 0.0), prices, NOTHING_IN_FLIGHT)
    assert not isinstance(ordered, Wait)
    return ordered.runs


def test_number_of_runs_per_boot_minimizes_the_cost() -> None:
    dear, cheap = Prices(build=600, boot=180, run=30), Prices(build=600, boot=0, run=30)
    noise = Noise(boot=0.0, run=0.011)

    assert runs(noise, dear) >= 8
    assert runs(noise, cheap) < runs(noise, dear)
    assert runs(Noise(boot=0.011), dear) == 1
    assert runs(Noise(boot=0.009, run=0.0013), dear) == 1


def test_smaller_effects_and_cheap_runs_allow_more_boots() -> None:
    """Cheap runs are limited to ten minutes."""
    dear = Prices(build=600, boot=180, run=30)
    most = [
        max_boots(bisection(127, drop, Noise(0.011)), dear) for drop in (0.05, 0.02, 0.01, 0.001)
    ]

    assert 50 <= most[0] < most[1] < most[2] < most[3] == 600
    job = bisection(127, 0.05, Noise(0.011))
    assert max_boots(job, Prices(build=0, boot=0, run=4)) == 75  # each boot runs two scenarios
    assert max_boots(job, Prices(build=0, boot=0, run=0.1)) == 600


@pytest.mark.parametrize(
    ("scatter", "outlier", "shown"), [(0.0, 0.0, True), (0.03, 0.0, False), (0.0, 0.1, True)]
)
def test_noise_is_learned_from_the_search(scatter: float, outlier: float, shown: bool) -> None:
    """Twenty boots scatter by three times the noise of the job, or have one outlier."""
    seen = evidence_of(
        {
            "r0": [14.0 + scatter * (-1) ** i for i in range(10)],
            "r6": [13.95 - outlier, *[13.95 + scatter * (-1) ** i for i in range(1, 10)]],
        }
    ).observations
    space, compared = comparison(bisection(6), Evidence((*seen, *proof("r2", "r3", (14.0, 13.95)))))
    tested = compared.result(space)

    assert tested is not None
    assert (tested.pairs, tested.shown) == (2, shown)


@pytest.mark.parametrize(
    ("testbed", "blocks", "others", "drop", "shown"),
    [
        ("apu", 1, 1, 0.05, True),
        ("new", 1, 0, 0.05, False),
        ("new", 2, 0, 0.03, True),
        ("new", 2, 1, 0.03, False),
    ],
)
def test_testbed_with_unknown_noise_needs_four_pairs(
    testbed: str, blocks: int, others: int, drop: float, shown: bool
) -> None:
    """And a larger ratio after the verification of another candidate."""
    job = bisection(6)
    job = replace(job, others={"new": replace(job.noise, boot_weight=0)})
    boots = proof("r4", "r5", (14.0, 14.0))[:others]
    boots += proof("r2", "r3", (14.0, 14.0 - drop), blocks, testbed)
    space, compared = comparison(job, Evidence(boots))
    tested = compared.result(space)

    assert tested is not None
    assert (tested.pairs, tested.shown) == (2 * blocks, shown)


def test_only_boots_of_the_comparison_count() -> None:
    """Those of another job, which takes turns, do not end a block."""
    boots = proof("r2", "r3", (14.0, 13.95))
    chosen = tuple(replace(r, order="measures r3 again") for r in boots)
    turns = tuple(one for r in boots for one in (r, replace(r, order="", fresh=False)))
    for seen, pairs in ((chosen, 0), (turns, 2)):
        space, compared = comparison(bisection(6), Evidence(seen))
        tested = compared.result(space)
        assert (tested.pairs if tested else 0) == pairs
