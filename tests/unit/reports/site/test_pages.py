"""Index pages with the table of levels by scenario and testbed, and pages of requests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
import report_cases
import report_documents

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.model.series import LevelDocument, SeriesDocument
from netbisect.reports.model.types import AlertSummary, Difference, SeenIn
from netbisect.reports.site import pages, requests
from netbisect.reports.site.overview import NightProgress, Overview
from netbisect.reports.site.plots import first_changed
from netbisect.reports.site.requests import Narrowing, PartView


def view(*series: SeriesDocument, alerts: Sequence[AlertSummary] = ()) -> Overview:
    night = NightProgress(0, 0, (), None, None)
    return Overview(at=1e9, night=night, alerts=alerts, running=(), series=series)


def summary(scenario: str) -> SeriesDocument:
    level = Level("a" * 40, "k", 1e9, (14.0,) * 5)
    document = report_documents.series_document([level])
    return replace(document, scenario=scenario, title=scenario)


def test_each_cell_of_the_table_shows_the_change_of_its_series() -> None:
    series = tuple(
        SeenIn(
            "c2558", name, "main", "a", "b", moved=True, at=0.0,
            difference=Difference.of(Effect(name, change, change - 0.01, change + 0.01, 0.0, 9, 9)),
        )
        for name, change in (("fwd4", -0.11), ("fwd6", -0.05))
    )  # fmt: skip
    alert = replace(report_cases.alert_summary(), id=7, series=series)
    all_series = view(*map(summary, ("fwd4", "fwd6", "pf4")), alerts=[alert])
    remarks = [row["cells"][0]["remark"] for row in pages.grid(all_series, "main")["rows"]]
    assert remarks == ["▼ -10.4 %, alert 7", "▼ -4.9 %, alert 7", "learning"]
    assert re.findall("▼ (.*?), alert 7", pages.index(all_series).html()) == ["-10.4 %", "-4.9 %"]


@pytest.mark.parametrize(("drop", "noisy"), [(0.099, False), (0.101, True)])
def test_a_noisy_series_detects_only_drops_above_ten_percent(drop: float, noisy: bool) -> None:
    """The limit is in percent and not a logarithm, as in `netbisect health`."""
    noisy_view = view(replace(summary("fwd4"), smallest_drop=-math.log1p(-drop)))
    grid = pages.grid(noisy_view, "main")
    health = pages.health(noisy_view).html()

    assert grid["noisy"] == 10
    assert grid["rows"][0]["cells"][0]["remark"] == ("± learning" if noisy else "learning")
    assert ("one night detects a drop of 10 % in every series" in health) is not noisy
    assert "1 of 1 series have too few kernels" in pages.health(view(summary("fwd4"))).html()
    for days, late in ((2, False), (3, True), (92, False)):
        later = pages.health(replace(noisy_view, at=1e9 + days * 86400)).html()
        assert ("Not measured in the last 2 nights" in later) is late  # then it counts as ended
    once = replace(noisy_view, at=1e9 + 3 * 86400, outside={noisy_view.series[0].name})
    assert "fwd4" not in pages.index(once).html() + pages.health(once).html()


def level(number: int) -> LevelDocument:
    measured = Level(f"{number}", "", 0.0, (14.0,))
    return LevelDocument.of(measured, "fwd4", f"n{number}", baseline=False, number=number)


def test_a_plot_marks_the_first_level_after_the_change() -> None:
    """This is the level of the culprit or the next one; without a culprit, the bad end."""
    unknown = replace(report_cases.alert_summary(), good="8", bad="72")
    known = replace(unknown, culprit="48")

    def marked(numbers: list[int], alert: AlertSummary, culprit: int | None) -> int | None:
        return first_changed(alert, [level(number) for number in numbers], culprit)

    assert marked([8, 24, 48, 72], known, 48) == 2
    assert marked([8, 24, 60, 72], known, 48) == 2
    assert marked([8, 24, 72], known, 48) == 2
    assert marked([8, 48, 60, 72], unknown, None) == 3
    assert marked([8, 24], known, 48) is None


def test_each_caption_names_revision_and_scenario() -> None:
    """Plots of several revisions and scenarios look alike."""
    document = report_documents.request_document()
    effect = Effect("fwd4", -0.1, -0.12, -0.08, 1e-6, 4, 4)
    narrowing = [
        Narrowing(f"n{number} against n1 in forwarding", [effect], 0.02) for number in (2, 3)
    ]
    boots = [
        ComparedScenario(name, [Set("n1", (1e6, 1.1e6, 1e6)), Set("n2", (9e5, 9.1e5, 9e5))])
        for name in ("forwarding", "pf")
    ]
    part = PartView(document.parts[0], boots, narrowing)
    text = requests.page(document, [part], []).html()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)

    assert [caption.partition(". ")[0] for caption in captions[-4:]] == [
        "n2 against n1 in forwarding",
        "n3 against n1 in forwarding",
        "forwarding",
        "pf",
    ]


def test_a_rise_of_a_number_goes_up_whatever_is_better() -> None:
    paths = []
    for scenario, sign in (("fwd4", 1), ("fwd4~cpu.percent.lower", -1)):
        levels = [Level(f"{i:040x}", f"{i}", 0.0, (sign * (4 + i / 50),) * 2) for i in range(5)]
        text = pages.testbed([report_documents.series_document(levels, scenario=scenario)], [])
        paths += re.findall(r'class="spark".*?<path d="(.*?)"', text.html())
    assert len(paths) == 2
    assert paths[0] == paths[1]


@pytest.mark.parametrize("state", [AlertState.OPEN, AlertState.MUTED, AlertState.FIXED])
def test_overview_counts_the_alerts_that_it_leaves_out(state: AlertState) -> None:
    alerts = [replace(report_cases.alert_summary(), state=state, standing=state.standing)] * 13
    text = pages.index(replace(view(alerts=alerts), at=0.0)).html()
    assert '<a href="alerts.html">and 3 more</a>' in text
