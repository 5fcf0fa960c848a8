"""What the site tells of an alert beyond its numbers: what the mail tells, and more."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netbisect.bisect import wire
from netbisect.bisect.model import Culprit, Profile, Profiled, Profiling
from netbisect.reports import mail
from netbisect.reports.site import cases
from netbisect.steps import control, profiles
from netbisect.steps import site_material as material
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import Settings, load
from netbisect.steps.site_build import Desk, Source, Task
from netbisect.steps.site_touched import News
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, DecisionStage, Outcome
from netbisect.workers.profile import file_of

NOW = 2e9


class Told:
    """The last alert of a filled ledger, in the home of a service."""

    def __init__(self, house: Path, database: Path, folder: Path) -> None:
        settings, self.lab = load(house / control.SETTINGS)
        self.settings: Settings = replace(settings, state=folder)
        self.ledger: Ledger = open_ledger(f"sqlite:///{database}")
        self.names = OfLedger(settings.links.commit, self.lab, self.settings)

    @property
    def alert(self) -> Alert:
        return self.ledger.alerts()[-1]

    def case(self, now: float | None = None) -> Any:
        at = material.latest(self.ledger) if now is None else now
        return material.alert_case(self.ledger, self.alert, self.names, at)

    def take_profiles(self) -> None:
        """What `pmcstat` would leave of the culprit and of its parent."""
        assert self.alert.bisection is not None
        search = self.ledger.question(self.alert.bisection)
        assert isinstance(search.finding, Culprit)
        pair = search.finding.parent, search.finding.revision
        scenario = search.finding.effects[0].scenario
        question = Profiling(self.alert.branch, self.alert.testbed, pair, (scenario,), 6e5)
        asked = self.ledger.ask(question, key=profiles.key_of(question), parent=search.id)
        for revision, share in zip(pair, (100, 300), strict=True):
            decision = self.ledger.intend(
                asked.id, DecisionStage.PROFILE, revision, self.alert.testbed,
                config="G", arch="amd64", why="",
            )  # fmt: skip
            self.ledger.finish(decision.id, Outcome.OK)
            place = self.settings.visits / str(decision.id)
            place.mkdir(parents=True)
            profile = Profile(revision, "k", "t", scenario, "cycles", 6e5, 1000, None, 1.0, 30.0)
            (place / file_of(scenario, "json")).write_text(wire.dumps(profile))
            stacks = f"ether_input;ip_tryforward;<b>slow</b> {share}\nether_input 700\n"
            (place / file_of(scenario, "folded")).write_text(stacks)
        with self.ledger.closing(asked, Profiled(pair)):
            pass


@pytest.fixture
def told(quiet_house: Path, filled: Path, tmp_path: Path) -> Told:
    return Told(quiet_house, Path(shutil.copy(filled, tmp_path)), tmp_path)


def test_the_page_says_what_the_mail_says(told: Told, read_page: Any) -> None:
    """How much, what did not move, what becomes of it elsewhere, what to type."""
    case = replace(told.case(), stable=("It is due on stable/15 on 2026-03-16.",), command="run it")
    letter = mail.outcome(case).text
    line = material.alert_line(told.alert, told.names, 0.0)
    page = read_page(cases.alert(line, case, seen=[], deeds=[], questions=[]))

    assert case.unmoved == ("testbed-01 (inet4-path-00 and inet4-path-02)",)
    for sentence in (*case.unmoved, *case.stable, case.command, f"alerts ack {told.alert.id}"):
        assert sentence in " ".join(letter.split())
        assert sentence in page.text
    assert "What this commit changed" in page.text


def test_flame_graphs_lie_beside_the_page_and_in_it(told: Told, read_page: Any) -> None:
    told.take_profiles()
    case = told.case()
    line = material.alert_line(told.alert, told.names, 0.0)
    text = cases.alert(line, case, seen=[], deeds=[], questions=[])
    files = cases.drawings(case)

    stem = f"alert-{told.alert.id}.flames-1"
    assert list(files) == [f"{stem}-{name}.svg" for name in ("difference", "before", "after")]
    assert set(files) <= set(read_page(text).values("href"))
    assert text.count('class="fg"') == 3
    assert "&lt;b&gt;slow" in text
    assert all(one.startswith("<?xml") and "&lt;b&gt;slow" in one for one in files.values())


def test_they_are_written_with_the_site(told: Told, tmp_path: Path) -> None:
    told.take_profiles()
    source = Source(str(told.ledger.engine.url), lab=told.lab, home=told.settings)
    [done] = Desk(source, tmp_path).do([(Task("alert", number=told.alert.id), "")])

    assert done.pages is not None
    assert len([name for name in done.pages if name.endswith(".svg")]) == 3
    assert all((tmp_path / name).is_file() for name in done.pages)


def test_what_lies_beside_the_ledger_is_looked_at_every_time(told: Told, tmp_path: Path) -> None:
    """The ledger does not tell when the files of a visit go, or when the tree has news."""
    source = Source(str(told.ledger.engine.url), lab=told.lab, home=told.settings)
    alone = Source(source.database, lab=told.lab)
    asked = [(Task("alert", number=told.alert.id), "")]
    [without] = Desk(alone, tmp_path).do(asked)
    told.take_profiles()
    [done] = Desk(source, tmp_path).do(asked)

    assert without.extent is not None
    assert done.extent is not None
    assert News().touches(done.extent)
    assert not News().touches(without.extent)


def test_what_is_long_over_is_followed_no_more(told: Told) -> None:
    """Then other testbeds are not looked at any more, and the tree is not either."""
    back = told.ledger.newest("main") or ""
    told.ledger.change_alert(
        told.alert.id, who="a", what="b", state=told.alert.state.FIXED, recovery=back
    )
    closed = told.alert.closed_at
    assert closed is not None

    assert told.case(closed + 86400.0).unmoved
    assert told.case(closed + 100 * 86400.0).unmoved == ()


def test_without_the_service_s_folders_the_rest_is_told(told: Told) -> None:
    told.take_profiles()
    told.names = OfLedger()
    case = told.case()

    assert (case.profiles, case.stable, case.command) == ((), (), "")
    assert case.unmoved


def test_a_case_is_gathered_in_the_same_order_by_every_process(told: Told) -> None:
    """Or a page would be drawn again of which nothing has changed: sets have no order."""
    names = list(told.case().labels)

    assert names == sorted(names)
    assert len(names) > 4
