"""Every question has a next move."""

from __future__ import annotations

import pytest

from netbisect.bisect.model import (
    Bisection,
    Candidate,
    Comparison,
    Evidence,
    Night,
    NightDone,
    Noise,
    Prices,
    Profiled,
    Profiling,
    Question,
    Reading,
    Unfinished,
    Visit,
)
from netbisect.bisect.plan import next_move

NIGHT = Night("main", "apu", "r9", ("inet4",), boots=3)
COMPARISON = Comparison("main", "apu", "r1", "r9", ("inet4",), "inet4", -0.1)
BISECTION = Bisection(
    "main", "apu", "r1", (Candidate("r5"), Candidate("r9")), ("inet4",), "inet4", -0.1, Noise()
)


def boots(count: int, revision: str = "r9", *, fresh: bool = True) -> tuple[Reading, ...]:
    return tuple(Reading(f"b{i}", revision, "", {"inet4": 14.0}, fresh=fresh) for i in range(count))


@pytest.mark.parametrize("question", [NIGHT, COMPARISON, BISECTION])
def test_every_question_begins_with_a_visit(question: Question) -> None:
    move = next_move(question, Evidence(), Prices())

    assert isinstance(move, Visit)
    assert move.why


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_night_boots_as_often_as_asked(done: int) -> None:
    move = next_move(NIGHT, Evidence(boots(done)), Prices())

    assert move == Visit("r9", f"boot {done + 1} of 3 tonight")


def test_a_night_is_done_when_it_has_its_boots() -> None:
    assert next_move(NIGHT, Evidence(boots(3)), Prices()) == NightDone(3)


def test_a_night_counts_its_own_boots_only() -> None:
    others = boots(3, "r8") + boots(3, fresh=False)

    assert next_move(NIGHT, Evidence(others), Prices()) == Visit("r9", "boot 1 of 3 tonight")


def test_a_night_with_a_revision_that_does_not_work_is_unfinished() -> None:
    skipped = Evidence(boots(1), skipped={"r9": "it panics"})

    assert next_move(NIGHT, skipped, Prices()) == Unfinished("r9 cannot be measured: it panics")


def test_what_was_measured_before_it_failed_is_a_night() -> None:
    skipped = Evidence(boots(3), skipped={"r9": "it panics"})

    assert next_move(NIGHT, skipped, Prices()) == NightDone(3)


PROFILING = Profiling("main", "apu", ("r5", "r9"), ("inet4",), 1e6)


def test_profiles_are_taken_one_after_the_other() -> None:
    """One visit for each; what was visited before is not visited again."""
    first = next_move(PROFILING, Evidence(), Prices())
    second = next_move(PROFILING, Evidence(profiled={"r5": ""}), Prices())
    last = next_move(PROFILING, Evidence(profiled={"r5": "", "r9": ""}), Prices())

    assert isinstance(first, Visit)
    assert isinstance(second, Visit)
    assert (first.revision, second.revision) == ("r5", "r9")
    assert last == Profiled(("r5", "r9"))


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(profiled={"r9": "24 samples are too few"}),
        Evidence(profiled={"r5": ""}, skipped={"r9": "24 samples are too few"}),
    ],
)
def test_without_one_side_there_is_nothing_to_compare(evidence: Evidence) -> None:
    """So the other one is not visited any more."""
    move = next_move(PROFILING, evidence, Prices())

    assert isinstance(move, Unfinished)
    assert "r9: 24 samples are too few" in move.why


def test_a_profile_that_was_taken_outlives_later_trouble() -> None:
    evidence = Evidence(profiled={"r5": "", "r9": ""}, skipped={"r9": "does not boot any more"})

    assert next_move(PROFILING, evidence, Prices()) == Profiled(("r5", "r9"))
