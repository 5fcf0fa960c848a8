"""Alerts, their mails, and that neither is ever lost or sent for nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import BisectJob, Candidate, CompareJob, NightlyJob
from netbisect.bisect.model.results import Confirmed, Culprit, Effect, NightlyResult, Posterior
from netbisect.store.db.database import StoreError, open_database
from netbisect.store.db.records import Alert, JobRecord, MailState, OutboxMail
from netbisect.store.ledger import Ledger

pytestmark = pytest.mark.both_databases

COMPARISON = CompareJob("main", "c2558", "r10", "r20", ("inet4-forwarding",), "inet4-forwarding", 0)
BISECTION = BisectJob(
    "main",
    "c2558",
    "r10",
    (Candidate("r15"), Candidate("r20")),
    ("inet4-forwarding",),
    "inet4-forwarding",
    -0.1,
    Noise(),
)
EFFECTS = (
    Effect("inet4-forwarding", -0.1, -0.12, -0.08, 1e-6, 5, 6),
    Effect("inet6-forwarding", 0.0, -0.01, 0.01, 0.9, 5, 6),
)


class Clock:
    """Stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    engine = open_database(url)
    yield Ledger(engine, clock, domain="lab.example.org")
    engine.dispose()


def post(ledger: Ledger, key: str = "alert:1:opened", alert: int | None = None) -> OutboxMail:
    return ledger.mails.post(
        key, subject="2 % slower", recipients=["net@example.org"], body="Hello.\n", alert=alert
    )


def open_alert(ledger: Ledger, good: str = "r10", bad: str = "r20") -> Alert:
    job = CompareJob("main", "c2558", good, bad, ("s",), "s", -0.1)
    record = ledger.jobs.add(job, key=f"comparison {good} {bad}")
    with ledger.jobs.closing(record, Confirmed(EFFECTS)) as closing:
        return closing.open_alert(EFFECTS, what="confirmed by 11 boots")


# --------------------------------------------------------------------------------------- outbox


def test_a_mail_is_posted_once_however_often_it_is_said(ledger: Ledger) -> None:
    mail = post(ledger)
    again = ledger.mails.post(
        mail.key, subject="otherwise", recipients=["other@example.org"], body="", alert=None
    )

    assert again == mail
    assert ledger.mails.due(1000.0) == [mail]
    assert mail.message_id.startswith("<")
    assert mail.message_id.endswith("@lab.example.org>")
    assert (mail.subject, mail.recipients, mail.body) == (
        "2 % slower",
        ("net@example.org",),
        "Hello.\n",
    )


def test_every_mail_has_a_message_id_of_its_own(ledger: Ledger) -> None:
    mails = [post(ledger, f"mail {i}") for i in range(5)]

    assert len({mail.message_id for mail in mails}) == 5


def test_a_mail_that_was_sent_is_not_due_any_more(ledger: Ledger, clock: Clock) -> None:
    mail = post(ledger)
    clock.now = 1234.0

    ledger.mails.sent(mail.id)
    ledger.mails.sent(mail.id)
    ledger.mails.failed(mail.id, "told too late", 2000.0)

    assert ledger.mails.due(9999.0) == []
    sent = ledger.mails.get(mail.id)
    assert (sent.state, sent.sent_at, sent.attempts) == (MailState.SENT, 1234.0, 1)


def test_a_mail_that_could_not_be_sent_is_tried_again_when_it_is_time(ledger: Ledger) -> None:
    mail, other = post(ledger), post(ledger, "another")

    ledger.mails.failed(mail.id, "421 too busy", 1600.0)

    assert [due.id for due in ledger.mails.due(1599.0)] == [other.id]
    [_, first] = ledger.mails.due(1600.0)
    assert (first.id, first.attempts, first.last_error) == (mail.id, 1, "421 too busy")
    assert first.message_id == mail.message_id

    ledger.mails.failed(mail.id, "550 no such user", None)
    assert [due.id for due in ledger.mails.due(9999.0)] == [other.id]
    assert ledger.mails.get(mail.id).state is MailState.FAILED
    assert ledger.mails.get(mail.id).attempts == 2
    assert [one.id for one in ledger.mails.given_up()] == [mail.id]


def test_a_mail_whose_try_came_to_nothing_is_behind_the_others(ledger: Ledger) -> None:
    """Were it always first, a mail that ends the sending would keep all others from leaving."""
    mail, other = post(ledger), post(ledger, "another")

    ledger.mails.begin(mail.id, next_try_at=1010.0)

    assert [due.id for due in ledger.mails.due(1015.0)] == [other.id, mail.id]


def test_a_mail_that_was_given_up_can_be_sent_again(ledger: Ledger) -> None:
    mail = post(ledger)
    ledger.mails.failed(mail.id, "550 no such user", None)

    again = ledger.mails.retry(mail.id)

    assert (again.state, again.attempts) == (MailState.WAITING, 0)
    assert ledger.mails.due(1000.0) == [again]
    assert ledger.mails.given_up() == []
    ledger.mails.sent(mail.id)
    with pytest.raises(StoreError, match=f"mail {mail.id} was sent"):
        ledger.mails.retry(mail.id)


