"""Pictures made small stay the pictures that they were."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from netbisect.reports.svg import small

HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 9 9">'
)
SVG = "{http://www.w3.org/2000/svg}"


def path(d: str) -> str:
    """What becomes of a path."""
    found = ET.fromstring(small(f'{HEAD}<path d="{d}"/></svg>')).find(f"{SVG}path")  # noqa: S314 - our own
    assert found is not None
    return found.attrib["d"]


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("M 1.04 2.06 \nL 1.04 2.06 \n", "M1 2.1h0"),
        ("M 0 0 \nL 3.5 0 \nL 3.5 -1.25 \n", "M0 0h3.5v-1.2"),
        ("M -0.96 -0.04 \nL 0.5 0.75 \nz\n", "M-1 0L0.5 0.8z"),
        ("M 0 1.3 \nC 0.35 1.3 0.69 -1.18 0.94 -0.94 \nz\n", "M0 1.3C0.3 1.3 0.7 -1.2 0.9 -0.9z"),
    ],
)
def test_a_path_is_told_in_few_letters(long: str, short: str) -> None:
    assert path(long) == short


@given(st.lists(st.tuples(*[st.floats(-900, 900).map(lambda x: round(x, 6))] * 2), min_size=2))
def test_no_place_of_a_path_moves_by_more_than_rounding(places: list[tuple[float, float]]) -> None:
    """However long it is: relative steps do not add up their errors."""
    d = "M" + "L".join(f" {x:f} {y:f} \n" for x, y in places)
    x = y = 0.0
    for (want_x, want_y), (command, rest) in zip(
        places, re.findall(r"([MLhv])([^MLhv]*)", path(d)), strict=True
    ):
        numbers = [float(one) for one in rest.split()]
        match command:
            case "h":
                x += numbers[0]
            case "v":
                y += numbers[0]
            case _:
                x, y = numbers
        assert abs(x - want_x) < 0.0502
        assert abs(y - want_y) < 0.0502


def drawn(text: str) -> str:
    """A picture with dots and a text."""
    figure = Figure(figsize=(4, 3))
    axes = figure.add_subplot()
    axes.plot(range(300), [i % 7 for i in range(300)], "o")
    axes.set_title(text, parse_math=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    told = buffer.getvalue().decode()
    return told[told.index("<svg ") :]


def test_what_is_drawn_stays_and_what_is_not_goes() -> None:
    """Dots stay where they are, and whatever is referred to is there."""
    long = drawn("a title")
    root = ET.fromstring(short := small(long))  # noqa: S314 - our own

    assert len(short) < 0.65 * len(long)
    assert short.count("<use ") == long.count("<use ")
    assert "metadata" not in short
    ids = set(re.findall(r'\bid="([^"]+)"', short))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', short)) == ids
    forms = set(re.findall(r"\.(s[0-9a-f]+)\{", short))
    used = {one.get("class") for one in root.iter()} - {None}
    assert used <= forms


@given(st.text(max_size=50))
def test_no_text_keeps_it_from_being_read(text: str) -> None:
    """Not even one with characters that XML forbids: they are shown as unknown ones."""
    told = text.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")
    root = ET.fromstring(small(f"{HEAD}<text>{told}</text></svg>"))  # noqa: S314 - our own
    found = root.find(f"{SVG}text")
    assert found is not None
    readable = len(re.sub(r"\s", "", text))
    assert not text.strip() or len(re.sub(r"\s", "", found.text or "")) >= readable - 1
