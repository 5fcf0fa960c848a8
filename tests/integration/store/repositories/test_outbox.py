"""Mails of the outbox, and alerts of requested searches."""

from __future__ import annotations

import pytest
from alert_ledger import DROP, STILL, Clock

from netbisect.bisect.model.mail import Mail
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import MailState, OutboxMail
from netbisect.store.ledger import Ledger

pytestmark = pytest.mark.both_databases

EFFECTS = (DROP, STILL)


def post(ledger: Ledger, key: str = "alert:1:opened", alert: int | None = None) -> OutboxMail:
    return ledger.mails.post(key, Mail("2 % slower", "Hello.\n"), ["net@example.org"], alert=alert)


def test_a_valid_mail_is_posted_once(ledger: Ledger) -> None:
    with pytest.raises(StoreError, match="mail key has no recipients"):
        ledger.mails.post("key", Mail("s", "b"), [])
    with pytest.raises(StoreError, match="about alert 5, which does not exist"):
        post(ledger, alert=5)
    with pytest.raises(StoreError, match="there is no mail 1"):
        ledger.mails.sent(1)
    mail = post(ledger)
    again = ledger.mails.post(mail.key, Mail("otherwise", ""), ["other@example.org"])

    assert again == mail
    assert ledger.mails.due(1000.0) == [mail]
    assert mail.message_id.startswith("<")
    assert mail.message_id.endswith("@lab.example.org>")
    assert (mail.subject, mail.body) == ("2 % slower", "Hello.\n")
    assert mail.recipients == ("net@example.org",)


def test_a_sent_mail_is_not_due(ledger: Ledger, clock: Clock) -> None:
    """A mail of a clock that was ahead is due at once."""
    clock.now = 9e9
    mail = post(ledger)
    assert [one.id for one in ledger.mails.due(1000.0)] == [mail.id]
    clock.now = 1234.0

    ledger.mails.sent(mail.id)
    ledger.mails.sent(mail.id)
    ledger.mails.failed(mail.id, "reported late", 2000.0)

    assert ledger.mails.due(9999.0) == []
    sent = ledger.mails.get(mail.id)
    assert (sent.state, sent.sent_at, sent.attempts) == (MailState.SENT, 1234.0, 1)


def test_a_failed_mail_can_be_sent_again_after_the_others(ledger: Ledger) -> None:
    """Otherwise a mail that stops the mailer would block all others."""
    mail, other = post(ledger), post(ledger, "another")
    ledger.mails.begin(mail.id, next_try_at=1010.0)
    assert [due.id for due in ledger.mails.due(1015.0)] == [other.id, mail.id]
    ledger.mails.failed(mail.id, "550 no such user", None)

    again = ledger.mails.retry(mail.id)

    assert (again.state, again.attempts) == (MailState.WAITING, 0)
    assert {due.id for due in ledger.mails.due(1000.0)} == {again.id, other.id}
    assert ledger.mails.given_up() == []
    ledger.mails.sent(mail.id)
    with pytest.raises(StoreError, match=f"mail {mail.id} was sent"):
        ledger.mails.retry(mail.id)
