"""Replies to the mails about alerts, from a maildir or from the mail server."""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator
from email.message import EmailMessage
from mailbox import Maildir
from pathlib import Path

import pytest
from alert_ledger import announce
from programs import netbisect
from service_fixtures import SETTINGS

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.mail import Mail
from netbisect.steps.master.mailer import compose
from netbisect.steps.policy import mail_answers
from netbisect.steps.policy.mail_answers import execute, read_maildir
from netbisect.steps.service.settings import Settings, load_settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.ledger import Ledger

ANN = "ann@lab.invalid"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "netbisect.toml"
    path.write_text(f'{SETTINGS}answers = "reply@lab.invalid"\nanswers_maildir = "answers"\n')
    return load_settings(path)


@pytest.fixture
def ledger(settings: Settings) -> Iterator[Ledger]:
    ledger = open_service_ledger(settings)
    alert = announce(ledger)
    ledger.mails.post("alert:1", Mail("a drop", "-10 %\n"), ["p@lab.invalid"], alert=1)
    assert alert.id == 1
    yield ledger
    ledger.engine.dispose()


def reply(settings: Settings, ledger: Ledger, text: str, **headers: str) -> EmailMessage:
    """A reply to the mail about the alert, as a mail program composes it."""
    sent = compose(ledger.mails.get(1), settings.mail)
    mail = EmailMessage()
    mail["From"] = f"Ann Example <{ANN}>"
    mail["To"] = sent["Reply-To"]
    mail["Subject"] = f"Re: {sent['Subject']}"
    mail["Message-ID"] = "<1@example.org>"
    mail["In-Reply-To"] = sent["Message-ID"]
    for name, value in headers.items():
        del mail[name]
        mail[name.replace("_", "-")] = value
    quoted = "".join(f"> {line}\n" for line in sent.get_content().splitlines())
    mail.set_content(f"{text}\n\n{quoted}")
    return mail


def test_a_reply_in_the_maildir_changes_the_alert(settings: Settings, ledger: Ledger) -> None:
    """An unreadable file delays no mail; nothing is executed without a mark as seen."""
    maildir = settings.mail.answers_maildir
    assert maildir is not None
    Maildir(maildir).add(reply(settings, ledger, "Seen.\n\nack the price of SA-26:03"))
    (maildir / "new" / "0").mkdir()
    (maildir / "cur").rename(maildir / "absent")
    assert set(read_maildir(ledger, settings)) == {
        f"a mail will be read again: {maildir}/cur is not writable"
    }
    (maildir / "absent").rename(maildir / "cur")
    unread, line = read_maildir(ledger, settings)

    assert unread.startswith("a mail will be read again: [Errno 21]")
    assert line == f"a mail of '{ANN}' about alert 1: acknowledged: the price of SA-26:03"
    assert ledger.alerts.get(1).state is AlertState.ACKNOWLEDGED
    change = ledger.alerts.changes(1)[-1]
    assert (change.who, change.what) == (ANN, "the price of SA-26:03")
    [entry] = ledger.requests.audit()
    assert (entry.who, entry.via, entry.data["alert"]) == (ANN, "mail", 1)
    answer = ledger.mails.waiting()[-1]
    assert (answer.recipients, answer.in_reply_to) == ((ANN,), "<1@example.org>")
    assert answer.body == "Alert 1 is acknowledged; the new level is the baseline.\n"
    assert read_maildir(ledger, settings) == [unread]
    assert [path.name[-4:] for path in (maildir / "cur").iterdir()] == [":2,S"]


def test_the_mail_command_changes_the_alert_and_notifies_its_recipients(
    settings: Settings, ledger: Ledger
) -> None:
    """An alias of the mail server passes replies to `netbisect mail`."""
    mail = reply(settings, ledger, "fixed by 0123456789ab")
    done = netbisect("mail", "--folder", settings.state, text=bytes(mail))

    assert done.exit_code == 0
    assert "fixed by 0123456789ab" in done.stderr
    assert ledger.alerts.get(1).state is AlertState.FIXED
    notice, answer = ledger.mails.waiting()[1:]
    assert (notice.recipients, answer.recipients) == (("p@lab.invalid",), (ANN,))
    assert f"who     {ANN}" in notice.body
    execute(ledger, settings, bytes(reply(settings, ledger, "ack")))
    assert "alert 1 is fixed; only an alert\nthat is" in ledger.mails.waiting()[-1].body


