"""What the service does with alerts, from a confirmation to the end of the search."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from netbisect.bisect import wire
from netbisect.bisect.model import (
    Belief,
    Boot,
    Comparison,
    Confirmed,
    Culprit,
    Effect,
    Finding,
    NightDone,
    NotReproduced,
    Profile,
    Profiled,
    Profiling,
    Sample,
    Suspects,
    Unfinished,
)
from netbisect.bisect.states import AlertState
from netbisect.steps import control
from netbisect.steps.casework import Casework, open_nights
from netbisect.steps.memory import open_ledger
from netbisect.steps.profiles import key_of
from netbisect.steps.settings import SearchSettings, load
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, Asked, DecisionStage, Outcome

BELIEF = Belief({}, 0.99)


class Desk:
    """Casework with a ledger, and questions that are answered at once."""

    def __init__(self, place: Path, ledger: Ledger) -> None:
        settings, self.lab = load(place / control.SETTINGS)
        self.ledger = ledger
        self.casework = Casework(settings, self.lab)
        self.settings = settings
        head = self.casework.history.head("main")
        self.line = [head]
        while len(self.line) < 8:
            self.line.insert(0, self.casework.history.resolve(f"{self.line[0]}~1"))

    def confirm(self, testbed: str, good: int, bad: int, ln_ratio: float = -0.1) -> Asked:
        """The search that follows from a confirmed comparison of two commits of the line."""
        scenario = self.lab.testbed(testbed).scenarios[0]
        ends = self.line[good], self.line[bad]
        question = Comparison("main", testbed, *ends, (scenario,), scenario, ln_ratio)
        asked = self.ledger.ask(question, key=f"compare {testbed} {good} {bad}")
        followers = self.casework.conclude(
            self.ledger, asked, Confirmed((self.effect(scenario, ln_ratio),))
        )
        alert = self.ledger.alert_about(asked.id)
        assert alert is not None
        assert alert.bisection is not None
        search = self.ledger.question(alert.bisection)
        assert followers in ([search], [])
        return search

    def add_twin(self, name: str = "c2558-2") -> None:
        """A second testbed like c2558, of one group with it."""
        one, *others = (
            replace(bed, group="atoms" * (bed.name == "c2558")) for bed in self.lab.testbeds
        )
        self.lab = replace(self.lab, testbeds=(one, *others, replace(one, name=name)))
        self.casework = Casework(self.settings, self.lab)

    def effect(self, scenario: str, ln_ratio: float = -0.1) -> Effect:
        return Effect(scenario, ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-6, 5, 6)

    def culprit(self, search: Asked, number: int) -> Culprit:
        revision, parent = self.line[number], self.line[number - 1]
        effect = self.effect(search.question.scenarios[0])
        return Culprit(revision, parent, Belief({revision: 0.99}, 0.01), (effect,))

    def end(self, search: Asked, finding: Finding) -> Alert:
        """The alert after its search has ended."""
        self.casework.conclude(self.ledger, search, finding)
        found = self.ledger.alert_about(search.id)
        assert found is not None
        return found

    def mails(self) -> list[str]:
        return [mail.key for mail in self.ledger.waiting_mails()]


@pytest.fixture
def desk(quiet_house: Path, tmp_path: Path) -> Iterator[Desk]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    desk = Desk(quiet_house, ledger)
    yield desk
    ledger.engine.dispose()
    for place in (desk.settings.reports, desk.settings.visits):
        shutil.rmtree(place, ignore_errors=True)


def test_a_search_takes_its_alert_from_open_to_the_culprit(desk: Desk) -> None:
    """And every step is in its history, with a mail for its beginning and its end."""
    search = desk.confirm("c2558", 1, 6)
    alert = desk.end(search, desk.culprit(search, 4))

    assert (alert.state, alert.culprit) == (AlertState.CULPRIT_FOUND, desk.line[4])
    assert [one.state for one in desk.ledger.alert_changes(alert.id)] == [
        AlertState.OPEN,
        AlertState.BISECTING,
        AlertState.CULPRIT_FOUND,
    ]
    assert desk.mails() == [
        f"alert:{alert.id}:{alert.comparison}",
        f"outcome:{alert.id}:{alert.bisection}",
    ]


def test_a_case_is_gathered_once_for_its_mail_and_its_page(desk: Desk) -> None:
    """At its beginning and at its end: other testbeds are looked at once each."""
    looks: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT DISTINCT boots.testbed, boots.revision"):
            looks.append(statement)

    event.listen(desk.ledger.engine, "before_cursor_execute", listen)
    search = desk.confirm("c2558", 1, 6)
    assert len(looks) == 1
    alert = desk.end(search, desk.culprit(search, 4))

    assert len(looks) == 2
    page = desk.casework.page_of(alert.id).read_text()
    assert "commit verified" in page
    assert "the search ended: Culprit" in page


@pytest.mark.parametrize(
    ("finding", "state"),
    [
        (NotReproduced(BELIEF, "both ends are alike"), AlertState.WITHDRAWN),
        (Suspects(("x", "y"), BELIEF, "they do not build"), AlertState.NO_CULPRIT),
    ],
)
def test_a_search_without_a_name_says_whether_the_change_is_there(
    desk: Desk, finding: Finding, state: AlertState
) -> None:
    """Then it stands without a culprit; or it is withdrawn."""
    alert = desk.end(desk.confirm("c2558", 1, 6), finding)

    assert alert.state is state
    assert len(desk.mails()) == 2


@pytest.mark.parametrize("state", [AlertState.MUTED, AlertState.INVALID, AlertState.ACKNOWLEDGED])
def test_what_people_have_said_meanwhile_stands(desk: Desk, state: AlertState) -> None:
    """The culprit is remembered; of what was muted or called invalid nothing is mailed."""
    search = desk.confirm("c2558", 1, 6)
    desk.ledger.change_alert(1, who="olga", what="we know", state=state, until=9e9)
    alert = desk.end(search, desk.culprit(search, 4))

    assert (alert.state, alert.culprit) == (state, desk.line[4])
    assert len(desk.mails()) == (2 if state is AlertState.ACKNOWLEDGED else 1)
    asked = [type(one.question) for one in desk.ledger.open_questions()]
    assert asked == ([Profiling] if state is AlertState.ACKNOWLEDGED else [])


def test_two_testbeds_with_one_culprit_are_one_event(desk: Desk) -> None:
    """The second alert is merged into the first, whose series are those of both."""
    searches = [desk.confirm("c2558", 1, 6), desk.confirm("e5-2650", 2, 7)]
    first, second = (desk.end(search, desk.culprit(search, 4)) for search in searches)

    assert (second.state, second.merged_into) == (AlertState.MERGED, first.id)
    [stands] = desk.ledger.open_alerts()
    assert stands.id == first.id
    assert [one.testbed for one in stands.series] == ["c2558", "e5-2650"]


def test_testbeds_of_a_group_share_the_search_for_one_change(desk: Desk) -> None:
    """Both alerts wait for it, each is told on its testbed how it ended, and they are one event."""
    desk.add_twin()
    search = desk.confirm("c2558", 1, 6)
    assert search.question.testbeds == ("c2558", "c2558-2")
    # It has measured nothing yet, and scatters as its mate does as far as anybody knows.
    assert search.question.others == {"c2558-2": search.question.noise}
    assert desk.confirm("c2558-2", 1, 6).id == search.id
    [first, second] = desk.ledger.alerts_about(search.id)
    assert (first.testbed, second.testbed) == ("c2558", "c2558-2")
    assert second.state is AlertState.BISECTING
    desk.end(search, desk.culprit(search, 4))
    first, second = (desk.ledger.alert(one.id) for one in (first, second))

    assert first.culprit == second.culprit == desk.line[4]
    assert (second.state, second.merged_into) == (AlertState.MERGED, first.id)
    outcomes = {mail.alert: mail for mail in desk.ledger.waiting_mails() if "outcome" in mail.key}
    assert "measured on" not in outcomes[first.id].body
    told = outcomes[second.id].body
    assert re.search(r"testbed +c2558-2", told)
    assert re.search(r"measured on +c2558\n", told)
    assert desk.casework.page_of(second.id).is_file()


def test_a_change_in_another_range_or_of_another_scenario_has_a_search_of_its_own(
    desk: Desk,
) -> None:
    """Nobody knows that one commit made both; and a search alone is what `use_groups` may ask."""
    desk.add_twin()
    search = desk.confirm("c2558", 1, 6)
    assert desk.confirm("c2558-2", 2, 6).id != search.id
    assert desk.confirm("c2558-2", 1, 7).id != search.id
    alone = replace(desk.settings, search=SearchSettings(use_groups=False))
    desk.casework = Casework(alone, desk.lab)
    assert desk.confirm("c2558", 2, 7).question.testbeds == ("c2558",)


def test_a_search_alone_is_not_shared(desk: Desk) -> None:
    """It was asked for when the testbeds were of no group, or groups were not used."""
    search = desk.confirm("c2558", 1, 6)
    desk.add_twin()
    assert desk.confirm("c2558-2", 1, 6).id != search.id


def test_what_comes_back_is_announced_again_under_its_number(desk: Desk) -> None:
    """In the same thread, with a search of its own."""
    search = desk.confirm("c2558", 1, 4)
    desk.end(search, desk.culprit(search, 3))
    desk.ledger.change_alert(1, who="olga", what="reverted", state=AlertState.FIXED)
    again = desk.confirm("c2558", 5, 7)
    [alert] = desk.ledger.alerts()

    assert (alert.id, alert.state, alert.bisection) == (1, AlertState.BISECTING, again.id)
    assert (alert.good, alert.bad, alert.culprit) == (desk.line[5], desk.line[7], "")
    assert len(desk.mails()) == 3
    assert desk.ledger.waiting_mails()[-1].in_reply_to == desk.ledger.waiting_mails()[1].message_id
    assert desk.end(again, desk.culprit(again, 6)).culprit == desk.line[6]
    assert len(desk.mails()) == 4


def test_a_night_ends_what_was_muted_until_then(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself."""
    desk.confirm("c2558", 1, 6)
    desk.ledger.change_alert(1, who="olga", what="wait", state=AlertState.MUTED, until=8e9)
    testbeds = [desk.lab.testbed("c2558")]
    open_nights(desk.ledger, desk.casework.history, desk.settings, testbeds, ["main"])
    monkeypatch.setattr(desk.ledger, "clock", lambda: 8e9)
    [night] = [one for one in desk.ledger.open_questions() if one.key.startswith("night:")]
    desk.casework.conclude(desk.ledger, night, NightDone(3))

    assert desk.ledger.alert(1).state is AlertState.REOPENED


