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
import pytest

from netbisect.bisect.model import Level
from netbisect.reports import chart
from netbisect.reports.case import Case

made = runpy.run_path(str(Path(__file__).with_name("report_cases.py")))
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
    """Dots of that colour: lines of no length."""
    return sum(
        path.count("h0")
        for path, form in re.findall(r'<path d="([^"]*)" style="([^"]*)"', svg)
        if f"var(--{colour}," in form
    )


def test_a_trend_has_a_dot_for_every_boot_and_a_mark_for_every_end() -> None:
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


def test_a_long_history_is_cut_to_the_nights_that_can_be_told_apart() -> None:
    svg = chart.trend(make("culprit_case", series={"fwd4": made["series"]("fwd4", 1000)}), "fwd4")

    assert marks(svg, "boot") == 120 * 5
    assert {"good", "bad"} <= set(texts(svg))


def test_names_under_the_axis_keep_their_distance() -> None:
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


@pytest.mark.parametrize(
    ("paint", "words"),
    [
        (lambda case: chart.trend(case, "fwd4"), "No earlier nights of this scenario are known."),
        (lambda case: chart.boxplot(case, "fwd4"), "No boot has been measured for this case yet."),
        (chart.path, "The search has not taken a step yet."),
    ],
)
def test_where_there_is_nothing_to_draw_a_sentence_says_so(paint, words: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - one of three functions
    svg = paint(make("alert_case", series={}, pps={}))

    assert texts(svg) == [words]
    assert described(svg) == words


def test_boxes_stand_in_the_order_of_the_branch_with_their_boots() -> None:
    svg = chart.boxplot(make("culprit_case"), "fwd4")

    shown = texts(svg)
    roles = [text for text in shown if text in ("good", "parent", "culprit", "bad")]
    assert roles == ["good", "parent", "culprit", "bad"]
    assert marks(svg, "good") == 14 + 12
    assert marks(svg, "bad") == 14 + 14
    assert described(svg).startswith("good n8-8a0e35afbcdc: 14 boots from 1.4")


def test_an_end_that_is_parent_or_culprit_too_has_one_box() -> None:
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


def test_the_search_has_a_line_for_every_step_and_one_for_the_end() -> None:
    svg = chart.path(make("culprit_case"))

    shown = texts(svg)
    assert "1. n8" in shown
    assert "14. n36" in shown
    assert "in the end" in shown
    assert shown.count("no answer") == 1
    assert "culprit n40" in shown
    assert described(svg).startswith("17 steps;")


def test_a_long_search_over_a_long_range_stays_one_picture() -> None:
    case = make("unfinished_case")
    commits = tuple(
        replace(case.bad, revision=f"{number:040x}", number=number) for number in range(1000)
    )
    attempts = case.attempts * 10
    long = replace(case, commits=commits, bad=commits[-1], attempts=attempts)

    svg = chart.path(long)
    assert described(svg).startswith("40 steps;")
    assert len(svg) < 60_000


@pytest.mark.parametrize(
    "paint", [lambda case: chart.trend(case, "fwd4"), lambda case: chart.boxplot(case, "fwd4")]
)
def test_a_picture_is_the_same_whenever_and_wherever_it_is_drawn(paint) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - one of two functions
    before = dict(mpl.rcParams)
    with ThreadPoolExecutor(4) as pool:
        drawn = set(pool.map(lambda _: paint(make("culprit_case")), range(6)))

    assert len(drawn) == 1
    assert dict(mpl.rcParams) == before
    assert "<date>" not in drawn.pop()


def test_pictures_of_one_page_share_no_id() -> None:
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
