"""Headers of mails."""

from __future__ import annotations

from email import message_from_bytes, policy

import pytest

from netbisect.steps.master.mailer import compose
from netbisect.steps.service.settings import MailSettings
from netbisect.store.db.records import MailState, OutboxMail

SETTINGS = MailSettings(("people@lab.invalid",), "netbisect@lab.invalid", port=25)


@pytest.mark.parametrize(
    "subject",
    [
        "[netbisect] main: 3f1c9a2b7d e1000: Migrate igb(4) to iflib: forwarding -11.1 % on c2558",
        "[netbisect] main: 3f1c9a2b7d e1000: Åsa Ōno änderte 转发 🐡 " + "ü" * 70,
    ],
)
def test_a_subject_survives_the_header(subject: str) -> None:
    """Whatever the letters; a header has no line of more than 78."""
    mail = OutboxMail(
        id=1, key="k", message_id="<1@lab.invalid>", alert=7, subject=subject,
        recipients=("people@lab.invalid",), body="text\n", in_reply_to="<0@lab.invalid>",
        references=("<0@lab.invalid>",), state=MailState.WAITING, attempts=0, next_try_at=0.0,
        last_error="", created_at=0.0, sent_at=None,
    )  # fmt: skip
    sent = compose(mail, SETTINGS).as_bytes()
    head = sent.split(b"\n\n", 1)[0]
    read = message_from_bytes(sent, policy=policy.default)

    assert read["Subject"] == subject
    assert read["In-Reply-To"] == "<0@lab.invalid>"
    assert head.isascii()
    assert max(map(len, head.splitlines())) <= 78
