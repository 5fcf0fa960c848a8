"""Index pages: the map of levels by scenario and testbed."""

from __future__ import annotations

import re
from dataclasses import replace

import report_cases
import report_documents

from netbisect.bisect.model.alert_change import ChangeBasis
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.series import LevelDocument, SeriesDocument
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.site import pages
from netbisect.reports.site.overview import NightProgress, Overview
from netbisect.reports.site.plots import first_changed
from netbisect.steps.queries.documents import alert_summary
from netbisect.store.db.records import Alert, AlertSeries


def effect(scenario: str, ln_ratio: float) -> Effect:
    return Effect(scenario, ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-9, 12, 12)


def summary(scenario: str) -> SeriesDocument:
    level = Level("a" * 40, "k", 1e9, (14.0,) * 5)
    document = report_documents.series_document([level])
    return replace(document, scenario=scenario, title=scenario)


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
        basis=ChangeBasis.RETEST,
        retest=effects,
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
            AlertSeries(
                testbed="c2558",
                scenario=one.scenario,
                branch="main",
                good="a",
                bad="b",
                effect=one,
                at=1e9,
            )
            for one in effects
        ),
    )
    view = Overview(
        at=1e9,
        night=NightProgress(0, 0, (), None, None),
        alerts=[alert_summary(alert, 1e9)],
        running=[],
        series=[summary("fwd4"), summary("fwd6"), summary("pf4")],
    )

    remarks = [row["cells"][0]["remark"] for row in pages.grid(view, "main")["rows"]]

    assert remarks == ["▼ -10.4 %, alert 7", "▼ -4.9 %, alert 7", "learning"]
    assert re.findall("▼ (.*?), alert 7", pages.index(view).html()) == ["-10.4 %", "-4.9 %"]


def level(number: int) -> LevelDocument:
    found = Level(f"{number}", "", 0.0, (14.0,))
    return LevelDocument.of(found, "fwd4", f"n{number}", baseline=False, number=number)


def test_a_series_falls_at_a_known_culprit() -> None:
    """At its own level, at the next one, or at the first bad one."""
    found = replace(report_cases.alert_summary(), good="8", bad="72")
    known = replace(found, culprit="48")

    def place(numbers: list[int], alert: AlertSummary, culprit: int | None) -> int | None:
        return first_changed(alert, [level(one) for one in numbers], culprit)

    assert place([8, 24, 48, 72], known, 48) == 2
    assert place([8, 24, 60, 72], known, 48) == 2
    assert place([8, 24, 72], known, 48) == 2
    assert place([8, 48, 60, 72], found, None) == 3
    assert place([8, 24], known, 48) is None
