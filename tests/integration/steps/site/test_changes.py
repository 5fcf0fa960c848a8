"""Pages of alerts: unaffected testbeds, backports and commands."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from site_fixtures import Page

from netbisect.reports.mail import alerts
from netbisect.reports.site import changes
from netbisect.steps.queries.changes import of_alert
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_ledger
from netbisect.steps.service.settings import Settings, load
from netbisect.steps.site.build import AlertIndex
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger


class FilledCase:
    """The last alert of a filled ledger."""

    def __init__(self, service_folder: Path, database: Path, folder: Path) -> None:
        settings, self.lab = load(service_folder / control.SETTINGS)
        self.settings: Settings = replace(settings, state=folder)
        self.ledger: Ledger = open_ledger(f"sqlite:///{database}")
        self.names = LabContext(self.lab, self.settings)

    @property
    def alert(self) -> Alert:
        return self.ledger.alerts.all()[-1]

    def case(self, now: float | None = None) -> Any:
        at = AlertIndex.of(self.ledger).now if now is None else now
        return of_alert(self.names, self.ledger, self.alert, at)

    def page(self, case: Any) -> str:
        document = DocumentQueries(self.ledger).alert(self.alert.id)
        return changes.alert(document, case, title=self.names.title, jobs=[]).html()


@pytest.fixture
def case_of_alert(service_folder: Path, filled: Path, tmp_path: Path) -> FilledCase:
    return FilledCase(service_folder, Path(shutil.copy(filled, tmp_path)), tmp_path)


def test_page_and_mail_agree(case_of_alert: FilledCase) -> None:
    """Both name unaffected testbeds, backports and commands."""
    case = replace(
        case_of_alert.case(), backports=("It is due on stable/15 on 2026-03-16.",), command="run it"
    )
    mail = alerts.mail(case).text
    page = Page(case_of_alert.page(case))

    assert case.unaffected == ("testbed-01 (inet4-path-00 and inet4-path-02)",)
    for sentence in (
        *case.unaffected,
        *case.backports,
        case.command,
        f"alerts ack {case_of_alert.alert.id}",
    ):
        assert sentence in " ".join(mail.split())
        assert sentence in page.text
    assert "Changes by this commit" in page.text


def test_unaffected_testbeds_are_shown_until_90_days_after_the_end(
    case_of_alert: FilledCase,
) -> None:
    back = case_of_alert.ledger.commits.newest("main") or ""
    case_of_alert.ledger.alerts.change(
        case_of_alert.alert.id,
        who="a",
        what="b",
        state=case_of_alert.alert.state.FIXED,
        recovery=back,
    )
    closed = case_of_alert.alert.closed_at
    assert closed is not None

    assert case_of_alert.case(closed + 86400.0).unaffected
    assert case_of_alert.case(closed + 100 * 86400.0).unaffected == ()
