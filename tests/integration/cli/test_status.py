"""The end of `netbisect follow --until-idle`."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import netbisect

from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.mail import Mail
from netbisect.steps.service.database_thread import open_service_ledger
from netbisect.steps.service.settings import load_settings
from netbisect.store.ledger import Ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A service that is not running."""
    assert netbisect("init", tmp_path).exit_code == 0
    return tmp_path


def ledger_of(folder: Path) -> Ledger:
    return open_service_ledger(load_settings(folder / "netbisect.toml"))


def follow(folder: Path) -> tuple[int, str]:
    done = netbisect("follow", "--until-idle", folder)
    return done.exit_code, done.output


def test_follow_does_not_wait_for_a_mail_that_cannot_be_sent(folder: Path) -> None:
    """Without a mail server, a mail waits for days."""
    mails = ledger_of(folder).mails
    mail = mails.post("one", Mail("a drop", "text"), ["ann@lab.invalid"])
    mails.begin(mail.id, 0.0)
    mails.failed(mail.id, "Connection refused", 1e12)

    assert follow(folder) == (
        0,
        "1 mail not sent yet (Connection refused); netbisect mails lists them\n",
    )


@pytest.mark.parametrize("work", ["a job", "a mail"])
def test_follow_fails_with_open_work_and_no_master(folder: Path, work: str) -> None:
    ledger = ledger_of(folder)
    if work == "a job":
        ledger.jobs.add(NightlyJob("main", "x", "b" * 40, ("fwd4",), 3), key="night")
    else:
        ledger.mails.post("one", Mail("s", "text"), ["ann@lab.invalid"])

    assert follow(folder) == (1, f"Error: the master is not running: netbisect start {folder}\n")
