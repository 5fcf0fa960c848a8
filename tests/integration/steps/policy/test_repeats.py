"""Repeated nightly jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_facts import intend, measured

from netbisect.bisect.model.entities import Commit, Fact, Kernel
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import NightlyResult, Unfinished
from netbisect.steps.policy.repeats import is_repeat, repeat_night
from netbisect.steps.scheduler.followups import PRIORITY_NIGHT, Followups, open_nights
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.store.db.records import JobRecord, Outcome
from netbisect.store.ledger import Ledger

TESTBED = "c2558"
DAY = 86400.0
START = 1.8e9


class Lab:
    """Follow-ups of nightly jobs for nine commits, with a clock that the test sets."""

    def __init__(self, place: Path, ledger: Ledger, commits: list[Commit]) -> None:
        settings, self.lab = load(place / control.SETTINGS)
        self.settings = replace(settings, night=replace(settings.night, against_itself=14, boots=5))
        self.ledger = ledger
        self.followups = Followups(self.settings, self.lab)
        self.line = [commit.revision for commit in commits[-9:]]
        ledger.commits.learn(commits[-9:], "main")
        self.now = START
        ledger.clock = lambda: self.now
        self.measured = 0

    def open_nights(self, day: float, *testbeds: str) -> list[JobRecord]:
        """Opens nightly jobs on a day; returns all open jobs."""
        self.now = START + day * DAY
        chosen = [self.lab.testbed(name) for name in testbeds or (TESTBED,)]
        open_nights(self.ledger, self.followups.history, self.settings, chosen, ["main"])
        return self.ledger.jobs.all_open()

    def measure(self, record: JobRecord) -> list[JobRecord]:
        night = record.job
        assert isinstance(night, NightlyJob)
        self.measured += 1
        decision = intend(self.ledger, record, night.revision)
        key = f"k{self.line.index(night.revision)}"
        facts: list[Fact] = [
            Kernel(night.revision, "GENERIC", "amd64", f"i-{key}", key, "v", 1, START, 60.0)
        ]
        for i in range(night.boots):
            boot, rates = f"b{self.measured}-{i}", dict.fromkeys(night.scenarios, 1e6)
            facts += measured(boot, TESTBED, key, night.revision, self.now, rates)
        for fact in facts:
            self.ledger.facts.record(fact, decision.id)
        self.ledger.actions.finish(decision.id, Outcome.OK)
        return self.followups.conclude(self.ledger, record, NightlyResult(night.boots))


@pytest.fixture
def lab(service_folder: Path, service_commits: list[Commit], empty_ledger: Ledger) -> Lab:
    return Lab(service_folder, empty_ledger, service_commits)


def repeats(open_now: list[JobRecord]) -> list[JobRecord]:
    return [record for record in open_now if is_repeat(record)]


def test_the_last_nightly_job_is_repeated_after_against_itself_days(lab: Lab) -> None:
    """The tolerance is half a day, and the priority lower than that of other nightly jobs."""
    [first] = lab.open_nights(0)
    lab.measure(first)
    assert lab.open_nights(13.4) == []

    [again] = lab.open_nights(13.6)

    assert again.job == first.job
    assert (again.parent, is_repeat(again), is_repeat(first)) == (first.id, True, False)
    assert again.priority < PRIORITY_NIGHT
    assert again.key.startswith(f"night:main:{TESTBED}:{lab.line[-1]}:again:2027-01-")
    lab.measure(again)
    assert lab.open_nights(27) == []
    assert len(repeats(lab.open_nights(28))) == 1


def test_a_newer_night_replaces_a_queued_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has begun stays, also at that moment; a replaced one may be measured later."""
    closing = lab.ledger.jobs.closing

    def late(record: JobRecord, *more: Any, **options: Any) -> Any:
        if record.id == begun.id and not lab.ledger.actions.of_job(record.id):
            intend(lab.ledger, begun, lab.line[0])  # as another process does now
        return closing(record, *more, **options)

    monkeypatch.setattr(lab.ledger.jobs, "closing", late)
    testbed = lab.lab.testbed(TESTBED)

    def old_night(number: int) -> JobRecord:
        night = NightlyJob("main", TESTBED, lab.line[number], testbed.scenarios, 5)
        key = f"night:main:{TESTBED}:{lab.line[number]}"
        return lab.ledger.jobs.add(night, key=key, priority=PRIORITY_NIGHT)

    begun, queued, of_other = old_night(0), old_night(1), lab.open_nights(0, "e5-2650")[-1]
    newest = lab.open_nights(1)[-1]

    assert lab.ledger.jobs.all_open() == [begun, of_other, newest]
    why = f"replaced by the night of {lab.line[-1][:12]}"
    assert lab.ledger.jobs.get(queued.id).result == Unfinished(why)
    assert lab.open_nights(2) == [begun, of_other, newest]
    assert lab.ledger.mails.waiting() == []


def test_each_branch_is_repeated(lab: Lab) -> None:
    lab.ledger.commits.learn([lab.followups.history.commit("main")], "stable/15")
    nights = [
        lab.ledger.jobs.add(replace(night.job, branch=branch), key=f"night:{branch}")
        for night in lab.open_nights(0)
        for branch in ("stable/14", "stable/15")
    ]
    for night in nights:
        lab.measure(night)
    lab.now += 14 * DAY
    given = lab.ledger, lab.settings.night, lab.lab.testbed(TESTBED)
    branches = ("stable/14", "stable/15", "stable/15")

    found = [repeat_night(*given, branch) for branch in branches]
    assert found == [lab.line[-1], lab.line[-1], ""]


def test_a_later_night_of_an_unfinished_nightly_job_is_no_repeat(lab: Lab) -> None:
    [first] = lab.open_nights(0)
    lab.followups.conclude(lab.ledger, first, Unfinished("no power"))
    [second] = lab.open_nights(20)
    assert not is_repeat(second)
    lab.measure(second)

    [again] = lab.open_nights(21)
    assert again.parent == second.id