def test_the_mail_command_reports_a_temporary_failure_without_a_service(tmp_path: Path) -> None:
    """The mail server retries after status 75, EX_TEMPFAIL."""
    for folder in (tmp_path, tmp_path / "not-mounted"):
        done = netbisect("mail", "--folder", folder)

        assert done.exit_code == 75
        assert f"{folder}/netbisect.toml" in done.stderr


def test_unknown_commands_are_answered_once_and_a_mute_ends_after_the_given_days(
    settings: Settings, ledger: Ledger
) -> None:
    for _ in range(3):
        execute(ledger, settings, bytes(reply(settings, ledger, "I will look at it.")))

    assert ledger.alerts.get(1).state is AlertState.OPEN
    [answer] = ledger.mails.waiting()[1:]
    assert answer.recipients == (ANN,)
    assert "line of\nits own, found none" in answer.body
    assert "\n  ack REASON " in answer.body

    execute(ledger, settings, bytes(reply(settings, ledger, "mute 14d in review")))
    alert = ledger.alerts.get(1)
    assert alert.state is AlertState.MUTED
    assert alert.muted_until == pytest.approx(ledger.clock() + 14 * 86400, abs=3600)


@pytest.mark.parametrize("command", ["ack the price of SA-26:03", "mute 14d in review"])
def test_a_mail_that_is_read_again_after_a_kill_and_midnight_changes_nothing(
    settings: Settings, ledger: Ledger, command: str
) -> None:
    mail = bytes(reply(settings, ledger, command))
    midnight = math.ceil(ledger.clock() / 86400) * 86400
    ledger.clock = lambda: midnight - 60
    first = execute(ledger, settings, mail)
    changes, mails = ledger.alerts.changes(1), len(ledger.mails.waiting())
    ledger.clock = lambda: midnight + 60

    assert execute(ledger, settings, mail) == first
    assert ledger.alerts.changes(1) == changes
    assert len(ledger.mails.waiting()) == mails
    longer = execute(ledger, settings, bytes(reply(settings, ledger, "mute 30d in review")))
    assert ledger.alerts.changes(1) != changes, longer


def test_mails_of_programs_and_unknown_senders_are_ignored(
    settings: Settings, ledger: Ledger
) -> None:
    """A token is valid for one alert; it may be in capital letters and in the header Cc."""
    announce(ledger, testbed="apu2")
    sent = compose(ledger.mails.get(1), settings.mail)
    address = str(sent["Reply-To"])
    for headers in (
        {"Auto_Submitted": "auto-replied"},
        {"Precedence": "bulk"},
        {"List_Id": "net <net.example.org>"},
        {"Return_Path": "<>"},
        {"From": "netbisect@lab.invalid"},
        {"From": "nobody"},
        {"To": "reply+1.aaaaaaaaaaaaaaaaaaaaaaaa@lab.invalid"},
        {"To": address.replace("+1.", "+2.")},
        {"To": "reply@lab.invalid"},
    ):
        result = execute(ledger, settings, bytes(reply(settings, ledger, "ack", **headers)))
        assert "was ignored" in result, headers
    assert {alert.state for alert in ledger.alerts.all()} == {AlertState.OPEN}
    assert len(ledger.mails.waiting()) == 1

    copied = bytes(reply(settings, ledger, "ack", To="p@lab.invalid", Cc=address.upper()))
    assert "acknowledged" in execute(ledger, settings, copied)
    assert "reply with one of these lines" in sent.get_content()
    assert stat.S_IMODE(settings.mail.answers_key_file.stat().st_mode) == 0o600


def test_an_unreadable_mail_blocks_no_other(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = settings.state / "answers" / "new"
    for folder in (new, settings.state / "answers" / "cur"):
        folder.mkdir(parents=True)
    (new / "1").write_bytes(b"From: x\n\nfirst")
    (new / "2").write_bytes(bytes(reply(settings, ledger, "ack")))

    def broken(mail: bytes) -> object:
        if mail.endswith(b"first"):
            raise IndexError("email.message raises this error for some headers")
        return original(mail)

    original = mail_answers.message_from_bytes
    monkeypatch.setattr(mail_answers, "message_from_bytes", broken)

    first, second = read_maildir(ledger, settings)

    assert "IndexError" in first
    assert "acknowledged" in second
