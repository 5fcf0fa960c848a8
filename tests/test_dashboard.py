"""The dashboard: what stands on it, whatever things are called, and that it needs no script."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from netbisect.bisect.model import (
    Bisection,
    Boot,
    Candidate,
    Comparison,
    Night,
    Noise,
    Sample,
    Unfinished,
)
from netbisect.reports import dashboard
from netbisect.reports.dashboard import Dashboard
from netbisect.steps import control
from netbisect.steps.board import Board
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import LinkSettings, load
from netbisect.store.alert_changes import add_series
from netbisect.store.records import DecisionStage
from netbisect.store.tables import AlertRow

HOSTILE = "]]> <script>alert(1)</script> \x07 \u202e & \"'"
CHROMIUM = shutil.which("chromium") or shutil.which("chrome") or shutil.which("chromium-browser")


class Watch:
    """A service's board over a ledger with nights, alerts and searches."""

    def __init__(self, house: Path, database: Path, site: str) -> None:
        settings, lab = load(house / control.SETTINGS)
        self.settings = replace(
            settings,
            database=f"sqlite:///{database}",
            links=LinkSettings(settings.links.commit, site),
        )
        self.ledger = open_ledger(self.settings.database)
        self.now = max(one.latest for one in self.ledger.marks().values()) + 3600
        self.ledger.clock = lambda: self.now
        self.board = Board(self.settings, lab)
        self.names = sorted({one.scenario for one in self.ledger.known_series()})

    def look(self) -> Dashboard:
        for one in self.board.late(self.ledger):
            self.board.read(self.ledger, one)
        return self.board.look(self.ledger)

    def night(self, testbed: str, why: str = "") -> None:
        revision = self.ledger.newest("main")
        assert revision is not None
        night = Night("main", testbed, revision, tuple(self.names), 4)
        asked = self.ledger.ask(night, key=f"night {testbed}")
        if why:
            with self.ledger.closing(asked, Unfinished(why)):
                pass


@pytest.fixture
def watch(quiet_house: Path, filled: Path, tmp_path: Path) -> Watch:
    return Watch(quiet_house, Path(shutil.copy(filled, tmp_path)), "https://lab.invalid/site/")


def test_it_tells_how_the_watch_is(watch: Watch, read_page: Callable[[str], Any]) -> None:
    """Last night, open alerts, the grid of all series, and where there is more."""
    watch.night("testbed-00", why="the generator does not answer")
    text = dashboard.page(watch.look())
    page = read_page(text)
    alerts = [one for one in watch.ledger.alerts() if one.state.standing]
    links = page.values("href")

    assert "0 of 3 series measured, 3 missing." in page.text
    assert "the generator does not answer" in page.text
    assert alerts
    for one in alerts:
        assert f"https://lab.invalid/site/alert-{one.id}.html" in links
        assert one.culprit[:12] in page.text
    assert f"{len(alerts)} open alert" in page.text
    assert "main: latest level against baseline" in page.text
    assert sum(link.startswith("https://lab.invalid/site/series-") for link in links) == 6
    assert "▼ -" in page.text
    assert "Nothing is asked of the lab." in page.text


def test_colour_is_for_what_is_confirmed_alone(watch: Watch, read_page: Any) -> None:
    """A cell of the grid that belongs to no open alert has none."""
    page = read_page(dashboard.page(watch.look()))
    looks = [one.get("class") or "" for one in page.all("td") if one.get("class") in {"down", "up"}]
    moved = {
        (one.testbed, one.scenario)
        for alert in watch.ledger.alerts()
        if alert.state.standing
        for one in alert.series
        if one.moved
    }

    assert looks == ["down"] * len(moved)


