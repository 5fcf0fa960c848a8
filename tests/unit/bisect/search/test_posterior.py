"""Posterior of the candidates."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from search_fixtures import LEAD, bisection, evidence_of

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.bisect.model.results import Posterior
from netbisect.bisect.search.posterior import PRIOR_DRIFT, PRIOR_NONE, PRIOR_TWO, posterior_of

DROP = bisection(4).effect


@given(
    st.lists(st.tuples(st.sampled_from(["r0", "r1", "r2"]), st.floats(13.95, 14.02)), max_size=4)
)
@settings(max_examples=2, deadline=None)
def test_posterior_agrees_with_numerical_integration(facts: list[tuple[str, float]]) -> None:
    """The integral is over levels, offsets, step heights, outliers and noise."""
    noise = Noise(0.012, 0.01)
    job = bisection(2, noise=noise)
    # All boots have the same level, so that one integral over the offset suffices.
    levels = dict(facts)
    if not levels:
        return
    middle = float(np.median(list(levels.values())))
    mu = np.linspace(-0.35, 0.35, 281)[:, None]
    delta = np.linspace(-0.14, -0.5 * abs(DROP), 61)[None, :]

    def of_image(x: float, level: np.ndarray, boot: float, image: float) -> np.ndarray:
        total = np.zeros(np.broadcast_shapes(level.shape))
        for offset in np.linspace(-3, 3, 25):
            off = x - middle - level - offset * image
            one = 0.98 * stats.norm.pdf(off, 0, boot)
            one += 0.02 * stats.norm.pdf(off, 0, math.hypot(boot, 9 * noise.boot))
            total = total + stats.norm.pdf(offset) * one**3
        return total

    def likelihood(culprit: int, boot: float, image: float) -> float:
        density = np.ones((len(mu), delta.shape[1])) * stats.norm.pdf(delta, DROP, 0.3 * abs(DROP))
        for name, x in levels.items():
            level = mu + delta if int(name[1:]) >= culprit else mu
            density = density * of_image(x, level, noise.boot * boot, noise.image * image)
        return float(density.sum())

    scales = [
        (boot, image, math.exp(-((math.log(boot) / 0.3) ** 2 + (math.log(image) / 0.2) ** 2) / 2))
        for boot in (0.8, 1.3)
        for image in (0.8, 1.0, 1.25)
    ]
    one = (1 - PRIOR_NONE - PRIOR_TWO - PRIOR_DRIFT) / 2
    weights = [
        prior * sum(weight * likelihood(culprit, *sds) for *sds, weight in scales)
        for culprit, prior in ((1, one), (2, one), (3, PRIOR_NONE))
    ]
    posterior = posterior_of(job, evidence_of({name: [x] * 3 for name, x in levels.items()}))
    found = [posterior.chances["r1"], posterior.chances["r2"], posterior.none]

    assert [chance / sum(found) for chance in found] == pytest.approx(
        [weight / sum(weights) for weight in weights], abs=0.02
    )


def test_one_outlier_is_not_conclusive() -> None:
    """Two boots with the same level are conclusive."""

    def doubt_of(boots: list[float]) -> float:
        chances = posterior_of(bisection(4), evidence_of({"r0": [14.0] * 3, "r2": boots})).chances
        return chances["r3"] + chances["r4"]

    one_boot, two_boots = doubt_of([13.92]), doubt_of([13.92, 13.92])

    assert one_boot > 0.002
    assert two_boots < one_boot / 10


def test_commit_with_its_parents_kernel_is_not_a_candidate() -> None:
    posterior = posterior_of(bisection(4), evidence_of({}, r1="a", r2="a", r3="b"))

    assert posterior.chances["r2"] == 0
    assert posterior.chances["r1"] == posterior.chances["r3"] == posterior.chances["r4"] > 0


def test_boots_of_one_kernel_form_one_image() -> None:
    once = evidence_of({"r0": [14.0, 14.0], "r2": [14.0, 14.0]}, r0="a", r1="a", r2="b", r3="b")
    places = (("r0", "a"), ("r1", "a"), ("r3", "b"), ("elsewhere", "b"))
    spread = tuple(Observation(name, name, image, {LEAD: 14.0}) for name, image in places)

    again = posterior_of(bisection(4), replace(once, observations=spread))
    assert again == posterior_of(bisection(4), once)


def test_boots_do_not_average_image_noise_out() -> None:
    noise = Noise(0.009, 0.03)
    many = evidence_of({"r0": [14.0] * 100, "r2": [13.95] * 100})

    assert posterior_of(bisection(4, noise=noise), many).chances["r3"] > 0.02


def test_credible_set_is_the_smallest() -> None:
    posterior = Posterior({"r1": 0.2, "r2": 0.05, "r3": 0.65}, none=0.1)

    assert posterior.credible(0.6) == ["r3"]
    assert posterior.credible(0.8) == ["r3", "r1"]
    assert posterior.credible(0.99) == ["r3", "r1", "r2"]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (bisection(0), "at least one candidate"),
        (replace(bisection(1), good="r1"), "twice"),
        (replace(bisection(1), candidates=(Candidate("r1", 0.0),)), "weight"),
        (replace(bisection(1), effect=0.0), "effect"),
    ],
)
def test_invalid_job_is_rejected(job: BisectJob, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posterior_of(job, Evidence())


def test_step_below_the_grid_of_an_extreme_noise_is_unlikely() -> None:
    job = bisection(4, 0.02, Noise(17.0, 0.0))
    posterior = posterior_of(job, evidence_of({"r0": [1.6, -34.5], "r4": [1.6]}))

    assert posterior.none + posterior.drift == pytest.approx(1)


def test_memory_is_limited_with_many_measured_kernels() -> None:
    job = bisection(200)
    evidence = evidence_of({f"r{i}": [14 + job.effect * (i > 70)] for i in range(201)})
    tracemalloc.start()
    posterior = posterior_of(job, evidence)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert posterior.chances["r71"] > 0.9
    assert peak < 100e6
