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
