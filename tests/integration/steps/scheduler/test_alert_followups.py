"""Follow-ups of comparisons, searches and profiles: alerts, mails and pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_facts import intend, sample

from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Boot, Commit, Profile
from netbisect.bisect.model.jobs import BisectJob, CompareJob, ProfileJob
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Effect,
    NotReproduced,
    Posterior,
    ProfileResult,
    Result,
    Suspects,
    Unfinished,
)
from netbisect.steps.master.trial_logs import retained_decisions
from netbisect.steps.policy.profiles import key_of
from netbisect.steps.scheduler.followups import Followups
from netbisect.steps.service import control
from netbisect.steps.service.settings import SearchSettings, load
from netbisect.steps.site.live import LivePages
from netbisect.store.db.records import ActionStage, Alert, JobRecord, Outcome
from netbisect.store.git.history import History, HistoryError
from netbisect.store.ledger import Ledger

POSTERIOR = Posterior({}, 0.99)
NOTHING = NotReproduced(POSTERIOR, "both ends are alike")


class Alerts:
    """Follow-ups with a ledger, and jobs that end at once."""

    def __init__(self, place: Path, ledger: Ledger, commits: list[Commit]) -> None:
        settings, self.lab = load(place / control.SETTINGS)
        self.ledger = ledger
        self.followups = Followups(settings, self.lab)
        self.settings = settings
        self.line = [commit.revision for commit in commits[-8:]]

    def confirm(self, testbed: str, good: int, bad: int, ln_ratio: float = -0.1) -> JobRecord:
        """The search after a confirmed comparison of two commits."""
        scenario = self.lab.testbed(testbed).scenarios[0]
        ends = self.line[good], self.line[bad]
        job = CompareJob("main", testbed, *ends, (scenario,), scenario, ln_ratio, commits=30)
        record = self.ledger.jobs.add(job, key=f"compare {testbed} {good} {bad}")
        followers = self.followups.conclude(
            self.ledger, record, Confirmed((self.effect(scenario, ln_ratio),))
        )
        alert = self.ledger.alerts.of_job(record.id)
        assert alert is not None
        assert alert.bisection is not None
        search = self.ledger.jobs.get(alert.bisection)
        assert followers in ([search], [])
        return search

    def add_group_testbed(self, name: str = "c2558-2") -> None:
        first, *others = (
            replace(testbed, group="atoms" * (testbed.name == "c2558"))
            for testbed in self.lab.testbeds
        )
        self.lab = replace(self.lab, testbeds=(first, *others, replace(first, name=name)))
        self.followups = Followups(self.settings, self.lab)

    def effect(self, scenario: str, ln_ratio: float = -0.1) -> Effect:
        return Effect(scenario, ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-6, 5, 6)

    def culprit(self, search: JobRecord, number: int) -> Culprit:
        revision, parent = self.line[number], self.line[number - 1]
        effect = self.effect(search.job.scenarios[0])
        return Culprit(revision, parent, Posterior({revision: 0.99}, 0.01), (effect,))

    def end(self, search: JobRecord, result: Result) -> Alert:
        self.followups.conclude(self.ledger, search, result)
        found = self.ledger.alerts.of_job(search.id)
        assert found is not None
        return found

    def mails(self) -> list[str]:
        return [mail.key for mail in self.ledger.mails.waiting()]

    def recipients(self) -> list[tuple[str, ...]]:
        return [mail.recipients for mail in self.ledger.mails.waiting()]

    def allow_committers(self) -> None:
        mail = replace(self.settings.mail, committers=True)
        self.followups = Followups(replace(self.settings, mail=mail), self.lab)


@pytest.fixture
def alerts(
    service_folder: Path, service_commits: list[Commit], empty_ledger: Ledger
) -> Iterator[Alerts]:
    alerts = Alerts(service_folder, empty_ledger, service_commits)
    yield alerts
    for place in (alerts.settings.reports, alerts.settings.trial_logs):
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("state", [AlertState.WITHDRAWN, AlertState.NO_CULPRIT])
def test_an_alert_without_a_culprit_stays_open_or_is_withdrawn(
    alerts: Alerts, state: AlertState
) -> None:
    """Committers get no mail."""
    suspects = Suspects(tuple(alerts.line[3:5]), POSTERIOR, "they do not build")
    alerts.allow_committers()
    result = NOTHING if state is AlertState.WITHDRAWN else suspects
    alert = alerts.end(alerts.confirm("c2558", 1, 6), result)

    assert alert.state is state
    assert alerts.recipients() == [alerts.settings.mail.to] * 2


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("state", [AlertState.MUTED, AlertState.INVALID, AlertState.ACKNOWLEDGED])
def test_the_end_of_a_search_keeps_the_state_set_by_users(
    alerts: Alerts, state: AlertState, *, found: bool
) -> None:
    """Muted and invalid alerts get no mail."""
    search = alerts.confirm("c2558", 1, 6)
    alerts.ledger.alerts.change(1, who="olga", what="we know", state=state, until=9e9)
    alert = alerts.end(search, alerts.culprit(search, 4) if found else NOTHING)
    mailed = state is AlertState.ACKNOWLEDGED

    assert (alert.state, alert.culprit) == (state, alerts.line[4] if found else "")
    assert len(alerts.mails()) == 1 + mailed
    jobs = [type(record.job) for record in alerts.ledger.jobs.all_open()]
    assert jobs == [ProfileJob] * (mailed and found)


def test_testbeds_of_a_group_share_a_search(alerts: Alerts) -> None:
    """The alerts are merged; each has a mail about its own testbed."""
    alerts.add_group_testbed()
    search = alerts.confirm("c2558", 1, 6)
    assert search.job.testbeds == ("c2558", "c2558-2")
    # Without measurements, its noise is that of its peer with weight 0.
    assert search.job.others == {"c2558-2": replace(search.job.noise, boot_weight=0)}
    assert alerts.confirm("c2558-2", 1, 6).id == search.id
    [first, second] = alerts.ledger.alerts.all_of_job(search.id)
    assert (first.testbed, second.testbed) == ("c2558", "c2558-2")
    assert second.state is AlertState.BISECTING
    alerts.end(search, alerts.culprit(search, 4))
    first, second = (alerts.ledger.alerts.get(alert.id) for alert in (first, second))

    assert first.culprit == second.culprit == alerts.line[4]
    assert (second.state, second.merged_into) == (AlertState.MERGED, first.id)
    outcomes = {mail.alert: mail for mail in alerts.ledger.mails.waiting() if "outcome" in mail.key}
    assert "measured on" not in outcomes[first.id].body
    body = outcomes[second.id].body
    assert re.search(r"testbed +c2558-2", body)
    assert re.search(r"measured on +c2558\n", body)
    assert f"Alert {second.id}" in page_of(alerts, second)


def test_a_change_in_another_range_has_a_search_of_its_own(alerts: Alerts) -> None:
    """A search from before the group is not shared, and none is shared without `use_groups`."""
    before = alerts.confirm("c2558", 3, 6)
    alerts.add_group_testbed()
    assert alerts.confirm("c2558-2", 3, 6).id != before.id
    search = alerts.confirm("c2558", 1, 6)
    assert alerts.confirm("c2558-2", 2, 6).id != search.id
    assert alerts.confirm("c2558-2", 1, 7).id != search.id
    alone = replace(alerts.settings, search=SearchSettings(use_groups=False))
    alerts.followups = Followups(alone, alerts.lab)
    assert alerts.confirm("c2558", 2, 7).job.testbeds == ("c2558",)


def test_a_returning_change_is_mailed_in_the_same_thread_with_a_new_search(alerts: Alerts) -> None:
    search = alerts.confirm("c2558", 1, 4)
    alerts.end(search, alerts.culprit(search, 3))
    alerts.ledger.alerts.change(1, who="olga", what="reverted", state=AlertState.FIXED)
    again = alerts.confirm("c2558", 5, 7)
    [alert] = alerts.ledger.alerts.all()

    assert (alert.id, alert.state, alert.bisection) == (1, AlertState.BISECTING, again.id)
    assert (alert.good, alert.bad, alert.culprit) == (alerts.line[5], alerts.line[7], "")
    assert len(alerts.mails()) == 3
    assert (
        alerts.ledger.mails.waiting()[-1].in_reply_to == alerts.ledger.mails.waiting()[1].message_id
    )
    assert alerts.end(again, alerts.culprit(again, 6)).culprit == alerts.line[6]
    assert len(alerts.mails()) == 4


def test_the_committer_of_a_verified_culprit_gets_a_mail_if_allowed(alerts: Alerts) -> None:
    committer = alerts.followups.history.committer(alerts.line[4])
    alerts.allow_committers()
    search = alerts.confirm("c2558", 1, 6)
    alerts.end(search, alerts.culprit(search, 4))
    alert, outcome = alerts.ledger.mails.waiting()

    assert outcome.recipients == (*alerts.settings.mail.to, committer)
    assert alert.recipients == alerts.settings.mail.to, "not verified yet"
    assert committer in outcome.body
    assert re.search(r"^ \d+ files? changed, ", outcome.body, re.MULTILINE)


def profiled(alerts: Alerts, record: JobRecord, folded: dict[str, str]) -> None:
    [scenario] = record.job.scenarios
    for revision, text in folded.items():
        trial = intend(alerts.ledger, record, revision, stage=ActionStage.PROFILE)
        folder = alerts.settings.trial_logs / str(trial.id)
        folder.mkdir(parents=True)
        profile = Profile(revision, "k", record.job.testbed, scenario, "cycles", 7e5, 999, 3, 1, 30)
        (folder / f"profile-{scenario}.json").write_text(serialization.dumps(profile))
        (folder / f"profile-{scenario}.folded").write_text(text)
        alerts.ledger.actions.finish(trial.id, Outcome.OK)


def page_of(alerts: Alerts, alert: Alert) -> str:
    text = LivePages(alerts.settings, alerts.lab, alerts.ledger).file(f"alert-{alert.id}.html")
    assert text is not None
    return text


def test_a_fetch_for_a_search_ends_before_the_watchdog_ends_the_master(
    alerts: Alerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    monkeypatch.setattr(History, "update", lambda _, seconds: limits.append(seconds))
    alerts.line[6] = "f" * 40
    job = CompareJob("main", "c2558", alerts.line[1], alerts.line[6], ("a",), "a", -0.1, commits=5)
    record = alerts.ledger.jobs.add(job, key="compare")

    assert alerts.followups.conclude(alerts.ledger, record, Confirmed((alerts.effect("a"),))) == []
    assert 0 < limits[0] < alerts.settings.stall_seconds
    assert alerts.ledger.alerts.get(1).state is AlertState.NO_CULPRIT
    [mail] = alerts.ledger.mails.waiting()
    assert "a drop on main; no search for its commit\n" in mail.body
    assert "\nNext\n\n  No search for the commit: 'f" in mail.body
    page = page_of(alerts, alerts.ledger.alerts.get(1))
    assert page.count("No search for the commit: ") == 2, "the evidence and the history"
    assert "The search" not in page


def test_an_alert_goes_from_open_to_culprit_found_with_two_mails(
    alerts: Alerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search begins while the server of the tree does not answer: the clone has all commits."""

    def fail(*_: object) -> None:
        raise HistoryError("the server does not answer")

    monkeypatch.setattr(History, "update", fail)
    search = alerts.confirm("c2558", 1, 6)
    assert isinstance(search.job, BisectJob)
    assert [commit.revision for commit in search.job.candidates] == alerts.line[2:7]
    rates = {3: (900_000.0, 940_000.0, 980_000.0), 4: (800_000.0, 804_000.0, 900_000.0)}
    for number, values in rates.items():
        for boot, pps in enumerate(values):
            name = f"{number}-{boot}"
            alerts.ledger.facts.record(Boot(name, "c2558", "k", alerts.line[number], 1.0, 1.0))
            alerts.ledger.facts.record(sample(name, "c2558", "inet4-forwarding", pps, 1.0))
    alert = alerts.end(search, alerts.culprit(search, 4))

    assert search.job.budget_seconds == 48 * 3600
    assert (alert.state, alert.culprit) == (AlertState.CULPRIT_FOUND, alerts.line[4])
    assert [change.state for change in alerts.ledger.alerts.changes(alert.id)] == [
        AlertState.OPEN,
        AlertState.BISECTING,
        AlertState.CULPRIT_FOUND,
    ]
    assert alerts.mails() == [
        f"alert:{alert.id}:{alert.comparison}",
        f"outcome:{alert.id}:{alert.bisection}",
    ]
    assert alerts.recipients() == [alerts.settings.mail.to] * 2
    check_profiles(alerts, search, alert)


