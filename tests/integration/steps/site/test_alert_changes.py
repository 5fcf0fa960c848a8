"""The change of an alert is the same in all mails, pages and documents."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from programs import netbisect

from netbisect.bisect.model.alert_change import ChangeBasis
from netbisect.reports.console import status
from netbisect.reports.mail import alerts, digest
from netbisect.steps.policy.alert_actions import change_mail
from netbisect.steps.queries.changes import of_alert
from netbisect.steps.queries.digest import gather
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_ledger
from netbisect.steps.service.settings import load
from netbisect.steps.site.live import LivePages

RETEST, VERIFIED = "-3.9 %", "-4.4 %"


@pytest.fixture
def places(service_folder: Path, filled: Path, tmp_path: Path) -> dict[str, str]:
    """Texts about the last alert, by place; its culprit is verified."""
    url = f"sqlite:///{shutil.copy(filled, tmp_path)}"
    settings, lab = load(service_folder / control.SETTINGS)
    settings = replace(settings, database=url, state=tmp_path)
    ledger = open_ledger(url)
    found = ledger.alerts.all()[-1]
    assert (found.change.basis, found.retest[0].ln_ratio) == (ChangeBasis.VERIFIED, -0.04)
    live = LivePages(settings, lab, ledger, patience=math.inf)
    context = LabContext(lab, settings)
    queries = DocumentQueries(ledger, context, url="")
    case = of_alert(context, ledger, found, found.opened_at)
    assert case is not None
    pages = {
        name: live.file(name) or ""
        for name in ("index.html", "alerts.html", f"alert-{found.id}.html")
    }
    pages["testbed"] = live.file(f"testbed-{found.testbed}.html") or ""
    ledger.clock = lambda: found.opened_at + 86400.0
    document = gather(ledger, settings, lab, [], found.opened_at - 1)
    texts = {
        "mail": alerts.mail(case).text,
        "subject": alerts.mail(case).subject,
        "reply": change_mail("olga", "because")(found),
        "digest": digest.mail(document).text,
        "feed": queries.atom(),
        "status": status.as_text(queries.status(everything=True)),
        "list": netbisect("alerts", "--all", "--database", url).output,
    }
    return pages | texts


def test_all_places_show_the_verified_change(places: dict[str, str]) -> None:
    for place, text in places.items():
        assert VERIFIED in text, place
        assert RETEST not in text, place


def test_documents_have_the_verified_change(filled: Path) -> None:
    url = f"sqlite:///{filled}"
    ledger = open_ledger(url)
    number = ledger.alerts.all()[-1].id

    def printed(*arguments: str) -> dict[str, object]:
        result = netbisect("export", *arguments, "--database", url)
        found: dict[str, object] = json.loads(result.stdout)
        return found

    alert = printed("alert", str(number))
    all_alerts = printed("status")["alerts"]
    listed = next(one for one in all_alerts if one["id"] == number)  # type: ignore[attr-defined]
    lead = alert["differences"][0]  # type: ignore[index]
    assert (alert["basis"], lead["ln_ratio"]) == ("verified", -0.045)
    assert (listed["basis"], listed["difference"], listed["ln_ratio"]) == ("verified", lead, -0.045)
    assert {one["ln_ratio"] for one in listed["changes"].values()} == {-0.045}
    first, *_, last = alert["series"]  # type: ignore[misc]
    assert first["difference"]["ln_ratio"] == -0.04
    assert last["difference"]["ln_ratio"] == -0.045
