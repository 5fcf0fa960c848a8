"""Kernels side by side: whose turn it is, when it is over, and what a difference allows to say."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect import measurement, plan, wire
from netbisect.bisect.measurement import Word
from netbisect.bisect.model import (
    Effect,
    Evidence,
    Held,
    Kernel,
    Measured,
    Measurement,
    Move,
    Noise,
    Prices,
    Reading,
    Unfinished,
    Visit,
)
from netbisect.bisect.subject import commit_of, parts_of, patch_of, short, with_patch

A, B, C = "a" * 40, "b" * 40, "c" * 40
FORWARDING, PF = "inet4-forwarding", "inet4-pf-stateful"
TWO = Measurement("main", "c2558", (A, B), (FORWARDING,), 5)
QUIET = Noise(boot=0.004, image=0.002)


def kernel(revision: str, identity: str = "") -> Kernel:
    name = identity or f"image of {revision}"
    return Kernel(revision, "GENERIC", "amd64", name, revision[:4], "v", 1, 0.0, 600.0)


def built(*revisions: str) -> dict[str, Kernel]:
    return {one: kernel(one) for one in revisions}


def play(
    question: Measurement, levels: dict[str, float], sd: float = 0.004, **more: object
) -> tuple[Move, list[str]]:
    """Boots what is wanted until there is an answer; that, and in which order."""
    luck = np.random.default_rng(7)
    evidence = Evidence(**more)  # type: ignore[arg-type]
    order: list[str] = []
    for _ in range(200):
        move = plan.next_move(question, evidence, Prices())
        if not isinstance(move, Visit):
            return move, order
        if move.revision not in evidence.kernels:
            kernels = {**evidence.kernels, move.revision: kernel(move.revision)}
            evidence = replace(evidence, kernels=kernels)
            continue
        order.append(move.revision)
        rates = {one: levels[move.revision] + luck.normal(0, sd) for one in question.scenarios}
        reading = Reading(f"boot {len(order)}", move.revision, move.revision, rates)
        evidence = replace(evidence, readings=(*evidence.readings, reading))
    raise AssertionError("it never ends")


def test_each_is_booted_as_often_as_asked_in_turns() -> None:
    """ABBA for two, so that a drift of the laboratory cancels out; neither more nor fewer."""
    answer, order = play(TWO, {A: 14.0, B: 13.9})

    assert order == [A, B, B, A, A, B, B, A, A, B]
    assert isinstance(answer, Measured)
    [held] = answer.held
    assert (held.revision, held.effects[0].good_boots, held.effects[0].bad_boots) == (B, 5, 5)
    assert held.effects[0].ln_ratio == pytest.approx(-0.1, abs=0.01)


def test_all_kernels_are_built_before_the_first_boot() -> None:
    """One that cannot be built costs no boots."""
    first = measurement.next_move(TWO, Evidence(kernels=built(A)))

    assert isinstance(first, Visit)
    assert first.revision == B


@pytest.mark.parametrize(("bad", "named"), [(A, A), (B, B)])
def test_two_of_which_one_cannot_be_measured_have_no_answer(bad: str, named: str) -> None:
    """It says which, and why."""
    answer, order = play(TWO, {}, skipped={bad: "the patch does not apply"})

    assert isinstance(answer, Unfinished)
    assert answer.why == f"{named[:12]} cannot be measured: the patch does not apply"
    assert order == []


def test_of_several_the_one_that_cannot_be_measured_is_left_out() -> None:
    """The others are held against the first all the same."""
    question = replace(TWO, revisions=(A, B, C))
    answer, order = play(question, {A: 14.0, C: 14.0}, skipped={B: "it does not build"})

    assert isinstance(answer, Measured)
    assert Counter(order) == {A: 5, C: 5}
    assert [(one.revision, len(one.effects)) for one in answer.held] == [(B, 0), (C, 1)]
    assert answer.held[0].why == "it cannot be measured: it does not build"
    assert measurement.together(question, answer) is Word.OPEN


def test_kernels_that_are_the_same_are_not_booted() -> None:
    """A patch of a manual page: there is nothing to tell apart."""
    same = {A: kernel(A, "one"), B: kernel(B, "one")}
    answer, order = play(TWO, {}, kernels=same)

    assert order == []
    assert answer == Measured((Held(B, (), "it builds the same kernel as the first one", True),))
    assert measurement.together(TWO, answer) is Word.SAME


def test_the_same_kernel_under_two_names_is_booted_once() -> None:
    """What was measured of the one is said of both."""
    question = replace(TWO, revisions=(A, B, C))
    kernels = {A: kernel(A), B: kernel(B, "one"), C: kernel(C, "one")}
    answer, order = play(question, {A: 14.0, B: 13.9}, kernels=kernels)

    assert Counter(order) == {A: 5, B: 5}
    assert isinstance(answer, Measured)
    assert answer.held[0].effects == answer.held[1].effects


def test_boots_of_others_count_and_its_own_come_first() -> None:
    """What others have made need not be made again; never more than asked are counted."""
    others = [Reading(f"other {i}", A, A, {FORWARDING: 14.0 + i}, fresh=False) for i in range(7)]
    own = Reading("own", A, A, {FORWARDING: 13.0})
    evidence = Evidence((*others, own), built(A, B))
    counted = measurement.readings_of(TWO, evidence, A)

    assert [one.boot for one in counted] == ["own", "other 6", "other 5", "other 4", "other 3"]
    assert measurement.remaining(TWO, evidence) == 5
    move = measurement.next_move(TWO, evidence)
    assert isinstance(move, Visit)
    assert move.revision == B


def test_a_scenario_that_gives_no_samples_ends_some_time() -> None:
    """After a few boots beyond those asked for, the other scenario has its answer."""
    question = replace(TWO, scenarios=(FORWARDING, PF))
    readings = [
        Reading(f"{name} {i}", name, name, {FORWARDING: 14.0 + i / 1000})
        for name in (A, B)
        for i in range(question.boots + measurement.SPARE)
    ]
    answer = measurement.next_move(question, Evidence(tuple(readings), built(A, B)))

    assert isinstance(answer, Measured)
    assert [one.scenario for one in answer.held[0].effects] == [FORWARDING]
    assert measurement.together(question, answer) is Word.OPEN


def effect(ln_ratio: float, reach: float) -> Effect:
    return Effect(FORWARDING, ln_ratio, ln_ratio - reach, ln_ratio + reach, 0.01, 5, 5)


@pytest.mark.parametrize(
    ("ln_ratio", "reach", "image", "word"),
    [
        (-0.10, 0.01, 0.01, Word.SLOWER),
        (0.10, 0.01, 0.01, Word.FASTER),
        (-0.03, 0.005, 0.0, Word.SLOWER),
        (-0.03, 0.005, 0.02, Word.OPEN),  # images of the same code differ as much
        (-0.01, 0.005, 0.0, Word.SAME),  # slower, by less than what matters
        (0.0, 0.005, 0.02, Word.SAME),
        (0.0, 0.05, 0.0, Word.OPEN),  # too few boots to exclude anything
        (-0.015, 0.01, 0.0, Word.OPEN),
    ],
)
def test_a_difference_allows_to_say(
    ln_ratio: float, reach: float, image: float, word: Word
) -> None:
    """A regression only what is larger than the offsets of images."""
    noise = Noise(image=image)

    assert measurement.word(effect(ln_ratio, reach), noise, TWO.min_effect) is word


@given(st.floats(-0.5, 0.5), st.floats(0.001, 0.2), st.floats(0, 0.05))
def test_offsets_of_images_only_widen_an_interval(
    ln_ratio: float, reach: float, image: float
) -> None:
    """What the boots leave open stays open."""
    found = effect(ln_ratio, reach)
    low, high = measurement.of_code(found, Noise(image=image))

    assert low <= found.low + 1e-12
    assert high >= found.high - 1e-12
    assert measurement.of_code(found, None) == (found.low, found.high)


def test_the_worst_of_all_scenarios_is_said() -> None:
    """A gain in one does not make up for a drop in another."""
    question = replace(TWO, scenarios=(FORWARDING, PF), noise={FORWARDING: QUIET, PF: QUIET})
    drop, gain = effect(-0.1, 0.01), replace(effect(0.2, 0.01), scenario=PF)

    assert measurement.together(question, Measured((Held(B, (drop, gain)),))) is Word.SLOWER
    assert (
        measurement.together(
            question, Measured((Held(B, (replace(drop, ln_ratio=0.1, low=0.09, high=0.11), gain)),))
        )
        is Word.FASTER
    )


@pytest.mark.parametrize(("second", "consistent"), [(-0.105, True), (-0.02, False)])
def test_a_second_run_is_held_against_the_first(second: float, consistent: bool) -> None:
    """Of the same images, so that their offsets have no say."""
    [found] = measurement.repeated([effect(-0.1, 0.01)], [effect(second, 0.01)])

    assert found.consistent is consistent
    assert found.ln_ratio == pytest.approx(second + 0.1)
    assert found.high - found.low == pytest.approx(2 * math.hypot(0.01, 0.01))


def test_equal_kernels_are_rarely_called_different() -> None:
    """Of 200 pairs without a difference hardly any is said to be slower or faster."""
    luck = np.random.default_rng(11)
    said = Counter()
    for _ in range(200):
        offsets = luck.normal(14, 0.01, 2)
        readings = tuple(
            Reading(f"{name} {i}", name, name, {FORWARDING: level + luck.normal(0, 0.009)})
            for name, level in zip((A, B), offsets, strict=True)
            for i in range(5)
        )
        question = replace(TWO, noise={FORWARDING: Noise(image=0.01)})
        found = measurement.next_move(question, Evidence(readings, built(A, B)))
        assert isinstance(found, Measured)
        said[measurement.together(question, found)] += 1

    assert said[Word.SLOWER] + said[Word.FASTER] <= 8


def test_a_measurement_survives_the_wire() -> None:
    """With what nobody shares, and with noise by scenario."""
    question = replace(TWO, noise={FORWARDING: QUIET})

    assert wire.loads(wire.dumps(question)) == question
    answer = Measured((Held(B, (effect(-0.1, 0.01),)),))
    assert wire.loads(wire.dumps(answer)) == answer


# --------------------------------------------------------------------------------- the subject


@given(
    st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
    st.from_regex(r"D[1-9]\d{0,4}-[0-9a-f]{8}", fullmatch=True),
)
def test_a_revision_with_a_patch_has_a_name_of_its_own(commit: str, mark: str) -> None:
    """It comes apart again, and is never that of the revision alone."""
    name = with_patch(commit, mark)

    assert name != commit
    assert parts_of(name) == (commit, mark)
    assert commit_of(name) == commit
    assert patch_of(f"GENERIC+fix-igb+{mark}") == mark
    assert short(name) == f"{commit[:12]}+{mark}"


@pytest.mark.parametrize("name", ["r295150+mbuf", "r311848", A, "GENERIC+fix-igb", "+D1-00000000"])
def test_a_plus_alone_makes_no_patch(name: str) -> None:
    """Imported histories have names with a plus."""
    assert parts_of(name) == (name, "")
