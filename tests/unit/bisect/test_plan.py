"""Next moves of jobs."""

from __future__ import annotations

import pytest

from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.jobs import NightlyJob, ProfileJob
from netbisect.bisect.model.results import ProfileResult, Trial, Unfinished
from netbisect.bisect.plan import next_move

NIGHT = NightlyJob("main", "apu", "r9", ("inet4",), boots=3)


def boots(count: int) -> tuple[Observation, ...]:
    return tuple(Observation(f"b{i}", "r9", "", {"inet4": 14.0}) for i in range(count))


@pytest.mark.parametrize("done", [0, 1, 2])
def test_nightly_job_boots_the_requested_number(done: int) -> None:
    move = next_move(NIGHT, Evidence(boots(done)), Prices())

    assert move == Trial("r9", f"boot {done + 1} of 3 tonight")
    skipped = Evidence(boots(done), skipped={"r9": "it panics"})
    assert next_move(NIGHT, skipped, Prices()) == Unfinished("r9 cannot be measured: it panics")


PROFILING = ProfileJob("main", "apu", ("r5", "r9"), ("inet4",), 1e6)


def test_profiles_are_planned_in_order() -> None:
    first, second, last = (
        next_move(PROFILING, Evidence(profiled=dict.fromkeys(done, "")), Prices())
        for done in ((), ("r5",), ("r5", "r9"))
    )

    why = "to see in which functions it spends its time"
    assert (first, second) == (Trial("r5", why), Trial("r9", why))
    assert last == ProfileResult(("r5", "r9"))


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(profiled={"r9": "24 samples are too few"}),
        Evidence(profiled={"r5": ""}, skipped={"r9": "24 samples are too few"}),
    ],
)
def test_failed_profile_is_unfinished(evidence: Evidence) -> None:
    move = next_move(PROFILING, evidence, Prices())

    assert isinstance(move, Unfinished)
    assert "r9: 24 samples are too few" in move.why
