"""A search measures what teaches most for its price, and names nobody it has not proved."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.belief import believe
from netbisect.bisect.line import lay_out
from netbisect.bisect.model import (
    Bisection,
    Candidate,
    Culprit,
    Evidence,
    Kernel,
    Noise,
    NotReproduced,
    Prices,
    Reading,
    Suspects,
    Unfinished,
    Visit,
)
from netbisect.bisect.rehearse import PaperLab, Rehearsal, play
from netbisect.bisect.search import next_move
from netbisect.bisect.verify import hidden

SCENARIOS = ("inet4", "pf")
LEAD = "inet4"
PRICES = Prices()


def names(count: int) -> list[str]:
    return [f"r{i}" for i in range(count + 1)]


def bisection(
    count: int, drop: float = 0.05, noise: Noise | None = None, weights: Iterable[float] = ()
) -> Bisection:
    weight = dict(enumerate(weights, 1))
    return Bisection(
        "main",
        "apu",
        "r0",
        tuple(Candidate(f"r{i}", weight.get(i, 1.0)) for i in range(1, count + 1)),
        SCENARIOS,
        LEAD,
        math.log(1 - drop),
        noise or Noise(0.009, 0.0),
    )


def rehearse(
    seed: int,
    count: int = 32,
    culprit: int | None = None,
    *,
    drop: float = 0.05,
    noise: Noise | None = None,
    outliers: float = 0.0,
    broken: Iterable[int] = (),
    twins: Iterable[tuple[int, int]] = (),
    retest: int = 4,
) -> Rehearsal:
    """A search with both ends built and measured before; culprit None: nothing is slow."""
    noise = noise or Noise(0.009, 0.0)
    slow_from = count + 1 if culprit is None else culprit
    levels = {f"r{i}": 14 + math.log(1 - drop) * (i >= slow_from) for i in range(count + 1)}
    lab = PaperLab(
        levels,
        noise,
        np.random.default_rng(seed),
        outliers,
        broken={f"r{i}": "it does not build" for i in broken},
        twins={f"r{i}": f"r{j}" for i, j in twins},
    )
    evidence = Evidence()
    for end in ("r0", f"r{count}"):
        evidence = lab.with_built(evidence, end)
        for _ in range(retest if end in evidence.kernels else 0):
            evidence = lab.boot(evidence, end, SCENARIOS, fresh=False)
    return play(bisection(count, drop, noise), lab, evidence)


def fresh_boots(played: Rehearsal, revision: str) -> int:
    return sum(reading.fresh for reading in played.evidence.of(revision))


# ------------------------------------------------------------------------ what it comes to


@pytest.mark.parametrize("culprit", [1, 2, 9, 16, 31, 32])
def test_the_culprit_is_found_wherever_it_is(culprit: int) -> None:
    played = rehearse(culprit, culprit=culprit)

    assert isinstance(played.finding, Culprit)
    assert played.finding.revision == f"r{culprit}"
    assert played.finding.parent == f"r{culprit - 1}"
    assert played.finding.chance >= 0.99


@pytest.mark.parametrize("culprit", range(1, 20, 3))
def test_a_name_comes_only_when_it_is_proved(culprit: int) -> None:
    """Three fresh boots of culprit and parent, clearly apart by half the effect and more."""
    played = rehearse(culprit, 20, culprit)

    assert isinstance(played.finding, Culprit)
    lead = played.finding.effects[0]
    assert lead.scenario == LEAD
    assert [effect.scenario for effect in played.finding.effects] == list(SCENARIOS)
    assert min(lead.good_boots, lead.bad_boots) >= 3
    assert lead.good_boots == fresh_boots(played, played.finding.parent)
    assert lead.bad_boots == fresh_boots(played, played.finding.revision)
    assert lead.p < 0.01
    assert lead.ln_ratio < math.log(0.95) / 2


def test_it_is_as_often_right_as_it_claims() -> None:
    """Of 150 seeded searches for 5 and 3.2 %, with stray boots, none names the wrong one."""
    endings = Counter(
        "wrong"
        if isinstance(played.finding, Culprit) and played.finding.revision != f"r{culprit}"
        else type(played.finding).__name__
        for seed in range(150)
        for culprit in [1 + seed * 7 % 32]
        for played in [rehearse(seed, culprit=culprit, drop=(0.05, 0.032)[seed % 2], outliers=0.02)]
    )

    assert endings["wrong"] <= 1
    assert endings["Culprit"] >= 144


def test_image_noise_makes_it_careful_not_wrong() -> None:
    """Images that lie off by 1 % hide some drops of 5 % among a few neighbours; none is wrong."""
    noise = Noise(0.009, 0.01)
    played = [
        (f"r{1 + seed % 32}", rehearse(seed, culprit=1 + seed % 32, noise=noise).finding)
        for seed in range(40)
    ]
    named = [(culprit, one) for culprit, one in played if isinstance(one, Culprit)]
    ranges = [(culprit, one) for culprit, one in played if isinstance(one, Suspects)]

    assert sum(one.revision != culprit for culprit, one in named) <= 1
    assert sum(culprit not in one.revisions for culprit, one in ranges) <= 1
    assert len(named) >= 8
    assert len(named) + len(ranges) >= 38
    assert max(len(one.revisions) for _, one in ranges) <= 5


def test_when_nothing_is_slow_nobody_is_named() -> None:
    """80 seeded searches after a retest that was wrong: not one name, and mostly no build."""
    played = [
        rehearse(seed, drop=(0.11, 0.05)[seed % 2], outliers=0.02, retest=0) for seed in range(80)
    ]

    assert not [one for one in played if isinstance(one.finding, Culprit | Suspects)]
    assert sum(isinstance(one.finding, NotReproduced) for one in played) >= 76
    assert np.mean([one.builds for one in played]) < 0.5


def read(revision: str, *levels: float) -> list[Reading]:
    """Fresh boots of a kernel of its own."""
    return [
        Reading(f"{revision} {i} {level}", revision, f"kernel of {revision}", {LEAD: level})
        for i, level in enumerate(levels)
    ]


def test_one_boot_astray_does_not_make_two_ends_alike() -> None:
    """Either end is booted twice before it is said that nothing changed, where boots scatter."""
    question = bisection(8, drop=0.1)
    once = Evidence((*read("r0", 13.9), *read("r8", 13.9)))
    twice = Evidence((*once.readings, *read("r0", 13.901)))
    both = Evidence((*twice.readings, *read("r8", 13.899)))
    first, second = (next_move(question, facts, PRICES) for facts in (once, twice))

    assert isinstance(first, Visit)
    assert first.revision == "r0"
    assert isinstance(second, Visit)
    assert second.revision == "r8"
    assert isinstance(next_move(question, both, PRICES), NotReproduced)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-4, 0), min_size=9, max_size=9))
def test_a_range_is_the_shortest_that_holds_95_percent(powers: list[float]) -> None:
    """Of two commits at least, for one alone would be a name without a proof; and of few."""
    question = bisection(40, noise=Noise(0.002, 0.004))
    fast = [reading for i in range(15) for reading in read(f"r{i}", 14.0)]
    slow = [reading for i in range(23, 41) for reading in read(f"r{i}", 13.95)]
    line = lay_out(question, Evidence((*fast, *slow)))
    chances = np.zeros(41)
    chances[15:24] = np.power(10.0, powers)
    chances /= chances.sum()
    held = {
        (start, stop): chances[start:stop].sum()
        for start in range(1, 41)
        for stop in range(start + 2, 42)
    }
    shortest = min(stop - start for (start, stop), mass in held.items() if mass >= 0.95)
    found = hidden(line, chances, believe(question, line.evidence))

    assert (found is None) == (shortest > 5)
    if found is not None:
        positions = [line.revisions.index(name) for name in found.revisions]
        assert positions == list(range(positions[0], positions[0] + shortest))
        assert held[positions[0], positions[-1] + 1] >= 0.95 - 1e-9


def test_a_large_drop_costs_hardly_more_than_it_must() -> None:
    """log2 n builds, and the boots of the proof."""
    played = [rehearse(seed, 64, 1 + seed * 5 % 64, drop=0.11) for seed in range(20)]

    assert np.mean([one.builds for one in played]) <= 6.1
    assert np.mean([one.boots for one in played]) <= 11


def test_a_good_prior_saves_builds() -> None:
    lab = PaperLab(
        {name: 14 - 0.12 * (i >= 40) for i, name in enumerate(names(64))},
        Noise(0.009),
        np.random.default_rng(1),
    )
    weights = [20.0 if i % 10 == 0 else 0.2 for i in range(1, 65)]

    played = play(bisection(64, 0.11, weights=weights), lab)

    assert isinstance(played.finding, Culprit)
    assert played.finding.revision == "r40"
    assert played.builds <= 6  # the two ends among them


def test_a_gain_can_be_searched_for_as_well() -> None:
    """The sign of the effect is the only difference."""
    question = bisection(8, drop=-0.08)
    lab = PaperLab(
        {name: 14 + 0.077 * (i >= 5) for i, name in enumerate(names(8))},
        Noise(0.009),
        np.random.default_rng(2),
    )

    found = play(question, lab).finding

    assert isinstance(found, Culprit)
    assert found.revision == "r5"


# ---------------------------------------------------------------------------------- skips


@given(st.integers(1, 12), st.sets(st.integers(1, 11), max_size=6), st.integers(0, 99))
@settings(max_examples=40)
def test_what_is_skipped_is_not_visited_and_a_range_holds_the_culprit(
    culprit: int, broken: set[int], seed: int
) -> None:
    played = rehearse(seed, 12, culprit, drop=0.11, broken=broken)
    skipped = {f"r{i}" for i in broken}

    assert not skipped & {visit.revision for visit in played.visits}
    match played.finding:
        case Culprit(revision=revision):
            assert revision == f"r{culprit}"
        case Suspects(revisions=revisions):
            assert f"r{culprit}" in revisions
            # No wider than it must be: all but the last of them cannot be measured.
            assert set(revisions[:-1]) <= skipped
            numbers = [int(name[1:]) for name in revisions]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
        case _:
            pytest.fail(f"{played.finding}")


def test_suspects_are_proved_by_their_neighbours() -> None:
    played = rehearse(3, 16, 8, drop=0.11, broken=[7, 8, 9])

    assert isinstance(played.finding, Suspects)
    assert played.finding.revisions == ("r7", "r8", "r9", "r10")
    assert "3 of them cannot be measured" in played.finding.why
    assert "it does not build" in played.finding.why
    assert min(fresh_boots(played, "r6"), fresh_boots(played, "r10")) >= 3


@pytest.mark.parametrize(("broken", "end"), [(32, "bad"), (0, "good")])
def test_an_end_that_cannot_be_measured_leaves_it_unfinished(broken: int, end: str) -> None:
    """If the culprit is next to it; otherwise the search does without that end."""
    question = bisection(32, 0.11)
    culprit = 32 if end == "bad" else 1
    lab = PaperLab(
        {name: 14 - 0.12 * (i >= culprit) for i, name in enumerate(names(32))},
        Noise(0.009),
        np.random.default_rng(4),
        broken={f"r{broken}": "it does not build"},
    )
    evidence = Evidence((), {}, {})
    for _ in range(4):
        for i in (0, 32):
            if i != broken:
                evidence = lab.boot(lab.with_built(evidence, f"r{i}"), f"r{i}", SCENARIOS)
            else:
                level = lab.levels[f"r{i}"]
                reading = Reading(f"old {_}", f"r{i}", "", {LEAD: level + 1e-3 * _}, fresh=False)
                evidence = Evidence(
                    (*evidence.readings, reading), evidence.kernels, {f"r{i}": "it panics"}
                )

    found = play(question, lab, evidence).finding

    assert isinstance(found, Unfinished)
    assert found.why == f"the {end} end cannot be measured: it panics"


def test_without_anything_to_measure_it_is_unfinished() -> None:
    skipped = dict.fromkeys(names(3), "the tree does not build")

    move = next_move(bisection(3), Evidence(skipped=skipped), PRICES)

    assert isinstance(move, Unfinished)
    assert "none of the revisions can be measured" in move.why


def test_neighbours_of_a_failure_are_avoided() -> None:
    """Breakage comes in stretches: the middle would be next, but it failed."""
    both = evidence_of({"r0": [14.0] * 4, "r32": [13.95] * 4})
    failed = Evidence(both.readings, both.kernels, {"r16": "it does not build"})

    first, then = (next_move(bisection(32), known, PRICES) for known in (both, failed))

    assert isinstance(first, Visit)
    assert isinstance(then, Visit)
    assert first.revision == "r16"
    assert abs(int(then.revision[1:]) - 16) >= 2


def test_boots_that_never_give_a_sample_are_given_up() -> None:
    """After three in vain the revision counts as one that cannot be measured."""
    known = evidence_of({"r0": [14.0] * 4, "r32": [13.95] * 4})
    silent = tuple(Reading(f"silent {i}", "r16", "", {"pf": 12.0}) for i in range(3))

    again = next_move(bisection(32), Evidence((*known.readings, *silent[:2])), PRICES)
    given_up = next_move(bisection(32), Evidence((*known.readings, *silent)), PRICES)

    assert isinstance(again, Visit)
    assert isinstance(given_up, Visit)
    assert again.revision == "r16" != given_up.revision


# ---------------------------------------------------------------------- identical kernels


def evidence_of(levels: dict[str, list[float]], **identities: str) -> Evidence:
    readings = [
        Reading(f"{name} {i}", name, identities.get(name, ""), {LEAD: x})
        for name, values in levels.items()
        for i, x in enumerate(values)
    ]
    kernels = {
        name: Kernel(name, "ROUTER", "amd64", identity, name, name, 1, 0.0, 60.0)
        for name, identity in identities.items()
    }
    return Evidence(tuple(readings), kernels)


@given(st.integers(1, 16), st.integers(0, 99), st.integers(2, 4))
@settings(max_examples=30)
def test_identical_kernels_are_not_booted_for_their_own_sake(
    culprit: int, seed: int, run: int
) -> None:
    """Only every few commits change the kernel: each kernel is booted under one name."""
    twins = [
        (i, first)
        for i in range(17)
        if (first := culprit if i >= culprit and i < culprit + run else i - i % run) < i
        and (first >= culprit) == (i >= culprit)
    ]
    played = rehearse(seed, 16, culprit, drop=0.11, twins=twins)
    by_kernel: dict[str, set[str]] = {}
    for visit in played.visits:
        identity = played.evidence.kernels[visit.revision].identity
        by_kernel.setdefault(identity, set()).add(visit.revision)

    assert all(len(revisions) == 1 for revisions in by_kernel.values())
    assert isinstance(played.finding, Culprit)
    assert played.finding.revision == f"r{culprit}"


def test_a_parent_with_a_measured_kernel_is_not_booted_again() -> None:
    """r2 builds what r1 builds, so boots of r1 prove r3 against its parent r2."""
    known = evidence_of(
        {"r1": [14.0, 14.001, 14.002], "r3": [13.95, 13.951, 13.952]}, r1="a", r2="a", r3="b"
    )

    found = next_move(bisection(4), known, PRICES)

    assert isinstance(found, Culprit)
    assert (found.revision, found.parent) == ("r3", "r2")


def test_equal_ends_need_no_boot() -> None:
    move = next_move(bisection(4), evidence_of({}, r0="a", r4="a"), PRICES)

    assert isinstance(move, NotReproduced)
    assert "build the kernel of the good end" in move.why


# ------------------------------------------------------------------------------ each move

FACTS = st.lists(
    st.tuples(
        st.sampled_from(names(6)), st.sampled_from([14.0, 13.99, 13.95, 13.94, 13.9]), st.booleans()
    ),
    max_size=14,
)


def readings_of(facts: Iterable[tuple[str, float, bool]]) -> tuple[Reading, ...]:
    return tuple(
        Reading(f"b{i}", name, "", {LEAD: x + i * 1e-4}, fresh)
        for i, (name, x, fresh) in enumerate(facts)
    )


@given(FACTS, st.sets(st.sampled_from(names(6)), max_size=3), st.randoms(use_true_random=False))
def test_the_same_facts_give_the_same_move_in_any_order(facts, skips, shuffler) -> None:  # noqa: ANN001
    readings = readings_of(facts)
    skipped = dict.fromkeys(sorted(skips), "it does not build")
    shuffled = list(readings)
    shuffler.shuffle(shuffled)
    move = next_move(bisection(6), Evidence(readings, skipped=skipped), PRICES)

    assert move == next_move(bisection(6), Evidence(tuple(shuffled), skipped=skipped), PRICES)


@given(FACTS, st.sets(st.sampled_from(names(6)), max_size=3))
def test_every_move_is_allowed(facts, skips) -> None:  # noqa: ANN001
    """A visit goes to an end or a candidate that is not skipped; a name has its proof."""
    readings = readings_of(facts)
    skipped = dict.fromkeys(skips, "it does not build")
    evidence = Evidence(readings, skipped=skipped)
    move = next_move(bisection(6), evidence, PRICES)

    assert not isinstance(move, Visit) or move.revision in set(names(6)) - skips
    assert not isinstance(move, Visit) or move.why
    assert move.belief == believe(bisection(6), evidence)  # type: ignore[union-attr] - all of a search have one
    if isinstance(move, Culprit):
        for name in (move.revision, move.parent):
            assert sum(r.fresh for r in evidence.of(name)) >= 3


def test_it_begins_with_the_good_end() -> None:
    """A level says nothing without another; then the bad end, which is built already."""
    kernels = evidence_of({}, r0="a", r32="b").kernels
    first = next_move(bisection(32), Evidence(kernels=kernels), PRICES)
    known = evidence_of({"r0": [14.0]}, r0="a", r32="b")
    second = next_move(bisection(32), known, PRICES)

    assert isinstance(first, Visit)
    assert isinstance(second, Visit)
    assert (first.revision, first.why) == ("r0", "measures the good end")
    assert (second.revision, second.why) == ("r32", "measures the bad end")


def test_a_clear_question_is_split_in_two_halves() -> None:
    known = evidence_of({"r0": [14.0] * 3, "r32": [13.95] * 3})

    move = next_move(bisection(32), known, PRICES)

    assert isinstance(move, Visit)
    assert (move.revision, move.why) == ("r16", "splits what is left in two halves")


def test_a_built_kernel_is_preferred_to_the_middle() -> None:
    """The nightly line has built r10: a third of the range at a twentieth of the price."""
    known = evidence_of({"r0": [14.0] * 3, "r32": [13.95] * 3}, r10="nightly")

    cheap = next_move(bisection(32), known, Prices(build=3600, boot=120, run=30))
    free = next_move(bisection(32), known, Prices(build=0, boot=120, run=30))

    assert isinstance(cheap, Visit)
    assert isinstance(free, Visit)
    assert (cheap.revision, free.revision) == ("r10", "r16")
    assert cheap.why == "splits what is left 31 to 69"


def test_an_end_is_measured_again_when_that_is_what_is_missing() -> None:
    """One boot of the good end, torn between both levels: is it r1, or nobody?"""
    known = evidence_of({"r0": [13.975], "r1": [13.955] * 4, "r2": [13.95] * 4})

    move = next_move(bisection(2, noise=Noise(0.02)), known, PRICES)

    assert isinstance(move, Visit)
    assert (move.revision, move.why) == ("r0", "measures the good end again")


def test_a_likely_culprit_goes_to_the_proof() -> None:
    """Inherited boots are enough to suspect, not to name."""
    known = evidence_of({"r2": [14.0, 14.001, 13.999], "r3": [13.95, 13.951, 13.949]})
    inherited = Evidence(
        tuple(Reading(r.boot, r.revision, "", r.ln_pps, fresh=False) for r in known.readings)
    )

    move = next_move(bisection(6), inherited, PRICES)
    found = next_move(bisection(6), known, PRICES)

    assert isinstance(move, Visit)
    assert (move.revision, move.why) == ("r2", "verifies r3 against its parent r2")
    assert isinstance(found, Culprit)


def test_the_proof_measures_in_turns() -> None:
    question = bisection(6, drop=0.03, noise=Noise(0.02))
    lab = PaperLab(
        {name: 14 - 0.03 * (i >= 3) for i, name in enumerate(names(6))},
        question.noise,
        np.random.default_rng(5),
    )
    evidence = Evidence()
    for name in ("r2", "r3"):
        evidence = lab.with_built(evidence, name)
        for _ in range(50):
            evidence = lab.boot(evidence, name, SCENARIOS, fresh=False)

    played = play(question, lab, evidence)
    turns = [visit.revision for visit in played.visits]

    assert isinstance(played.finding, Culprit)
    assert len(turns) > 8
    assert turns[:9] == ["r2", "r3", "r3", "r2", "r2", "r3", "r3", "r2", "r2"]


def proof_that_fails(good: str, bad: str, old: int) -> Evidence:
    """So many inherited boots of each say that they differ, ten fresh ones say nothing."""
    inherited = [
        Reading(f"old {name} {i}", name, "", {LEAD: level + 1e-3 * (i % 3)}, fresh=False)
        for name, level in ((good, 14.0), (bad, 13.9))
        for i in range(old)
    ]
    fresh = [
        Reading(f"new {name} {i}", name, "", {LEAD: 13.98 + 0.02 * math.sin(i)})
        for name in (good, bad)
        for i in range(10)
    ]
    return Evidence((*inherited, *fresh))


def test_a_proof_that_fails_names_nobody() -> None:
    move = next_move(bisection(6), proof_that_fails("r2", "r3", 60), PRICES)

    assert isinstance(move, Visit | Unfinished)
    assert not (isinstance(move, Visit) and move.why.startswith("verifies"))


def test_a_failed_proof_is_said_when_nothing_else_is_left() -> None:
    """With a single candidate there is nothing else to measure."""
    move = next_move(bisection(1), proof_that_fails("r0", "r1", 90), PRICES)

    assert isinstance(move, Unfinished)
    assert move.why == "boots of r1 and of its parent do not differ as the search expects"


def test_another_kernel_of_a_side_is_measured_when_offsets_hide_the_rest() -> None:
    """Between r4 and r5 all is said; what is missing is how far images lie from each other."""
    played = rehearse(0, 16, 5, drop=0.05, noise=Noise(0.009, 0.01))
    reasons = {visit.why for visit in played.visits}

    assert reasons & {f"measures one more kernel of the {side} side" for side in ("good", "bad")}


def test_a_lab_that_costs_nothing_is_still_a_lab() -> None:
    known = evidence_of({"r0": [14.0] * 3, "r32": [13.95] * 3})

    move = next_move(bisection(32), known, Prices(build=0, boot=0, run=0))

    assert isinstance(move, Visit)
    assert move.revision == "r16"


def test_a_search_has_a_limit() -> None:
    """Noise that is five times the drop would take boots for ever."""
    played = rehearse(6, 8, 4, drop=0.02, noise=Noise(0.1, 0.0), retest=1)

    assert isinstance(played.finding, Unfinished)
    assert played.boots <= 6 * (60 + 4 * 4)


def test_a_thousand_candidates_are_no_matter() -> None:
    played = rehearse(7, 1000, 777, drop=0.11)

    assert isinstance(played.finding, Culprit)
    assert played.finding.revision == "r777"
    assert played.builds <= 12
