"""Limits of calls of the database."""

from __future__ import annotations

from pathlib import Path

from netbisect.steps.requests.validation import MOST_SUBJECTS
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.workers.build import phabricator


def test_a_request_may_wait_for_the_server_of_all_its_reviews(tmp_path: Path) -> None:
    mail = MailSettings(("a@lab.invalid",), "b@lab.invalid")
    settings = Settings(("main",), mail, database=f"sqlite:///{tmp_path}/x")
    wait = phabricator._SILENCE + phabricator._LONGEST
    assert database_thread(settings, "requests")._limit > MOST_SUBJECTS * wait
