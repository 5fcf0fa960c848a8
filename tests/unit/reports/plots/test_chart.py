"""Pictures: right data, same bytes, and words where there is nothing to draw."""

from __future__ import annotations

import math
import re
import runpy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl

from netbisect.bisect.model.entities import Level
from netbisect.reports.model.case import Case
from netbisect.reports.plots import chart

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "report_cases.py"))
SVG = "{http://www.w3.org/2000/svg}"


def make(name: str, **changes: object) -> Case:
    case: Case = made[name](**changes)
    return case


def texts(svg: str) -> list[str]:
    """Words drawn, in order."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def described(svg: str) -> str:
    root = ET.fromstring(svg)  # noqa: S314 - our own
    found = root.find(f"{SVG}desc")
    assert found is not None
    return found.text or ""


def marks(svg: str, colour: str) -> int:
    """Number of dots in that colour."""
    return sum(
        len(re.findall(r"M (\S+ \S+) \nL \1 \n", path))
        for path, style in re.findall(r'<path d="([^"]*)"[^>]* style="([^"]*)"', svg)
        if f"var(--{colour}," in style
    )


def test_a_trend_has_dots_for_boots_and_lines_at_the_ends() -> None:
    svg = chart.trend(make("culprit_case"), "fwd4")

    assert marks(svg, "boot") == 60 * 5
    assert {"good", "bad", "culprit", "Mpps", "% against good"} <= set(texts(svg))
    assert described(svg) == (
        "300 boots of the latest 60 revisions, from 2026-01-07 to 2026-03-07; from 1.489 Mpps at "
        "first to 1.324 Mpps at last."
    )


def test_small_rates_get_a_smaller_unit() -> None:
    assert "kpps" in texts(chart.trend(make("culprit_case"), "pf4"))


def test_no_culprit_is_marked_before_it_is_verified() -> None:
    for name in ("alert_case", "suspects_case", "unfinished_case"):
        case = make(name)

        assert "culprit" not in texts(chart.trend(case, "fwd4"))
        assert not any("culprit" in text for text in texts(chart.boxplot(case, "fwd4")))
        assert not any("culprit" in text for text in texts(chart.path(case)))


def test_a_long_history_is_cut_to_120_nights() -> None:
    svg = chart.trend(make("culprit_case", series={"fwd4": made["series"]("fwd4", 1000)}), "fwd4")

    assert marks(svg, "boot") == 120 * 5
    assert {"good", "bad"} <= set(texts(svg))


def test_a_trend_has_at_most_seven_dates() -> None:
    for nights in (1, 2, 13, 14, 200):
        case = make("culprit_case", series={"fwd4": made["series"]("fwd4", nights)})

        dates = [text for text in texts(chart.trend(case, "fwd4")) if re.match(r"\d{4}-", text)]
        assert 1 <= len(dates) <= 7


def test_a_single_boot_is_drawn_as_one() -> None:
    case = make("alert_case")
    level = Level(case.good.revision, "i", 0.0, (math.log(1e6),))
    case = replace(
        case, series={"fwd4": (level,)}, pps={"fwd4": {case.good.revision: (1_000_000.0,)}}
    )

    trend, boxes = chart.trend(case, "fwd4"), chart.boxplot(case, "fwd4")
    assert marks(trend, "boot") == 1
    assert marks(boxes, "good") == 1
    assert "1 boot" in texts(boxes)


def test_a_chart_without_data_is_a_sentence() -> None:
    case = make("alert_case", series={}, pps={})

    assert chart.trend(case, "fwd4") == ('<p class="soft">No earlier nights of this scenario.</p>')
    assert "No boots measured yet" in chart.boxplot(case, "fwd4")
    assert "The search has no steps yet." in chart.path(case)


def test_boxes_stand_in_the_order_of_the_branch_with_their_boots() -> None:
    svg = chart.boxplot(make("culprit_case"), "fwd4")

    shown = texts(svg)
    roles = [text for text in shown if text in ("good", "parent", "culprit", "bad")]
    assert roles == ["good", "parent", "culprit", "bad"]
    assert marks(svg, "good") == 14 + 12
    assert marks(svg, "bad") == 14 + 14
    assert described(svg).startswith("good n8-8a0e35afbcdc: 14 boots from 1.4")


def test_a_revision_with_two_roles_has_one_box() -> None:
    case = make("culprit_case")
    parent, culprit = case.commit(made["revision"](39)), case.commit(made["revision"](40))
    assert parent is not None
    assert culprit is not None
    case = replace(case, good=parent, bad=culprit, commits=(culprit,))

    shown = texts(chart.boxplot(case, "fwd4"))
    assert [text for text in shown if "parent" in text or "culprit" in text] == [
        "good, parent",
        "culprit, bad",
    ]
    assert chart.path(case)


def test_the_search_has_a_row_per_step_and_one_for_the_result() -> None:
    svg = chart.path(make("culprit_case"))

    shown = texts(svg)
    assert "1. n8" in shown
    assert "14. n36" in shown
    assert "result" in shown
    assert shown.count("no answer") == 1
    assert "culprit n40" in shown
    assert described(svg).startswith("17 steps;")


def test_a_long_search_is_condensed() -> None:
    case = make("unfinished_case")
    commits = tuple(
        replace(case.bad, revision=f"{number:040x}", number=number) for number in range(1000)
    )
    attempts = case.attempts * 10
    long = replace(case, commits=commits, bad=commits[-1], attempts=attempts)

    svg = chart.path(long)
    assert described(svg).startswith("40 steps;")
    assert len(svg) < 120_000


def test_a_chart_is_the_same_in_every_thread_and_changes_no_global_style() -> None:
    before = dict(mpl.rcParams)
    with ThreadPoolExecutor(4) as pool:
        drawn = set(pool.map(lambda _: chart.trend(make("culprit_case"), "fwd4"), range(4)))

    assert len(drawn) == 1
    assert dict(mpl.rcParams) == before
    assert "<metadata>" not in drawn.pop()


def test_charts_of_one_page_share_no_id() -> None:
    case = make("culprit_case")
    drawn = [
        *(chart.trend(case, scenario) for scenario in case.titles),
        *(chart.boxplot(case, scenario) for scenario in case.titles),
        chart.path(case),
    ]

    ids = [found for svg in drawn for found in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))
    for svg in drawn:
        own = set(re.findall(r'\bid="([^"]+)"', svg))
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) <= own
