"""The page of a series: ranges of its trend."""

from __future__ import annotations

import re

import pytest

from netbisect.bisect.detection import health
from netbisect.bisect.model.entities import Level, Noise
from netbisect.reports.site import series
from netbisect.reports.site.view_models import SeriesEpoch, SeriesView

DAY = 86400.0


def page(days: list[float]) -> str:
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
            numbers={},
            noise=noise,
            health=health.series_health(levels[-60:], 0.02, noise),
            steps=(),
        )
    )


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
    assert text.count("<figure>") == len(ranges)
    assert len(text) < 500_000
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
