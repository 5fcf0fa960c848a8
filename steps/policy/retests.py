"""Retests of a suspected change: what to compare after a night, and which are running."""

from __future__ import annotations

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.detection_results import NightScreening
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.steps.service.numeric import grouping, histories
from netbisect.store.db.records import Alert, JobRecord
from netbisect.store.ledger import Ledger


def tonight(ledger: Ledger, night: NightlyJob, min_effect: float) -> NightScreening:
    """Screens the series of a nightly job: what to compare, and which modes shift."""
    series, noises = {}, {}
    for scenario in night.scenarios:
        levels = ledger.series.with_baseline(night.testbed, scenario, night.branch)
        if levels.baseline and levels.baseline[-1].revision == night.revision:
            series[scenario] = levels.baseline
            # The machine has this noise, whatever the level.
            noises[scenario] = histories.estimate_noise(levels.whole[:-1])
    numbers = ledger.commits.numbers().get(night.branch, {})
    return grouping.screen_night(night, series, numbers, min_effect, noises)


def candidates(ledger: Ledger, testbed: str, branch: str) -> list[tuple[Alert, bool]]:
    """The candidates of a testbed, and whether their comparison runs."""
    return [
        (alert, ledger.jobs.get(alert.comparison).finding is None)
        for alert in ledger.alerts.pending()
        if (alert.testbed, alert.branch, alert.state) == (testbed, branch, AlertState.CONFIRMING)
        and alert.comparison is not None
    ]


def chain(ledger: Ledger, record: JobRecord) -> list[JobRecord]:
    """The comparisons of one change up to this one, by age; old ledgers have several."""
    found = []
    one: JobRecord | None = record
    while one is not None and isinstance(one.job, CompareJob):
        found.append(one)
        one = ledger.jobs.get(one.parent) if one.parent is not None else None
    return found[::-1]