# -------------------------------------------------------------------------------- whom it is told


def told(desk: Desk, *, committers: bool, finding: str) -> dict[str, tuple[str, ...]]:
    """Recipients of the mail of the beginning and of that of the end, by kind."""
    settings = replace(desk.settings, mail=replace(desk.settings.mail, committers=committers))
    desk.casework = Casework(settings, desk.lab)
    search = desk.confirm("c2558", 1, 6)
    suspects = Suspects((desk.line[3], desk.line[4]), BELIEF, "no room")
    desk.end(search, desk.culprit(search, 4) if finding == "culprit" else suspects)
    return {mail.key.split(":")[0]: mail.recipients for mail in desk.ledger.waiting_mails()}


def test_a_committer_is_told_of_a_verified_culprit_where_it_is_allowed(desk: Desk) -> None:
    committer = desk.casework.history.committer(desk.line[4])
    mails = told(desk, committers=True, finding="culprit")

    assert mails["outcome"] == (*desk.settings.mail.to, committer)
    assert mails["alert"] == desk.settings.mail.to, "nothing was verified then"


@pytest.mark.parametrize(("committers", "finding"), [(False, "culprit"), (True, "suspects")])
def test_a_committer_is_told_of_nothing_else(desk: Desk, committers: bool, finding: str) -> None:
    """Neither unasked, nor of a range that holds the commit."""
    mails = told(desk, committers=committers, finding=finding)

    assert set(mails.values()) == {desk.settings.mail.to}


