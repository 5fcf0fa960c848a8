"""From a suspicion through pairs of images to an alert, as the service keeps it in its ledger."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from netbisect.bisect.model import (
    Boot,
    Comparison,
    Confirmed,
    Effect,
    Fact,
    Finding,
    Kernel,
    Night,
    NightDone,
    NotConfirmed,
    Sample,
    Unfinished,
)
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.steps import control
from netbisect.steps.casework import Casework
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import load
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, Asked

TESTBED = "c2558"


class Desk:
    """Casework, a line of commits, and nights that end with any level."""

    def __init__(self, place: Path, ledger: Ledger) -> None:
        self.settings, self.lab = load(place / control.SETTINGS)
        self.ledger = ledger
        self.casework = Casework(self.settings, self.lab)
        self.scenario = self.lab.testbed(TESTBED).scenarios[0]
        history = self.casework.history
        line = [history.head("main")]
        while len(line) < 12:
            line.insert(0, history.resolve(f"{line[0]}~1"))
        self.line = line
        ledger.learn([history.commit(revision) for revision in line], "main")

    def measured(
        self, number: int, change: float, boots: int = 5, slow: Sequence[int] = ()
    ) -> Asked:
        """A night of that commit, all of it measured; not closed yet."""
        revision, key = self.line[number], f"k{number}"
        at = float(number) + (0.0 if number < 8 else 4e9)  # before and after all decisions
        facts: list[Fact] = [
            Kernel(revision, "GENERIC", "amd64", f"i{number}", key, "v", 1, at, 60.0)
        ]
        for i in range(boots):
            # Boots and images scatter by 0.2 %, in a way of their own.
            luck = 0.002 * (math.sin(2.1 * i + number) + math.sin(5.3 * number))
            pps = 1e6 * math.exp(change + luck - (0.1 if i in slow else 0.0))
            boot = f"b{number}-{i}"
            facts.append(Boot(boot, TESTBED, key, revision, at, 60.0))
            facts.append(
                Sample(
                    id=f"s{boot}",
                    boot=boot,
                    testbed=TESTBED,
                    scenario=self.scenario,
                    pps=pps,
                    offered_pps=1.488e6,
                    received=(),
                    offered=(),
                    problems=(),
                    conditions="",
                    at=at,
                    seconds=30.0,
                )
            )
        self.ledger.record_all(facts, "the test")
        night = Night("main", TESTBED, revision, (self.scenario,), boots)
        return self.ledger.ask(night, key=f"night {number}")

    def night(self, number: int, change: float = 0.0, slow: Sequence[int] = ()) -> list[Asked]:
        """What follows from the night of that commit; its `slow` boots are 10 % slower."""
        asked = self.measured(number, change, slow=slow)
        return self.casework.conclude(self.ledger, asked, NightDone(5))

    def answer(self, asked: Asked, ln_ratio: float, *, confirmed: bool = True) -> list[Asked]:
        """What follows when a comparison ends so."""
        effect = Effect(self.scenario, ln_ratio, ln_ratio - 0.004, ln_ratio + 0.004, 1e-5, 6, 6)
        finding: Finding = Confirmed((effect,)) if confirmed else NotConfirmed((effect,), "no room")
        return self.casework.conclude(self.ledger, asked, finding)

    def drop(self, change: float) -> Asked:
        """Seven quiet nights, and one that is off: what is compared then."""
        for number in range(7):
            assert self.night(number) == []
        [asked] = self.night(7, change)
        return asked

    @property
    def alert(self) -> Alert:
        [alert] = self.ledger.alerts(candidates=True)
        return alert


@pytest.fixture
def desk(quiet_house: Path, tmp_path: Path) -> Iterator[Desk]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    desk = Desk(quiet_house, ledger)
    yield desk
    ledger.engine.dispose()
    shutil.rmtree(desk.settings.reports, ignore_errors=True)


def pair(asked: Asked) -> tuple[str, str]:
    assert isinstance(asked.question, Comparison)
    return asked.question.good, asked.question.bad


def test_a_large_drop_needs_one_pair_of_images(desk: Desk) -> None:
    """It is a candidate nobody is told of, then an alert with a search."""
    asked = desk.drop(-0.12)
    assert pair(asked) == (desk.line[6], desk.line[7])
    assert (desk.alert.state, desk.alert.kind) == (AlertState.CONFIRMING, AlertKind.DROP)
    assert desk.ledger.alerts() == []

    [search] = desk.answer(asked, -0.12)

    assert (desk.alert.state, desk.alert.bisection) == (AlertState.BISECTING, search.id)
    assert [effect.ln_ratio for effect in desk.alert.effects] == [-0.12]


def test_a_small_drop_waits_for_the_next_image(desk: Desk) -> None:
    """Two pairs, no kernel in both; the alert tells their mean and the range of the first."""
    asked = desk.drop(-0.04)
    assert desk.answer(asked, -0.04) == []
    assert desk.alert.state is AlertState.CONFIRMING
    assert desk.ledger.waiting_mails() == []

    [further] = desk.night(8, -0.04)
    assert further.parent == asked.id
    assert pair(further)[1] == desk.line[8]
    assert not set(pair(asked)) & set(pair(further))
    [search] = desk.answer(further, -0.036)

    alert = desk.alert
    assert (alert.state, alert.bisection) == (AlertState.BISECTING, search.id)
    assert (alert.good, alert.bad) == pair(asked)
    [effect] = alert.effects
    assert effect.ln_ratio == pytest.approx(-0.038)
    assert effect.high - effect.low > 0.01, "the offsets of images are part of the interval"
    [mail] = desk.ledger.waiting_mails()
    assert "-3.7 %" in mail.subject, "what both pairs say, not the last one"
    first = [desk.casework.history.commit(end).number for end in pair(asked)]
    assert f"between n{first[0]} and n{first[1]}" in mail.subject
    assert desk.casework.page_of(alert.id).is_file()


def test_an_offset_of_one_image_is_no_alert(desk: Desk) -> None:
    """The first pair shows it faithfully, the second one does not."""
    asked = desk.drop(-0.04)
    desk.answer(asked, -0.025)
    [further] = desk.night(8)
    assert desk.answer(further, 0.006, confirmed=False) == []

    assert desk.alert.state is AlertState.WITHDRAWN
    assert "any two images" in desk.ledger.alert_changes(desk.alert.id)[-1].what
    assert desk.ledger.waiting_mails() == []
    assert desk.night(9) == []


def test_what_does_not_come_back_is_withdrawn_at_once(desk: Desk) -> None:
    asked = desk.drop(-0.12)
    assert desk.answer(asked, -0.001, confirmed=False) == []

    assert desk.alert.state is AlertState.WITHDRAWN
    assert desk.ledger.alert_changes(desk.alert.id)[-1].what == "no room"


def test_a_slow_mode_that_occurs_more_often_is_an_alert_of_its_own_kind(desk: Desk) -> None:
    """Told once, without a comparison, a search or a mail; the baseline goes on."""
    for number in range(9):  # every sixth boot is slow by 10 %
        assert desk.night(number, slow=[i for i in range(5) if (5 * number + i) % 6 == 3]) == []
    asked = [desk.night(number, slow=[0, 1, 3, 4]) for number in (9, 10, 11)]

    assert asked == [[], [], []]
    alert = desk.alert
    assert (alert.kind, alert.state) == (AlertKind.MODES, AlertState.OPEN)
    assert alert.bad == desk.line[11] or alert.bad == desk.line[10]
    [effect] = alert.effects
    assert -0.1 < effect.low < effect.ln_ratio < effect.high < 0
    assert "more often" in desk.ledger.alert_changes(alert.id)[-1].what
    assert desk.ledger.waiting_mails() == []
    levels = desk.ledger.baseline(TESTBED, desk.scenario, "main")
    assert len(levels) == 12


def test_nothing_else_is_asked_while_a_comparison_runs(desk: Desk) -> None:
    desk.drop(-0.12)

    assert desk.night(8, -0.12) == []


def test_a_gain_is_written_down_and_begins_a_baseline(desk: Desk) -> None:
    """No mail, no search; falling back to where it was is a drop."""
    asked = desk.drop(0.12)
    assert desk.answer(asked, 0.12) == []

    assert (desk.alert.kind, desk.alert.state) == (AlertKind.IMPROVEMENT, AlertState.OPEN)
    assert desk.ledger.waiting_mails() == []
    assert desk.night(8, 0.12) == []
    [asked] = desk.night(9, 0.0)
    assert pair(asked)[1] == desk.line[9]


def test_what_returns_is_the_alert_it_was(desk: Desk) -> None:
    """The new candidate is withdrawn in its favour."""
    desk.answer(desk.drop(-0.12), -0.12)
    number = desk.alert.id
    desk.ledger.change_alert(number, who="olga", what="reverted", state=AlertState.FIXED)
    for later in (8, 9, 10):
        assert desk.night(later) == []
    [again] = desk.night(11, -0.12)
    [search] = desk.answer(again, -0.12)

    first, candidate = desk.ledger.alerts(candidates=True)
    assert (first.id, first.state, first.bisection) == (number, AlertState.BISECTING, search.id)
    assert first.comparison == again.id
    assert candidate.state is AlertState.WITHDRAWN
    assert desk.ledger.alert_changes(candidate.id)[-1].what == f"it is alert {number} come back"


def test_a_comparison_that_cannot_be_made_withdraws_its_candidate(desk: Desk) -> None:
    """And the lab's people are told."""
    asked = desk.drop(-0.12)
    desk.casework.conclude(desk.ledger, asked, Unfinished("the testbed is in quarantine"))

    assert desk.alert.state is AlertState.WITHDRAWN
    assert [mail.key for mail in desk.ledger.waiting_mails()] == [f"trouble:{asked.id}"]
