"""Retests of a suspected change: pairs of images to compare, and their combined verdict."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.detection_results import NightScreening, RetestVerdict
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import (
    Confirmed,
    Effect,
    NotConfirmed,
)
from netbisect.steps.service.numeric import confirmation, grouping, histories
from netbisect.store.db.records import Alert, JobRecord
from netbisect.store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class RetestResult:
    """Combined result of the comparisons of a suspected change."""

    word: RetestVerdict
    effects: tuple[Effect, ...]
    """Over all pairs, the leading scenario first."""
    why: str
    first: CompareJob
    """The first pair: its ends are those of a search."""


def tonight(ledger: Ledger, night: NightlyJob, min_effect: float) -> NightScreening:
    """Screens the series of a nightly job: what to compare, and which modes shift."""
    series, noises = {}, {}
    for scenario in night.scenarios:
        levels = ledger.series.with_baseline(night.testbed, scenario, night.branch)
        if levels.baseline and levels.baseline[-1].revision == night.revision:
            series[scenario] = levels.baseline
            # The machine has this noise, whatever the level.
            noises[scenario] = histories.estimate_noise(levels.whole[:-1])
    return grouping.screen_night(night, series, min_effect, noises)


def doubtful(ledger: Ledger, testbed: str, branch: str) -> tuple[Alert, JobRecord] | None:
    """A change of this testbed that is being confirmed, and its last comparison; or None."""
    for alert in ledger.alerts.pending():
        here = (alert.testbed, alert.branch) == (testbed, branch)
        if here and alert.state is AlertState.CONFIRMING and alert.comparison is not None:
            return alert, ledger.jobs.get(alert.comparison)
    return None


def next_pair(ledger: Ledger, record: JobRecord) -> CompareJob | None:
    """The comparison of two further images after an uncertain one."""
    pairs = [one.job for one in _compared(ledger, record)]
    first = pairs[0]
    if first.noise is None:
        return None
    levels = ledger.series.baseline(first.testbed, first.lead, first.branch)
    return grouping.next_pair(pairs, levels, first.noise)


def combined_result(
    ledger: Ledger, record: JobRecord, finding: Confirmed | NotConfirmed
) -> RetestResult:
    """Combines a comparison with the earlier ones of the same change."""
    compared = _compared(ledger, record)
    first = compared[0].job
    retests = [one.finding.effects for one in compared[:-1]] + [finding.effects]
    noise = first.noise or Noise()
    if isinstance(finding, NotConfirmed) and (len(compared) == 1 or not finding.effects):
        return RetestResult(RetestVerdict.NO, finding.effects, finding.why, first)
    sign = 1 if first.suspected > 0 else -1
    leads = [effects[0] for effects in retests]
    goods = [one.job.good for one in compared]
    verdict = confirmation.judge(leads, noise, first.min_effect, sign, goods)
    effects = confirmation.mean_effects(retests, noise, len(set(goods)))
    return RetestResult(verdict.word, effects, verdict.why, first)


@dataclass(frozen=True, slots=True)
class _Compared:
    job: CompareJob
    finding: Confirmed | NotConfirmed


def chain(ledger: Ledger, record: JobRecord) -> list[JobRecord]:
    """The comparisons of one change up to this one, by age."""
    found = []
    one: JobRecord | None = record
    while one is not None and isinstance(one.job, CompareJob):
        found.append(one)
        one = ledger.jobs.get(one.parent) if one.parent is not None else None
    return found[::-1]


def _compared(ledger: Ledger, record: JobRecord) -> list[_Compared]:
    """The same with their findings; the last may be open."""
    found = []
    for one in chain(ledger, record):
        assert isinstance(one.job, CompareJob)
        finding = one.finding
        if not isinstance(finding, Confirmed | NotConfirmed):
            finding = NotConfirmed((), "not finished")
        found.append(_Compared(one.job, finding))
    return found
