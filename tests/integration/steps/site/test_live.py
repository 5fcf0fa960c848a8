"""Pages of the running service."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_facts import comparison, intend, measured
from programs import netbisect
from site_fixtures import Page

from netbisect.bisect.model.alert_change import ChangeBasis
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, Candidate, NightlyJob, ProfileJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Unfinished
from netbisect.reports.console import status
from netbisect.reports.mail import alerts, digest
from netbisect.reports.plots import chart
from netbisect.reports.site import changes, pages
from netbisect.steps.policy.alert_actions import change_mail
from netbisect.steps.queries import progress
from netbisect.steps.queries.badges import conditions
from netbisect.steps.queries.changes import of_alert
from netbisect.steps.queries.digest import gather
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.steps.site.folder import SiteRevisionError
from netbisect.steps.site.live import LivePages
from netbisect.store.db.records import ActionStage, Alert, AlertSeries, JobRecord, Outcome
from netbisect.store.ledger import open_ledger

pytestmark = pytest.mark.xdist_group("site")  # one process fills the database
HOSTILE = "]]> <script>alert(1)</script> \x07 \u202e & \"'"


class LiveCase:
    """Live pages of a ledger with nights, alerts and searches."""

    def __init__(self, folder: Path, database: Path) -> None:
        settings, self.lab = load(folder / control.SETTINGS)
        self.settings = replace(settings, database=f"sqlite:///{database}", state=database.parent)
        self.ledger = open_ledger(self.settings.database)
        self.now = max(one.latest for one in self.ledger.samples.counts().values()) + 3600
        self.ledger.clock = lambda: self.now
        self.context = LabContext(self.lab, self.settings)
        self.pages = LivePages(self.settings, self.lab, self.ledger, patience=math.inf)
        self.names = sorted({one.scenario for one in self.ledger.series.names()})

    @property
    def alert(self) -> Alert:
        """The last alert; its culprit is verified."""
        return self.ledger.alerts.all()[-1]

    def case(self, at: float) -> Any:
        found = of_alert(self.context, self.ledger, self.alert, at)
        assert found is not None
        return found

    def index(self) -> str:
        return self.page("index.html")

    def page(self, name: str) -> str:
        text = self.pages.file(name)
        assert text is not None, name
        return text

    def night(self, testbed: str, why: str = "") -> None:
        revision = self.ledger.commits.newest("main")
        assert revision is not None
        night = NightlyJob("main", testbed, revision, tuple(self.names), 4)
        record = self.ledger.jobs.add(night, key=f"night {testbed}")
        if why:
            with self.ledger.jobs.closing(record, Unfinished(why)):
                pass

    def search(self, revisions: list[str]) -> JobRecord:
        alert, suspects = self.ledger.alerts.all()[-1], tuple(map(Candidate, revisions))
        ends = "main", alert.testbed, alert.good, suspects
        job = BisectJob(*ends, (alert.lead,), alert.lead, -0.1, Noise())
        return self.ledger.jobs.add(job, key="bisect")


@pytest.fixture
def live(service_folder: Path, filled: Path, tmp_path: Path) -> LiveCase:
    return LiveCase(service_folder, Path(shutil.copy(filled, tmp_path)))


def test_overview_shows_night_and_alerts(live: LiveCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text of other programs is escaped; documents are made without pictures."""
    monkeypatch.setattr(chart, "draw", None)
    live.night("testbed-00", why="the generator does not answer")
    live.night("testbed-01", why=HOSTILE)
    live.ledger.quarantines.start(HOSTILE, why=HOSTILE)
    text = live.index()
    page = Page(text)
    alerts = [alert for alert in live.ledger.alerts.all() if alert.state.standing]
    links = page.values("href")

    assert [script.get("src") for script in page.all("script")] == ["live.js"]
    assert "<script>alert(1)</script>" in page.text
    assert not set(text) & {"\x07", "\u202e"}
    assert "0 of 6 series measured, 6 missing." in page.text
    assert "the generator does not answer" in page.text
    assert alerts
    for alert in alerts:
        assert f"alert-{alert.id}.html" in links
        document = json.loads(live.page(f"alert-{alert.id}.json"))
        assert document["address"] == live.settings.report_address(alert.id)
        assert json.loads(live.page(f"bisection-{alert.bisection}.json"))["alert"] == alert.id
        assert alert.culprit[:12] in page.text
    assert f"{len(alerts)} open alert" in page.text
    assert "main: latest level against baseline" in page.text
    assert sum(link.startswith("series-") for link in links) == 6
    assert page.text.count("▼ -4.4 %, alert") == 2
    assert page.text.index("Open alerts") < page.text.index("latest level against baseline")
    assert "Queue empty." in page.text
    changed = {(one.testbed, one.scenario) for alert in alerts for one in alert.series if one.moved}
    classes = [cell.get("class") or "" for cell in page.all("td")]
    coloured = [name for name in classes if name in {"down", "up"}]
    assert coloured == ["down"] * len(changed), "series of confirmed alerts"

    live.now += 40 * 86400
    links = set(Page(live.index()).values("href"))
    for alert in live.ledger.alerts.all():
        assert (f"alert-{alert.id}.html" in links) == alert.state.standing, "not the closed ones"


