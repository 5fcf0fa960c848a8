"""Health of the detection: power of each series and record of alerts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.detection_results import (
    DAYS,
    MIN_EFFECT,
    DetectionRecord,
    RepeatedNight,
    SeriesReport,
    SplitHalfTest,
)
from netbisect.bisect.model.entities import Level, SeriesName
from netbisect.reports.model.types import HealthDocument
from netbisect.reports.render import words
from netbisect.steps.service.numeric import health, health_report, histories, screening, self_check
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger

_DAY = 86400.0
_TAKEN_BACK = {AlertState.WITHDRAWN, AlertState.INVALID}
_IN_DOUBT = {AlertState.CANDIDATE, AlertState.CONFIRMING}


def judge(ledger: Ledger, min_effect: float = MIN_EFFECT) -> HealthDocument:
    """Judges all series and alerts.

    `min_effect` is the smallest change worth an alert, as a positive ln ratio.
    """
    now, halves, twice, reports = ledger.clock(), [], [], []
    newest: dict[str, str | None] = {}
    names = ledger.series.names()
    outside = ledger.nights.outside(names)
    for name in names:
        series = ledger.series.with_baseline(name.testbed, name.scenario, name.branch)
        levels, whole = series.baseline, series.whole
        # As the service does: the noise does not begin anew with every change.
        found = health.series_health(
            levels, min_effect, histories.estimate_noise(whole[:-1]) if whole[1:] else None
        )
        again = _repeated(ledger, name, whole, min_effect)
        halves.append(self_check.split_half_test(levels))
        twice += again
        at = found.latest_at
        head = newest.setdefault(name.branch, ledger.commits.newest(name.branch))
        reports.append(
            SeriesReport(
                testbed=name.testbed,
                scenario=name.scenario,
                branch=name.branch,
                health=found,
                q=None,
                days=(now - at) / _DAY if at is not None and at >= words.FIRST_TIME else None,
                up_to_date=bool(found.latest) and head == found.latest,
                nightly=name not in outside,
                repeats=self_check.count_repeated_nights(again),
            )
        )
    judged = HealthDocument(
        at=now,
        series=_with_q(reports),
        record=_record(ledger.alerts.begun(now - DAYS * _DAY), now),
        halves=SplitHalfTest(
            images=sum(one.images for one in halves),
            called=sum(one.called for one in halves),
            ministat=sum(one.ministat for one in halves),
        ),
        repeats=self_check.count_repeated_nights(twice),
        warnings=(),
    )
    return health_report.with_warnings(judged, len(ledger.mails.given_up()))


def new_epochs(ledger: Ledger) -> list[str]:
    """Changes of conditions in the last `DAYS` days, one sentence each."""
    after = max(ledger.clock() - DAYS * _DAY, words.FIRST_TIME)
    found: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for one in ledger.series.new_epochs(after):
        changed = words.changed_conditions(one.before, one.after)
        found[one.name.testbed, words.day(one.since), changed][one.name.scenario] = None
    return [
        f"{testbed}: new epoch of {', '.join(scenarios)} since {day}: {changed}"
        for (testbed, day, changed), scenarios in found.items()
    ]


def _with_q(reports: list[SeriesReport]) -> tuple[SeriesReport, ...]:
    """The q of a night stands for all its series together."""
    screened = [(i, one.health.p) for i, one in enumerate(reports)]
    tried = [(i, p) for i, p in screened if p is not None]
    qs = screening.q_values([p for _, p in tried])
    by_place = {i: q for (i, _), q in zip(tried, qs, strict=True)}
    return tuple(replace(one, q=by_place.get(i)) for i, one in enumerate(reports))


def _repeated(
    ledger: Ledger, name: SeriesName, levels: list[Level], min_effect: float
) -> list[RepeatedNight]:
    """Each night of an image against the previous one."""
    return [
        self_check.compare_repeated_night(_before(levels, nights[0]), first, second, min_effect)
        for nights in ledger.nights.repeated(name.testbed, name.scenario, name.branch)
        for first, second in pairwise(nights)
    ]


def _before(levels: list[Level], night: Level) -> list[Level]:
    """The levels before the image of a night."""
    names = [level.identity for level in levels]
    return levels[: names.index(night.identity)] if night.identity in names else []


def _record(alerts: list[Alert], now: float) -> DetectionRecord:
    since = now - DAYS * _DAY
    announced = [
        one for one in alerts if one.announced_at is not None and one.announced_at >= since
    ]
    kinds = [one.kind for one in announced]
    drops, gains = kinds.count(AlertKind.DROP), kinds.count(AlertKind.IMPROVEMENT)
    suspected = [one for one in alerts if one.opened_at >= since]
    candidates = [one for one in suspected if one.state not in _IN_DOUBT]
    nights: defaultdict[int, set[str]] = defaultdict(set)
    for one in suspected:
        nights[int(one.opened_at // _DAY)].add(f"{one.testbed}/{one.lead}/{one.branch}")
    return DetectionRecord(
        drops=drops,
        improvements=gains,
        one_sided=self_check.sign_test(drops, gains),
        announced=len(announced),
        taken_back=sum(one.state in _TAKEN_BACK for one in announced),
        candidates=len(candidates),
        # A withdrawn one without a comparison has reopened an earlier alert.
        confirmed=sum(
            one.announced_at is not None
            or (one.state is AlertState.WITHDRAWN and one.comparison is None)
            for one in candidates
        ),
        overlap=self_check.night_overlap([frozenset(nights[day]) for day in sorted(nights)]),
    )