def test_a_mail_waits_in_the_database_for_whoever_comes_next(ledger: Ledger, url: str) -> None:
    script = f"""
import os, signal
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger
ledger = Ledger(open_database({url!r}), lambda: 1000.0)
ledger.mails.post("key", subject="s", recipients=["a@example.org"], body="b")
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)

    [mail] = ledger.mails.due(1000.0)
    assert mail.key == "key"


def test_a_mail_to_nobody_is_refused(ledger: Ledger) -> None:
    with pytest.raises(StoreError, match="mail key has no recipients"):
        ledger.mails.post("key", subject="s", recipients=[], body="b")
    with pytest.raises(StoreError, match="about alert 5, which does not exist"):
        post(ledger, alert=5)
    with pytest.raises(StoreError, match="there is no mail 1"):
        ledger.mails.sent(1)

    assert ledger.mails.due(9999.0) == []


def test_the_mails_of_an_alert_make_one_thread(ledger: Ledger) -> None:
    alert = open_alert(ledger)
    first = post(ledger, "opened", alert.id)
    elsewhere = post(ledger, "of no alert")
    second = post(ledger, "culprit", alert.id)
    third = post(ledger, "recovered", alert.id)

    assert ledger.alerts.get(alert.id).thread == first.message_id
    assert (first.in_reply_to, first.references) == ("", ())
    assert (elsewhere.in_reply_to, elsewhere.references) == ("", ())
    assert (second.in_reply_to, second.references) == (first.message_id, (first.message_id,))
    assert third.in_reply_to == second.message_id
    assert third.references == (first.message_id, second.message_id)


# --------------------------------------------------------------------------------------- alerts


def confirm(ledger: Ledger) -> tuple[Alert, JobRecord]:
    """A comparison that is confirmed, with all that follows from it."""
    record = ledger.jobs.add(COMPARISON, key="comparison")
    with ledger.jobs.closing(record, Confirmed(EFFECTS)) as closing:
        search = closing.ask(BISECTION, key="bisection", priority=50)
        alert = closing.open_alert(EFFECTS, what="confirmed", bisection=search.id)
        closing.post(
            "opened", subject="slower", recipients=["a@example.org"], body="b", alert=alert.id
        )
    return alert, search


def test_an_alert_its_search_and_its_mail_come_together(ledger: Ledger) -> None:
    alert, search = confirm(ledger)

    [mail] = ledger.mails.due(9999.0)
    found = ledger.alerts.get(alert.id)
    assert mail.alert == alert.id
    assert (found.state, found.culprit, found.closed_at) == (AlertState.OPEN, "", None)
    assert (found.testbed, found.branch, found.lead) == ("c2558", "main", "inet4-forwarding")
    assert (found.good, found.bad) == ("r10", "r20")
    assert found.effects == EFFECTS
    assert (found.comparison, found.bisection) == (search.parent, search.id)
    assert found.thread == mail.message_id
    assert ledger.jobs.all_open() == [search]


def test_a_culprit_changes_the_alert_and_answers_in_its_thread(
    ledger: Ledger, clock: Clock
) -> None:
    alert, search = confirm(ledger)
    clock.now = 2000.0
    finding = Culprit("r15", "r14", Posterior({"r15": 0.99, "r20": 0.0}, 0.01), EFFECTS)

    with ledger.jobs.closing(search, finding) as closing:
        changed = closing.change_alert(
            alert.id, what="r15 it is", state=AlertState.CULPRIT_FOUND, culprit="r15"
        )
        mail = closing.post(
            "culprit", subject="r15", recipients=["a@example.org"], body="b", alert=alert.id
        )

    assert (changed.state, changed.culprit) == (AlertState.CULPRIT_FOUND, "r15")
    assert ledger.alerts.get(alert.id) == changed
    assert ledger.alerts.all_open() == [changed]
    assert mail.in_reply_to == changed.thread
    changes = [(change.at, change.who, change.what) for change in ledger.alerts.changes(alert.id)]
    assert changes == [(1000.0, "netbisect", "confirmed"), (2000.0, "netbisect", "r15 it is")]


def test_a_search_that_somebody_asked_for_can_open_an_alert_too(ledger: Ledger) -> None:
    search = ledger.jobs.add(BISECTION, key="on demand", requested_by="me")
    with ledger.jobs.closing(search, Culprit("r15", "r14", Posterior({}, 0.0), EFFECTS)) as closing:
        alert = closing.open_alert(EFFECTS, what="found on demand")

    assert (alert.good, alert.bad) == ("r10", "r20")
    assert (alert.comparison, alert.bisection) == (None, search.id)


def test_a_night_opens_no_alert(ledger: Ledger) -> None:
    record = ledger.jobs.add(NightlyJob("main", "c2558", "r1", ("s",), 3), key="night")
    closing = ledger.jobs.closing(record, NightlyResult(3))

    with pytest.raises(StoreError, match="compares nothing, so it opens no alert"), closing as c:
        c.open_alert(EFFECTS, what="?")

    assert ledger.jobs.all_open() == [record]
    assert ledger.alerts.all_open() == []


def test_an_alert_that_is_over_says_since_when(ledger: Ledger, clock: Clock) -> None:
    alert = open_alert(ledger)
    clock.now = 5000.0

    over = ledger.alerts.change(alert.id, who="olga", what="level is back", state=AlertState.FIXED)
    assert over.closed_at == 5000.0
    assert ledger.alerts.all_open() == []

    again = ledger.alerts.change(alert.id, who="olga", what="not yet", state=AlertState.REOPENED)
    assert again.closed_at is None
    assert ledger.alerts.all_open() == [again]
    assert [change.who for change in ledger.alerts.changes(alert.id)] == [
        "netbisect",
        "olga",
        "olga",
    ]
    with pytest.raises(StoreError, match="there is no alert 9"):
        ledger.alerts.change(9, who="olga", what="?")
