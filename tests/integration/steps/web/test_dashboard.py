"""The dashboard page and its data."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, Candidate, CompareJob, NightlyJob
from netbisect.bisect.model.results import Unfinished
from netbisect.reports.site import dashboard
from netbisect.reports.site.dashboard import Dashboard
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_ledger
from netbisect.steps.service.settings import LinkSettings, load
from netbisect.steps.web.dashboard_data import DashboardData
from netbisect.store.db.records import ActionStage

HOSTILE = "]]> <script>alert(1)</script> \x07 \u202e & \"'"
CHROMIUM = shutil.which("chromium") or shutil.which("chrome") or shutil.which("chromium-browser")


class Watch:
    """Dashboard data of a ledger with nights, alerts and searches."""

    def __init__(self, house: Path, database: Path, site: str) -> None:
        settings, lab = load(house / control.SETTINGS)
        self.settings = replace(
            settings,
            database=f"sqlite:///{database}",
            links=LinkSettings(settings.links.commit, site),
        )
        self.ledger = open_ledger(self.settings.database)
        self.now = max(one.latest for one in self.ledger.samples.counts().values()) + 3600
        self.ledger.clock = lambda: self.now
        self.data = DashboardData(self.settings, lab)
        self.names = sorted({one.scenario for one in self.ledger.series.names()})

    def look(self) -> Dashboard:
        for one in self.data.stale(self.ledger):
            self.data.read(self.ledger, one)
        return self.data.build(self.ledger)

    def night(self, testbed: str, why: str = "") -> None:
        revision = self.ledger.commits.newest("main")
        assert revision is not None
        night = NightlyJob("main", testbed, revision, tuple(self.names), 4)
        record = self.ledger.jobs.add(night, key=f"night {testbed}")
        if why:
            with self.ledger.jobs.closing(record, Unfinished(why)):
                pass


@pytest.fixture
def watch(quiet_house: Path, filled: Path, tmp_path: Path) -> Watch:
    return Watch(quiet_house, Path(shutil.copy(filled, tmp_path)), "https://lab.invalid/site/")


def test_it_shows_the_state_of_the_watch(watch: Watch, read_page: Callable[[str], Any]) -> None:
    watch.night("testbed-00", why="the generator does not answer")
    text = dashboard.page(watch.look())
    page = read_page(text)
    alerts = [one for one in watch.ledger.alerts.all() if one.state.standing]
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
    assert "Queue empty." in page.text


def test_running_jobs_have_progress_and_time_left(watch: Watch, read_page: Any) -> None:
    alert = watch.ledger.alerts.all()[-1]
    watch.night(alert.testbed)
    revisions = watch.ledger.commits.booted()[-6:]
    watch.ledger.jobs.add(
        CompareJob("main", alert.testbed, alert.good, alert.bad, (alert.lead,), alert.lead, -0.1),
        key="compare",
    )
    watch.ledger.jobs.add(
        BisectJob(
            "main", alert.testbed, alert.good, tuple(map(Candidate, revisions)), (alert.lead,),
            alert.lead, -0.1, Noise(),
        ),
        key="bisect",
    )  # fmt: skip
    view = watch.look()
    told = {one.kind: one for one in view.running}

    assert set(told) == {"night", "comparison", "bisection"}
    assert (told["night"].done, told["night"].said) == (0.0, "0 of 4 boots")
    assert (told["comparison"].done, told["comparison"].said) == (0.0, "0 of about 16 boots")
    assert "6 commits; likeliest" in told["bisection"].said
    assert all(one.left is not None and one.left > 60 for one in view.running)
    page = read_page(dashboard.page(view))
    assert len(page.all("progress")) == 3
    assert "is running: 0 of 3 series measured." in page.text


@pytest.mark.parametrize("work", [None, ActionStage.TRIAL, ActionStage.KERNEL])
def test_a_search_at_work_is_not_about_to_end(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, work: ActionStage | None
) -> None:
    """What it works at takes its time, even where no further trial is expected."""
    alert, revisions = watch.ledger.alerts.all()[-1], watch.ledger.commits.booted()[-6:]
    record = watch.ledger.jobs.add(
        BisectJob(
            "main", alert.testbed, alert.good, tuple(map(Candidate, revisions)), (alert.lead,),
            alert.lead, -0.1, Noise(),
        ),
        key="bisect",
    )  # fmt: skip
    prices = watch.ledger.costs.prices(alert.testbed)
    least = {None: None, ActionStage.TRIAL: prices.boot + prices.run}.get(work, prices.build)
    if work is not None:
        watch.ledger.actions.intend(
            record.id, work, revisions[0], alert.testbed, config="G", arch="amd64", why="the next"
        )
    monkeypatch.setattr(DashboardData, "_search", lambda *_: (0.9, 0.0, "6 commits"))
    view = watch.look()

    assert [one.left for one in view.running] == [least]
    assert "about 0 s" not in dashboard.page(view)


def test_only_changed_series_are_read_again(watch: Watch) -> None:
    assert len(watch.data.stale(watch.ledger)) == 6
    first = watch.look()
    assert watch.data.stale(watch.ledger) == []
    assert watch.look() == first

    alert = next(one for one in watch.ledger.alerts.all() if one.state.standing)
    watch.ledger.alerts.change(alert.id, who="a", what="b", culprit="c" * 40)
    stale = watch.data.stale(watch.ledger)
    assert {one.place[0] for one in stale} == {alert.testbed}


def test_unread_series_are_counted(watch: Watch, read_page: Any) -> None:
    empty = dashboard.page(watch.data.build(watch.ledger))

    assert "6 series are still loading" in read_page(empty).text
    assert '<meta http-equiv="refresh" content="5">' in empty
    assert '<meta http-equiv="refresh" content="60">' in dashboard.page(watch.look())


def test_failed_mails_are_counted(watch: Watch, read_page: Any) -> None:
    assert "could not be sent" not in read_page(dashboard.page(watch.look())).text
    mail = watch.ledger.mails.post("one", subject="s", recipients=["a@lab.invalid"], body="b")
    watch.ledger.mails.failed(mail.id, "550 no such user", None)

    assert (
        "1 mail could not be sent (netbisect mails)" in read_page(dashboard.page(watch.look())).text
    )


def test_an_empty_database_has_a_dashboard(quiet_house: Path, url: str, read_page: Any) -> None:
    settings, lab = load(quiet_house / control.SETTINGS)
    ledger = open_ledger(url)
    text = read_page(dashboard.page(DashboardData(settings, lab).build(ledger))).text

    assert "No night yet." in text
    assert "No open alerts." in text


def test_external_text_is_escaped(watch: Watch, read_page: Any) -> None:
    watch.ledger.quarantines.start(HOSTILE, why=HOSTILE)
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


def test_screen_readers_find_all_content(watch: Watch, read_page: Any) -> None:
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
def test_a_browser_loads_nothing_else_and_reports_no_error(watch: Watch, tmp_path: Path) -> None:
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
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    assert "</html>" in done.stdout
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