def check_profiles(alerts: Alerts, search: JobRecord, alert: Alert) -> None:
    """Asserts that culprit and parent are profiled at a share of the slower rate."""
    mails = alerts.mails()
    [record] = alerts.ledger.jobs.all_open()
    assert isinstance(record.job, ProfileJob)
    sides = alerts.line[3], alerts.line[4]
    assert record.job.revisions == sides
    assert record.job.scenarios == ("inet4-forwarding",)
    assert record.job.pps == 562_800.0
    assert record.priority < search.priority
    assert "Where the time goes" not in page_of(alerts, alert)

    texts = (
        "ether_input;ip_input 60\nether_input 40\n",
        "ether_input;ip_input 80\nether_input 20\n",
    )
    profiled(alerts, record, dict(zip(sides, texts, strict=True)))
    profiles = {action.id for action in alerts.ledger.actions.of_job(record.id)}
    assert profiles <= retained_decisions(alerts.ledger)
    assert alerts.followups.conclude(alerts.ledger, record, ProfileResult(sides)) == []

    page = page_of(alerts, alert)
    assert "Where the time goes" in page
    assert '<th scope="row"><code>ip_input</code></th>' in page
    assert "+20.0" in page
    assert page.count('class="fg"') == 3
    assert "(3 lost)" in page
    assert alerts.mails() == mails
    assert alerts.ledger.alerts.changes(alert.id)[-1].what.startswith("profiles of the commit")


