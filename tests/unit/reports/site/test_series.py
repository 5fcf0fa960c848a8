"""The page of a series: ranges of its trend."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netbisect.bisect.detection import health
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.detection_results import LevelStep
from netbisect.bisect.model.entities import Commit, Level, Noise
from netbisect.reports.site import series
from netbisect.reports.site.view_models import SeriesEpoch, SeriesView

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "report_cases.py"))
DAY = 86400.0


def page(days: list[float], **more: Any) -> str:
    """Of a series with a level on each of these days."""
    levels = [
        Level(f"{i:040x}", f"image {i}", at, tuple(13.8 + (3 * i + n) % 7 / 1000 for n in range(4)))
        for i, at in enumerate(days)
    ]
    noise = Noise(boot=0.002, image=0.002)
    return series.page(
        SeriesView(
            testbed="c2558",
            scenario="fwd4",
            branch="main",
            title="forwarding",
            hardware="",
            epochs=[SeriesEpoch({}, levels)],
            standings=health.level_estimates(levels, noise),
            baseline=None,
            baseline_from="",
            baselined=0,
            least=0.02,
            noise=noise,
            health=health.series_health(levels[-60:], 0.02, noise),
            **{"numbers": {}, "steps": (), **more},
        )
    ).html()


@pytest.mark.parametrize(
    ("days", "ranges", "shown"),
    [
        (range(20), ["30 days", "all"], "30 days"),
        (range(100), ["30 days", "a year", "all"], "a year"),
        (range(500), ["30 days", "a year", "all"], "30 days"),
        (range(-19675, -19575), ["latest", "all"], "latest"),
    ],
)
def test_a_trend_has_ranges_that_differ(days: range, ranges: list[str], shown: str) -> None:
    text = page([(19675 + day) * DAY for day in days])
    names = re.findall(r'<label for="range-\w+">([^<]*)</label>', text)
    [checked] = re.findall(r'id="range-(\d)" checked', text)

    assert names == ranges
    assert ranges[int(checked) - 1] == shown
    assert text.count("<figure") == len(ranges)
    assert len(text) < 500_000
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_a_step_names_the_alert_whose_culprit_has_no_level_of_its_own() -> None:
    """The culprit lies between two levels that were measured; the bad end came later."""
    names = [f"{i:040x}" for i in range(8)]
    step = LevelStep(names[3], names[4], -0.1, -0.11, -0.09, 9.0, 4, 4, 16, 16, names[3], names[4])
    culprit = Commit("c" * 40, 35, "s", "", "A", "a@lab.invalid", 1e9)
    alert = replace(
        made["alert_summary"](),
        id=7,
        good=names[0],
        bad=names[7],
        culprit=culprit.revision,
        state=AlertState.CULPRIT_FOUND,
    )
    text = page(
        [(19675 + day) * DAY for day in range(8)],
        steps=[step],
        alerts=[alert],
        commits={culprit.revision: culprit},
        numbers={name: 10 * i for i, name in enumerate(names)},
    )
    steps = text.partition('id="steps"')[2].partition("<h2")[0]

    assert '<a href="alert-7.html">7</a>' in steps
