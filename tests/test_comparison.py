"""A retest measures in turns, stops as early as it may, and believes fresh boots alone."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.comparison import next_move
from netbisect.bisect.model import (
    Comparison,
    Confirmed,
    Evidence,
    Kernel,
    Noise,
    NotConfirmed,
    Reading,
    Unfinished,
    Visit,
)
from netbisect.bisect.rehearse import PaperLab, Rehearsal, play

LEAD = "inet4"
QUESTION = Comparison("main", "apu", "good", "bad", (LEAD, "pf"), LEAD, suspected=-0.08)


def kernel(revision: str, identity: str) -> Kernel:
    return Kernel(revision, "ROUTER", "amd64", identity, revision, revision, 1, 0.0, 60.0)


def built(good: str = "one", bad: str = "other") -> dict[str, Kernel]:
    return {"good": kernel("good", good), "bad": kernel("bad", bad)}


def boots(revision: str, *ln_pps: float, fresh: bool = True, lead: str = LEAD) -> list[Reading]:
    return [
        Reading(f"{revision} {i} {fresh}", revision, "", {lead: x}, fresh)
        for i, x in enumerate(ln_pps)
    ]


def retest(seed: int, drop: float, boot: float = 0.009, outliers: float = 0.02) -> Rehearsal:
    levels = {"good": 14.0, "bad": 14.0 + math.log(1 - drop)}
    lab = PaperLab(levels, Noise(boot), np.random.default_rng(seed), outliers)
    return play(QUESTION, lab)


def test_the_kernels_are_measured_in_turns() -> None:
    """ABBA: a drift of the laboratory hits both alike."""
    order = [visit.revision for visit in retest(1, 0.0, boot=0.05).visits]

    assert order[:8] == ["good", "bad", "bad", "good", "good", "bad", "bad", "good"]


def test_a_large_drop_is_confirmed_by_three_boots_of_each() -> None:
    ended = retest(2, 0.11, outliers=0)

    assert isinstance(ended.finding, Confirmed)
    assert ended.boots == 6
    lead, other = ended.finding.effects
    assert (lead.scenario, other.scenario) == (LEAD, "pf")
    assert lead.low < math.log(0.89) < lead.high


def test_what_did_not_change_is_hardly_ever_confirmed() -> None:
    """Never in 150 seeded retests, of which all but a few end after six boots of each."""
    played = [retest(seed, 0.0) for seed in range(150)]

    assert all(isinstance(one.finding, NotConfirmed) for one in played)
    assert np.mean([one.boots / 2 for one in played]) < 6


def test_a_drop_of_five_percent_is_confirmed() -> None:
    """In 96 of 100 seeded retests at least, with two stray boots in a hundred."""
    endings = Counter(type(retest(seed, 0.05).finding) for seed in range(100))

    assert endings[Confirmed] >= 96


def test_a_drop_below_the_least_effect_is_not_confirmed() -> None:
    """However clear it is."""
    ended = retest(3, 0.012, boot=0.001, outliers=0)

    assert isinstance(ended.finding, NotConfirmed)
    assert "no room for a drop of 2 %" in ended.finding.why
    assert ended.finding.effects[0].p < 0.01


def test_a_gain_is_not_confirmed() -> None:
    readings = boots("good", 14, 14.01, 14.02) + boots("bad", 14.2, 14.21, 14.22)

    assert isinstance(next_move(QUESTION, Evidence(tuple(readings))), NotConfirmed)


def test_inherited_boots_do_not_count() -> None:
    """What made the pair suspicious would make it look worse than it is."""
    night = boots("good", *[14.0] * 9, fresh=False) + boots("bad", *[13.9] * 9, fresh=False)

    assert next_move(QUESTION, Evidence(tuple(night))) == next_move(QUESTION, Evidence())


def test_boots_of_other_revisions_do_not_count() -> None:
    assert next_move(QUESTION, Evidence(tuple(boots("other", 13, 14, 15)))) == next_move(
        QUESTION, Evidence()
    )


SIDE = st.lists(st.floats(13, 15), max_size=11)


@given(SIDE, SIDE, st.randoms(use_true_random=False))
def test_the_order_of_facts_does_not_matter(good, bad, shuffler) -> None:  # noqa: ANN001
    readings = boots("good", *good) + boots("bad", *bad)
    shuffled = list(readings)
    shuffler.shuffle(shuffled)

    assert next_move(QUESTION, Evidence(tuple(shuffled))) == next_move(
        QUESTION, Evidence(tuple(readings))
    )


@given(SIDE, SIDE)
def test_only_the_looks_decide(good: list[float], bad: list[float]) -> None:
    """With other numbers of boots than 3, 6 or 9 of each it goes on, on the shorter side."""
    move = next_move(QUESTION, Evidence(tuple(boots("good", *good) + boots("bad", *bad))))
    sizes = len(good), len(bad)
    if min(sizes) < 9 and (sizes[0] != sizes[1] or sizes[0] not in {3, 6}):
        assert isinstance(move, Visit)
        assert sizes[0] == sizes[1] or move.revision == ("good", "bad")[sizes[0] > sizes[1]]
    elif min(sizes) >= 9:
        assert isinstance(move, Confirmed | NotConfirmed)


@given(SIDE, SIDE)
def test_what_is_confirmed_is_a_significant_drop(good: list[float], bad: list[float]) -> None:
    move = next_move(QUESTION, Evidence(tuple(boots("good", *good) + boots("bad", *bad))))
    if isinstance(move, Confirmed):
        assert move.effects[0].ln_ratio <= -QUESTION.min_effect
        assert move.effects[0].p < 0.01 / 3


def test_one_kernel_under_two_names_needs_no_boot() -> None:
    move = next_move(QUESTION, Evidence(kernels=built("same", "same")))

    assert move == NotConfirmed((), "both revisions build the same kernel")


def test_a_kernel_that_is_not_built_comes_first() -> None:
    """Once it is, the two may turn out to be the same, and nothing has to boot."""
    only_good = Evidence(kernels={"good": kernel("good", "one")})
    move = next_move(QUESTION, only_good)
    assert isinstance(move, Visit)
    assert move.revision == "bad"

    for known in (Evidence(), Evidence(kernels=built())):
        move = next_move(QUESTION, known)
        assert isinstance(move, Visit)
        assert move.revision == "good"


def test_kernels_of_unknown_identity_are_not_the_same() -> None:
    assert isinstance(next_move(QUESTION, Evidence(kernels=built("", ""))), Visit)


@pytest.mark.parametrize("revision", ["good", "bad"])
def test_a_side_that_cannot_be_measured_ends_it(revision: str) -> None:
    move = next_move(QUESTION, Evidence(skipped={revision: "it does not build"}))

    assert move == Unfinished(f"{revision} cannot be measured: it does not build")


def test_boots_without_a_sample_of_the_lead_end_it() -> None:
    """After three in vain; before that it tries again."""
    readings = boots("good", 14.0) + boots("bad", 13.9, 13.9, 13.9, lead="pf")

    assert isinstance(next_move(QUESTION, Evidence(tuple(readings[:3]))), Visit)
    move = next_move(QUESTION, Evidence(tuple(readings)))
    assert isinstance(move, Unfinished)
    assert LEAD in move.why


@pytest.mark.parametrize(
    ("scatter", "drop", "why"),
    [(0.05, 0.03, "do not tell the two kernels apart"), (0.01, 0.0195, "do not show a drop of")],
)
def test_after_nine_boots_of_each_it_ends(scatter: float, drop: float, why: str) -> None:
    values = [14 + scatter * x for x in (-1.5, -1, -0.6, -0.3, 0, 0.3, 0.6, 1, 1.5)]
    readings = boots("good", *values) + boots("bad", *(x - drop for x in values))

    move = next_move(QUESTION, Evidence(tuple(readings)))

    assert isinstance(move, NotConfirmed)
    assert why in move.why
