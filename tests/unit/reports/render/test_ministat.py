"""Output of ministat, byte for byte that of FreeBSD."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from netbisect.reports.render.ministat import Variant, ministat
from netbisect.reports.render.student_t import CONFIDENCES, critical

CASES = Path(__file__).parents[5] / "shared" / "netbenches" / "ministat_cases.jsonl"
NAMES = {"v10": Variant.V2013, "v11": Variant.V2015, "v12": Variant.V2017, "vhead": Variant.CURRENT}
IGUANA = ("iguana", [50, 200, 150, 400, 750, 400, 150])
CHAMELEON = ("chameleon", [150, 400, 720, 500, 930])

finite = st.floats(-1e100, 1e100)


def sets(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[str, list[float]]]]:
    one = st.tuples(st.text("abc", min_size=1), st.lists(values, min_size=3, max_size=12))
    return st.lists(one, min_size=1, max_size=7)


def test_two_sets_of_the_manual_match_freebsd() -> None:
    assert ministat([IGUANA, CHAMELEON]) == (
        "x iguana\n"
        "+ chameleon\n"
        "+--------------------------------------------------------------------------+\n"
        "|x       *   x                *       +                  + x              +|\n"
        "| |__________M________A__________________|                                 |\n"
        "|                |____________________M___A_______________________|        |\n"
        "+--------------------------------------------------------------------------+\n"
        "    N           Min           Max        Median           Avg        Stddev\n"
        "x   7            50           750           200           300     238.04761\n"
        "+   5           150           930           500           540     299.08193\n"
        "No difference proven at 95.0% confidence\n"
    )


@pytest.mark.parametrize(
    ("variant", "relative"), [(Variant.V2015, "70.7384"), (Variant.V2017, "102.3")]
)
def test_difference_is_absolute_and_relative(variant: Variant, relative: str) -> None:
    text = ministat([IGUANA, CHAMELEON], confidence=80.0, variant=variant)

    assert text.endswith(
        "Difference at 80.0% confidence\n"
        "\t240 +/- 212.215\n"
        f"\t80% +/- {relative}%\n"
        "\t(Student's t, pooled s = 264.159)\n"
    )


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ([], {}, "0 datasets: ministat takes 1 to 7"),
        ([("a", [1, 2])], {}, "Dataset a must contain at least 3 data points"),
        ([("a", [1, 2, math.nan])], {}, "Dataset a: nan is not a number"),
        ([IGUANA, IGUANA], {"confidence": 97.0}, "confidence 97 %: ministat knows 80, 90, 95"),
    ],
)
def test_invalid_data_is_rejected(
    data: list[tuple[str, list[float]]], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ministat(data, **options)


def test_table_of_t_is_accurate() -> None:
    for column, confidence in enumerate(CONFIDENCES):
        tail = 0.999 if column == 5 else (1 + confidence / 100) / 2
        exact = {degrees: round(stats.t.ppf(tail, degrees), 3) for degrees in range(1, 101)}
        if column == 5:  # errors of the published table
            exact |= {1: 318.313, 7: 4.782, 8: 4.499, 9: 4.296, 10: 4.143, 11: 4.024, 12: 3.929}

        assert {degrees: critical(degrees, confidence) for degrees in exact} == exact
        assert critical(101, confidence) == round(stats.norm.ppf(tail), 3)


@settings(deadline=None)
@given(sets(finite), st.integers(2, 120), st.booleans(), st.sampled_from(Variant))
def test_plot_of_any_finite_points_has_the_requested_width(
    data: list[tuple[str, list[float]]], width: int, separate: bool, variant: Variant
) -> None:
    lines = ministat(data, width=width, separate=separate, variant=variant).splitlines()

    plot = [line for line in lines if line[0] == "|" or line[:2] == "+-"]
    assert all(len(line) == width + 2 for line in plot)
    assert lines[0] == f"x {data[0][0]}"


def _normal(text: str) -> list[str]:
    """Some published tables lost the tabs before their verdict."""
    return [line if line[0] == "|" else line.strip() for line in text.rstrip("\n").split("\n")]


@pytest.mark.data
def test_published_tables_are_reproduced() -> None:
    if not CASES.exists():
        pytest.skip("needs ../shared/netbenches/ministat_cases.jsonl")
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    exact = [case for case in cases if case["status"] == "exact"]

    wrong = []
    for case in exact:
        options = case["opts"]
        data = [(name, one["v"]) for name, one in zip(case["names"], case["inputs"], strict=True)]
        width = int(options[options.index("-w") + 1]) if "-w" in options else 74
        shown = [
            name
            for name, variant in NAMES.items()
            if _normal(
                ministat(
                    data,
                    width=width,
                    separate="-s" in options,
                    plot="-A" not in options,
                    variant=variant,
                )
            )
            == _normal(case["expected"])
        ]
        if shown != case["variants"]:
            wrong.append((case["id"], shown))

    assert wrong == []
    assert len(exact) > 200
