"""Replies to the mails about alerts: their address, and what their commands do.

The address contains an HMAC of the alert, so that only those who have received a mail about an
alert can change it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from email import message_from_bytes
from email.message import Message
from email.utils import getaddresses, parseaddr

from netbisect.bisect import mail_commands
from netbisect.bisect.model.alert_state import HistoryEntry
from netbisect.errors import UserError
from netbisect.reports.mail import answers
from netbisect.reports.render import words
from netbisect.steps.policy.alert_actions import change_by_hand, reason
from netbisect.steps.service.mail_address import is_mail_address
from netbisect.steps.service.secrets import make_secret, read_password
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.store.db.database import NotAllowedError, NotFoundError
from netbisect.store.ledger import Ledger

MAIL_MAX = 10_000_000
"""Bytes of a mail that are read."""
_DAY = 86400.0
_TOKEN_BYTES = 15
_FORM = re.compile(r"\+([1-9][0-9]{0,8})\.([a-z2-7]{24})", re.IGNORECASE)
_RECIPIENTS = ("To", "Cc", "Delivered-To", "X-Original-To")
_AUTOMATIC = {"bulk", "junk", "list", "auto_reply"}
"""Values of Precedence."""
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,200}>")


def reply_address(settings: MailSettings, alert: int | None) -> str:
    """Reply-To of a mail, with a token for an alert if answers are configured. Raises FileError."""
    if alert is None or not settings.answers:
        return settings.reply_to
    make_secret(settings.answers_key_file)
    name, _, domain = settings.answers.partition("@")
    return f"{name}+{alert}.{_token(settings, alert)}@{domain}"


def _token(settings: MailSettings, alert: int) -> str:
    key = read_password(settings.answers_key_file, "mail.answers_key_file")
    digest = hmac.digest(key.encode(), f"alert {alert}".encode(), "sha256")
    return base64.b32encode(digest[:_TOKEN_BYTES]).decode().lower()


def read_maildir(ledger: Ledger, settings: Settings) -> list[str]:
    """Executes the commands in new mails of `answers_maildir`, and marks the mails as seen.

    Returns lines for the log; after a StoreError or FileError, the mail is read again later.
    """
    folder = settings.mail.answers_maildir
    if folder is None:
        return []
    lines = []
    for path in sorted((folder / "new").glob("*")):
        seen = folder / "cur" / f"{path.name}:2,S"
        try:
            for place in (path.parent, seen.parent):
                if not os.access(place, os.W_OK):  # the mail would be executed at every tick
                    raise PermissionError(f"{place} is not writable")
            with path.open("rb") as mail:
                lines.append(execute(ledger, settings, mail.read(MAIL_MAX)))
            path.rename(seen)
        except OSError as error:  # it delays no other mail
            lines.append(f"a mail will be read again: {error}")
    return lines


def execute(ledger: Ledger, settings: Settings, mail: bytes) -> str:
    """Executes the command in a mail, and answers it; ignores automatic and invalid mails.

    Returns a line for the log; raises StoreError and FileError.
    """
    try:
        return _execute(ledger, settings, mail)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - what the email package may raise is not documented
        return f"a mail was ignored: {error!r}"


def _execute(ledger: Ledger, settings: Settings, mail: bytes) -> str:
    message = message_from_bytes(mail)
    sender = parseaddr(_header(message, "From"))[1]
    alert = _authorised_alert(message, settings.mail)
    if alert is None:
        return f"a mail of {sender!r} was ignored: no valid token in its recipients"
    if _is_automatic(message) or sender == settings.mail.sender or not is_mail_address(sender):
        return f"a mail of {sender!r} about alert {alert} was ignored: sent by a program"
    now = ledger.clock()
    try:
        command = mail_commands.parse(_text(message))
        last = ledger.alerts.changes(alert)[-1:]
        if last and _has_made(command, sender, last[0], now):
            now = last[0].at  # a kill came before the mail was marked as seen
            changed = ledger.alerts.get(alert)
        else:
            until = _end_of(command, now)
            changed = change_by_hand(
                ledger, alert, command.state, who=sender, why=command.why, until=until
            )
    except (mail_commands.MailCommandError, NotAllowedError, NotFoundError) as error:
        answer, result = answers.not_understood(alert, str(error)), f"refused: {error}"
    else:
        answer = answers.done(alert, words.state(changed.status))
        result = f"{command.state.value}: {command.why}"
    data = {"alert": alert, "why": result}
    ledger.requests.add_audit_entry("answer", who=sender, via="mail", data=data)
    # One answer of a kind a day, so that no two programs can answer each other for ever.
    kind = f"{sender} {words.day(now)} {answer.text}"
    ledger.mails.post(
        f"answer:{alert}:{hashlib.sha256(kind.encode()).hexdigest()}",
        answer,
        [sender],
        in_reply_to=_message_id(message),
    )
    return f"a mail of {sender!r} about alert {alert}: {result}"


def _end_of(command: mail_commands.MailCommand, now: float) -> float | None:
    """End of a mute."""
    return now + command.days * _DAY if command.days else None


def _has_made(
    command: mail_commands.MailCommand, sender: str, change: HistoryEntry, now: float
) -> bool:
    """Whether the command of a mail that is read again made this change; a mute, within a day."""
    made = sender, reason(command.why, _end_of(command, change.at)), command.state
    same = (change.who, change.what, change.state) == made
    return same and (not command.days or now - change.at < _DAY)


def _authorised_alert(message: Message, settings: MailSettings) -> int | None:
    """The alert whose token is in the address of a recipient."""
    name, _, domain = settings.answers.lower().partition("@")
    headers = [str(value) for one in _RECIPIENTS for value in message.get_all(one, [])]
    for _, address in getaddresses(headers):
        local, _, place = address.lower().rpartition("@")
        form = _FORM.fullmatch(local.removeprefix(name))
        if form is None or not name or place != domain:
            continue
        if hmac.compare_digest(form[2], _token(settings, int(form[1]))):
            return int(form[1])
    return None


def _is_automatic(message: Message) -> bool:
    """Whether it is an automatic reply, a bounce, or from a mailing list (RFC 3834)."""
    return (
        _header(message, "Auto-Submitted").lower() not in {"", "no"}
        or _header(message, "Precedence").lower() in _AUTOMATIC
        or _header(message, "Return-Path") == "<>"
        or "List-Id" in message
    )


def _header(message: Message, name: str) -> str:
    return str(message.get(name, "")).strip()


def _message_id(message: Message) -> str:
    given = _header(message, "Message-ID")
    return given if _MESSAGE_ID.fullmatch(given) else ""


def _text(message: Message) -> str:
    for part in message.walk():
        if part.get_content_type() == "text/plain":
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            try:
                return content.decode(part.get_content_charset("utf-8"), "replace")
            except (LookupError, ValueError):  # an unknown name, or one with a null byte
                return content.decode(errors="replace")
    return ""
