"""Pages of series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
import report_cases
import report_documents

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.detection_results import LevelStep
from netbisect.bisect.model.entities import Level
from netbisect.reports.site import series
from netbisect.reports.site.plots import MarkedAlert

DAY = 86400.0


def page(
    days: list[float], steps: Sequence[LevelStep] = (), alerts: Sequence[MarkedAlert] = ()
) -> str:
    levels = [
        Level(f"{i:040x}", f"image {i}", at, tuple(13.8 + (3 * i + n) % 7 / 1000 for n in range(4)))
        for i, at in enumerate(days)
    ]
    return series.page(report_documents.series_document(levels, steps=steps), alerts).html()


@pytest.mark.parametrize(
    ("days", "ranges", "shown"),
    [
        (range(20), ["30 days", "all"], "30 days"),
        (range(100), ["30 days", "a year", "all"], "a year"),
        (range(500), ["30 days", "a year", "all"], "30 days"),
        (range(-19675, -19575), ["latest", "all"], "latest"),
    ],
)
def test_trend_has_distinct_ranges(days: range, ranges: list[str], shown: str) -> None:
    states = (AlertState.OPEN, AlertState.FIXED)
    alerts = [(replace(report_cases.alert_summary(), state=one), None) for one in states]
    text = page([(19675 + day) * DAY for day in days], (), alerts)
    names = re.findall(r'<label for="range-\w+">([^<]*)</label>', text)
    [checked] = re.findall(r'id="range-(\d)" checked', text)

    assert names == ranges
    assert ranges[int(checked) - 1] == shown
    assert text.count("<figure") == len(ranges)
    assert len(text) < 500_000
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_step_names_the_alert_of_an_unmeasured_culprit() -> None:
    """The culprit is between two measured levels, and the bad end is later."""
    names = [f"{i:040x}" for i in range(8)]
    step = LevelStep(names[3], names[4], -0.1, -0.11, -0.09, 9.0, 4, 4, 16, 16, names[3], names[4])
    alert = replace(
        report_cases.alert_summary(),
        id=7,
        good=names[0],
        bad=names[7],
        culprit="c" * 40,
        state=AlertState.CULPRIT_FOUND,
    )
    text = page([(19675 + day) * DAY for day in range(8)], steps=[step], alerts=[(alert, 35)])
    steps = text.partition('id="steps"')[2].partition("<h2")[0]

    assert '<a href="alert-7.html">7</a>' in steps
