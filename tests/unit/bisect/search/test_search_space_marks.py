"""Search: commits marked by users."""

from __future__ import annotations

import pytest
from search_fixtures import PRICES, bisection, evidence_of, simulated

from netbisect.bisect.model.marks import CommitMark, MarkVerdict
from netbisect.bisect.model.results import Culprit, Trial
from netbisect.bisect.search.engine import next_move
from netbisect.bisect.search.posterior import posterior_of

ENDS = evidence_of({"r0": [14.0, 14.001, 14.002], "r8": [13.95, 13.951, 13.952]})


def marks(**verdicts: str) -> list[CommitMark]:
    return [
        CommitMark(revision, MarkVerdict(verdict), "by hand", "ann", 0.0)
        for revision, verdict in verdicts.items()
    ]


def test_candidates_contradicted_by_consistent_marks_are_unlikely() -> None:
    posterior = posterior_of(bisection(8), ENDS.with_marks(marks(r3="good", r5="bad")))

    assert posterior.chances["r4"] + posterior.chances["r5"] > 0.9
    assert posterior.chances["r3"] + posterior.chances["r6"] < 0.01
    plain = posterior_of(bisection(8), ENDS)
    contradicting = posterior_of(bisection(8), ENDS.with_marks(marks(r6="good", r2="bad")))
    assert contradicting.chances == pytest.approx(plain.chances)


def test_marks_do_not_replace_verification() -> None:
    """r4 and its parent are marked, and are booted nevertheless."""
    move = next_move(bisection(8), ENDS.with_marks(marks(r3="good", r4="bad")), PRICES)

    assert isinstance(move, Trial)
    assert move.revision in {"r3", "r4"}


@pytest.mark.long
@pytest.mark.parametrize(
    "verdicts", [{"r3": "good", "r6": "bad"}, {"r6": "good"}, {"r2": "bad"}, {"r3": "skip"}]
)
def test_measurements_outweigh_a_wrong_mark(verdicts: dict[str, str]) -> None:
    simulation = simulated(1, 8, 5, drop=0.1, marks=marks(**verdicts))

    assert isinstance(simulation.result, Culprit)
    assert simulation.result.revision == "r5"
    assert not {trial.revision for trial in simulation.trials} & {
        revision for revision, verdict in verdicts.items() if verdict == "skip"
    }


def test_the_last_mark_counts() -> None:
    both = [*marks(r3="skip"), *marks(r3="none")]

    assert ENDS.with_marks(both[:1]).skipped == {"r3": "marked skip by ann: by hand"}
    assert not ENDS.with_marks(both).skipped
