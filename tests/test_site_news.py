"""What makes a page out of date: a site that was brought up to date is as a new one would be."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.site.ledger import BRANCH, Plan, bed, fill, head, night, revision, scenario
from netbisect.bisect.model import (
    Bisection,
    Boot,
    Commit,
    Comparison,
    Conditions,
    Dud,
    Kernel,
    Night,
    NotConfirmed,
    Reaction,
    Sample,
    Stage,
    Unfinished,
)
from netbisect.bisect.states import AlertState
from netbisect.steps import site_source, site_touched, surroundings
from netbisect.steps.memory import open_ledger
from netbisect.steps.site_build import Task
from netbisect.steps.site_files import Report, opened
from netbisect.steps.site_run import run
from netbisect.steps.site_source import Source, unchanged
from netbisect.store.ledger import Ledger
from netbisect.store.records import DecisionStage, Event, Outcome

BED = bed(0)
SMALL = Plan(testbeds=1, scenarios=1, nights=26, boots=2, drops=3)


def bring(site: Any, source: Source | None = None, *, full: bool = False) -> Report:
    """Brings a site up to date, as the command does."""
    told = source or Source(site.database)
    with opened(site.folder) as found:
        quiet = None if full else unchanged(found, told)
        return quiet or run(found, told, None, full=full)


def everything(site: Any) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in site.folder.iterdir()
        if path.suffix in {".html", ".json", ".svg", ".atom"} and path.name != "site.json"
    }


# ------------------------------------------------------------------------- kinds of news


def sample(
    ledger: Ledger, number: int, name: str, digest: str = "", at: float = 0.0, pps: float = 5e5
) -> None:
    """One more boot of a commit, with a run of the first scenario."""
    trail = ledger.trails(BED, scenario(0))[0]
    at = at or trail.epochs[-1].levels[-1].at + 86400.0
    boot = Boot(name, BED, f"key-{number}", revision(number), at, 100.0)
    problems = () if pps else ("no packets",)
    ledger.record(boot)
    ledger.record(
        Sample(name, name, BED, scenario(0), pps, 1e7, (), (), problems,
               digest or trail.epochs[-1].digest, at, 30.0)
    )  # fmt: skip


def newest(ledger: Ledger) -> int:
    return max(ledger.numbers()[BRANCH].values())


def a_boot_of_the_newest(ledger: Ledger) -> None:
    sample(ledger, newest(ledger), "more")


def a_boot_of_a_case(ledger: Ledger) -> None:
    question = ledger.questions("comparison")[0].question
    assert isinstance(question, Comparison)
    sample(ledger, ledger.numbers()[BRANCH][question.bad], "late")


def a_boot_without_packets(ledger: Ledger) -> None:
    sample(ledger, newest(ledger), "none", pps=0.0)


def other_conditions(ledger: Ledger) -> None:
    new = Conditions.of(BED, scenario(0), {"flows": "1"})
    ledger.record(new)
    sample(ledger, newest(ledger), "new", new.digest)


def conditions_of_old(ledger: Ledger) -> None:
    """Told only now, of samples that are there."""
    sample(ledger, newest(ledger), "untold", Conditions.of(BED, scenario(0), {"a": "b"}).digest)
    open_and_bring(ledger)
    ledger.record(Conditions.of(BED, scenario(0), {"a": "b"}))


def another_identity(ledger: Ledger) -> None:
    """Of a kernel that was booted: it was built again, and the newest name of it counts."""
    level = ledger.trails(BED, scenario(0))[0].epochs[-1].levels[-1]
    before = ledger.trails(BED, scenario(0))[0].epochs[-1].levels[-2]
    key = next(
        one.boot.kernel
        for one in ledger.samples(testbed=BED)
        if one.boot.revision == level.revision
    )
    same = max(level.identity, before.identity, "zz")
    ledger.record(
        Kernel(level.revision, "GENERIC-NODEBUG", "amd64", same, key, "v", 1, level.at, 1.0)
    )


def a_dud(ledger: Ledger) -> None:
    """Of a candidate that no search has asked for; of a build, only its decision tells which."""
    question = ledger.questions("bisection")[0].question
    assert isinstance(question, Bisection)
    booted = ledger.numbers()[BRANCH]
    name = next(one.revision for one in question.candidates if one.revision not in booted)
    ledger.record(Dud("d", name, Stage.BOOT, Reaction.SKIP, "it panics", 1.7e9, 60.0, BED))


def standing(ledger: Ledger) -> int:
    return [one.id for one in ledger.alerts() if one.state.standing][-1]


def acknowledged(ledger: Ledger) -> None:
    ledger.change_alert(standing(ledger), who="olga", what="known", state=AlertState.ACKNOWLEDGED)


def muted(ledger: Ledger) -> None:
    until = ledger.clock() + 86400.0
    ledger.change_alert(
        standing(ledger), who="olga", what="later", state=AlertState.MUTED, until=until
    )


def withdrawn(ledger: Ledger) -> None:
    ledger.change_alert(standing(ledger), who="olga", what="a fan", state=AlertState.INVALID)


def quarantined(ledger: Ledger) -> None:
    ledger.quarantine(BED, why="no power", by="olga")


def asked(ledger: Ledger) -> None:
    """A comparison, a decision of it that fails, and its answer."""
    ends = revision(newest(ledger) - 1), revision(newest(ledger))
    question = Comparison(BRANCH, BED, *ends, (scenario(0),), scenario(0), -0.1)
    one = ledger.ask(question, key="more")
    open_and_bring(ledger)
    decision = ledger.intend(
        one.id, DecisionStage.TRIAL, ends[1], BED, config="GENERIC", arch="amd64", why="to see"
    )
    open_and_bring(ledger)
    ledger.finish(decision.id, Outcome.DUD, "no power")
    open_and_bring(ledger)
    with ledger.closing(one, NotConfirmed((), "no change")):
        pass


def a_night_without_an_answer(ledger: Ledger) -> None:
    question = Night(BRANCH, BED, revision(newest(ledger)), (scenario(0),), 3)
    with ledger.closing(ledger.ask(question, key="n"), Unfinished("no power")):
        pass


def another_subject(ledger: Ledger) -> None:
    """The commits of a search were learned anew, with other words."""
    question = ledger.questions("bisection")[0].question
    assert isinstance(question, Bisection)
    known = ledger.commits([one.revision for one in question.candidates])
    ledger.learn(
        [
            dataclasses.replace(one, subject="in other words", author="Another")
            for one in known.values()
        ],
        BRANCH,
    )


def a_branch_rewritten(ledger: Ledger) -> None:
    """Another commit stands where one was that was measured."""
    ledger.learn([Commit("f" * 40, newest(ledger), "instead", "", "a", "e", 1.7e9)], BRANCH)


def a_commit_of_no_branch(ledger: Ledger) -> None:
    """It was compared before anybody knew what it says."""
    name = "a" * 40
    compared(ledger, revision(newest(ledger)), name)
    open_and_bring(ledger)
    ledger.know([Commit(name, 0, "of somebody else", "", "a", "e", 1.7e9)])


def compared(ledger: Ledger, good: str, bad: str) -> None:
    question = Comparison(BRANCH, BED, good, bad, (scenario(0),), scenario(0), -0.1)
    with ledger.closing(ledger.ask(question, key=bad), NotConfirmed((), "no change")):
        pass


def a_branch_more(ledger: Ledger) -> None:
    """A commit that was measured is on another branch too."""
    commit = ledger.commit(revision(newest(ledger)))
    assert commit is not None
    ledger.learn([commit], "stable/15")


_again: list[Callable[[], Report]] = []


def open_and_bring(ledger: Ledger) -> None:
    """The site is brought up to date in the middle of it."""
    del ledger
    _again[0]()


NEWS = [
    a_boot_of_the_newest, a_boot_of_a_case, a_boot_without_packets, other_conditions,
    conditions_of_old, another_identity, a_dud, acknowledged, muted, withdrawn, quarantined, asked,
    a_night_without_an_answer, another_subject, a_branch_rewritten, a_branch_more,
    a_commit_of_no_branch,
]  # fmt: skip


def few_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has pictures of cases show few levels to each side, so that later ones do not count."""
    for module in (surroundings, site_touched):
        monkeypatch.setattr(module, "BEFORE", 3)
        monkeypatch.setattr(module, "AFTER", 5)


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory, site_type: Any, whole_site: Any
) -> Iterator[Any]:
    """A site of one series and three alerts, whose pictures have few levels."""
    del whole_site  # made before, with as many levels as ever
    folder = tmp_path_factory.mktemp("small")
    fill(f"sqlite:///{folder}/l.sqlite", SMALL).engine.dispose()
    site = site_type(folder / "out", f"sqlite:///{folder}/l.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        few_levels(patch)
        bring(site)
        yield site


@pytest.fixture
def own_small(small: Any, tmp_path: Path) -> Any:
    """A copy of both for one test."""
    shutil.copytree(small.folder, tmp_path / "out")
    copy = shutil.copy(small.database.removeprefix("sqlite:///"), tmp_path)
    return dataclasses.replace(small, folder=tmp_path / "out", database=f"sqlite:///{copy}")


def forget(site: Any) -> None:
    """Has the next run look at everything, and draw all that differs from what is there."""
    path = site.folder / "site.json"
    told = json.loads(path.read_text())
    fresh = {key: mark for key, mark in told["marks"].items() if not key.startswith("series")}
    path.write_text(json.dumps({**told, "mark": "", "marks": fresh}))
    shutil.rmtree(site.folder / ".kept")


@pytest.mark.parametrize("happens", NEWS, ids=lambda one: one.__name__)
def test_a_site_brought_up_to_date_is_as_a_new_one(
    own_small: Any, happens: Callable[[Ledger], None]
) -> None:
    """Byte for byte, whatever was written into the ledger."""
    _again[:] = [lambda: bring(own_small)]
    before = everything(own_small)
    happens(open_ledger(own_small.database))
    bring(own_small)
    found = everything(own_small)
    forget(own_small)
    report = bring(own_small)

    assert {
        name for name, text in everything(own_small).items() if found.get(name) != text
    } == set()
    assert report.written == report.removed == 0
    if happens not in {a_boot_without_packets, quarantined}:
        assert found != before


@pytest.mark.slow
def test_a_site_brought_up_to_date_is_as_one_made_anew(own_small: Any) -> None:
    """With all that can happen, one after the other."""
    _again[:] = [lambda: bring(own_small)]
    for happens in NEWS:
        happens(open_ledger(own_small.database))
        bring(own_small)
    found = everything(own_small)
    bring(own_small, full=True)

    assert everything(own_small) == found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_after_any_nights_a_site_is_as_one_made_anew(own_small: Any, seed: int) -> None:
    """Between which anything happens, in any order."""
    _again[:] = [lambda: bring(own_small)]
    happenings = [one for one in NEWS if one is not withdrawn]
    random.Random(seed).shuffle(happenings)
    ledger = open_ledger(own_small.database)
    for number, some in enumerate((happenings[:4], happenings[4:9], [*happenings[9:], withdrawn])):
        night(ledger, SMALL, SMALL.nights + number, testbeds=1)
        for happens in some:
            happens(ledger)
        bring(own_small)
    found = everything(own_small)
    bring(own_small, full=True)

    assert everything(own_small) == found


def test_without_news_nothing_is_looked_at(own_small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless time alone changes what a badge says, or the program is another one."""
    bring(own_small)
    with opened(own_small.folder) as found:
        assert unchanged(found, Source(own_small.database)) is not None
        assert unchanged(found, Source(own_small.database, commit_link="x/{revision}")) is None
        assert unchanged(found, Source(own_small.database, min_effect=0.1)) is None
        found.manifest.until = time.time()
        assert unchanged(found, Source(own_small.database)) is None
        found.manifest.until = None
        monkeypatch.setattr(site_source, "_versions", lambda: ["another"])
        assert unchanged(found, Source(own_small.database)) is None


def test_another_database_with_as_many_events_is_seen(
    own_small: Any, small: Any, tmp_path: Path
) -> None:
    """Such as an older copy that has gone on."""
    (tmp_path / "other").mkdir()
    copy = shutil.copy(small.database.removeprefix("sqlite:///"), tmp_path / "other")
    other = dataclasses.replace(own_small, database=f"sqlite:///{copy}")
    acknowledged(open_ledger(own_small.database))
    bring(own_small)
    before = everything(own_small)
    withdrawn(open_ledger(other.database))
    bring(other)
    found = everything(own_small)
    forget(other)

    assert found != before
    assert bring(other).written == 0


def test_the_digest_is_of_all_that_makes_pages(tmp_path: Path) -> None:
    """Modules and templates of all folders."""
    names = {path.name for path in Source("")._files()}

    assert {"series.html", "page.css", "plots.py", "trails.py", "detect.py", "lab.py"} <= names
    del tmp_path


# ------------------------------------------------------------------------- cases


def event(kind: str, question: int | None = None, **data: Any) -> Event:
    return Event(1, 1.0, kind, question, data)


@pytest.mark.parametrize(
    ("happened", "touched"),
    [
        (None, True),
        ([], False),
        ([event("mail", key="x")], False),
        ([event("quarantine", testbed=BED, quarantine=1)], False),
        ([event("asked", 7)], True),
        ([event("asked", 8)], False),
        ([event("alert", testbed=BED)], True),
        ([event("alert", testbed="other")], False),
        ([event("conditions", testbed=BED)], True),
        ([event("learned", branch=BRANCH, first=1, last=2)], False),
        ([event("learned", branch=BRANCH, first=1, last=300_100)], True),
        ([event("known", revisions=[revision(head(6))])], True),
        ([event("known", revisions=[revision(head(0))])], False),
        ([event("known", revisions=["on no branch"])], True),
        ([event("known", revisions=None)], True),
        ([event("import", source="x", facts=3, revisions=None)], True),
        ([event("import", source="x", facts=3)], True),
        ([event("import", source="x", facts=3, revisions=[revision(head(0))])], False),
        ([event("sample", 8, revision=revision(head(6)))], True),
        ([event("sample", 8, revision=revision(head(0)))], False),
        ([event("dud", 8, revision="nobody knows it")], True),
        ([event("of tomorrow")], True),
    ],
)
def test_events_tell_which_cases_to_look_at(
    whole_site: Any, happened: list[Event] | None, touched: bool
) -> None:
    """One about commits 300,100 to 300,200 of the first testbed, whose search is question 7."""
    case = site_touched.Extent(BED, 300_100, 300_200)
    news = site_touched.news_of(open_ledger(whole_site.database), happened, {7: {BED}})

    assert news.touches(case) == touched


@pytest.mark.parametrize(
    ("testbed", "number", "branch", "touched"),
    [
        (bed(1), head(4), BRANCH, True),
        (bed(1), head(5), BRANCH, True),
        (bed(1), head(6), BRANCH, False),
        (bed(1), head(3), BRANCH, True),
        (bed(1), head(20), BRANCH, False),
        (bed(1), head(4), "", False),
    ],
)
def test_an_alert_is_looked_at_when_other_testbeds_measure_its_change(
    whole_site: Any, testbed: str, number: int, branch: str, touched: bool
) -> None:
    """Up to the second commit with it that they boot; and only as long as it is followed."""
    about = site_touched.Extent(BED, 1, 2, branch, head(3), head(4), until=10.0)
    happened = [event("sample", testbed=testbed, revision=revision(number))]
    news = site_touched.news_of(open_ledger(whole_site.database), happened, {})

    assert news.touches(about) == touched
    assert dataclasses.replace(news, now=10.0).touches(about) == (touched or bool(branch))
    assert news.touches(dataclasses.replace(about, files=True))


def test_old_cases_are_left_alone_after_a_night(own_small: Any) -> None:
    """Those whose pictures have later levels enough; the newest ones are looked at."""
    manifest = json.loads((own_small.folder / "site.json").read_text())
    old, new = (
        site_touched.Extent(*manifest["extents"][Task("comparison", number=number).key])
        for number in (1, 5)
    )
    ledger = open_ledger(own_small.database)
    night(ledger, SMALL, SMALL.nights, testbeds=1)
    news = site_touched.news_of(ledger, ledger.events_after(manifest["mark"]), {})

    assert old.last < new.last == math.inf
    assert not news.touches(old)
    assert news.touches(new)
