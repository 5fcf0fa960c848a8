"""Candidates, retests and alerts in the ledger."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_facts import measured

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.entities import Commit, Fact, Kernel
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import (
    Confirmed,
    Effect,
    NightlyResult,
    NotConfirmed,
    Result,
    Unfinished,
)
from netbisect.steps.scheduler.followups import Followups, open_nights
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.store.db.records import Alert, JobRecord
from netbisect.store.ledger import Ledger

TESTBED = "c2558"
BOOTS = 5


class Nights:
    """Follow-ups, twelve commits, and nightly jobs with any level."""

    def __init__(self, place: Path, ledger: Ledger, commits: list[Commit]) -> None:
        self.settings, self.lab = load(place / control.SETTINGS)
        self.ledger = ledger
        self.followups = Followups(self.settings, self.lab)
        self.scenario = self.lab.testbed(TESTBED).scenarios[0]
        self.line = [commit.revision for commit in commits]
        ledger.commits.learn(commits, "main")

    def facts(self, number: int, change: float = 0.0, slow: Sequence[int] = ()) -> list[Fact]:
        """Facts of a nightly job of a commit; its `slow` boots are 10 % slower."""
        revision, key = self.line[number], f"k{number}"
        at = float(number) + (0.0 if number < 8 else 4e9)  # before and after all decisions
        facts: list[Fact] = [
            Kernel(revision, "GENERIC", "amd64", f"i{number}", key, "v", 1, at, 60.0)
        ]
        for i in range(BOOTS):
            # Noise of 0.2 % between boots and between images.
            noise = 0.002 * (math.sin(2.1 * i + number) + math.sin(5.3 * number))
            pps = 1e6 * math.exp(change + noise - (0.1 if i in slow else 0.0))
            boot, rates = f"b{number}-{i}", {self.scenario: pps}
            facts += measured(boot, TESTBED, key, revision, at, rates)
        return facts

    def night(self, number: int, change: float = 0.0, slow: Sequence[int] = ()) -> list[JobRecord]:
        self.ledger.facts.record_all(self.facts(number, change, slow), "the test")
        night = NightlyJob("main", TESTBED, self.line[number], (self.scenario,), BOOTS)
        record = self.ledger.jobs.add(night, key=f"night {number}")
        return self.followups.conclude(self.ledger, record, NightlyResult(BOOTS))

    def answer(self, record: JobRecord, ln_ratio: float) -> list[JobRecord]:
        effect = Effect(self.scenario, ln_ratio, ln_ratio - 0.004, ln_ratio + 0.004, 1e-5, 6, 6)
        return self.followups.conclude(self.ledger, record, Confirmed((effect,)))

    def drop(self, change: float) -> JobRecord:
        """The comparison after seven nights without a change and one with a drop."""
        for number in range(6):
            self.ledger.facts.record_all(self.facts(number), "the test")
        assert self.night(6) == []
        [record] = self.night(7, change)
        return record

    @property
    def alert(self) -> Alert:
        [alert] = self.ledger.alerts.all(candidates=True)
        return alert


@pytest.fixture
def nights(
    service_folder: Path, service_commits: list[Commit], empty_ledger: Ledger
) -> Iterator[Nights]:
    nights = Nights(service_folder, empty_ledger, service_commits)
    yield nights
    shutil.rmtree(nights.settings.reports, ignore_errors=True)


def pair(record: JobRecord) -> tuple[str, str]:
    assert isinstance(record.job, CompareJob)
    return record.job.good, record.job.bad


def test_a_large_drop_needs_one_pair_of_images(
    nights: Nights, service_commits: list[Commit]
) -> None:
    """A later commit that was measured, as by a request, and a removed one hide no drop."""
    nights.line.append("f" * 40)  # which a forced push had put in place of another
    facts = [*nights.facts(6), *nights.facts(8, -0.12), *nights.facts(12)]
    nights.ledger.facts.record_all(facts, "the test")
    nights.ledger.commits.learn([replace(service_commits[6], revision="f" * 40)], "main")
    testbed, history = nights.lab.testbed(TESTBED), nights.followups.history
    open_nights(nights.ledger, history, nights.settings, [testbed], ["main"])
    record = nights.drop(-0.12)
    assert pair(record) == (nights.line[6], nights.line[7])
    assert (nights.alert.state, nights.alert.kind) == (AlertState.CONFIRMING, AlertKind.DROP)
    assert nights.ledger.alerts.all() == []

    [search] = nights.answer(record, -0.12)

    assert (nights.alert.state, nights.alert.bisection) == (AlertState.BISECTING, search.id)
    assert [effect.ln_ratio for effect in nights.alert.effects] == [-0.12]


def test_a_small_drop_is_confirmed_by_the_images(nights: Nights) -> None:
    """The alert has the mean change of the images; the retest compares one pair."""
    for number in range(7):
        nights.ledger.facts.record_all(nights.facts(number), "the test")
    followers = [nights.night(number, -0.05) for number in range(7, 12)]
    [record] = next(records for records in followers if records)
    assert pair(record)[0] == nights.line[6]
    assert not followers[0], "one image may be an outlier"
    [search] = nights.answer(record, -0.06)

    alert = nights.alert
    assert (alert.state, alert.bisection) == (AlertState.BISECTING, search.id)
    assert (alert.good, alert.bad) == pair(record)
    [effect] = alert.effects
    assert effect.ln_ratio == pytest.approx(-0.05, abs=0.003), "not -0.06 of the retest"
    [mail] = nights.ledger.mails.waiting()
    assert f"{100 * math.expm1(effect.ln_ratio):.1f} %" in mail.subject


@pytest.mark.parametrize("result", [NotConfirmed((), "no room"), Unfinished("no room")])
def test_an_unconfirmed_change_is_withdrawn(nights: Nights, result: Result) -> None:
    record = nights.drop(-0.12)
    assert nights.followups.conclude(nights.ledger, record, result) == []

    assert nights.alert.state is AlertState.WITHDRAWN
    assert nights.ledger.alerts.changes(nights.alert.id)[-1].what == "no room"
    mails = [f"trouble:{record.id}"] if isinstance(result, Unfinished) else []
    assert [mail.key for mail in nights.ledger.mails.waiting()] == mails


def test_a_more_frequent_slow_mode_opens_an_alert_about_modes(nights: Nights) -> None:
    """It starts no comparison or search and sends no mail; the baseline continues."""
    for number in range(9):  # every sixth boot is 10 % slower
        assert nights.night(number, slow=[i for i in range(5) if (5 * number + i) % 6 == 3]) == []
    followers = [nights.night(number, slow=[0, 1, 3, 4]) for number in (9, 10, 11)]

    assert followers == [[], [], []]
    alert = nights.alert
    assert (alert.kind, alert.state) == (AlertKind.MODES, AlertState.OPEN)
    assert alert.bad == nights.line[11] or alert.bad == nights.line[10]
    [effect] = alert.effects
    assert -0.1 < effect.low < effect.ln_ratio < effect.high < 0
    assert "more often" in nights.ledger.alerts.changes(alert.id)[-1].what
    assert nights.ledger.mails.waiting() == []
    levels = nights.ledger.series.with_baseline(TESTBED, nights.scenario, "main").baseline
    assert len(levels) == 12


def test_an_improvement_is_recorded_and_starts_a_baseline(nights: Nights) -> None:
    """A later night at the old level is a drop."""
    record = nights.drop(0.12)
    assert nights.answer(record, 0.12) == []

    assert (nights.alert.kind, nights.alert.state) == (AlertKind.IMPROVEMENT, AlertState.OPEN)
    assert nights.ledger.mails.waiting() == []
    assert nights.night(8, 0.12) == []
    [record] = nights.night(9, 0.0)
    assert pair(record)[1] == nights.line[9]


def test_a_candidate_that_a_user_has_closed_is_not_announced(nights: Nights) -> None:
    record = nights.drop(-0.12)
    state = AlertState.INFRA
    nights.ledger.alerts.change(nights.alert.id, who="olga", what="new cable", state=state)
    assert nights.answer(record, -0.12) == []

    assert nights.alert.state is AlertState.INFRA
    assert nights.ledger.jobs.get(record.id).result is not None
    assert nights.ledger.mails.waiting() == []
