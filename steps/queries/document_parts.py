"""Parts of documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from netbisect.bisect.model import entities, jobs, serialization
from netbisect.bisect.model.detection_results import SeriesHealth
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.metric import SeriesMetric, metric_of
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    Effect,
    NotConfirmed,
    NotReproduced,
    Result,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.model import types
from netbisect.reports.model.types import Difference
from netbisect.store.db.records import Alert, JobRecord, Quarantine, RequestState, SeriesName

_RATE = "%.7g"


def series(
    name: SeriesName,
    levels: Sequence[Level],
    baseline: Collection[int],
    *,
    conditions: Mapping[str, str],
    health: SeriesHealth,
    alerts: Sequence[int],
    commits: Mapping[str, entities.Commit],
) -> types.SeriesDocument:
    """The document of a series.

    Args:
        name: Of the series.
        levels: In the order of the branch.
        baseline: The `id` of those since the last confirmed change.
        conditions: Under which they were measured.
        health: What the baseline shows.
        alerts: Numbers of those that were seen in it.
        commits: By revision, of all levels.
    """
    metric = metric_of(name.scenario)
    return types.SeriesDocument(
        testbed=name.testbed,
        scenario=name.scenario,
        branch=name.branch,
        unit=metric.unit,
        better=metric.better,
        conditions=dict(conditions),
        levels=tuple(
            types.LevelDocument(
                revision=one.revision,
                label=commits[one.revision].label,
                kernel=one.identity,
                at=one.at,
                pps=_rounded(metric.number(one.mean)),
                boots=tuple(_rounded(metric.number(level)) for level in one.ln_pps),
                saturated=one.saturated,
                baseline=id(one) in baseline,
            )
            for one in levels
        ),
        boot_noise=health.boot_noise,
        image_noise=health.image_noise,
        smallest_drop=health.smallest_drop,
        alerts=tuple(alerts),
    )


def _rounded(number: float) -> float:
    """A number of a series, to seven digits: boots differ in the third."""
    return float(_RATE % number)


def differences(effects: Sequence[Effect]) -> tuple[Difference, ...]:
    """Of an alert or an answer."""
    return tuple(map(difference, effects))


def difference(effect: Effect) -> Difference:
    """A difference, open ends as None."""
    metric = metric_of(effect.scenario)
    low, high = metric.ends(effect.low, effect.high)
    return Difference(
        scenario=effect.scenario,
        percent=_percent(metric, effect.ln_ratio) or 0.0,
        percent_low=_percent(metric, low),
        percent_high=_percent(metric, high),
        ln_ratio=effect.ln_ratio,
        ln_low=effect.low if math.isfinite(effect.low) else None,
        ln_high=effect.high if math.isfinite(effect.high) else None,
        p=effect.p if math.isfinite(effect.p) else None,
        good_boots=effect.good_boots,
        bad_boots=effect.bad_boots,
    )


def _percent(metric: SeriesMetric, ln_ratio: float) -> float | None:
    """As a percentage of the good side; None for an open end, or one too large."""
    try:
        return metric.percent(ln_ratio) if math.isfinite(ln_ratio) else None
    except OverflowError:
        return None


def kind(record: JobRecord) -> str:
    """Of a question, in lower case."""
    return serialization.tag_of(record.job)


def kinds(record: JobRecord) -> types.Kind:
    """Of a question."""
    match record.job:
        case jobs.NightlyJob():
            return "Night"
        case jobs.CompareJob():
            return "Comparison"
        case jobs.BisectJob():
            return "Bisection"
        case jobs.ProfileJob():
            return "Profiling"
        case jobs.MeasureJob():
            return "Measurement"


def request_kind(kind: str) -> Literal["compare", "bisect", "series"]:
    """Of a request."""
    match kind:
        case "compare" | "bisect" | "series":
            return kind
    raise ValueError(f"{kind!r} is no kind of request")


def request_state(state: RequestState) -> Literal["open", "answered", "cancelled", "failed"]:
    """Of a request."""
    return state.value


def deed(what: str) -> Literal["ask", "cancel", "resume", "extend", "priority", "answer"]:
    """That was done to a request."""
    match what:
        case "ask" | "cancel" | "resume" | "extend" | "priority" | "answer":
            return what
    raise ValueError(f"{what!r} is nothing that is done to a request")


def compared(finding: Result | None) -> types.Compared:
    """How a comparison ended."""
    match finding:
        case None:
            return "running"
        case Confirmed():
            return "confirmed"
        case NotConfirmed():
            return "not-confirmed"
        case _:
            return "unfinished"


def searched(finding: Result | None) -> types.Searched:  # noqa: PLR0911 - one for every ending
    """How a search ended."""
    match finding:
        case None:
            return "running"
        case Culprit():
            return "culprit"
        case SeveralCulprits():
            return "several"
        case Suspects():
            return "suspects"
        case Drift():
            return "drift"
        case NotReproduced():
            return "not-reproduced"
        case _:
            assert isinstance(finding, Unfinished)
            return "unfinished"


def named(finding: Result | None) -> tuple[types.VerifiedCommit, ...]:
    """The commits that were verified."""
    found = finding.culprits if isinstance(finding, SeveralCulprits) else ()
    if isinstance(finding, Culprit):
        found = (finding,)
    return tuple(
        types.VerifiedCommit(
            revision=one.revision,
            parent=one.parent,
            chance=max(one.chance, one.belief.chances.get(one.revision, 0.0)),
            differences=differences(one.effects),
        )
        for one in found
    )


def alert_summary(
    alert: Alert, changed_at: float, title: Callable[[str], str] = str
) -> types.AlertSummary:
    """An alert in brief.

    Args:
        alert: The alert.
        changed_at: Time of the last action on it.
        title: Returns the name of a scenario for people.
    """
    latest = {(one.testbed, one.scenario, one.branch): one for one in alert.series}
    moved = {place: one for place, one in latest.items() if one.moved}
    lead = difference(alert.effects[0]) if alert.effects else None
    return types.AlertSummary(
        id=alert.id,
        kind=alert.kind,
        branch=alert.branch,
        testbed=alert.testbed,
        lead=alert.lead,
        ln_ratio=lead.ln_ratio if lead else None,
        percent=lead.percent if lead else None,
        good=alert.good,
        bad=alert.bad,
        culprit=alert.culprit,
        state=alert.state,
        standing=alert.state.standing,
        opened_at=alert.opened_at,
        title=title(alert.lead),
        since=alert.opened_at if alert.announced_at is None else alert.announced_at,
        difference=lead,
        basis=alert.basis,
        changes={
            one.scenario: difference(one.effect) if one.effect else None
            for _, one in sorted(moved.items())
            if (one.testbed, one.branch) == (alert.testbed, alert.branch)
        },
        others=len(moved.keys() - {(alert.testbed, alert.lead, alert.branch)}),
        muted_until=alert.muted_until,
        merged_into=alert.merged_into,
        changed_at=changed_at,
    )


def quarantine(found: Quarantine) -> types.QuarantineDocument:
    """A testbed in quarantine."""
    return types.QuarantineDocument(
        id=found.id,
        testbed=found.testbed,
        since=found.since,
        fault=found.fault,
        why=found.why,
        by=found.by,
        wanted_at=found.wanted_at,
        wanted_by=found.wanted_by,
        note=found.note,
        refused=found.refused,
    )
