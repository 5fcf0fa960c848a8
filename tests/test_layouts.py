"""Other layouts of a revision average the offset of its image out, where the lab can link them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect import layouts
from netbisect.bisect.line import Line, Place, lay_out
from netbisect.bisect.meanwhile import QUIET, Meanwhile
from netbisect.bisect.model import (
    Bisection,
    Candidate,
    Culprit,
    Evidence,
    Kernel,
    Noise,
    Prices,
    Reading,
    Suspects,
    Visit,
    kernel_name,
)
from netbisect.bisect.rehearse import PaperLab, Rehearsal, play, play_together
from netbisect.bisect.search import next_move

LEAD = "inet4"
DROP = math.log(1 - 0.05)
NOISY = Noise(boot=0.006, image=0.014)


def bisection(count: int, noise: Noise = NOISY, most: int = 12) -> Bisection:
    candidates = tuple(Candidate(f"r{i}") for i in range(1, count + 1))
    return Bisection("main", "apu", "r0", candidates, (LEAD,), LEAD, DROP, noise, layouts=most)


def paper(seed: int, count: int, culprit: int, noise: Noise = NOISY, **more: object) -> PaperLab:
    levels = {f"r{i}": 14 + DROP * (i >= culprit) for i in range(count + 1)}
    return PaperLab(levels, noise, np.random.default_rng(seed), **more)  # type: ignore[arg-type]


def rehearse(question: Bisection, lab: PaperLab, *, builders: int = 1) -> Rehearsal:
    """A search whose two ends are built."""
    evidence = Evidence()
    for revision in ("r0", question.candidates[-1].revision):
        evidence = lab.with_built(evidence, revision)
    return play(question, lab, evidence, builders)


def seen(rehearsal: Rehearsal, revision: str) -> set[int]:
    """The layouts of a revision that were booted."""
    return {visit.layout for visit in rehearsal.visits if visit.revision == revision}


def read(*boots: tuple[str, int, float]) -> Evidence:
    """Fresh boots: revision, layout, and how far the level is from 14."""
    return Evidence(
        tuple(
            Reading(str(i), name, f"{name} {layout}", {LEAD: 14 + off}, layout=layout)
            for i, (name, layout, off) in enumerate(boots)
        )
    )


def places(line: Line, meanwhile: Meanwhile = QUIET) -> list[tuple[str, int]]:
    return [(place.revision, place.layout) for place in layouts.further(line, meanwhile)]


def place_of(line: Line, position: int) -> Place:
    place = line.at[position]
    assert place is not None
    return place


# ------------------------------------------------------------------------------- the search


@pytest.mark.parametrize("culprit", [2, 9, 16])
def test_a_culprit_that_offsets_would_hide_is_named_and_verified(culprit: int) -> None:
    """Parent and culprit are both booted in more than one layout before the name."""
    done = rehearse(bisection(16), paper(culprit, 16, culprit))

    assert isinstance(done.finding, Culprit)
    assert done.finding.revision == f"r{culprit}"
    assert len(seen(done, f"r{culprit}")) > 1
    assert len(seen(done, f"r{culprit - 1}")) > 1
    (effect,) = done.finding.effects
    assert effect.low < DROP < effect.high
    assert min(effect.good_boots, effect.bad_boots) >= 3


def test_without_further_layouts_the_same_luck_names_nobody() -> None:
    """It is what averages the offsets out, and nothing else."""
    found = [rehearse(bisection(16, most=most), paper(3, 16, 9)).finding for most in (0, 12)]

    assert not isinstance(found[0], Culprit)
    assert isinstance(found[1], Culprit)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000), culprit=st.integers(1, 8))
def test_where_images_have_no_offsets_nothing_is_linked_twice(seed: int, culprit: int) -> None:
    """A lab that can link layouts decides as one that cannot, boot by boot."""
    plain = Noise(0.006, 0.0)
    both = [rehearse(bisection(8, plain, most), paper(seed, 8, culprit, plain)) for most in (0, 12)]

    assert both[0].visits == both[1].visits
    assert both[0].finding == both[1].finding


def test_a_lab_that_links_no_layouts_is_asked_for_none() -> None:
    """Also where images have offsets."""
    done = rehearse(bisection(16, most=0), paper(3, 16, 9))

    assert {visit.layout for visit in done.visits} == {0}


def test_no_more_layouts_are_asked_for_than_the_lab_allows() -> None:
    """Of each revision."""
    done = rehearse(bisection(8, most=1), paper(3, 8, 5))

    assert {visit.layout for visit in done.visits} == {0, 1}


def test_dear_layouts_are_left_until_the_proof_needs_them() -> None:
    """A layout competes by what it tells for its price."""

    def relinked(price: float) -> int:
        lab = paper(5, 16, 9, prices=Prices(relink=price))
        done = rehearse(bisection(16), lab)
        exploring = [visit for visit in done.visits if not visit.why.startswith("verifies")]
        return len({(visit.revision, visit.layout) for visit in exploring if visit.layout})

    assert relinked(30.0) > relinked(100_000.0)


def test_several_testbeds_and_builders_share_the_layouts() -> None:
    """Two testbeds that lie apart find the same culprit, in layouts that both may boot."""
    question = replace(bisection(12), others={"apu2": NOISY})
    lab = paper(4, 12, 7, apart={"apu2": 0.04})
    evidence = Evidence()
    for revision in ("r0", "r12"):
        evidence = lab.with_built(evidence, revision)
    done = play_together(question, lab, evidence, builders=2)

    assert isinstance(done.finding, Culprit)
    assert done.finding.revision == "r7"
    assert {visit.testbed for visit in done.visits if visit.layout} == {"apu", "apu2"}


def test_without_proof_it_ends_at_once_and_names_nobody() -> None:
    """The search for comparisons with others stops at 0.99, before any boot of a proof."""
    plain = Noise(0.006, 0.0)
    lab = paper(1, 16, 9, plain)
    evidence = lab.with_built(lab.with_built(Evidence(), "r0"), "r16")
    done = play(bisection(16, plain), lab, evidence, verify=False)
    proved = rehearse(bisection(16, plain), paper(1, 16, 9, plain))

    assert isinstance(done.finding, Suspects)
    assert done.finding.revisions == ("r9",)
    assert "none was verified" in done.finding.why
    assert done.boots < proved.boots
    assert not any(visit.why.startswith("verifies") for visit in done.visits)


# --------------------------------------------------------------------------- what is offered


def test_what_was_measured_can_be_linked_once_more() -> None:
    """The next number that is free, and what exists once more; never what was not measured."""
    line = lay_out(bisection(4), read(("r0", 0, 0.0), ("r2", 0, 0.0), ("r2", 1, 0.01)))

    assert places(line) == [("r0", 1), ("r2", 1), ("r2", 2)]


def test_a_number_that_is_taken_elsewhere_is_not_given_twice() -> None:
    """What is built or measured at this moment is offered as it is."""
    line = lay_out(bisection(4), read(("r0", 0, 0.0)))
    visit = Visit("r0", "elsewhere", layout=2)
    seen_there = places(line, Meanwhile(building={"r0#1": 60.0}, under_way=(visit,)))

    assert seen_there == [("r0", 1), ("r0", 2), ("r0", 3)]


def test_a_layout_that_failed_is_the_last_one_of_its_revision() -> None:
    """The linker would fail again; the ordinary kernel is measured as before."""
    evidence = replace(read(("r0", 0, 0.0), ("r4", 0, 0.0)), skipped={"r0#1": "no such option"})
    line = lay_out(bisection(4), evidence)

    assert places(line) == [("r4", 1)]
    assert line.at[0] is not None


def test_a_linker_that_takes_no_orders_is_asked_no_more() -> None:
    """Two layouts of one identity are one image, and would be taken for two."""
    boots = (("1", 0), ("2", 1))
    same = tuple(Reading(i, "r0", "same", {LEAD: 14.0}, layout=layout) for i, layout in boots)
    line = lay_out(bisection(4), Evidence(same))

    assert places(line) == [("r0", 1)]
    assert len(line.images) == 1


def test_layouts_are_images_of_one_place() -> None:
    """Each has a level of its own, whether or not their kernels are known by identity."""
    named = read(("r2", 0, 0.0), ("r2", 1, 0.02), ("r2", 1, 0.03))
    bare = Evidence(tuple(replace(reading, identity="") for reading in named.readings))
    for evidence in (named, bare):
        line = lay_out(bisection(4), evidence)
        assert [(image.position, len(image.ln_pps)) for image in line.images] == [(2, 1), (2, 2)]
        assert place_of(line, 2).boots == 1
        assert len(layouts.of_place(line, place_of(line, 2))) == 3


def test_readings_of_a_revision_are_those_of_its_ordinary_kernel() -> None:
    """A night and a retest know nothing of layouts."""
    evidence = read(("r2", 0, 0.0), ("r2", 1, 0.02))

    assert [reading.layout for reading in evidence.of("r2")] == [0]


def test_twins_share_their_layouts() -> None:
    """Commits with one kernel are one place, whichever of them was linked anew."""
    boots = (("1", "r1", "k", 0), ("2", "r2", "k", 0), ("3", "r2", "k in order 1", 1))
    readings = tuple(
        Reading(i, name, identity, {LEAD: 14.0}, layout=layout)
        for i, name, identity, layout in boots
    )
    line = lay_out(bisection(4), Evidence(readings))

    assert place_of(line, 1) is place_of(line, 2)
    assert len(layouts.of_place(line, place_of(line, 1))) == 3
    assert places(line) == [("r2", 1), ("r1", 2)]


def test_names_tell_layouts_apart() -> None:
    """The ordinary kernel has the name of its revision."""
    assert kernel_name("r1") == "r1"
    assert kernel_name("r1", 2) == "r1#2"


# -------------------------------------------------------------------------------- the proof


def test_the_proof_asks_for_a_layout_that_is_built_before_a_new_one() -> None:
    """A kernel in the cache costs nothing."""
    evidence = read(("r1", 0, 0.0), ("r1", 1, 0.0))
    built = Kernel("r1", "", "", "r1 in order 5", "key", "", 0, 0.0, 600.0, layout=5)
    line = lay_out(bisection(4), replace(evidence, kernels={"r1#5": built}))

    assert layouts.next_of(line, place_of(line, 1), 3, QUIET).layout == 5
    assert layouts.next_of(line, place_of(line, 1), 2, QUIET).layout == 0


def test_more_layouts_are_wanted_where_images_scatter_more() -> None:
    """As many as make the difference clear, and never more than can be linked."""

    def wanted(image: float, most: int = 20) -> int:
        line = lay_out(bisection(4, Noise(0.002, image), most), Evidence())
        return layouts.wanted(line, abs(DROP))

    assert wanted(0.001) == 1
    assert wanted(0.001) < wanted(0.016) < wanted(0.03)
    assert wanted(0.03, most=3) == 4


@settings(max_examples=30, deadline=None)
@given(
    offs=st.lists(st.floats(-0.03, 0.03), min_size=2, max_size=6),
    image=st.floats(0.002, 0.03),
)
def test_an_effect_is_as_sure_as_the_offsets_of_its_images_allow(
    offs: list[float], image: float
) -> None:
    """More image noise widens the interval and never makes a difference surer."""
    boots = [("r1", i, off) for i, off in enumerate(offs)]
    boots += [("r2", i, off + DROP) for i, off in enumerate(reversed(offs))]

    def found(noise: float) -> tuple[float, float, float]:
        line = lay_out(bisection(4, Noise(0.002, noise)), read(*boots))
        effect = layouts.difference(line, place_of(line, 1), place_of(line, 2))
        assert effect is not None
        return effect.ln_ratio, effect.high - effect.low, effect.p

    less, more = found(image), found(2 * image)
    assert less[0] == pytest.approx(DROP)
    assert more[0] == pytest.approx(DROP)
    assert less[1] < more[1]
    assert less[2] <= more[2]


def test_an_image_that_was_never_booted_shows_no_effect() -> None:
    """There is nothing to hold against each other."""
    line = lay_out(bisection(4), read(("r1", 0, 0.0)))

    assert layouts.difference(line, place_of(line, 1), place_of(line, 2)) is None


def test_the_same_facts_give_the_same_move_in_any_order() -> None:
    """With layouts among them."""
    offs = [("r0", 0, 0.01), ("r4", 0, -0.06), ("r2", 0, -0.02), ("r2", 1, 0.01), ("r2", 2, 0.0)]
    evidence = read(*offs)
    turned = replace(evidence, readings=evidence.readings[::-1])
    question = bisection(4)

    one, other = (next_move(question, facts, Prices()) for facts in (evidence, turned))
    assert isinstance(one, Visit)
    assert isinstance(other, Visit)
    assert (one.revision, one.layout, one.why) == (other.revision, other.layout, other.why)