def test_a_page_gives_the_reason_for_a_failed_profile(alerts: Alerts) -> None:
    search = alerts.confirm("c2558", 1, 6)
    alert = alerts.end(search, alerts.culprit(search, 4))
    [record] = alerts.ledger.jobs.all_open()
    alerts.followups.conclude(alerts.ledger, record, Unfinished("pmcstat: no <event>"))

    assert "pmcstat: no &lt;event&gt;" in page_of(alerts, alert)


def test_a_profile_requested_by_a_user_is_used_while_it_has_files(alerts: Alerts) -> None:
    search = alerts.confirm("c2558", 1, 6)
    sides = alerts.line[3], alerts.line[4]
    job = ProfileJob("main", "c2558", sides, ("inet4-forwarding",))
    record = alerts.ledger.jobs.add(job, key=key_of(job), requested_by="olga")
    alert = alerts.end(search, alerts.culprit(search, 4))
    assert [job.id for job in alerts.ledger.jobs.all_open()] == [record.id]
    profiled(alerts, record, dict.fromkeys(sides, "a;b 10\n"))
    alerts.followups.conclude(alerts.ledger, record, ProfileResult(sides))
    page = page_of(alerts, alert)
    assert "Where the time goes" in page
    assert "its files were removed" not in page

    [file, *_] = alerts.settings.trial_logs.rglob("*.folded")
    file.write_text("a;b x\n")
    assert "its files were removed" in page_of(alerts, alert)
