"""ministat: what FreeBSD's prints, byte for byte."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from netbisect.reports.render.ministat import Variant, ministat
from netbisect.reports.render.student_t import CONFIDENCES, critical

CASES = Path(__file__).parents[5] / "shared" / "netbenches" / "ministat_cases.jsonl"
NAMES = {
    "v10": Variant.V2013,
    "v11": Variant.V2015,
    "v12": Variant.V2017,
    "vhead": Variant.CURRENT,
}
IGUANA = ("iguana", [50, 200, 150, 400, 750, 400, 150])
CHAMELEON = ("chameleon", [150, 400, 720, 500, 930])

finite = st.floats(-1e100, 1e100)
rates = st.floats(1e3, 1e8)


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


def test_the_manuals_bars_share_a_line_when_they_are_not_separate() -> None:
    lines = ministat([IGUANA, CHAMELEON], separate=False, width=60).splitlines()

    assert lines[2:6] == [
        "+------------------------------------------------------------+",
        "|x      *  x            *      +              + x           +|",
        "| |________M__|___A____________M__A___________________|      |",
        "+------------------------------------------------------------+",
    ]


@pytest.mark.parametrize(
    ("variant", "relative"),
    [
        (Variant.V2013, "70.7384"),
        (Variant.V2015, "70.7384"),
        (Variant.V2017, "102.3"),
        (Variant.CURRENT, "102.3"),
    ],
)
def test_a_difference_is_absolute_and_relative(variant: Variant, relative: str) -> None:
    text = ministat([IGUANA, CHAMELEON], confidence=80.0, variant=variant)

    assert text.endswith(
        "Difference at 80.0% confidence\n"
        "\t240 +/- 212.215\n"
        f"\t80% +/- {relative}%\n"
        "\t(Student's t, pooled s = 264.159)\n"
    )


def test_old_variants_take_the_upper_middle_for_the_median() -> None:
    data = [("a", [1, 2, 3, 10])]

    old = ministat(data, variant=Variant.V2013).splitlines()[-1].split()
    new = ministat(data, variant=Variant.V2015).splitlines()[-1].split()

    assert (old[4], new[4]) == ("3", "2.5")


def test_only_two_pass_variances_survive_rounding() -> None:
    data = [("a", [1e9 + offset for offset in (0.1, 0.2, 0.3)])]

    def stddev(variant: Variant) -> str:
        return ministat(data, variant=variant).splitlines()[-1].split()[-1]

    assert [stddev(variant) for variant in Variant] == ["nan", "nan", "0", "0.099999964"]


def test_a_variance_below_zero_proves_nothing() -> None:
    near = [1e9 + offset for offset in (0.1, 0.2, 0.3)]
    data = [("a", near), ("b", [point + 1 for point in near])]

    assert "No difference proven" in ministat(data, variant=Variant.V2015)
    assert "Difference at 95.0%" in ministat(data, variant=Variant.CURRENT)


def test_the_last_set_cuts_higher_stacks() -> None:
    high, flat = ("high", [1.0, 1.0, 1.0, 1.0, 2.0]), ("flat", [1.0, 2.0, 3.0])

    def rows(*data: tuple[str, list[float]]) -> int:
        return len(ministat(data, width=20).splitlines()) - len(["x", "+", "-", "-", "N", "x", "+"])

    assert rows(flat, high) - rows(high, flat) == 3


def test_overlapping_sets_show_the_combined_symbol() -> None:
    same = [1, 2, 3]

    lines = ministat([("a", same), ("b", same), ("c", same)], width=20).splitlines()

    assert lines[4] == "|*         *        *|"
    assert lines[2] == "* c"


def test_equal_points_have_no_plot() -> None:
    text = ministat([("a", [5, 5, 5])])

    assert text.splitlines()[1] == "[no plot, span is zero width]"


def test_without_a_plot_only_the_numbers_remain() -> None:
    full, bare = ministat([IGUANA, CHAMELEON]), ministat([IGUANA, CHAMELEON], plot=False)

    assert bare.splitlines() == [
        line for line in full.splitlines() if line[0] != "|" and line[:2] != "+-"
    ]


def test_a_reference_of_zero_divides_as_c_does() -> None:
    text = ministat([("a", [0, 0, 0]), ("b", [-1, -1, -1])])

    assert "\t-inf% +/- nan%\n" in text


def test_any_arrays_are_accepted() -> None:
    """Small integers of numpy would run over when they are squared."""
    rates = [2_160_111, 2_281_531, 2_234_460]
    text = ministat([("a", np.array(rates, np.int32))], variant=Variant.V2015)

    assert text == ministat([("a", [float(rate) for rate in rates])], variant=Variant.V2015)


def test_a_width_of_nothing_is_a_plot_without_columns() -> None:
    """One of 1 makes ministat write past its plot."""
    plot = ministat([("a", [1, 2, 3, 4])], width=0).splitlines()[1:-2]

    assert plot == ["++", "||", "||", "||", "||", "||", "++"]


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ([], {}, "0 datasets: ministat takes 1 to 7"),
        ([IGUANA] * 8, {}, "8 datasets: ministat takes 1 to 7"),
        ([("a", [1, 2])], {}, "Dataset a must contain at least 3 data points"),
        ([("a", [1, 2, math.nan])], {}, "Dataset a: nan is not a number"),
        ([("a", [1, 2, math.inf])], {}, "Dataset a: inf is not a number"),
        ([IGUANA], {"width": 1}, "width 1: expected 2 or more"),
        ([IGUANA, IGUANA], {"confidence": 97.0}, "confidence 97 %: ministat knows 80, 90, 95"),
    ],
)
def test_invalid_data_is_refused(
    data: list[tuple[str, list[float]]], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ministat(data, **options)


def test_the_table_of_t_is_the_t_distribution_to_its_last_digits() -> None:
    for column, confidence in enumerate(CONFIDENCES):
        tail = 0.999 if column == 5 else (1 + confidence / 100) / 2
        for degrees in range(1, 101):
            slack = 0.005 if column == 5 else 0.000501
            exact = float(stats.t.ppf(tail, degrees))

            assert critical(degrees, confidence) == pytest.approx(exact, abs=slack)
        assert critical(101, confidence) == pytest.approx(float(stats.norm.ppf(tail)), abs=0.0006)


@settings(deadline=None)
@given(sets(finite), st.integers(2, 120), st.booleans(), st.sampled_from(Variant))
def test_any_finite_points_are_shown(
    data: list[tuple[str, list[float]]], width: int, separate: bool, variant: Variant
) -> None:
    lines = ministat(data, width=width, separate=separate, variant=variant).splitlines()

    plot = [line for line in lines if line[0] == "|" or line[:2] == "+-"]
    assert all(len(line) == width + 2 for line in plot)
    assert lines[0] == f"x {data[0][0]}"


@settings(deadline=None)
@given(sets(rates))
def test_rates_fit_a_mail(data: list[tuple[str, list[float]]]) -> None:
    lines = ministat(data, plot=True).splitlines()[len(data) :]

    assert all(len(line.expandtabs()) <= 76 for line in lines)


@settings(deadline=None)
@given(st.lists(rates, min_size=3, max_size=12))
def test_a_set_does_not_differ_from_itself(values: list[float]) -> None:
    assert ministat([("a", values), ("b", values)]).endswith("proven at 95.0% confidence\n")


def _normal(text: str) -> list[str]:
    """People who pasted tables lost a tab here and there before a verdict."""
    return [line if line[0] == "|" else line.strip() for line in text.rstrip("\n").split("\n")]


@pytest.mark.data
def test_published_tables_are_reproduced() -> None:
    if not CASES.exists():
        pytest.skip("the published tables are not beside this checkout")
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
