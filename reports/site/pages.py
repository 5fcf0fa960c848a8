"""The pages that lead to the others: overview, alerts, searches, testbeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from netbisect.bisect.model.detection_results import STALE_DAYS, STALE_NIGHTS
from netbisect.reports.documents.types import AlertSummary, Difference
from netbisect.reports.render import words
from netbisect.reports.site.frame import (
    FEEDS,
    distance_text,
    drop,
    rate,
    render,
    short_distance,
    spread,
)
from netbisect.reports.site.view_models import (
    RunningLine,
    SeriesSummary,
    SiteOverview,
    question_page,
    revisions_page,
    testbed_page,
)

_DAY = 86400.0
_RECENT = 30 * _DAY
_NOISY = 0.1
"""Smallest drop that one night shows, from which on a series is called noisy; a ln ratio."""
_MISSED = 20
"""Most sentences about missing series."""


@dataclass(frozen=True, slots=True)
class FinishedLine:
    """A comparison or a bisection that was answered."""

    kind: str
    number: int
    testbed: str
    branch: str
    since: float
    answer: str

    @property
    def page(self) -> str:
        """Its file."""
        return question_page(self.kind, self.number)


def index(view: SiteOverview) -> str:
    """The first page: last night, open alerts, and the grid of all series."""
    wanting = [one for one in view.alerts if one.wanting]
    changed = [
        one for one in view.alerts if not one.wanting and one.changed_at >= view.at - _RECENT
    ]
    return render(
        "index.html",
        "Packet forwarding of FreeBSD",
        current="index",
        alternates=FEEDS,
        wide=True,
        mood="range" if wanting else "calm",
        night_line=_night_line(view),
        alert_line=_alert_line(view, wanting),
        missing=list(_missing(view)),
        open=wanting,
        running=view.running,
        grids=[grid(view, branch) for branch in branches_of(view.series)],
        address=str,
        recent=changed,
        state_of_things=f"As of {words.moment(view.at)}.",
    )


def _night_line(view: SiteOverview) -> str:
    if view.night_at is None:
        return "No night yet."
    record = sum(one.record for one in view.nights)
    done = sum(one.measured for one in view.nights)
    kinds = "all" if record == done else f"{done} of {record}"
    return f"Last night, {words.day(view.night_at)}: {kinds} series measured ({record} asked for)."


def _alert_line(view: SiteOverview, wanting: Sequence[AlertSummary]) -> str:
    standing = sum(one.state.standing for one in view.alerts) - len(wanting)
    known = f", and {standing} that are known or muted" if standing else ""
    alerts = words.count(len(wanting), "open alert") if wanting else "No open alert"
    return f"{alerts}{known}; {words.count(len(view.running), 'search')} running.".replace(
        "searchs", "searches"
    )


def _missing(view: SiteOverview) -> Iterator[str]:
    late = [one for one in view.nights if one.measured < one.record]
    for one in late[:_MISSED]:
        yield (
            f"{one.branch} on {one.testbed}: {one.record - one.measured} of "
            f"{words.count(one.record, 'scenario')}: {words.reason(one.why)}"
        )
    if len(late) > _MISSED:
        yield f"and {len(late) - _MISSED} more testbeds and branches"


def branches_of(series: Sequence[SeriesSummary]) -> list[str]:
    """Those with the most series first."""
    names = [one.branch for one in series]
    return sorted(set(names), key=lambda name: (-names.count(name), name))


def grid(view: SiteOverview, branch: str) -> dict[str, Any]:
    """The series of a branch by scenario and testbed, as the templates show them."""
    mine = [one for one in view.series if one.branch == branch]
    testbeds = sorted({one.testbed for one in mine})
    found = {(one.scenario, one.testbed): one for one in mine}
    titles = {one.scenario: one.title for one in mine}
    moved = {
        (one.testbed, scenario): (one, effect)
        for one in reversed(view.alerts)
        if one.wanting and one.branch == branch
        for scenario, effect in one.changes.items()
    }
    return {
        "branch": branch,
        "noisy": round(100 * _NOISY),
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
    one: SeriesSummary, moved: tuple[AlertSummary, Difference | None] | None, now: float
) -> dict[str, str]:
    old = one.latest.at < now - STALE_DAYS * _DAY
    looks, sign = ["old"] if old else [], ""
    if one.smallest_drop is not None and one.smallest_drop > _NOISY:
        looks.append("noisy")
    alert, effect = moved or (None, None)
    if alert is not None and effect is not None:
        up = effect.ln_ratio > 0
        looks.append("up" if up else "down")
        sign = f"{'▲' if up else '▼'} {words.percent(effect.ln_ratio)}, alert {alert.id}"
    said = sign or short_distance(one.against) or "learning"
    if one.saturated and not sign:
        said = "at the generator's limit"
    return {
        "page": one.page,
        "look": " ".join(looks),
        "level": rate(one.latest.mean),
        "spark": one.spark,
        "said": f"{said}, {words.day(one.latest.at)}" if old and one.latest.at > _DAY else said,
    }


def alerts(view: SiteOverview) -> str:
    """All alerts that were ever announced."""
    return render(
        "alerts.html",
        "Alerts",
        current="alerts.html",
        alternates=FEEDS,
        open=[one for one in view.alerts if one.wanting],
        settled=[one for one in view.alerts if one.state.standing and not one.wanting],
        over=[one for one in view.alerts if not one.state.standing],
    )


def searches(running: Sequence[RunningLine], ended: Sequence[FinishedLine]) -> str:
    """All comparisons and bisections, the newest first."""
    return render(
        "searches.html", "Searches", current="searches.html", running=running, ended=ended
    )


def testbeds(view: SiteOverview) -> str:
    """All testbeds."""
    rows = []
    for name, group in groupby(sorted(view.series, key=lambda one: one.testbed), _testbed):
        mine = list(group)
        rows.append(
            {
                "name": name,
                "page": testbed_page(name),
                "hardware": mine[0].hardware,
                "series": len(mine),
                "kernels": f"{max(one.levels for one in mine):,}",
                "boots": f"{max(one.boots for one in mine):,}",
                "at": max(one.latest.at for one in mine),
                "alerts": [one for one in view.alerts if one.wanting and one.testbed == name],
            }
        )
    return render("testbeds.html", "Testbeds", current="testbeds.html", testbeds=rows)


def _testbed(one: SeriesSummary) -> str:
    return one.testbed


def testbed(series: Sequence[SeriesSummary], alerts: Sequence[AlertSummary]) -> str:
    """A testbed and its series.

    Args:
        series: Its own, at least one.
        alerts: Its own.
    """
    first = series[0]
    return render(
        "testbed.html",
        first.testbed,
        current="testbeds.html",
        hardware=first.hardware,
        open=[one for one in alerts if one.wanting],
        branches=[
            {
                "name": branch,
                "revisions": revisions_page(first.testbed, branch),
                "rows": [_line(one) for one in series if one.branch == branch],
            }
            for branch in branches_of(series)
        ],
    )


def _line(one: SeriesSummary) -> dict[str, Any]:
    told = ["at the generator's limit"] if one.saturated else []
    return {
        "page": one.page,
        "title": one.title,
        "level": rate(one.latest.mean),
        "spark": one.spark,
        "against": distance_text(one.against) or "learning",
        "one": drop(one.smallest_drop),
        "five": drop(one.smallest_lasting_drop),
        "boot": spread(one.boot_noise),
        "image": spread(one.image_noise),
        "at": one.latest.at,
        "remarks": ", ".join([*told, "slow mode"] if one.bimodal else told),
    }


def compare(view: SiteOverview) -> str:
    """Where two revisions are compared."""
    tables = sorted({(one.testbed, one.branch) for one in view.series})
    return render(
        "compare.html",
        "Compare two revisions",
        current="compare.html",
        tables=[
            {"testbed": testbed, "branch": branch, "page": revisions_page(testbed, branch)}
            for testbed, branch in tables
        ],
        pairs=view.pairs,
    )
