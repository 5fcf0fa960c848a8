"""A lab on paper plays what a real one would do: two steps, slopes, builders, a budget."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from netbisect.bisect.model import (
    Bisection,
    Candidate,
    Culprit,
    Drift,
    Evidence,
    Noise,
    NotReproduced,
    Prices,
    Several,
    Unfinished,
    Visit,
)
from netbisect.bisect.plan import builds_ahead, outlook
from netbisect.bisect.rehearse import PaperLab, play

EFFECT = math.log(0.95)
NOISE = Noise(boot=0.001, run=0.006)


def bisection(count: int = 32, budget: float = math.inf) -> Bisection:
    candidates = tuple(Candidate(f"r{i}") for i in range(1, count + 1))
    return Bisection("main", "apu", "r0", candidates, ("v4",), "v4", EFFECT, NOISE, budget)


def lab(steps: dict[int, float], count: int = 32, slope: float = 0.0, seed: int = 1) -> PaperLab:
    levels = {
        f"r{i}": 14 + slope * i / count + sum(x for k, x in steps.items() if k <= i)
        for i in range(count + 1)
    }
    return PaperLab(levels, NOISE, np.random.default_rng(seed))


def ends(paper: PaperLab, count: int = 32) -> Evidence:
    return paper.with_built(paper.with_built(Evidence(), "r0"), f"r{count}")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_gain_within_the_range_is_proved_though_images_have_offsets(seed: int) -> None:
    """Only the images between the two steps are held against those beyond either of them."""
    noise = Noise(boot=0.004, image=0.004)
    gain, drop = math.log(1.06), math.log(0.9 / 1.06)
    levels = {f"r{i}": 14 + gain * (i >= 8) + drop * (i >= 24) for i in range(33)}
    paper = PaperLab(levels, noise, np.random.default_rng(seed))
    question = replace(bisection(), effect=math.log(0.9), noise=noise)
    found = play(question, paper, ends(paper)).finding

    assert isinstance(found, Several)
    assert [one.revision for one in found.culprits] == ["r24", "r8"]
    assert found.culprits[1].effects[0].low > 0.02


@pytest.mark.slow
def test_a_second_step_is_looked_for_while_that_takes_no_build() -> None:
    """Another name is still at 0.03 when the first one is proved, and a boot of 210 s may tell."""
    levels = {f"r{i}": 14 - 0.02 * (i >= 9) - 0.012 * (i >= 22) for i in range(33)}
    noise = Noise(run=0.007)
    paper = PaperLab(levels, noise, np.random.default_rng(2))
    question = replace(bisection(), effect=-0.032, noise=noise)
    found = play(question, paper, ends(paper)).finding

    assert isinstance(found, Several)
    assert {one.revision for one in found.culprits} == {"r9", "r22"}


@pytest.mark.parametrize("steps", [{7: -0.03, 22: -0.021}, {9: 0.03, 20: -0.081}])
def test_two_commits_are_found_with_their_signs(steps: dict[int, float]) -> None:
    paper = lab(steps)
    found = play(bisection(), paper, ends(paper)).finding

    assert isinstance(found, Several)
    assert {int(one.revision[1:]) for one in found.culprits} == set(steps)
    for one in found.culprits:
        assert one.effects[0].ln_ratio * steps[int(one.revision[1:])] > 0
        assert min(one.effects[0].good_boots, one.effects[0].bad_boots) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_a_slope_has_no_culprit(seed: int) -> None:
    paper = lab({}, slope=EFFECT, seed=seed)
    found = play(bisection(), paper, ends(paper)).finding

    assert isinstance(found, Drift)
    assert found.belief.drift >= 0.9


def test_a_good_end_that_is_slow_today_is_seen() -> None:
    """Inherited boots were fast, today every kernel is slow."""
    paper = lab({})
    evidence = ends(paper)
    for _ in range(6):
        evidence = paper.boot(evidence, "r0", ("v4",), fresh=False, runs=4)
    paper.levels = {name: level + EFFECT for name, level in paper.levels.items()}
    found = play(bisection(), paper, evidence).finding

    assert isinstance(found, NotReproduced)
    assert "good end itself" in found.why


def test_builders_save_time_and_cost_builds() -> None:
    alone, helped = lab({20: EFFECT}), lab({20: EFFECT})
    one = play(bisection(), alone, ends(alone))
    three = play(bisection(), helped, ends(helped), builders=3)

    assert isinstance(one.finding, Culprit)
    assert isinstance(three.finding, Culprit)
    assert three.finding.revision == one.finding.revision == "r20"
    assert three.seconds < 0.8 * one.seconds
    assert three.builds > one.builds


def test_runs_are_counted() -> None:
    paper = lab({20: EFFECT})
    played = play(bisection(), paper, ends(paper))

    assert played.runs == sum(visit.runs for visit in played.visits)
    assert played.boots == len(played.visits)
    assert played.seconds == pytest.approx(
        played.builds * 600 + played.boots * 180 + played.runs * 30
    )


def test_a_budget_ends_a_search_without_a_name() -> None:
    paper = lab({20: EFFECT})
    played = play(bisection(budget=3600), paper, ends(paper))

    assert isinstance(played.finding, Unfinished)
    assert "budget" in played.finding.why
    assert played.seconds < 3600 + 900


def test_the_quartiles_are_built_ahead() -> None:
    """The median first; what is built or being built is not built again."""
    paper = lab({20: EFFECT})
    known = ends(paper)

    assert builds_ahead(bisection(), known, Prices(), 1) == ("r16",)
    assert set(builds_ahead(bisection(), known, Prices(), 3)) == {"r8", "r16", "r24"}
    assert "r16" not in builds_ahead(bisection(), known, Prices(), 3, building=("r16",))
    assert "r16" not in builds_ahead(bisection(), paper.with_built(known, "r16"), Prices(), 3)


def test_an_outlook_comes_down_to_nothing() -> None:
    paper = lab({20: EFFECT})
    known = ends(paper)
    first = outlook(bisection(), known, Prices())
    played = play(bisection(), paper, known)
    last = outlook(bisection(), played.evidence, Prices())

    assert isinstance(first.move, Visit)
    assert 4 <= first.builds_left <= 6
    assert first.hours_left == pytest.approx(played.seconds / 3600, rel=0.4)
    assert last.move == played.finding
    assert last.hours_left == last.boots_left == 0
