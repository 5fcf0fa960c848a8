"""README, plot and raw values of a comparison in the format of netbenches."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from netbisect.bisect.model.metric import SeriesMetric
from netbisect.reports.documents.netbenches import files, readme
from netbisect.reports.documents.netbenches_study import FlameGraph, Study
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.render.ministat import ministat
from netbisect.reports.render.ministat_input import read_points
from netbisect.reports.render.palette import BOOT

OLD = (1465887, 1442680, 1443536, 1440210, 1452100)
NEW = (1428782, 1423177, 1410213, 1431000, 1425000)
PNG = b"\x89PNG\r\n\x1a\n"


def study(*sets: Set, **options: Any) -> Study:
    return Study("Impact", [ComparedScenario("forwarding", sets)], **options)


TWO = study(Set("good", OLD), Set("bad", NEW))


def synthesis(compared: Study) -> list[str]:
    text = readme(compared)
    return text.split("confidence:\n", 1)[1].split("\n\n", 1)[0].splitlines()


def test_readme_has_the_format_of_netbenches() -> None:
    compared = replace(TWO, title="Impact of D5180", conditions=["Xeon L5630", "2000 flows"])
    text = readme(compared)

    assert text.startswith(
        "Impact of D5180\n"
        "  - Xeon L5630\n"
        "  - 2000 flows\n"
        "\n"
        "Synthesis of difference at 95.0% confidence:\n"
        "  - forwarding: -1.7% +/- 0.9%\n"
    )
    assert "\n![Impact of D5180](graph.png)\n" in text
    block = ministat([("good", OLD), ("bad", NEW)])
    assert f"\nOn forwarding:\n\n```\n{block}```\n" in text
    assert "\n\n\n" not in text
    alone = study(Set("r1", OLD))
    assert synthesis(alone) == ["  - forwarding: nothing to compare with"]


def test_values_of_a_metric_have_its_unit() -> None:
    sets = [Set("a", (20.0, 20.1, 20.2, 20.3, 40.0)), Set("b", (40.0, 40.1, 20.2, 20.1))]
    series = SeriesMetric("delay", "us", lower=True).of("x")
    text = readme(Study("t", [ComparedScenario("delay", sets, series=series)]))

    assert "[a.delay.pps](a.delay.pps): a, 5 boots, in us" in text
    assert "a: one of 5 boots is" in text
    assert "2 near 20.2 us and 2 near 40.1 us" in text


@pytest.mark.parametrize(
    ("rates", "line"),
    [
        ((1_000_000, 999_999, 1_000_001), "No difference proven"),
        ((989_100, 989_200, 989_300), "-1.08% +/- 0.02%"),
        ((800_000, 900_000, 850_000), "-15% +/- 8%"),
        ((1_000_018, 1_000_017, 1_000_016), "+0.0017% +/- 0.0002%"),
        ((2_900_000, 3_000_000, 3_100_000), "+200% +/- 16%"),
    ],
)
def test_digits_of_a_change_follow_from_its_error(rates: Sequence[float], line: str) -> None:
    reference = Set("a", (999_999, 1_000_000, 1_000_001))

    assert synthesis(study(reference, Set("b", rates))) == [f"  - forwarding: {line}"]


def test_text_is_escaped_in_the_readme() -> None:
    hostile = "</code>\x1b[31m`<script>\u202e\n# x"
    compared = Study(
        hostile,
        [ComparedScenario(hostile, [Set(hostile, OLD), Set(f"{hostile}2", NEW)], hostile)],
        conditions=[hostile],
        flame_graphs=[FlameGraph("a](b", "x.svg", b"<svg")],
    )
    text = readme(compared)
    prose = re.sub(r"```\n.*?```\n", "", text, flags=re.DOTALL)

    assert "<script>" not in prose
    assert not set(text) & set("\x1b\u202e")
    assert not any(line.startswith("# ") for line in text.splitlines())
    assert "  - [a\\](b](x.svg)\n" in text


def test_files_are_a_readme_plots_of_every_boot_and_raw_values() -> None:
    """The plot has at least three columns of the colour of boots for each of them."""
    found = files(TWO)

    names = ["README.md", "bad.forwarding.pps", "good.forwarding.pps", "graph.png", "graph.svg"]
    assert sorted(found) == names
    assert found["good.forwarding.pps"] == b"1465887\n1442680\n1443536\n1440210\n1452100\n"
    assert found["graph.png"].startswith(PNG)
    for name in found:
        assert name == "README.md" or f"]({name})" in found["README.md"].decode()

    picture = Image.open(io.BytesIO(found["graph.png"])).convert("RGB")
    pixels = np.asarray(picture, dtype=int)
    wanted = [int(BOOT[at : at + 2], 16) for at in (1, 3, 5)]
    near = np.abs(pixels - wanted).max(axis=2) < 20
    assert near.any(axis=0).sum() >= 3 * sum(len(one.pps) for one in TWO.scenarios[0].sets)


def values(compared: Study) -> list[str]:
    return [name for name in files(compared) if name.endswith(".pps")]


def test_file_names_are_kept_made_unique_and_portable() -> None:
    one, two = Set("a", OLD, "295150.pf"), Set("b", NEW, "295150.pf.pps")
    two_panels = Study("t", [ComparedScenario(name, [one, two]) for name in "xy"])
    assert values(two_panels) == ["295150.pf.pps", "b.x.pps", "a.y.pps", "b.y.pps"]

    compared = study(Set("../up", OLD), Set("Ä / \x00?", NEW), Set("..", OLD), Set("AUX ü", NEW))
    names = values(compared)

    assert all(re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*\.pps", name) for name in names)
    assert len(set(names)) == 4


@pytest.mark.parametrize("rates", [(0, 0, 0), (1e-3, 1e99, 3), (0.1, 0.2, 0.30000000000000004)])
def test_any_rates_survive_a_round_trip(rates: Sequence[float]) -> None:
    found = files(study(Set("a", rates), Set("b", (1, 2, 3))))

    assert found["graph.png"].startswith(PNG)
    assert read_points(found["a.forwarding.pps"], "a") == list(rates)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (replace(TWO, scenarios=[]), "the study has no scenario"),
        (replace(TWO, scenarios=TWO.scenarios * 2), "two scenarios are named 'forwarding'"),
        (
            replace(TWO, flame_graphs=[FlameGraph("x", "graph.svg", b"<svg/>")]),
            r"two files are named graph\.svg",
        ),
        (study(), "scenario 'forwarding' has 0 sets; expected 1 to 7"),
        (study(*[Set("a", OLD)] * 8), "has 8 sets; expected 1 to 7"),
        (study(Set("a", OLD), Set("b", (1, 2))), "set 'b' .* has 2 values; expected 3 or more"),
        (study(Set("a", (1, 2, -3))), "set 'a' .*: -3 is not a rate in packets per second"),
        (study(Set("a", (1, 2, float("nan")))), "nan is not a rate"),
    ],
)
def test_incomplete_studies_are_rejected(wrong: Study, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        files(wrong)
