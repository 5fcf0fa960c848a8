"""Retest: interleaving, looks and verdicts."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection.retest import next_move
from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    NotConfirmed,
    Trial,
    Unfinished,
)
from netbisect.bisect.simulate import JobSimulation, LabSimulation, simulate_job

LEAD = "inet4"
QUESTION = CompareJob("main", "apu", "good", "bad", (LEAD, "pf"), LEAD, suspected=-0.08)


def kernel(revision: str, identity: str) -> Kernel:
    return Kernel(revision, "ROUTER", "amd64", identity, revision, revision, 1, 0.0, 60.0)


def built(good: str = "one", bad: str = "other") -> dict[str, Kernel]:
    return {"good": kernel("good", good), "bad": kernel("bad", bad)}


def boots(revision: str, *ln_pps: float, fresh: bool = True, lead: str = LEAD) -> list[Observation]:
    return [
        Observation(f"{revision} {i} {fresh}", revision, "", {lead: x}, fresh)
        for i, x in enumerate(ln_pps)
    ]


def retest(seed: int, drop: float, boot: float = 0.009, outliers: float = 0.02) -> JobSimulation:
    levels = {"good": 14.0, "bad": 14.0 + math.log(1 - drop)}
    lab = LabSimulation(levels, Noise(boot), np.random.default_rng(seed), outliers)
    return simulate_job(QUESTION, lab)


def test_boots_are_interleaved() -> None:
    """ABBA: a drift of the laboratory hits both alike."""
    order = [trial.revision for trial in retest(1, 0.0, boot=0.05).trials]

    assert order[:8] == ["good", "bad", "bad", "good", "good", "bad", "bad", "good"]


def test_large_drop_is_confirmed_at_the_first_look() -> None:
    ended = retest(2, 0.11, outliers=0)

    assert isinstance(ended.result, Confirmed)
    assert ended.boots == 6
    lead, other = ended.result.effects
    assert (lead.scenario, other.scenario) == (LEAD, "pf")
    assert lead.low < math.log(0.89) < lead.high


def test_unchanged_pair_is_not_confirmed() -> None:
    """Never in 150 seeded retests, of which all but a few end after six boots of each."""
    played = [retest(seed, 0.0) for seed in range(150)]

    assert all(isinstance(one.result, NotConfirmed) for one in played)
    assert np.mean([one.boots / 2 for one in played]) < 6


def test_drop_of_five_percent_is_confirmed() -> None:
    """In 96 of 100 seeded retests at least, with two stray boots in a hundred."""
    endings = Counter(type(retest(seed, 0.05).result) for seed in range(100))

    assert endings[Confirmed] >= 96


def test_drop_below_min_effect_is_not_confirmed() -> None:
    """However clear it is."""
    ended = retest(3, 0.012, boot=0.001, outliers=0)

    assert isinstance(ended.result, NotConfirmed)
    assert "no room for a drop of 2 %" in ended.result.why
    assert ended.result.effects[0].p < 0.01


def test_gain_does_not_confirm_a_drop() -> None:
    observations = boots("good", 14, 14.01, 14.02) + boots("bad", 14.2, 14.21, 14.22)

    assert isinstance(next_move(QUESTION, Evidence(tuple(observations))), NotConfirmed)


def test_inherited_boots_do_not_count() -> None:
    night = boots("good", *[14.0] * 9, fresh=False) + boots("bad", *[13.9] * 9, fresh=False)

    assert next_move(QUESTION, Evidence(tuple(night))) == next_move(QUESTION, Evidence())


SIDE = st.lists(st.floats(13, 15), max_size=11)


@given(SIDE, SIDE, st.randoms(use_true_random=False))
def test_order_of_facts_does_not_matter(good, bad, shuffler) -> None:  # noqa: ANN001
    observations = boots("good", *good) + boots("bad", *bad)
    shuffled = list(observations)
    shuffler.shuffle(shuffled)

    assert next_move(QUESTION, Evidence(tuple(shuffled))) == next_move(
        QUESTION, Evidence(tuple(observations))
    )


@given(SIDE, SIDE)
def test_decisions_are_made_at_looks_only(good: list[float], bad: list[float]) -> None:
    """With other numbers of boots than 3, 6 or 9 of each it goes on, on the shorter side."""
    move = next_move(QUESTION, Evidence(tuple(boots("good", *good) + boots("bad", *bad))))
    sizes = len(good), len(bad)
    if min(sizes) < 9 and (sizes[0] != sizes[1] or sizes[0] not in {3, 6}):
        assert isinstance(move, Trial)
        assert sizes[0] == sizes[1] or move.revision == ("good", "bad")[sizes[0] > sizes[1]]
    elif min(sizes) >= 9:
        assert isinstance(move, Confirmed | NotConfirmed)


@given(SIDE, SIDE)
def test_confirmed_drop_is_significant(good: list[float], bad: list[float]) -> None:
    move = next_move(QUESTION, Evidence(tuple(boots("good", *good) + boots("bad", *bad))))
    if isinstance(move, Confirmed):
        assert move.effects[0].ln_ratio <= -QUESTION.min_effect
        assert move.effects[0].p < 0.01 / 3


def test_identical_kernels_need_no_boot() -> None:
    move = next_move(QUESTION, Evidence(kernels=built("same", "same")))

    assert move == NotConfirmed((), "both revisions build the same kernel")


def test_unbuilt_kernel_comes_first() -> None:
    only_good = Evidence(kernels={"good": kernel("good", "one")})
    move = next_move(QUESTION, only_good)
    assert isinstance(move, Trial)
    assert move.revision == "bad"

    for known in (Evidence(), Evidence(kernels=built())):
        move = next_move(QUESTION, known)
        assert isinstance(move, Trial)
        assert move.revision == "good"


def test_unknown_identities_are_not_identical() -> None:
    assert isinstance(next_move(QUESTION, Evidence(kernels=built("", ""))), Trial)


@pytest.mark.parametrize("revision", ["good", "bad"])
def test_unmeasurable_side_is_unfinished(revision: str) -> None:
    move = next_move(QUESTION, Evidence(skipped={revision: "it does not build"}))

    assert move == Unfinished(f"{revision} cannot be measured: it does not build")


def test_boots_without_samples_are_unfinished() -> None:
    """After three in vain; before that it tries again."""
    observations = boots("good", 14.0) + boots("bad", 13.9, 13.9, 13.9, lead="pf")

    assert isinstance(next_move(QUESTION, Evidence(tuple(observations[:3]))), Trial)
    move = next_move(QUESTION, Evidence(tuple(observations)))
    assert isinstance(move, Unfinished)
    assert LEAD in move.why


@pytest.mark.parametrize(
    ("scatter", "drop", "why"),
    [(0.05, 0.03, "do not tell the two kernels apart"), (0.01, 0.0195, "do not show a drop of")],
)
def test_last_look_ends_the_retest(scatter: float, drop: float, why: str) -> None:
    values = [14 + scatter * x for x in (-1.5, -1, -0.6, -0.3, 0, 0.3, 0.6, 1, 1.5)]
    observations = boots("good", *values) + boots("bad", *(x - drop for x in values))

    move = next_move(QUESTION, Evidence(tuple(observations)))

    assert isinstance(move, NotConfirmed)
    assert why in move.why