def test_what_is_under_way_has_progress_and_time_left(watch: Watch, read_page: Any) -> None:
    alert = watch.ledger.alerts()[-1]
    watch.night(alert.testbed)
    revisions = watch.ledger.measured_revisions()[-6:]
    watch.ledger.ask(
        Comparison("main", alert.testbed, alert.good, alert.bad, (alert.lead,), alert.lead, -0.1),
        key="compare",
    )
    watch.ledger.ask(
        Bisection(
            "main", alert.testbed, alert.good, tuple(map(Candidate, revisions)), (alert.lead,),
            alert.lead, -0.1, Noise(),
        ),
        key="bisect",
    )  # fmt: skip
    view = watch.look()
    told = {one.kind: one for one in view.running}

    assert set(told) == {"night", "comparison", "bisection"}
    assert (told["night"].done, told["night"].said) == (0.0, "0 of 4 boots")
    assert told["comparison"].said == "3 of at most 9 boots on either side"
    assert told["comparison"].done == pytest.approx(3 / 9)
    assert "6 commits; likeliest" in told["bisection"].said
    assert all(one.left is not None and one.left > 60 for one in view.running)
    page = read_page(dashboard.page(view))
    assert len(page.all("progress")) == 3
    assert "is under way: 0 of 3 series measured." in page.text


def test_only_what_has_changed_is_read_again(watch: Watch) -> None:
    assert len(watch.board.late(watch.ledger)) == 6
    first = watch.look()
    assert watch.board.late(watch.ledger) == []
    assert watch.look() == first

    alert = next(one for one in watch.ledger.alerts() if one.state.standing)
    watch.ledger.change_alert(alert.id, who="a", what="b", culprit="c" * 40)
    late = watch.board.late(watch.ledger)
    assert {one.place[0] for one in late} == {alert.testbed}


def test_what_an_alert_is_about_elsewhere_is_read_again_too(watch: Watch) -> None:
    """Where a baseline begins is told by every alert that was seen in its series."""
    watch.look()
    alert = next(one for one in watch.ledger.alerts() if one.state.standing)
    other = next(one for one in watch.ledger.known_series() if one.testbed != alert.testbed)
    with watch.ledger.writing() as writing:
        add_series(
            writing, alert.id, testbed=other.testbed, scenario=other.scenario,
            branch=other.branch, good=alert.good, bad=alert.bad, effect=None, who="a",
        )  # fmt: skip

    late = {one.place for one in watch.board.late(watch.ledger)}
    assert (other.testbed, other.scenario) in late
    assert late == {(one.testbed, one.scenario) for one in watch.ledger.alert(alert.id).series}


@pytest.fixture
def read_alerts() -> Iterator[list[int]]:
    """Numbers of the alerts that were read."""
    found: list[int] = []

    def listen(alert: AlertRow, _: object) -> None:
        found.append(alert.id)

    event.listen(AlertRow, "load", listen)
    yield found
    event.remove(AlertRow, "load", listen)


def test_news_of_no_alert_reads_none(watch: Watch, read_alerts: list[int]) -> None:
    """There may be thousands."""
    watch.look()
    watch.night("testbed-00")
    read_alerts.clear()

    assert watch.look().night.planned == 3
    assert read_alerts == []


def test_what_was_over_long_ago_is_not_read(watch: Watch, read_alerts: list[int]) -> None:
    known = watch.ledger.alerts()
    watch.now += dashboard.NEWS_SECONDS
    read_alerts.clear()
    shown = {one.number for one in watch.look().overview.alerts}

    assert set(read_alerts) == shown == {one.id for one in watch.ledger.open_alerts()}
    assert len(known) > len(shown) > 0


def test_what_is_missing_of_a_night_is_told_as_soon_as_it_is_measured(watch: Watch) -> None:
    watch.night("testbed-00")
    assert watch.look().night.measured == 0
    [night] = [one for one in watch.ledger.open_questions() if isinstance(one.question, Night)]
    first = watch.names[0]
    decision = watch.ledger.intend(
        night.id, DecisionStage.TRIAL, night.question.revision, "testbed-00",
        config="G", arch="amd64", why="the next",
    )  # fmt: skip
    sample = Sample("new", "new", "testbed-00", first, 1e6, 1e9, (), (), (), "c", watch.now, 1.0)
    boot = Boot("new", "testbed-00", "k", night.question.revision, watch.now, 1.0)
    for fact in (boot, sample):
        watch.ledger.record(fact, decision.id)

    view = watch.look()
    assert view.night.measured == 1
    assert sum(len(one.scenarios) for one in view.night.missing) == 2


