"""Commands in replies to the mails about an alert."""

from __future__ import annotations

import pytest

from netbisect.bisect.mail_commands import MailCommand, MailCommandError, parse
from netbisect.bisect.model.alert_state import AlertState

NO_REASON = "by mail, without a reason"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("ack", MailCommand(AlertState.ACKNOWLEDGED, NO_REASON)),
        (
            "Ack  the price of SA-26:03",
            MailCommand(AlertState.ACKNOWLEDGED, "the price of SA-26:03"),
        ),
        ("mute 14d", MailCommand(AlertState.MUTED, NO_REASON, days=14)),
        ("mute 3d in review", MailCommand(AlertState.MUTED, "in review", days=3)),
        ("fixed by 0123456789ab", MailCommand(AlertState.FIXED, "fixed by 0123456789ab")),
        ("\tinvalid the fan failed\r", MailCommand(AlertState.INVALID, "the fan failed")),
        ("reopen it is back", MailCommand(AlertState.REOPENED, "it is back")),
    ],
)
def test_command_is_parsed_from_its_own_line(line: str, command: MailCommand) -> None:
    assert parse(f"Hello,\nI have looked at it.\n\n{line}\n\nRegards, Ann\n") == command


@pytest.mark.parametrize(
    "copy",
    [
        "> ack\n>> fixed by 0123456\n",
        "-- \nack\n",
        "-----Original Message-----\ninvalid REASON\n",
        "________________________________\nack\n",
        "From: netbisect <netbisect@lab.invalid>\nack\n",
    ],
)
def test_quoted_text_and_signatures_are_ignored(copy: str) -> None:
    assert parse(f"mute 2d\n{copy}") == MailCommand(AlertState.MUTED, NO_REASON, days=2)
    with pytest.raises(MailCommandError, match="its own, found none"):
        parse(copy)


@pytest.mark.parametrize(
    "text",
    ["", "thank you", "acknowledged", "please ack", "invalid", "fixed by HASH", "mute forever"],
)
def test_other_text_is_not_a_command(text: str) -> None:
    with pytest.raises(MailCommandError, match="its own, found none"):
        parse(text)


def test_contradictions_and_invalid_days_are_rejected() -> None:
    assert parse("ack\nack\n") == MailCommand(AlertState.ACKNOWLEDGED, NO_REASON)
    with pytest.raises(MailCommandError, match="found several"):
        parse("ack\nmute 14d\n")
    for days in (0, 367):
        with pytest.raises(MailCommandError, match="expected 1 to 366 days"):
            parse(f"mute {days}d")
