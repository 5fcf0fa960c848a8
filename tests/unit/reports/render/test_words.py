"""Formatting of numbers, results and states."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Effect,
    NightlyResult,
    NotConfirmed,
    NotReproduced,
    Posterior,
    Result,
    Suspects,
    Unfinished,
)
from netbisect.reports.render import words

DROP = Effect("fwd4", math.log(0.891), math.log(0.879), math.log(0.903), 1e-9, 12, 11)
POSTERIOR = Posterior({"a" * 40: 0.996, "b" * 40: 0.003}, 0.001)


@pytest.mark.parametrize(
    ("show", "texts"),
    [
        (
            words.pps,
            {
                0: "0 pps",
                1.496: "1 pps",
                999.6: "1.00 kpps",
                12_345: "12.3 kpps",
                999_499: "999 kpps",
                999_500: "1.000 Mpps",
                1_488_095: "1.488 Mpps",
                1_488_095_238: "1488 Mpps",
            },
        ),
        (words.plain, {970.97: "970.97", 31.34e6: "31.34 M", 2.478e-6: "2.478 µ", 9e-28: "9e-28"}),
        (
            words.duration,
            {0: "0 s", 59.7: "1 min", 720: "12 min", 3599: "1 h 00 min", 86399: "1 d 00 h"},
        ),
        (
            words.certainty,
            {
                1.0: "more than 99.9 %",
                0.99951: "more than 99.9 %",
                0.9989: "99.9 %",
                0.31: "31.0 %",
                0.0004: "less than 0.1 %",
                0.0: "less than 0.1 %",
            },
        ),
        (
            words.probability_by_chance,
            {0: "below 1 in a million", 0.0003: "1 in 3,000", 0.05: "1 in 20", 0.3: "30 %"},
        ),
    ],
)
def test_numbers_have_a_unit_and_significant_digits(
    show: Callable[[float], str], texts: dict[float, str]
) -> None:
    """Durations round up to hours, and probabilities are never 0 or 100 %."""
    assert {number: show(number) for number in texts} == texts


@pytest.mark.parametrize(
    ("middle", "low", "high", "text"),
    [
        (0.891, 0.879, 0.903, "-10.9 % (-12.1 to -9.7)"),
        (1.003, 0.991, 1.016, "+0.3 % (-0.9 to +1.6)"),
        (0.9966, 0.9941, 0.9991, "-0.34 % (-0.59 to -0.09)"),
        (2.82, 2.61, 3.05, "+182 % (+161 to +205)"),
        (1000, 900, 1100, "over +9900 % (no interval)"),
    ],
)
def test_effect_and_interval_have_the_same_digits(
    middle: float, low: float, high: float, text: str
) -> None:
    effect = Effect("fwd4", math.log(middle), math.log(low), math.log(high), 0.01, 5, 5)

    assert words.change(effect) == text


@settings(deadline=None)
@given(st.text(st.characters()))
def test_clean_text_is_one_line_without_control_characters(text: str) -> None:
    shown = words.clean(text)

    shown.encode()
    assert shown.splitlines() in ([], [shown])
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs"}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (NightlyResult(5), "All requested boots were measured: 5 boots."),
        (
            Confirmed((DROP,)),
            ("The comparison confirms a difference: fwd4! -10.9 % (-12.1 to -9.7), 12 + 11 boots."),
        ),
        (Confirmed(()), "The comparison confirms a difference."),
        (
            NotConfirmed((DROP,), "both are equally fast."),
            "The comparison does not confirm a difference: both are equally fast.",
        ),
        (
            Culprit("a" * 40, "b" * 40, POSTERIOR, (DROP,)),
            (
                "Commit aaaa made fwd4! slower: -10.9 % (-12.1 to -9.7). Verified against its "
                "parent bbbb with interleaved boots, 12 + 11 boots. Probability that it is this "
                "commit: 99.6 %."
            ),
        ),
        (
            Culprit(
                "a" * 40,
                "b" * 40,
                POSTERIOR,
                (
                    Effect("fwd4~cpu.percent.lower", -0.1, -0.11, -0.09, 1e-9, 12, 11),
                    Effect("fwd4", 0.05, 0.03, 0.07, 1e-9, 12, 11),
                    Effect("pf4", 0.03, 0.01, 0.05, 1e-3, 12, 11),
                ),
            ),
            (
                "Commit aaaa made fwd4~cpu.percent.lower! worse: +10.5 % (+9.4 to +11.6), and "
                "fwd4! faster: +5.1 % (+3.0 to +7.3). Verified against its parent bbbb with "
                "interleaved boots, 12 + 11 boots. Probability that it is this commit: 99.6 %."
            ),
        ),
        (
            Suspects(("a" * 40, "b" * 40), POSTERIOR, "none builds"),
            "One of 2 commits caused the change; measurements cannot separate them: none builds.",
        ),
        (
            NotReproduced(Posterior({"a" * 40: 0.0}, 1.0), ""),
            (
                "No commit in this range changed the level, probability more than 99.9 %: "
                "no reason recorded."
            ),
        ),
        (Unfinished("the testbed\nis gone"), "There is no result: the testbed is gone."),
    ],
)
def test_every_result_has_a_sentence(result: Result, text: str) -> None:
    assert words.sentence(result, lambda name: name[:4], lambda name: f"{name}!") == text


@pytest.mark.parametrize(
    ("state", "fields", "text"),
    [
        (AlertState.MUTED, {"muted_until": 86400.0}, "muted until 1970-01-02"),
        (AlertState.MERGED, {"merged_into": 7}, "merged into an earlier alert, alert 7"),
        (AlertState.FIXED, {"recovery": "r9"}, "fixed; the level is back"),
        (AlertState.FIXED, {}, "reported as fixed; it reopens if the change is measured again"),
        (AlertState.WITHDRAWN, {}, "withdrawn; new measurements do not show it"),
    ],
)
def test_states_have_their_details(state: AlertState, fields: dict[str, object], text: str) -> None:
    values = {"muted_until": None, "merged_into": None, "recovery": "", **fields}
    assert words.state(SimpleNamespace(state=state, **values)) == text


def test_rise_of_a_lower_is_better_metric_is_worse() -> None:
    cpu = "inet4-cpu~cpu.percent.lower"
    rise = Effect(cpu, -math.log(1.2), -math.log(1.3), -math.log(1.1), 0.001, 5, 5)
    assert words.change(rise) == "+20.0 % (+10.0 to +30.0)"
    assert words.percent(rise.ln_ratio, cpu) == "+20.0 %"
    assert words.direction(rise) == "worse"
    assert words.level(-math.log(41.3), cpu) == "41.3 %"


@pytest.mark.parametrize(
    ("number", "series", "text"),
    [
        (941_482_000.0, "tcp~throughput.bit-per-s", "941.5 Mbit/s"),
        (0.0021, "ping~delay.s.lower", "2.1 ms"),
        (7.25, "cpu~cpu.percent.lower", "7.25 %"),
        (0.5, "build~time.ms.lower", "0.5 ms"),
        (1_234_567.0, "build~time.ns.lower", "1,235,000 ns"),
        (3e6, "build~memory.B.lower", "3 MB"),
    ],
)
def test_numbers_have_the_unit_of_their_series(number: float, series: str, text: str) -> None:
    assert words.number(number, series) == text
