"""Plots: data, descriptions and reproducible output."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from xml.etree import ElementTree as ET

import matplotlib as mpl
from report_cases import make

from netbisect.reports.plots import chart

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314 - trusted
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def described(svg: str) -> str:
    root = ET.fromstring(svg)  # noqa: S314 - trusted
    found = root.find(f"{SVG}desc")
    assert found is not None
    return found.text or ""


def test_boxes_stand_in_the_order_of_the_branch_with_their_boots() -> None:
    svg = chart.boxplot(make("culprit_case"), "fwd4")

    shown = " ".join(texts(svg))
    roles = re.findall(r"\b(good|parent|culprit|bad) n\d+", shown)
    marks = re.findall(r"<use [^>]*var\(--(good|bad)\b", svg)
    assert roles == ["good", "parent", "culprit", "bad"]
    assert (marks.count("good"), marks.count("bad")) == (14 + 12, 14 + 14)
    assert described(svg).startswith("good n8-8a0e35afbcdc: 14 boots from 1.4")
    case, names = make("culprit_case"), ("fwd4@net.isr.maxthreads=1", "fwd4@net.isr.maxthreads=-1")
    case = replace(
        case, titles={name: name for name in names}, pps=dict.fromkeys(names, case.pps["fwd4"])
    )
    ids = [set(re.findall(r'\bid="(.*?)"', chart.boxplot(case, name))) for name in names]
    assert not ids[0] & ids[1]  # both are on one page


def test_the_search_has_a_row_per_step_and_one_for_the_result() -> None:
    """A long one is condensed."""
    svg = chart.path(make("culprit_case"))
    shown = texts(svg)
    assert "1. n8" in shown
    assert "14. n36" in shown
    assert "result" in shown
    assert shown.count("no result") == 1
    assert "culprit n40" in shown
    assert described(svg).startswith("17 steps;")
    case = make("unfinished_case")
    running = replace(case.steps[-1], pps=None, outcome=None)
    assert texts(chart.path(replace(case, steps=(running,)))).count("not finished") == 1
    candidates = tuple(
        replace(case.candidates[-1], commit=replace(case.bad, revision=f"{number:040x}"))
        for number in range(1000)
    )
    bad = candidates[-1].commit
    svg = chart.path(replace(case, candidates=candidates, bad=bad, steps=case.steps * 10))
    assert described(svg).startswith("40 steps;")
    assert len(svg) < 120_000


def test_a_chart_is_the_same_in_every_thread_and_changes_no_global_style() -> None:
    before = dict(mpl.rcParams)
    with ThreadPoolExecutor(4) as pool:
        drawn = set(pool.map(lambda _: chart.trend(make("culprit_case")), range(4)))

    assert len(drawn) == 1
    assert dict(mpl.rcParams) == before
    assert "<metadata>" not in drawn.pop()
