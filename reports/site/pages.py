"""Index pages: overview, alerts, searches, testbeds and more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netbisect.bisect.model.detection_results import GIVEN_UP_DAYS, STALE_DAYS, STALE_NIGHTS
from netbisect.bisect.model.metric import metric_of
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import NOISY, NOISY_PERCENT, AlertSummary, Difference
from netbisect.reports.pages.requests import revisions
from netbisect.reports.render import words
from netbisect.reports.render.templating import environment
from netbisect.reports.render.words import Name
from netbisect.reports.site.files import series_file, testbed_page
from netbisect.reports.site.frame import FEEDS, REFRESH, Page, make_page, short_distance
from netbisect.reports.site.overview import NightProgress, Overview, RunningJob
from netbisect.reports.site.plots import spark

_DAY = 86400.0
_RECENT = 30 * _DAY
_MOST = 10
"""Rows of a list on the first page."""
_NAMED = 3
"""Scenarios that were not measured for one reason, by name."""
_SOON = 5
"""Seconds until the first page renews itself while series are read."""


def index(view: Overview) -> Page:
    """The first page: last night, open alerts, queue, and every series against its baseline."""
    active = sorted((one for one in view.alerts if one.state.active), key=_severity)
    known = [one for one in view.alerts if one.state.standing and not one.state.active]
    over = [
        one for one in view.alerts if not one.state.standing and one.changed_at > view.at - _RECENT
    ]
    return make_page(
        "index.html",
        "Packet forwarding of FreeBSD",
        alternates=FEEDS,
        changing=True,
        refresh=_SOON if view.unread else REFRESH,
        wide=True,
        view=view,
        headline=_headline(view.night),
        missing=_missing(view.night),
        active=active,
        known=known,
        over=over,
        most=_MOST,
        grids=[one for branch in branches_of(view.series) if (one := grid(view, branch))["rows"]],
        as_of=_as_of(view),
    )


def _as_of(view: Overview) -> str:
    """Nothing for imported data without times."""
    return f"As of {words.moment(view.at)}." if view.at >= words.FIRST_TIME else ""


def _severity(alert: AlertSummary) -> tuple[bool, float]:
    """Drops first, the largest change of each kind first."""
    return alert.kind != "drop", -abs(alert.ln_ratio or 0.0)


def _headline(night: NightProgress) -> str:
    if night.begun is None:
        return "No night yet."
    day = words.day(night.begun)
    ran = f"{night.measured} of {night.planned} series"
    if night.finished is None:
        return f"The night of {day} is running: {ran} measured."
    gone = night.planned - night.measured
    end = f", {gone} missing" if gone else ", none missing"
    return f"Last night, {day}, ended {words.moment(night.finished)[11:]}: {ran} measured{end}."


def _missing(night: NightProgress) -> list[str]:
    """Sentences about series without measurements."""
    sentences = [
        words.clean(f"{one.place}: {_several(one.scenarios)}: {words.reason(one.why)}")
        for one in night.missing[:_MOST]
    ]
    more = len(night.missing) - _MOST
    return [*sentences, f"and {more} more"] if more > 0 else sentences


def _several(scenarios: Sequence[str]) -> str:
    """The first few by name."""
    more = len(scenarios) - _NAMED
    named = list(scenarios[:_NAMED])
    return words.listing([*named, f"{more} more scenarios"] if more > 1 else list(scenarios))


def branches_of(series: Sequence[SeriesDocument]) -> list[str]:
    """Branches, those with the most series first."""
    names = [one.branch for one in series]
    return sorted(set(names), key=lambda name: (-names.count(name), name))


def grid(view: Overview, branch: str) -> dict[str, Any]:
    """The series of a branch by scenario and testbed, as the templates show them."""
    since = view.at - STALE_DAYS * _DAY
    mine = [
        one
        for one in view.series
        if one.branch == branch and (one.name not in view.outside or one.latest.at >= since)
    ]
    testbeds = sorted({one.testbed for one in mine})
    found = {(one.scenario, one.testbed): one for one in mine}
    titles = {one.scenario: one.title for one in mine}
    moved = {
        (one.testbed, one.scenario): (alert, one.difference)
        for alert in reversed(view.alerts)
        if alert.state.active
        for one in alert.series
        if one.branch == branch
    }
    return {
        "branch": branch,
        "noisy": NOISY_PERCENT,
        "stale": STALE_NIGHTS,
        "testbeds": [(name, testbed_page(name)) for name in testbeds],
        "rows": [
            {
                "title": titles[scenario],
                "cells": [
                    _map_cell(one, moved.get((testbed, scenario)), view.at)
                    if (one := found.get((scenario, testbed)))
                    else None
                    for testbed in testbeds
                ],
            }
            for scenario in sorted(titles, key=lambda name: titles[name])
        ],
    }


def _map_cell(
    one: SeriesDocument, moved: tuple[AlertSummary, Difference | None] | None, now: float
) -> dict[str, str]:
    old = one.latest.at < now - STALE_DAYS * _DAY
    looks, sign = ["old"] if old else [], ""
    alert, effect = moved or (None, None)
    if alert is not None and effect is not None:
        up = effect.ln_ratio > 0
        looks.append("up" if up else "down")
        sign = (
            f"{'▲' if up else '▼'} {words.percent(effect.ln_ratio, one.scenario)}, alert {alert.id}"
        )
    remark = sign or short_distance(one.against, one.scenario) or "learning"
    if one.health.saturated and not sign:
        remark = "at the generator's limit"
    elif (one.smallest_drop or 0.0) > NOISY and not sign:
        remark = f"± {remark}"
    return {
        "page": series_file(one),
        "look": " ".join(looks),
        "level": words.level(one.estimates[-1].mean, one.scenario),
        "spark": _spark(one),
        "remark": f"{remark}, {words.day(one.latest.at)}"
        if old and one.latest.at > _DAY
        else remark,
    }


def _spark(one: SeriesDocument) -> str:
    """Goes up where the number rises, as in the figures of the series."""
    sign = -1 if metric_of(one.scenario).lower else 1
    return spark([sign * each.mean for each in one.estimates])


def alerts(view: Overview) -> Page:
    """All announced alerts."""
    return make_page(
        "alerts.html",
        "Alerts",
        alternates=FEEDS,
        open=[one for one in view.alerts if one.state.active],
        settled=[one for one in view.alerts if one.state.standing and not one.state.active],
        over=[one for one in view.alerts if not one.state.standing],
    )


def searches(running: Sequence[RunningJob], ended: Sequence[tuple[str, object, str]]) -> Page:
    """All comparisons and bisections, the newest first; of ended ones kind, record and result."""
    return make_page("searches.html", "Searches", changing=True, running=running, ended=ended)


def testbeds(view: Overview) -> Page:
    """All testbeds."""
    return make_page("testbeds.html", "Testbeds", view=view)


def testbed(series: Sequence[SeriesDocument], alerts: Sequence[AlertSummary]) -> Page:
    """A testbed with its series, at least one, and those of the alerts that are on it."""
    first = series[0]
    return make_page(
        "testbed.html",
        first.testbed,
        current="testbeds.html",
        trail=[("testbeds.html", "Testbeds")],
        hardware=first.hardware,
        open=[one for one in alerts if one.state.active and one.is_on(testbed=first.testbed)],
        branches={
            branch: [one for one in series if one.branch == branch]
            for branch in branches_of(series)
        },
    )


def _remarks(one: SeriesDocument) -> str:
    remarks = ["at the generator's limit"] if one.health.saturated else []
    return ", ".join([*remarks, "slow mode"] if one.health.modes is not None else remarks)


environment.filters.update(remarks=_remarks, spark=_spark)


def compare(view: Overview) -> Page:
    """The form that compares two revisions."""
    return make_page(
        "compare.html",
        "Compare two revisions",
        tables=sorted({(one.testbed, one.branch) for one in view.series}),
        pairs=view.pairs,
    )


def requests(found: Sequence[Any], label: Name) -> Page:
    """The latest requests, from their records; the function names a revision."""
    named = [(one, revisions(one.kind, [*map(label, one.parameters["subjects"])])) for one in found]
    return make_page("requests.html", "Requests", changing=True, requests=named)


def health(view: Overview) -> Page:
    """Conditions that hide changes from the service."""
    ended, since = (view.at - days * _DAY for days in (GIVEN_UP_DAYS, STALE_DAYS))
    series = [one for one in view.series if one.name not in view.outside]
    return make_page(
        "health.html",
        "Health",
        changing=True,
        view=view,
        missing=_missing(view.night),
        series=series,
        old=[one for one in series if ended <= one.latest.at < since],
        blind=[one for one in series if _sees_little(one)],
        learning=sum(one.smallest_drop is None for one in series),
        stale=STALE_NIGHTS,
        noisy=NOISY_PERCENT,
        as_of=_as_of(view),
    )


def _sees_little(one: SeriesDocument) -> bool:
    return (
        one.health.saturated or one.health.modes is not None or (one.smallest_drop or 0.0) > NOISY
    )