def test_unread_series_and_failed_mails_are_counted(live: LiveCase) -> None:
    live.pages.patience = 0.0
    empty = live.index()
    assert "6 series are still loading" in Page(empty).text
    last = replace(live.pages.overview(), unread=1)
    assert "1 series is still loading" in pages.index(last).html()
    assert '<meta http-equiv="refresh" content="5">' in empty
    live.pages.patience = math.inf
    assert "could not be sent" not in live.page("health.html")
    mail = live.ledger.mails.post("one", Mail("s", "b"), ["a@lab.invalid"])
    live.ledger.mails.failed(mail.id, "550 no such user", None)

    assert "1 mail could not be sent (netbisect mails)" in Page(live.page("health.html")).text
    index = live.index()
    assert "health.html" in Page(index).values("href")
    assert '<meta http-equiv="refresh" content="60">' in index


def test_running_jobs_have_progress_and_time_left(live: LiveCase) -> None:
    alert = live.ledger.alerts.all()[-1]
    live.night(alert.testbed)
    revisions = live.ledger.commits.booted()[-6:]
    compared = comparison(alert.good, alert.bad, alert.lead, testbed=alert.testbed)
    live.ledger.jobs.add(compared, key="compare")
    live.search(revisions)
    profiling = ProfileJob("main", alert.testbed, (alert.bad,), (alert.lead,))
    profile = live.ledger.jobs.add(profiling, key="profile").id
    view = live.pages.overview()
    jobs = {job.kind: job for job in view.running}

    assert set(jobs) == {"night", "comparison", "bisection", "profiling"}
    assert (jobs["night"].done, jobs["night"].progress) == (0.0, "0 of 4 boots")
    assert (jobs["comparison"].done, jobs["comparison"].progress) == (0.0, "0 of about 16 boots")
    assert "6 commits; likeliest" in jobs["bisection"].progress
    assert all(job.left is not None and job.left > 60 for job in view.running)
    page = Page(live.index())
    assert len(page.all("progress")) == 4
    assert f"profile-{profile}.html" in page.values("href")
    assert "is running: 0 of 3 series measured." in page.text

    records = live.ledger.jobs.all_open()
    [night] = [record for record in records if isinstance(record.job, NightlyJob)]
    decision = intend(live.ledger, night, night.job.revision)
    rates = {live.names[0]: 1e6}
    for fact in measured("new", alert.testbed, "k", night.job.revision, live.now, rates):
        live.ledger.facts.record(fact, decision.id)
    view = live.pages.overview()
    assert view.night.measured == 1
    assert sum(len(missing.scenarios) for missing in view.night.missing) == 2


