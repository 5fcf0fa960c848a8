"""Axes that are drawn once: data stay within them, and ticks are named as matplotlib does."""

from __future__ import annotations

import math
import re
from importlib import resources
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from netbisect.reports import axes
from netbisect.reports.drawing import Picture, notice
from netbisect.reports.sheet import PENS, sheet

MARGINS = 0.68, 0.42, 0.62, 0.2
SVG = "{http://www.w3.org/2000/svg}"


def filled(up: tuple[float, float], values: list[float]) -> ET.Element:
    picture = Picture(sheet(2.7, MARGINS, "% against baseline"), (-1, 10), up)
    picture.sides("Mpps", 5, (up[0] + up[1]) / 2)
    picture.band(values[0], values[-1])
    picture.level("baseline", values[0])
    picture.path(
        "dots", (f"M{picture.x(x):.1f} {picture.y(y):.1f}h0" for x, y in enumerate(values))
    )
    picture.upright("wanting", 3.5, "alert <7>", "bad name")
    picture.below([(0, ("2026-11-21", "n302145"))])
    return ET.fromstring(picture.svg(name="one", title="<A title>", text="& a text"))  # noqa: S314 - our own


def texts(picture: ET.Element) -> list[str]:
    return [one.text or "" for one in picture.iter(f"{SVG}text")]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(0.0, 1e4), min_size=2, max_size=9),
    st.floats(0.1, 1e3),
    st.floats(1e-3, 1e3),
)
def test_nothing_leaves_the_axes(values: list[float], low: float, span: float) -> None:
    """However far off a value is: it stands at the end of the axis."""
    picture = filled((low, low + span), values)
    numbers = [
        (float(x), float(y))
        for path in picture.iter(f"{SVG}path")
        for x, y in re.findall(r"M([-\d.]+) ([-\d.]+)", path.get("d") or "")
    ]

    assert numbers
    assert all(48.9 <= x <= 531.5 and 14.3 <= y <= 164.3 for x, y in numbers)
    assert all(
        0 <= float(one.get("x") or 0) <= 576 and 0 <= float(one.get("y") or 0) <= 194.4
        for one in picture.iter(f"{SVG}text")
    )


@pytest.mark.parametrize(
    "limits", [(0.0, 1.0), (3.49, 3.73), (1.4829, 1.4888), (99.0, 1e6), (612.0, 655.5)]
)
def test_ticks_are_those_of_matplotlib(limits: tuple[float, float]) -> None:
    figure = Figure()
    drawn = figure.add_subplot()
    drawn.set_ylim(*limits)
    drawn.yaxis.set_major_locator(MaxNLocator(5))
    drawn.ticklabel_format(axis="y", style="plain", useOffset=False)
    figure.draw_without_rendering()
    shown = [
        label.get_text()
        for place, label in zip(drawn.get_yticks(), drawn.get_yticklabels(), strict=True)
        if limits[0] <= place <= limits[1]
    ]

    found = texts(filled(limits, [limits[0], limits[1]]))
    assert len(shown) >= 3
    assert set(shown) <= set(found)


def test_all_strokes_follow_the_colours_of_the_page() -> None:
    """So that dark pages have light lines."""
    pens = sheet(2.2, MARGINS).pens

    assert {"grid", "dots", "bars", "epoch", "left", "bottom", "unit", "bad name"} <= pens.keys()
    for name, pen in pens.items():
        assert "var(--" in pen.style, name
        assert not re.search(r"#[0-9a-f]{6}(?!\))", pen.style), name


def test_strokes_are_those_that_matplotlib_draws() -> None:
    """The file beside the module is what `python -m netbisect.reports.axes` writes."""
    file = resources.files(axes.__package__) / PENS

    assert file.read_text() == axes.as_text(axes.pens())
    assert sheet(2.2, MARGINS).pens == axes.pens()


def test_a_notice_says_what_there_is_to_say() -> None:
    told = ET.fromstring(notice("No <boot> yet.", name="one", title="Boots & runs"))  # noqa: S314 - our own

    assert texts(told) == ["No <boot> yet."]
    assert [one.text for one in told.iter(f"{SVG}title")] == ["Boots & runs"]
    assert told.get("aria-labelledby") == "one-title one-text"


def test_texts_are_escaped() -> None:
    picture = filled((1.0, 2.0), [1.2, 1.4])

    assert "alert <7>" in texts(picture)
    assert [one.text for one in picture.iter(f"{SVG}title")] == ["<A title>"]
    assert picture.get("role") == "img"
    assert math.isclose(float((picture.get("height") or "").removesuffix("pt")), 194.4)
