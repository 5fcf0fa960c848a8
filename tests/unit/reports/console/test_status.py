"""Status as text."""

from __future__ import annotations

from dataclasses import replace

import report_cases

from netbisect.reports.console import status
from netbisect.reports.model.types import StatusDocument


def test_an_alert_has_the_day_of_its_announcement() -> None:
    alert = replace(report_cases.alert_summary(), opened_at=1e9, since=1e9 + 2 * 86400)
    text = status.as_text(StatusDocument(at=2e9, jobs=(), alerts=(alert,), quarantines=()))
    assert "alert 3, 2001-09-11: main on c2558" in text