def test_time_left_includes_the_running_action(
    live: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No further trial is expected in this test. A pause is shown until the attempt begins."""
    alert, revisions = live.ledger.alerts.all()[-1], live.ledger.commits.booted()[-6:]
    record = live.search(revisions)
    prices = live.ledger.costs.prices(alert.testbed)
    monkeypatch.setattr(progress, "_search", lambda *_: (0.9, 0.0, "6 commits"))
    trial, kernel = ActionStage.TRIAL, ActionStage.KERNEL
    for stage, left in ((trial, prices.boot + prices.run), (kernel, prices.build), (None, None)):
        actions = [intend(live.ledger, record, revisions[0], stage=stage)] if stage else []
        assert [job.left for job in live.pages.overview().running] == [left]
        assert "about 0 s" not in live.index()
        for action in actions:
            live.ledger.actions.finish(action.id, Outcome.OK)

    first = intend(live.ledger, record, record.job.bad)
    again = live.ledger.actions.retry(first.id, "another lab file", 600.0)
    for waits in (True, False):
        [job] = live.pages.overview().running
        assert job.now.endswith(": another lab file") is waits
        live.ledger.actions.submitted(again.id, 7)


def test_only_series_of_changed_alerts_are_read_again(live: LiveCase) -> None:
    assert len(live.pages.stale()) == 6
    first = live.pages.overview().series
    assert live.pages.stale() == []
    assert live.pages.overview().series == first

    alert = next(found for found in live.ledger.alerts.all() if found.state.standing)
    other = next(name for name in live.ledger.series.names() if name.testbed != alert.testbed)
    with live.ledger.writing() as writing:
        series = AlertSeries(
            alert=alert.id, testbed=other.testbed, scenario=other.scenario, branch=other.branch,
            good=alert.good, bad=alert.bad, effect=None, at=writing.now,
        )  # fmt: skip
        writing.session.add(series)
    live.ledger.alerts.change(alert.id, who="a", what="b", culprit="c" * 40)

    stale = {place for place, _ in live.pages.stale()}
    changed = live.ledger.alerts.get(alert.id)
    assert (other.testbed, other.scenario) in stale
    assert stale == {(series.testbed, series.scenario) for series in changed.series}


def test_an_alert_is_on_the_pages_of_all_its_testbeds(live: LiveCase) -> None:
    """These are the testbeds whose badges count it."""
    [*_, alert] = (one for one in live.ledger.alerts.all() if one.state.active)
    [*_, own] = (one for one in alert.series if one.scenario == alert.lead)
    with live.ledger.writing() as writing:
        other = AlertSeries(
            testbed="testbed-01", scenario=own.scenario, branch=own.branch, alert=alert.id,
            good=own.good, bad=own.bad, effect=own.effect, at=writing.now,
        )  # fmt: skip
        writing.session.add(other)
    live.ledger.alerts.change(alert.id, who="a", what="seen on the other testbed, too")
    page = f"alert-{alert.id}.html"
    counts = {
        testbed: one.drops for (_, testbed), one in conditions(live.ledger).items() if testbed
    }

    assert alert.testbed == "testbed-00"
    assert live.index().count(f"alert {alert.id}</small>") == 2
    for testbed, drops in counts.items():
        shown = set(Page(live.page(f"testbed-{testbed}.html")).values("href"))
        assert page in shown
        assert len([one for one in shown if one.startswith("alert-")]) == drops
    [*rows] = re.findall(r"<tr>.*", live.page("testbeds.html"))[1:]
    assert [page in row for row in rows] == [True, True]


@pytest.mark.long
def test_all_links_of_live_pages_lead_to_pages(live: LiveCase) -> None:
    """All pages also have a search field and a link to the builds of Buildbot."""
    seen, remaining, kinds = set(), ["index.html"], Counter[str]()
    while remaining:
        name = remaining.pop(0)
        seen.add(name)
        kind = re.sub(r"[-.].*[.]", ".", name)
        kinds[kind] += 1
        if kinds[kind] > 2:
            continue
        if not name.endswith(".html"):
            assert json.loads(live.page(name))["format"]
            continue
        page = Page(live.page(name))
        assert next(form.get("action") for form in page.all("form")) == "search"
        assert f"{live.settings.web.url}#/builders" in page.values("href")
        links = {link.partition("#")[0] for link in page.values("href")}
        links = {link for link in links if re.fullmatch(r"[a-z]+(-[\w.-]+)?[.](html|json)", link)}
        remaining += sorted(links - seen - set(remaining))

    expected = {"alert", "bisection", "comparison", "series", "testbed", "revisions", "health"}
    assert set(kinds) >= {f"{kind}.html" for kind in expected}


def test_the_search_field_finds_revisions_and_pairs_of_them(live: LiveCase, tmp_path: Path) -> None:
    """Names of imported revisions are no part of those of pages; unknown names have no page."""
    one, other = sorted(live.ledger.commits.booted())[:2]

    page = live.pages.search([one[:9]])
    assert page == f"revision-{one[:12]}.html"
    assert one in Page(live.page(page)).text
    pair = live.pages.search([one, other])
    assert "against" in Page(live.page(pair)).text
    number = live.ledger.commits.label(one).partition("-")[0]
    for name in ("nothing", f"{number}-{other[:12]}", "\N{SUPERSCRIPT TWO}"):
        with pytest.raises(SiteRevisionError, match="no kernel of it was measured"):
            live.pages.search([name])
    for name in (
        "alert-99.html", "alert-x.html", "bisection-1.html", "series-x.y.z.html", "profile-9.html",
        "revision-0.html", "compare-zz.b.html", "../netbisect.toml", "x.html", "request-9.html",
    ):  # fmt: skip
        assert live.pages.file(name) is None, name

    names = [f"release-14.0.{i}" for i in range(3)]
    rows = [f"new,ci,boot,time,{name},{i},5,s,lower\n" for i, name in enumerate(names)]
    measurements = tmp_path / "boot.csv"
    head = "branch,testbed,scenario,metric,revision,time,value,unit,direction\n"
    measurements.write_text(head + "".join(rows))
    place = ("--database", live.settings.database)
    done = netbisect("import", "measurements", measurements, *place)
    assert done.exit_code == 0, done.output
    assert names[1] in live.page(live.pages.search([names[1]]))
    assert "measured in 1 series;" in live.page(live.pages.search(names[1:]))


def test_an_empty_database_has_pages(service_folder: Path, url: str) -> None:
    settings, lab = load(service_folder / control.SETTINGS)
    pages = LivePages(settings, lab, open_ledger(url))
    for name in ("index", "requests", "alerts", "searches", "testbeds", "compare", "health"):
        assert pages.file(f"{name}.html")


def test_page_and_mail_of_an_alert_agree(live: LiveCase) -> None:
    """Both name unaffected testbeds until 90 days after the end, backports and commands."""
    found = replace(
        live.case(live.now), backports=("It is due on stable/15 on 2026-03-16.",), command="run it"
    )
    document = DocumentQueries(live.ledger).alert(live.alert.id)
    page = Page(changes.alert(document, found, title=live.context.title).html())
    mail = " ".join(alerts.mail(found).text.split())

    assert found.unaffected == ("testbed-01 (inet4-path-00 and inet4-path-02)",)
    commands = found.command, f"alerts ack {live.alert.id}"
    for sentence in (*found.unaffected, *found.backports, *commands):
        assert sentence in mail
        assert sentence in page.text
    assert "Changes by this commit" in page.text

    back = live.ledger.commits.newest("main") or ""
    state = AlertState.FIXED
    live.ledger.alerts.change(live.alert.id, who="a", what="b", state=state, recovery=back)
    closed = live.alert.closed_at
    assert closed is not None
    assert live.case(closed + 86400.0).unaffected
    assert live.case(closed + 100 * 86400.0).unaffected == ()


RETEST, VERIFIED = "-3.9 %", "-4.4 %"


def test_all_places_show_the_verified_change(live: LiveCase) -> None:
    url = live.settings.database
    check_documents(live.alert.id, url)
    found = live.alert
    assert (found.change.basis, found.retest[0].ln_ratio) == (ChangeBasis.VERIFIED, -0.04)
    queries = DocumentQueries(live.ledger, live.context, url="")
    mail = alerts.mail(live.case(found.opened_at))
    names = "index", "alerts", f"alert-{found.id}", f"testbed-{found.testbed}"
    places = {name: live.page(f"{name}.html") for name in names}
    live.now = found.opened_at + 86400.0
    document = gather(live.ledger, live.settings, live.lab, [], found.opened_at - 1)
    places |= {
        "mail": mail.text,
        "subject": mail.subject,
        "reply": change_mail("olga", "because")(found),
        "digest": digest.mail(document).text,
        "feed": queries.atom(),
        "status": status.as_text(queries.status(everything=True)),
        "list": netbisect("alerts", "--all", "--database", url).output,
    }

    for place, text in places.items():
        assert VERIFIED in text, place
        assert RETEST not in text, place


def check_documents(number: int, url: str) -> None:
    def printed(*arguments: str) -> dict[str, object]:
        result = netbisect("export", *arguments, "--database", url)
        found: dict[str, object] = json.loads(result.stdout)
        return found

    alert = printed("alert", str(number))
    all_alerts = printed("status")["alerts"]
    listed = next(one for one in all_alerts if one["id"] == number)  # type: ignore[attr-defined]
    lead = alert["differences"][0]  # type: ignore[index]
    assert (alert["basis"], lead["ln_ratio"]) == ("verified", -0.045)
    assert (listed["basis"], listed["difference"], listed["ln_ratio"]) == ("verified", lead, -0.045)
    assert {one["ln_ratio"] for one in listed["changes"].values()} == {-0.045}
    first, *_, last = alert["series"]  # type: ignore[misc]
    assert first["difference"]["ln_ratio"] == -0.04
    assert last["difference"]["ln_ratio"] == -0.045
