"""Interleaved measurements and their verdicts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from search_fixtures import kernel

from benchmarks.simulate import LabSimulation, simulate_job
from netbisect.bisect import measurement, plan
from netbisect.bisect.model.detection_results import DifferenceVerdict
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.jobs import MeasureJob
from netbisect.bisect.model.results import (
    Effect,
    MeasureResult,
    Result,
    RevisionComparison,
    Unfinished,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40
FORWARDING, PF = "inet4-forwarding", "inet4-pf-stateful"
TWO = MeasureJob("main", "c2558", (A, B), (FORWARDING,), 5)
QUIET = Noise(boot=0.004, image=0.002)


def play(job: MeasureJob, levels: dict[str, float], **more: object) -> tuple[Result, list[str]]:
    """The result of a simulated job, and the booted revisions."""
    lab = LabSimulation(levels, Noise(0.004), np.random.default_rng(7))
    played = simulate_job(job, lab, Evidence(**more))  # type: ignore[arg-type]
    return played.result, [trial.revision for trial in played.trials]


def test_boots_are_interleaved() -> None:
    result, order = play(TWO, {A: 14.0, B: 13.9})

    assert order == [A, B, B, A, A, B, B, A, A, B]
    assert isinstance(result, MeasureResult)
    [held] = result.held
    assert (held.revision, held.effects[0].good_boots, held.effects[0].bad_boots) == (B, 5, 5)
    assert held.effects[0].ln_ratio == pytest.approx(-0.1, abs=0.01)


def test_settings_are_compared_on_the_same_kernel_trial_by_trial() -> None:
    """Differences between boots cancel; trials with only one of the settings are left out."""
    slow = f"{FORWARDING}@sysctl:net.inet.ip.redirect=1"
    job = replace(TWO, revisions=(A, B), scenarios=(FORWARDING, slow, PF), boots=3)
    boots = {A: (14.0, 14.1, 14.05), B: (13.9, 13.95, 14.0)}
    found = [
        Observation(f"{one}{n}", one, one, {FORWARDING: level, slow: level - by, PF: level})
        for one, levels in boots.items()
        for n, (level, by) in enumerate(zip(levels, (0.1, 0.101, 0.099), strict=True))
    ]
    odd = Observation("odd", A, A, {slow: 9.0})
    evidence = Evidence(
        observations=(*found, odd), kernels={one: kernel(one, one) for one in (A, B)}
    )
    result = plan.next_move(job, evidence, Prices())

    assert isinstance(result, MeasureResult)
    assert [(one.revision, one.effect.scenario) for one in result.settings] == [
        (A, slow),
        (B, slow),
    ]
    for one in result.settings:
        assert one.effect.ln_ratio == pytest.approx(-0.1)
        assert one.effect.bad_boots == 3
        # t(0.975, 2) = 4.303; the standard deviation of the differences is 0.001.
        assert one.effect.high - one.effect.ln_ratio == pytest.approx(
            4.3027 * 0.001 / 3**0.5, rel=1e-3
        )


@pytest.mark.parametrize("bad", [A, B])
def test_one_unmeasurable_of_two_is_unfinished(bad: str) -> None:
    result, order = play(TWO, {}, skipped={bad: "the patch does not apply"})

    assert isinstance(result, Unfinished)
    assert result.why == f"{bad[:12]} cannot be measured: the patch does not apply"
    assert order == []


def test_unmeasurable_revision_is_skipped() -> None:
    job = replace(TWO, revisions=(A, B, C))
    result, order = play(job, {A: 14.0, C: 14.0}, skipped={B: "it does not build"})

    assert isinstance(result, MeasureResult)
    assert Counter(order) == {A: 5, C: 5}
    assert [(one.revision, len(one.effects)) for one in result.held] == [(B, 0), (C, 1)]
    assert result.held[0].why == "it cannot be measured: it does not build"
    assert measurement.worst_verdict(job, result) is DifferenceVerdict.OPEN


@pytest.mark.parametrize("revisions", [(A, B), (A, B, C)])
def test_identical_kernels_are_not_booted(revisions: tuple[str, ...]) -> None:
    job = replace(TWO, revisions=revisions)
    result, order = play(job, {}, kernels={one: kernel(one, "one") for one in revisions})
    why = "it builds the same kernel as the first one"

    assert order == []
    assert isinstance(result, MeasureResult)
    assert result.held == tuple(RevisionComparison(one, (), why, True) for one in revisions[1:])
    assert measurement.worst_verdict(job, result) is DifferenceVerdict.SAME


def effect(ln_ratio: float, reach: float) -> Effect:
    return Effect(FORWARDING, ln_ratio, ln_ratio - reach, ln_ratio + reach, 0.01, 5, 5)


@pytest.mark.parametrize(
    ("ln_ratio", "reach", "image", "word"),
    [
        (-0.10, 0.01, 0.01, DifferenceVerdict.SLOWER),
        (0.10, 0.01, 0.01, DifferenceVerdict.FASTER),
        (-0.03, 0.005, 0.0, DifferenceVerdict.SLOWER),
        (-0.03, 0.005, 0.02, DifferenceVerdict.OPEN),  # within the noise between images
        (-0.01, 0.005, 0.0, DifferenceVerdict.SAME),  # slower by less than min_effect
        (0.0, 0.005, 0.02, DifferenceVerdict.SAME),
        (0.0, 0.05, 0.0, DifferenceVerdict.OPEN),  # too few boots to exclude anything
        (-0.015, 0.01, 0.0, DifferenceVerdict.OPEN),
    ],
)
def test_verdict_of_a_difference(
    ln_ratio: float, reach: float, image: float, word: DifferenceVerdict
) -> None:
    noise = Noise(image=image)

    assert measurement.classify(effect(ln_ratio, reach), noise, TWO.min_effect) is word


def test_worst_verdict() -> None:
    job = replace(TWO, scenarios=(FORWARDING, PF), noise={FORWARDING: QUIET, PF: QUIET})
    gain = replace(effect(0.2, 0.01), scenario=PF)
    for ln_ratio, verdict in ((-0.1, DifferenceVerdict.SLOWER), (0.1, DifferenceVerdict.FASTER)):
        compared = RevisionComparison(B, (effect(ln_ratio, 0.01), gain))
        assert measurement.worst_verdict(job, MeasureResult((compared,))) is verdict


@pytest.mark.parametrize(("second", "consistent"), [(-0.105, True), (-0.02, False)])
def test_repeated_runs_are_compared(second: float, consistent: bool) -> None:
    runs = [effect(-0.1, 0.01)], [effect(second, 0.01)]
    [found] = measurement.compare_repeats(*runs).values()

    assert found.clear is not consistent
    assert found.ln_ratio == pytest.approx(second + 0.1)
    assert found.high - found.low == pytest.approx(2 * math.hypot(0.01, 0.01))


def test_interval_narrows_with_every_boot() -> None:
    levels = {A: (13.80, 13.81, 13.79, 13.80), B: (13.70, 13.71, 13.69)}
    observations = tuple(
        Observation(f"{name} {at}", name, name, {FORWARDING: ln})
        for name, boots in levels.items()
        for at, ln in enumerate(boots)
    )
    found = measurement.narrowing(TWO, Evidence(observations), B, FORWARDING)

    assert [(one.good_boots, one.bad_boots) for one in found] == [(2, 2), (3, 3)]
    assert all(one.ln_ratio == pytest.approx(-0.10) for one in found)
    assert found[1].high - found[1].low < found[0].high - found[0].low


def test_counted_numbers_are_values_of_the_metric() -> None:
    cpu = "inet4~cpu.percent.lower"
    job = replace(TWO, scenarios=(cpu,), boots=2)
    observations = tuple(
        Observation(f"{name} {number}", name, name, {cpu: -math.log(number)})
        for name, number in ((A, 20.0), (A, 21.0), (A, 22.0), (B, 30.0))
    )
    found = measurement.counted_numbers(job, Evidence(observations), cpu)

    assert found == {A: pytest.approx([20.0, 21.0]), B: pytest.approx([30.0])}
