"""Metrics of a service for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TypeAlias

from netbisect.bisect.model.alert_state import AlertState
from netbisect.reports.documents.prometheus import Metric, text
from netbisect.steps.service.stalls import StallHistory
from netbisect.store.db.records import RequestState
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.metrics import LedgerCounts
from netbisect.workers.config.lab import Lab

_Values: TypeAlias = dict[tuple[str, ...], float]
"""By the values of the labels."""


def gather(ledger: Ledger, lab: Lab, stalled: StallHistory) -> str:
    """All metrics in the format of Prometheus."""
    found = [*_of_testbeds(ledger, lab), *_of_ledger(ledger.metrics.census()), *_of_stalls(stalled)]
    return text(found)


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
        "Time of the last one, in seconds since the epoch.",
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


def _of_ledger(census: LedgerCounts) -> list[Metric]:
    requests = _all(census.requests, [one.value for one in RequestState])
    alerts = _all(census.alerts, [one.value for one in AlertState])
    boots: _Values = {(name,): at for name, at in census.last_boot.items()}
    mails: _Values = {("waiting",): census.mails_waiting, ("failed",): census.mails_failed}
    oldest: _Values = {} if census.oldest_mail is None else {(): census.oldest_mail}
    size: _Values = {(): float(census.database_bytes)}
    built: _Values = {(version("netbisect"),): 1}
    place, epoch = ("testbed", "branch"), "in seconds since the epoch."
    return [
        Metric("netbisect_jobs_open", "Open jobs.", census.open_jobs, ("kind", "testbed")),
        Metric("netbisect_requests", "Requests, by state.", requests, ("state",)),
        Metric(
            "netbisect_nights_completed_total", "Complete nights.", census.nights, place, "counter"
        ),
        Metric(
            "netbisect_last_night_timestamp_seconds",
            f"Time of the last complete night, {epoch}",
            census.last_night,
            place,
        ),
        Metric(
            "netbisect_last_boot_timestamp_seconds",
            f"Time of the last successful boot, {epoch}",
            boots,
            ("testbed",),
        ),
        Metric("netbisect_alerts", "Alerts, by state.", alerts, ("state",)),
        Metric("netbisect_mails", "Mails that wait, or were given up.", mails, ("state",)),
        Metric(
            "netbisect_oldest_mail_timestamp_seconds",
            f"Time of the oldest waiting mail, {epoch}",
            oldest,
        ),
        Metric("netbisect_database_bytes", "Size of the ledger.", size),
        Metric("netbisect_build_info", "1, for the version.", built, ("version",)),
    ]


def _all(found: Mapping[str, int], names: list[str]) -> _Values:
    """All kinds, also those with the value 0: a missing metric cannot be monitored."""
    return {(name,): found.get(name, 0) for name in names}
