"""Metrics for Prometheus."""

from __future__ import annotations

import stat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from programs import netbisect
from prometheus_client.parser import text_string_to_metric_families

from netbisect.bisect.model.entities import Boot
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import NightlyResult
from netbisect.reports.documents.prometheus import Metric, text
from netbisect.steps.queries.metrics import gather
from netbisect.steps.service import control, stalls
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_service_ledger

GOOD = "a" * 40


def parsed(exposed: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
    }


def test_metrics_count_jobs_nights_boots_and_mails(own_service: Path) -> None:
    settings, lab = load(own_service / control.SETTINGS)
    ledger = open_service_ledger(settings)
    for number, revision in enumerate((GOOD, "b" * 40)):
        night = NightlyJob("main", "c2558", revision, ("inet4-forwarding",), 3)
        record = ledger.jobs.add(night, key=f"night:{number}")
        if revision == GOOD:
            with ledger.jobs.closing(record, NightlyResult(3)):
                pass
    ledger.facts.record(Boot("d" * 32, "c2558", "e" * 64, GOOD, 1.7e9, 40.0))
    ledger.quarantines.start("c2558", why="too hot", by="ann")
    ledger.mails.post("x", Mail("s", "b"), ["a@lab.invalid"])
    exposed = gather(ledger, lab, stalls.read(settings.state))
    found = parsed(exposed)

    assert found["netbisect_jobs_open", ("night", "c2558")] == 1
    assert found["netbisect_nights_completed_total", ("c2558", "main")] == 1
    assert found["netbisect_last_boot_timestamp_seconds", ("c2558",)] == 1.7e9
    assert found["netbisect_last_night_timestamp_seconds", ("c2558", "main")] > 1.7e9
    assert found["netbisect_testbed_quarantined", ("c2558",)] == 1
    assert found["netbisect_testbed_quarantined", ("e5-2650",)] == 0
    assert found["netbisect_mails", ("waiting",)] == 1
    assert found["netbisect_oldest_mail_timestamp_seconds", ()] > 1.7e9

    done = netbisect("metrics", own_service)
    assert parsed(done.output).keys() == found.keys()
    place = own_service / "netbisect.prom"
    done = netbisect("metrics", own_service, "--output", place)
    assert (done.exit_code, done.output) == (0, "")
    assert parsed(place.read_text()).keys() == found.keys()
    assert stat.S_IMODE(place.stat().st_mode) == 0o644
    done = netbisect("metrics", own_service, "--output", "/nowhere/x")
    assert "/nowhere/x cannot be written" in done.output
    assert list(own_service.glob(".netbisect-*")) == []


@given(key=st.text(st.characters(exclude_categories=["Cs"])), value=st.floats(allow_nan=False))
def test_prometheus_parses_any_label(key: str, value: float) -> None:
    """Labels may have quotes, backslashes and newlines; values may be any number."""
    exposed = text([Metric("netbisect_x", "A \\ and\na line.", {(key,): value}, ("name",))])
    [family] = text_string_to_metric_families(exposed)
    [sample] = family.samples

    assert (sample.labels, sample.value) == ({"name": key}, value)
    assert family.documentation == "A \\ and\na line."
