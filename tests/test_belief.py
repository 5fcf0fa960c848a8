"""Facts give chances: the same for the same facts, and as Bayes would have them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from netbisect.bisect.belief import PRIOR_DRIFT, PRIOR_NONE, PRIOR_TWO, believe
from netbisect.bisect.gain import visit_variance
from netbisect.bisect.levels import Scatter
from netbisect.bisect.model import Belief, Bisection, Candidate, Evidence, Kernel, Noise, Reading

LEAD = "inet4"
DROP = -0.05


def bisection(count: int = 4, noise: Noise = Noise(0.009, 0.0), **weights: float) -> Bisection:  # noqa: B008 - it is frozen
    candidates = tuple(Candidate(f"r{i}", weights.get(f"r{i}", 1.0)) for i in range(1, count + 1))
    return Bisection("main", "apu", "r0", candidates, (LEAD,), LEAD, DROP, noise)


def boots(revision: str, *ln_pps: float, identity: str = "", fresh: bool = True) -> list[Reading]:
    return [
        Reading(f"{revision} {i}", revision, identity, {LEAD: x}, fresh)
        for i, x in enumerate(ln_pps)
    ]


def built(**identities: str) -> dict[str, Kernel]:
    return {
        name: Kernel(name, "ROUTER", "amd64", identity, name, name, 1, 0.0, 60.0)
        for name, identity in identities.items()
    }


READINGS = st.lists(
    st.builds(
        lambda revision, identity, x, fresh: Reading(
            f"{revision} {x}", revision, identity, {LEAD: x} if x else {}, fresh
        ),
        st.sampled_from(["r0", "r1", "r2", "r3", "r4", "elsewhere"]),
        st.sampled_from(["", "", "k1", "k2"]),
        st.one_of(st.just(0.0), st.floats(13.8, 14.1)),
        st.booleans(),
    ),
    max_size=15,
)


@given(READINGS)
def test_chances_sum_to_one(readings: list[Reading]) -> None:
    belief = believe(bisection(), Evidence(tuple(readings)))

    assert math.fsum(
        [*belief.chances.values(), belief.none, belief.two, belief.drift]
    ) == pytest.approx(1)
    assert min(*belief.chances.values(), belief.none) >= 0
    assert list(belief.chances) == ["r1", "r2", "r3", "r4"]


@given(READINGS, st.randoms(use_true_random=False))
def test_the_order_of_facts_does_not_matter(readings, shuffler) -> None:  # noqa: ANN001
    shuffled = list(readings)
    shuffler.shuffle(shuffled)

    assert believe(bisection(), Evidence(tuple(shuffled))) == believe(
        bisection(), Evidence(tuple(readings))
    )


@given(READINGS, st.floats(-5, 5))
def test_the_unit_does_not_matter(readings: list[Reading], shift: float) -> None:
    shifted = [
        Reading(r.boot, r.revision, r.identity, {k: x + shift for k, x in r.ln_pps.items()}, True)
        for r in readings
    ]
    here = believe(bisection(), Evidence(tuple(readings)))
    there = believe(bisection(), Evidence(tuple(shifted)))

    assert there.chances == pytest.approx(here.chances, abs=1e-6)


def test_before_any_boot_the_prior_speaks() -> None:
    belief = believe(bisection(r2=3.0), Evidence())

    assert belief.none == pytest.approx(PRIOR_NONE, rel=0.01)
    assert belief.two == pytest.approx(PRIOR_TWO, rel=0.01)
    assert belief.drift == pytest.approx(PRIOR_DRIFT, rel=0.01)
    assert belief.chances["r2"] == pytest.approx(3 * belief.chances["r1"])


def test_a_slow_boot_speaks_against_the_candidates_after_it() -> None:
    belief = believe(bisection(), Evidence(tuple(boots("r0", 14.0, 14.0) + boots("r2", 13.95))))

    assert min(belief.chances["r1"], belief.chances["r2"]) > 0.4
    assert max(belief.chances["r3"], belief.chances["r4"], belief.none) < 0.05


def test_a_fast_boot_speaks_against_the_candidates_up_to_it() -> None:
    belief = believe(bisection(), Evidence(tuple(boots("r0", 14.0, 14.0) + boots("r2", 14.0))))

    assert max(belief.chances["r1"], belief.chances["r2"]) < 0.05
    assert min(belief.chances["r3"], belief.chances["r4"]) > 0.3


def test_a_fast_bad_end_says_that_nothing_changed() -> None:
    readings = boots("r0", 14.0, 14.003, 13.997) + boots("r4", 14.002, 13.998, 14.0)

    assert believe(bisection(), Evidence(tuple(readings))).none > 0.9


def test_a_candidate_between_fast_and_slow_is_the_culprit() -> None:
    readings = boots("r2", 14.0, 14.002, 14.001) + boots("r3", 13.951, 13.949, 13.95)

    assert believe(bisection(), Evidence(tuple(readings))).chances["r3"] > 0.95


@given(
    st.lists(st.tuples(st.sampled_from(["r0", "r1", "r2"]), st.floats(13.95, 14.02)), max_size=4)
)
@settings(max_examples=8, deadline=None)
def test_it_is_bayes_rule(facts: list[tuple[str, float]]) -> None:
    """Against numerical integration over levels, offsets, step heights, strays and noise."""
    noise = Noise(0.012, 0.01)
    question = bisection(2, noise)
    # Boots of the same level, so that one integral over the offset does for all of them.
    levels = dict(facts)
    readings = [one for name, x in levels.items() for one in boots(name, x, x, x)]
    if not levels:
        return
    middle = float(np.median(list(levels.values())))
    mu = np.linspace(-0.35, 0.35, 701)[:, None]
    delta = np.linspace(-0.14, -0.5 * abs(DROP), 121)[None, :]

    def of_image(x: float, level: np.ndarray, boot: float, image: float) -> np.ndarray:
        total = np.zeros(np.broadcast_shapes(level.shape))
        for offset in np.linspace(-3, 3, 31):
            off = x - middle - level - offset * image
            one = 0.98 * stats.norm.pdf(off, 0, boot)
            one += 0.02 * stats.norm.pdf(off, 0, math.hypot(boot, 0.08))
            total = total + stats.norm.pdf(offset) * one**3
        return total

    def likelihood(culprit: int, boot: float, image: float) -> float:
        density = np.ones((len(mu), delta.shape[1])) * stats.norm.pdf(delta, DROP, 0.3 * abs(DROP))
        for name, x in levels.items():
            level = mu + delta if int(name[1:]) >= culprit else mu
            density = density * of_image(x, level, noise.boot * boot, noise.image * image)
        return float(density.sum())

    scales = [
        (
            boot,
            image,
            math.exp(-((math.log(boot) / 0.3) ** 2 + (math.log(image) / 0.2) ** 2) / 2),
        )
        for boot in (0.8, 1.3)
        for image in (0.8, 1.0, 1.25)
    ]
    one = (1 - PRIOR_NONE - PRIOR_TWO - PRIOR_DRIFT) / 2
    weights = [
        prior * sum(weight * likelihood(culprit, *sds) for *sds, weight in scales)
        for culprit, prior in ((1, one), (2, one), (3, PRIOR_NONE))
    ]
    belief = believe(question, Evidence(tuple(readings)))
    found = [belief.chances["r1"], belief.chances["r2"], belief.none]

    assert [chance / sum(found) for chance in found] == pytest.approx(
        [weight / sum(weights) for weight in weights], abs=0.02
    )


def test_one_stray_boot_does_not_settle_it() -> None:
    """A single boot 8 % low leaves room for a stray one; a second that agrees does not."""
    once = boots("r0", 14.0, 14.0, 14.0) + boots("r2", 13.92)
    twice = [*once, *boots("r2", 14.0, 13.92)[1:]]

    doubt = sum(believe(bisection(), Evidence(tuple(once))).chances[r] for r in ("r3", "r4"))
    settled = sum(believe(bisection(), Evidence(tuple(twice))).chances[r] for r in ("r3", "r4"))

    assert doubt > 0.002
    assert settled < doubt / 10


def test_a_stray_boot_among_three_is_outvoted() -> None:
    fast = boots("r0", 14.0, 14.0, 14.0) + boots("r3", 14.0, 14.001, 13.92)

    belief = believe(bisection(), Evidence(tuple(fast)))

    assert sum(belief.chances[name] for name in ("r1", "r2", "r3")) < 0.1


def test_two_boots_that_disagree_leave_it_open() -> None:
    """One of them is stray; which one is not known."""
    torn = boots("r0", 14.0, 14.0, 14.0) + boots("r2", 14.0, 13.92)
    belief = believe(bisection(), Evidence(tuple(torn)))

    assert 0.02 < belief.chances["r1"] + belief.chances["r2"] < 0.98


def test_a_commit_that_builds_its_predecessors_kernel_is_innocent() -> None:
    evidence = Evidence(kernels=built(r1="a", r2="a", r3="b"))
    belief = believe(bisection(), evidence)

    assert belief.chances["r2"] == 0
    assert belief.chances["r1"] == belief.chances["r3"] == belief.chances["r4"] > 0


def test_what_lies_between_two_equal_kernels_is_innocent() -> None:
    """A change and its revert: it is over before the bad end."""
    belief = believe(bisection(), Evidence(kernels=built(r0="a", r2="a")))

    assert belief.chances["r1"] == belief.chances["r2"] == 0


def test_equal_ends_mean_that_nothing_changed() -> None:
    belief = believe(bisection(), Evidence(kernels=built(r0="a", r4="a")))

    assert belief.none == 1


def test_boots_of_one_kernel_are_boots_of_one_image() -> None:
    """Whichever revision they were ordered by, even one that is not a candidate."""
    kernels = built(r0="a", r1="a", r2="b", r3="b")
    once = [
        *boots("r0", 14.0, 14.0, identity="a"),
        *boots("r2", 14.0, 14.0, identity="b"),
    ]
    spread = [
        *boots("r0", 14.0, identity="a"),
        *boots("r1", 14.0, identity="a"),
        *boots("r3", 14.0, identity="b"),
        *boots("elsewhere", 14.0, identity="b"),
    ]

    assert believe(bisection(), Evidence(tuple(spread), kernels)) == believe(
        bisection(), Evidence(tuple(once), kernels)
    )


def test_boots_of_foreign_kernels_say_nothing() -> None:
    foreign = boots("elsewhere", 13.0, 13.1, identity="x")

    assert believe(bisection(), Evidence(tuple(foreign))) == believe(bisection(), Evidence())


def test_a_boot_without_a_sample_of_the_lead_says_nothing() -> None:
    silent = Reading("b", "r2", "", {"pf": 13.0})

    assert believe(bisection(), Evidence((silent,))) == believe(bisection(), Evidence())


def test_image_noise_is_not_averaged_out() -> None:
    """A hundred boots of one image do not prove what its offset can explain."""
    noise = Noise(0.009, 0.03)
    many = boots("r0", *[14.0] * 100) + boots("r2", *[13.95] * 100)

    assert believe(bisection(noise=noise), Evidence(tuple(many))).chances["r3"] > 0.02


@given(
    st.lists(st.integers(1, 8), max_size=20),
    st.integers(1, 8),
    st.builds(Noise, st.floats(0.002, 0.05), st.floats(0, 0.05), st.floats(0, 0.03)),
)
def test_a_visit_counts_for_what_it_adds(before: list[int], runs: int, noise: Noise) -> None:
    """The precision of n boots and one visit is that of n + 1 boots."""
    scatter = Scatter(noise, 0.0, 1e-4)

    def precision(boots: list[int]) -> float:
        if not boots:
            return 0.0
        own = sum(1 / (noise.boot**2 + noise.run**2 / count) for count in boots)
        return 1 / (noise.image**2 + 1 / own)

    added = 1 / visit_variance(scatter, tuple(before), runs)

    assert precision(before) + added == pytest.approx(precision([*before, runs]))


def test_the_credible_set_is_the_smallest_one() -> None:
    belief = Belief({"r1": 0.2, "r2": 0.05, "r3": 0.65}, none=0.1)

    assert belief.credible(0.6) == ["r3"]
    assert belief.credible(0.8) == ["r3", "r1"]
    assert belief.credible(0.99) == ["r3", "r1", "r2"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (bisection(0), "at least one candidate"),
        (Bisection("main", "apu", "r1", (Candidate("r1"),), (LEAD,), LEAD, DROP, Noise()), "twice"),
        (bisection(2, r2=0.0), "weight"),
        (Bisection("main", "apu", "r0", (Candidate("r1"),), (LEAD,), LEAD, 0.0, Noise()), "effect"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(question: Bisection, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        believe(question, Evidence())
