"""Every so many nights a testbed measures a kernel again; nothing is suspected because of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from netbisect.bisect.model import Boot, Fact, Kernel, Night, NightDone, Sample, Unfinished
from netbisect.bisect.screen import screen
from netbisect.steps import control, suspicions
from netbisect.steps.casework import PRIORITY_NIGHT, Casework, open_nights
from netbisect.steps.memory import open_ledger
from netbisect.steps.repeats import is_repeat
from netbisect.steps.settings import load
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, DecisionStage, Outcome

TESTBED, OTHER = "c2558", "e5-2650"
DAY = 86400.0
START = 1.8e9


class Lab:
    """Casework, a line of commits, and nights at any time."""

    def __init__(self, place: Path, ledger: Ledger) -> None:
        settings, self.lab = load(place / control.SETTINGS)
        self.settings = replace(settings, night=replace(settings.night, against_itself=14, boots=5))
        self.ledger = ledger
        self.casework = Casework(self.settings, self.lab)
        history = self.casework.history
        self.line = [history.head("main")]
        while len(self.line) < 9:
            self.line.insert(0, history.resolve(f"{self.line[0]}~1"))
        ledger.learn([history.commit(revision) for revision in self.line], "main")
        self.now = START
        ledger.clock = lambda: self.now
        self.measured = 0

    def evening(self, day: float, *testbeds: str) -> list[Asked]:
        """The questions that are open after a night has begun."""
        self.now = START + day * DAY
        chosen = [self.lab.testbed(name) for name in testbeds or (TESTBED,)]
        open_nights(self.ledger, self.casework.history, self.settings, chosen, ["main"])
        return self.ledger.open_questions()

    def measure(self, asked: Asked, change: float = 0.0, image: str = "") -> list[Asked]:
        """What follows when this night has been measured."""
        night = asked.question
        assert isinstance(night, Night)
        self.measured += 1
        decision = self.ledger.intend(
            asked.id,
            DecisionStage.TRIAL,
            night.revision,
            TESTBED,
            config="GENERIC",
            arch="amd64",
            why="boot",
        )
        key = image or f"k{self.line.index(night.revision)}"
        at = self.now
        facts: list[Fact] = [
            Kernel(night.revision, "GENERIC", "amd64", f"i-{key}", key, "v", 1, START, 60.0)
        ]
        for i in range(night.boots):
            luck = 0.002 * (math.sin(2.1 * i + self.measured) + math.sin(5.3 * len(key)))
            boot = f"b{self.measured}-{i}"
            facts.append(Boot(boot, TESTBED, key, night.revision, at, 60.0))
            facts += [
                Sample(
                    id=f"s-{boot}-{scenario}",
                    boot=boot,
                    testbed=TESTBED,
                    scenario=scenario,
                    pps=1e6 * math.exp(change + luck),
                    offered_pps=1.488e6,
                    received=(),
                    offered=(),
                    problems=(),
                    conditions="",
                    at=at + i,
                    seconds=30.0,
                )
                for scenario in night.scenarios
            ]
        for fact in facts:
            self.ledger.record(fact, decision.id)
        self.ledger.finish(decision.id, Outcome.OK)
        return self.casework.conclude(self.ledger, asked, NightDone(night.boots))

    def history(self) -> None:
        """Eight commits before the head, a night each."""
        for number, revision in enumerate(self.line[:-1]):
            scenarios = self.lab.testbed(TESTBED).scenarios
            night = Night("main", TESTBED, revision, scenarios, 5)
            self.now = START + (number - 8) * DAY
            asked = self.ledger.ask(night, key=f"night {number}")
            assert self.measure(asked) == []


@pytest.fixture
def lab(quiet_house: Path, tmp_path: Path) -> Iterator[Lab]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield Lab(quiet_house, ledger)
    ledger.engine.dispose()


def repeats(open_now: list[Asked]) -> list[Asked]:
    return [asked for asked in open_now if is_repeat(asked)]


# ------------------------------------------------------------------------------ when it is asked


def test_the_last_night_is_repeated_every_so_many_nights(lab: Lab) -> None:
    """After the others of its night; a testbed that began late by hours is not a night later."""
    [first] = lab.evening(0)
    lab.measure(first)
    assert lab.evening(13.4) == []

    [again] = lab.evening(13.6)

    assert again.question == first.question
    assert (again.parent, is_repeat(again), is_repeat(first)) == (first.id, True, False)
    assert again.priority < PRIORITY_NIGHT
    assert again.key.startswith(f"night:main:{TESTBED}:{lab.line[-1]}:again:2027-01-")
    lab.measure(again)
    assert lab.evening(27) == []
    assert len(repeats(lab.evening(28))) == 1


def test_it_is_asked_once_however_often_a_night_begins(lab: Lab) -> None:
    """By hand on the same day, too."""
    lab.measure(lab.evening(0)[0])

    assert [len(lab.evening(day)) for day in (14, 14.1, 15, 27.9)] == [1, 1, 1, 2]


def test_what_was_measured_before_is_repeated_when_something_has_landed(lab: Lab) -> None:
    """The kernel that is built, not the one that is not; and of one testbed only."""
    lab.history()
    tonight = lab.evening(6, TESTBED, OTHER)
    [again] = repeats(tonight)

    assert isinstance(again.question, Night)
    assert (again.question.testbed, again.question.revision) == (TESTBED, lab.line[-2])
    others = [one for one in tonight if one is not again]
    assert [one.question.testbed for one in others] == [TESTBED, OTHER]
    for asked in (again, others[0]):
        lab.measure(asked)
    [later] = repeats(lab.evening(20))
    assert isinstance(later.question, Night)
    assert later.question.revision == lab.line[-1], "not what was repeated before"


def test_with_0_nothing_is_repeated(lab: Lab) -> None:
    lab.settings = replace(lab.settings, night=replace(lab.settings.night, against_itself=0))
    lab.measure(lab.evening(0)[0])

    assert lab.evening(400) == []


def test_a_night_that_came_to_nothing_is_not_repeated(lab: Lab) -> None:
    """It is asked again, as any such night is; the first one that is done can be repeated."""
    [first] = lab.evening(0)
    lab.casework.conclude(lab.ledger, first, Unfinished("no power"))
    [second] = lab.evening(20)
    assert not is_repeat(second)
    lab.measure(second)

    [again] = lab.evening(21)
    assert again.parent == second.id


# ----------------------------------------------------------------------------- what follows


@pytest.mark.parametrize("change", [-0.3, 0.3])
def test_a_repeated_night_opens_no_candidate(lab: Lab, change: float) -> None:
    """Whatever is measured: the same kernel is no slower than itself. The next night may."""
    lab.history()
    [again] = repeats(lab.evening(6))

    assert lab.measure(again, change) == []
    assert lab.ledger.alerts(candidates=True) == []
    assert lab.ledger.open_alerts() == []
    [tonight] = lab.ledger.open_questions()
    assert lab.measure(tonight, change), "the screen would have seen such a night"


def test_two_nights_of_an_image_alone_are_not_suspicious(lab: Lab) -> None:
    """To the screen all boots of one image are one level; there is nothing to hold it against."""
    [first] = lab.evening(0)
    lab.measure(first)
    [again] = lab.evening(14)
    lab.measure(again, -0.3)
    night = again.question
    assert isinstance(night, Night)
    [level] = lab.ledger.baseline(TESTBED, night.scenarios[0], "main")

    assert len(level.ln_pps) == 10
    assert suspicions.tonight(lab.ledger, night, 0.02).wanted is None
    later = replace(level, ln_pps=tuple(x - 0.3 for x in level.ln_pps))
    assert not screen([level], later).asks


# --------------------------------------------------------------------- what the ledger tells of it


def test_the_nights_of_an_image_are_told_apart(lab: Lab) -> None:
    """Oldest first, each with its boots; an image of one night is not among them."""
    lab.history()
    [again] = repeats(lab.evening(6))
    lab.measure(again, -0.05)
    scenario = again.question.scenarios[0]
    [(first, second)] = lab.ledger.repeated(TESTBED, scenario, "main")

    assert first.revision == second.revision == lab.line[-2]
    assert first.identity == second.identity == "i-k7"
    assert (len(first.ln_pps), len(second.ln_pps)) == (5, 5)
    assert first.at < second.at == START + 6 * DAY
    assert sum(second.ln_pps) - sum(first.ln_pps) == pytest.approx(-0.25, abs=0.02)
    assert lab.ledger.repeated(OTHER, scenario, "main") == []
    assert lab.ledger.repeated(TESTBED, scenario, "stable/15") == []


def test_two_commits_with_one_kernel_are_nights_of_one_image(lab: Lab) -> None:
    """They cost nothing extra."""
    scenarios = lab.lab.testbed(TESTBED).scenarios
    for number in (3, 4, 5):
        night = Night("main", TESTBED, lab.line[number], scenarios, 5)
        image = "k5" if number == 5 else "same"
        lab.measure(lab.ledger.ask(night, key=f"night {number}"), image=image)
    [nights] = lab.ledger.repeated(TESTBED, scenarios[0], "main")

    assert [level.revision for level in nights] == lab.line[3:5]


def test_the_last_night_is_the_newest_one_that_was_done(lab: Lab) -> None:
    assert lab.ledger.last_night(TESTBED, "main") is None
    assert lab.ledger.last_repeat(TESTBED) is None
    [first] = lab.evening(0)
    assert lab.ledger.last_night(TESTBED, "main") is None
    lab.measure(first)

    found = lab.ledger.last_night(TESTBED, "main")
    assert found is not None
    assert found.id == first.id
    assert lab.ledger.last_repeat(TESTBED) == START
    assert lab.ledger.newest("main") == lab.line[-1]
    assert lab.ledger.newest("stable/15") is None