def test_samples_are_counted_only_after_some_were_measured(watch: Watch) -> None:
    """Which takes longest where there are millions; a new one is seen all the same."""
    watch.look()
    said: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    event.listen(watch.ledger.engine, "before_cursor_execute", listen)
    watch.look()
    alert = next(one for one in watch.ledger.alerts() if one.state.standing)
    watch.ledger.change_alert(alert.id, who="a", what="b")
    watch.look()
    assert not [one for one in said if "count(*)" in one and "FROM samples" in one]

    one = next(iter(watch.ledger.known_series()))
    boot = Boot("new", one.testbed, "k", watch.ledger.measured_revisions()[0], watch.now, 1.0)
    sample = Sample(
        "new", "new", one.testbed, one.scenario, 1e6, 1e9, (), (), (), "c", watch.now, 1.0
    )
    watch.ledger.record_all([boot, sample], "test")
    assert [late.place for late in watch.board.late(watch.ledger)] == [(one.testbed, one.scenario)]
    assert watch.board._counted == watch.ledger.counted()


def test_what_is_not_read_yet_is_counted(watch: Watch, read_page: Any) -> None:
    """The page comes at once, and looks again soon."""
    empty = dashboard.page(watch.board.look(watch.ledger))

    assert "6 more are being read" in read_page(empty).text
    assert '<meta http-equiv="refresh" content="5">' in empty
    assert '<meta http-equiv="refresh" content="60">' in dashboard.page(watch.look())


def test_without_a_site_links_lead_to_what_the_service_has(
    quiet_house: Path, filled: Path, tmp_path: Path, read_page: Any
) -> None:
    watch = Watch(quiet_house, Path(shutil.copy(filled, tmp_path)), "")
    links = read_page(dashboard.page(watch.look())).values("href")
    base = f"{watch.settings.web.url}plugins/netbisect/"

    assert links
    assert all(link.startswith(base) for link in links)
    assert any(link.startswith(f"{base}reports/alert-") for link in links)


def test_nothing_is_known_yet(quiet_house: Path, url: str, read_page: Any) -> None:
    """Of a service on its first day."""
    settings, lab = load(quiet_house / control.SETTINGS)
    ledger = open_ledger(url)
    text = read_page(dashboard.page(Board(settings, lab).look(ledger))).text

    assert "No night has been asked for yet." in text
    assert "No alert wants attention." in text


def test_what_people_write_stays_text(watch: Watch, read_page: Any) -> None:
    """Reasons, names of testbeds and of scenarios, whatever is in them."""
    watch.ledger.quarantine(HOSTILE, why=HOSTILE)
    watch.night("testbed-01", why=HOSTILE)
    view = watch.look()
    lines = [replace(one, lead=HOSTILE, branch=HOSTILE) for one in view.overview.alerts]
    series = [
        replace(one, title=HOSTILE, testbed=HOSTILE, branch=HOSTILE) for one in view.overview.series
    ]
    overview = replace(view.overview, alerts=lines, series=series)
    text = dashboard.page(replace(view, overview=overview))
    page = read_page(text)

    assert page.all("script") == []
    assert "<script>alert(1)</script>" in page.text
    assert not set(text) & {"\x07", "\u202e"}


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_whoever_hears_it_finds_everything(watch: Watch, read_page: Any) -> None:
    """Tables have captions and heads with a scope, sections have names, pictures are hidden."""
    watch.night("testbed-00")
    text = dashboard.page(watch.look())
    page = read_page(text)
    ids = page.values("id")

    assert all(one.get("scope") in {"col", "row"} for one in page.all("th"))
    assert all(one.get("aria-labelledby") in ids for one in page.all("section"))
    assert len(ids) == len(set(ids))
    assert all(one.get("aria-hidden") == "true" for one in page.all("svg"))
    assert [one.get("lang") for one in page.all("html")] == ["en"]
    for scheme in re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for name in ("ink", "soft", "link"):
            assert contrast(colours[name], colours["paper"]) >= 4.5, name


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_asks_for_nothing_and_complains_of_nothing(watch: Watch, tmp_path: Path) -> None:
    """The page is whole as it comes."""
    (tmp_path / "page.html").write_text(dashboard.page(watch.look()))
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        "--dump-dom",
        f"file://{tmp_path / 'page.html'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    assert "</html>" in done.stdout
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