# ----------------------------------------------------------------------------------- profiles


def profiled(desk: Desk, asked: Asked, folded: dict[str, str]) -> None:
    """Visits for a profile, with what each has left."""
    [scenario] = asked.question.scenarios
    for revision, text in folded.items():
        visit = desk.ledger.intend(
            asked.id,
            DecisionStage.PROFILE,
            revision,
            asked.question.testbed,
            config="GENERIC",
            arch="amd64",
            why="to see",
        )
        place = desk.settings.visits / str(visit.id)
        place.mkdir(parents=True)
        seen = Profile(
            revision, "k", asked.question.testbed, scenario, "cycles", 7e5, 999, 3, 1, 30
        )
        (place / f"profile-{scenario}.json").write_text(wire.dumps(seen))
        (place / f"profile-{scenario}.folded").write_text(text)
        desk.ledger.finish(visit.id, Outcome.OK)


def page_of(desk: Desk, alert: Alert) -> str:
    return desk.casework.page_of(alert.id).read_text()


def test_a_culprit_is_profiled_after_its_mail_and_its_page_shows_it(desk: Desk) -> None:
    """Once, with its parent, below all that is waited for; and no further mail is sent of it."""
    search = desk.confirm("c2558", 1, 6)
    alert = desk.end(search, desk.culprit(search, 4))
    mails = desk.mails()
    [asked] = desk.ledger.open_questions()
    assert isinstance(asked.question, Profiling)
    sides = desk.line[3], desk.line[4]
    assert asked.question.revisions == sides
    assert asked.question.scenarios == ("inet4-forwarding",)
    assert asked.priority < search.priority
    assert "Where the time goes" not in page_of(desk, alert)

    texts = (
        "ether_input;ip_input 60\nether_input 40\n",
        "ether_input;ip_input 80\nether_input 20\n",
    )
    profiled(desk, asked, dict(zip(sides, texts, strict=True)))
    assert desk.casework.conclude(desk.ledger, asked, Profiled(sides)) == []

    page = page_of(desk, alert)
    assert "Where the time goes" in page
    assert '<th scope="row"><code>ip_input</code></th>' in page
    assert "+20.0" in page
    assert page.count('class="fg"') == 3
    assert "(3 lost)" in page
    assert desk.mails() == mails
    assert desk.ledger.alert_changes(alert.id)[-1].what.startswith("there are profiles")


