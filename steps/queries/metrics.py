"""Metrics of a service for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from netbisect.reports.documents.prometheus import Metric, text
from netbisect.steps.service.stalls import StallHistory
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab


def gather(ledger: Ledger, lab: Lab, stalled: StallHistory) -> str:
    """All metrics in the format of Prometheus."""
    return text([*_of_testbeds(ledger, lab), *_of_ledger(ledger), *_of_stalls(stalled)])


def _of_stalls(stalled: StallHistory) -> Iterator[Metric]:
    yield Metric(
        "netbisect_stalls_total",
        "Operations that exceeded their time limit, by what was ended.",
        {(ended,): number for ended, number in stalled.counts.items()},
        ("ended",),
        "counter",
    )
    yield Metric(
        "netbisect_last_stall_timestamp_seconds",
        "Time of the last stall, in seconds since the epoch.",
        {(one.ended,): one.at for one in stalled.latest},
        ("ended",),
    )


def _of_testbeds(ledger: Ledger, lab: Lab) -> Iterator[Metric]:
    standing = ledger.quarantines.current()
    yield Metric(
        "netbisect_testbed_quarantined",
        "1 while a testbed is in quarantine.",
        {(one.name,): int(one.name in standing) for one in lab.testbeds},
        ("testbed",),
    )
    yield Metric(
        "netbisect_testbed_quarantined_since_seconds",
        "Start of the quarantine of a testbed, in seconds since the epoch.",
        {(name,): one.since for name, one in standing.items()},
        ("testbed",),
    )


def _of_ledger(ledger: Ledger) -> Iterator[Metric]:
    census = ledger.metrics.census()
    place, epoch = ("testbed", "branch"), "in seconds since the epoch."
    named = (
        ("jobs_open", "", "Open jobs.", ("kind", "testbed")),
        ("requests", "", "Requests, by state.", ("state",)),
        ("nights_completed", "_total", "Complete nights.", place),
        ("last_night", "_timestamp_seconds", f"Time of the last complete night, {epoch}", place),
        (
            "last_boot",
            "_timestamp_seconds",
            f"Time of the last successful boot, {epoch}",
            ("testbed",),
        ),
        ("alerts", "", "Alerts, by state.", ("state",)),
        ("mails", "", "Waiting and failed mails, by state.", ("state",)),
        (
            "oldest_mail",
            "_timestamp_seconds",
            f"Time of the oldest waiting mail, {epoch}",
            (),
        ),
        ("database_bytes", "", "Size of the ledger.", ()),
    )
    for name, unit, about, labels in named:
        kind = "counter" if unit == "_total" else "gauge"
        yield Metric(f"netbisect_{name}{unit}", about, census[name], labels, kind)
    yield Metric(
        "netbisect_build_info", "1, for the version.", {(version("netbisect"),): 1}, ("version",)
    )
