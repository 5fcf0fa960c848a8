"""Index pages: the map of levels by scenario and testbed."""

from __future__ import annotations

import re

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.results import Effect
from netbisect.reports.site import dashboard, pages
from netbisect.reports.site.dashboard import Addresses
from netbisect.reports.site.view_models import Point, SeriesSummary, SiteOverview
from netbisect.steps.queries.document_parts import alert_summary
from netbisect.store.db.records import Alert, AlertSeries


def effect(scenario: str, ln_ratio: float) -> Effect:
    return Effect(scenario, ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-9, 12, 12)


def summary(scenario: str) -> SeriesSummary:
    point = Point(1, "a" * 40, "n1-aaaaaaaaaaaa", 1e9, 14.0, 1e-6, 5, "k")
    return SeriesSummary(
        testbed="c2558",
        scenario=scenario,
        branch="main",
        title=scenario,
        hardware="",
        points=[point],
        levels=1,
        boots=5,
        baseline=None,
        against=None,
        image_noise=0.0,
        boot_noise=0.0,
        smallest_drop=None,
        smallest_lasting_drop=None,
        saturated=False,
        bimodal=False,
        spark="",
    )


def test_each_cell_of_the_map_shows_the_change_of_its_own_series() -> None:
    effects = effect("fwd4", -0.11), effect("fwd6", -0.05)
    alert = Alert(
        id=7,
        testbed="c2558",
        branch="main",
        lead="fwd4",
        good="a",
        bad="b",
        effects=effects,
        state=AlertState.OPEN,
        culprit="",
        comparison=1,
        bisection=None,
        thread="",
        opened_at=1e9,
        closed_at=None,
        kind=AlertKind.DROP,
        announced_at=1e9,
        muted_until=None,
        recovery="",
        merged_into=None,
        series=tuple(
            AlertSeries("c2558", one.scenario, "main", "a", "b", one, 1e9) for one in effects
        ),
    )
    view = SiteOverview(
        at=1e9,
        nights=[],
        night_at=None,
        alerts=[alert_summary(alert, 1e9)],
        running=[],
        series=[summary("fwd4"), summary("fwd6"), summary("pf4")],
    )

    said = [row["cells"][0]["said"] for row in pages.grid(view, "main")["rows"]]
    night = dashboard.NightProgress(0, 0, (), None, None)
    board = dashboard.Dashboard(
        overview=view, night=night, running=[], held=[], addresses=Addresses("/"), at=1e9
    )

    assert said == ["▼ -10.4 %, alert 7", "▼ -4.9 %, alert 7", "learning"]
    for page in (pages.index(view), dashboard.page(board)):
        assert re.findall("▼ (.*?), alert 7", page) == ["-10.4 %", "-4.9 %"]