def test_the_load_is_below_what_the_slower_side_forwards(desk: Desk) -> None:
    """As far as it is known: both sides get the same, and neither loses packets."""
    search = desk.confirm("c2558", 1, 6)
    rates = {3: (900_000.0, 940_000.0, 980_000.0), 4: (800_000.0, 804_000.0, 900_000.0)}
    for number, values in rates.items():
        for boot, pps in enumerate(values):
            name = f"{number}-{boot}"
            desk.ledger.record(Boot(name, "c2558", "k", desk.line[number], 1.0, 1.0))
            sample = Sample(
                name, name, "c2558", "inet4-forwarding", pps, 1e6, (), (), (), "same", 1.0, 1.0
            )
            desk.ledger.record(sample)
    desk.end(search, desk.culprit(search, 4))

    [asked] = desk.ledger.open_questions()
    assert isinstance(asked.question, Profiling)
    assert asked.question.pps == 562_800.0


def test_a_page_says_why_there_is_no_profile(desk: Desk) -> None:
    search = desk.confirm("c2558", 1, 6)
    alert = desk.end(search, desk.culprit(search, 4))
    [asked] = desk.ledger.open_questions()
    desk.casework.conclude(desk.ledger, asked, Unfinished("pmcstat: <none> of it"))

    assert "pmcstat: &lt;none&gt; of it" in page_of(desk, alert)


def test_files_that_were_damaged_or_removed_are_said_to_be_gone(desk: Desk) -> None:
    """The page is written all the same."""
    search = desk.confirm("c2558", 1, 6)
    alert = desk.end(search, desk.culprit(search, 4))
    [asked] = desk.ledger.open_questions()
    sides = desk.line[3], desk.line[4]
    profiled(desk, asked, dict(zip(sides, ("a;b 10\n", "a;b x\n"), strict=True)))
    desk.casework.conclude(desk.ledger, asked, Profiled(sides))

    assert "its files are no longer kept" in page_of(desk, alert)


def test_a_page_that_a_kill_prevented_is_written_at_the_next_start(desk: Desk) -> None:
    """Between the answer and the page lies a moment in which the master may be killed."""
    search = desk.confirm("c2558", 1, 6)
    alert = desk.end(search, desk.culprit(search, 4))
    [asked] = desk.ledger.open_questions()
    sides = desk.line[3], desk.line[4]
    profiled(desk, asked, dict.fromkeys(sides, "a;b 10\n"))
    old = desk.casework.page_of(alert.id)
    before = old.read_bytes()
    stamp = old.stat()
    desk.casework.conclude(desk.ledger, asked, Profiled(sides))
    old.write_bytes(before)
    os.utime(old, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    desk.casework.write_missing_pages(desk.ledger)

    assert "Where the time goes" in page_of(desk, alert)


def test_what_somebody_has_asked_before_the_search_ended_is_shown_too(desk: Desk) -> None:
    """It is not measured twice; whoever asked has a page as well."""
    search = desk.confirm("c2558", 1, 6)
    sides = desk.line[3], desk.line[4]
    question = Profiling("main", "c2558", sides, ("inet4-forwarding",))
    asked = desk.ledger.ask(question, key=key_of(question), requested_by="olga")
    alert = desk.end(search, desk.culprit(search, 4))
    assert [one.id for one in desk.ledger.open_questions()] == [asked.id]
    profiled(desk, asked, dict.fromkeys(sides, "a;b 10\n"))
    desk.casework.conclude(desk.ledger, asked, Profiled(sides))

    assert "Where the time goes" in page_of(desk, alert)
    assert (desk.settings.reports / f"profile-{asked.id}.html").is_file()
