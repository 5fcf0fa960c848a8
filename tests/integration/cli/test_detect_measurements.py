"""`netbisect detect` with measurements of any metric."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from netbisect.cli import main

HEADER = "testbed,metric,revision,value,unit,direction"


def run(*arguments: str | Path, text: str = "") -> Result:
    return CliRunner().invoke(main.main, ["detect", *map(str, arguments)], input=text)


def rows(metric: str, factor: float, unit: str, direction: str) -> Iterator[str]:
    """Thirty revisions with three runs each; the numbers change by a factor at the 16th."""
    rng = np.random.default_rng(7)
    for number in range(30):
        level = 50 * (factor if number >= 15 else 1) * math.exp(rng.normal(0, 0.004))
        for noise in rng.normal(0, 0.004, 3):
            yield f"ci,{metric},c{number},{level * math.exp(noise):.4f},{unit},{direction}"


CPU = list(rows("cpu", 1.2, "%", "lower"))
CPU_OF_BOOT = "boot~cpu.percent.lower"
RATE = list(rows("rate", 0.9, "Mbit/s", "higher"))


def csv(*lines: str) -> str:
    return "\n".join([HEADER, *lines, ""])


def as_json(lines: list[str]) -> str:
    keys = HEADER.split(",")
    return "".join(
        json.dumps(dict(zip(keys, line.split(","), strict=True))) + "\n" for line in lines
    )


@pytest.mark.parametrize("text", [csv(*CPU), as_json(CPU)])
def test_an_increase_of_a_number_that_should_be_low_is_a_rise(text: str) -> None:
    result = run("-", "--json", text=text)

    assert result.exit_code == 0
    (event,) = json.loads(result.stdout)
    assert (event["kind"], event["before"], event["at"]) == ("rise", "c14", "c15")
    (series,) = event["series"]
    assert series["percent"] == pytest.approx(20, abs=1.5)
    assert series["low"] < series["ln_ratio"] < series["high"]


def test_a_change_of_two_metrics_is_one_event() -> None:
    result = run("-", "--verbose", text=csv(*CPU, *RATE))

    assert result.stdout.count("main c14..c15: rise") == 1
    assert "ci/default~cpu.percent.lower  +" in result.stdout
    assert "ci/default~rate.Mbit-per-s    -" in result.stdout


def test_times_allow_a_day() -> None:
    timed = [f"{line},2026-03-{1 + int(line.split(',')[2][1:]):02}" for line in CPU]
    text = "\n".join([f"{HEADER},time", *timed, ""])

    assert "c14..c15" in run("-", "--since", "2026-03-10", text=text).stdout
    assert "No change" in run("-", "--since", "2026-03-20", text=text).stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ci,cpu,c30,fast,%,lower", "-:92: value 'fast': expected a number above 0; skipped"),
        ("ci,cpu,c30,-1,%,lower", "value '-1': expected a number above 0"),
        ("ci,cpu,c30,50,,lower", "no unit"),
        ("ci,cpu,c30,50,1/s,lower", "unit '1/s': expected letters such as ns or bit/s, or %"),
        ("ci,CPU use,c30,50,%,lower", "metric 'CPU use': expected lower-case letters"),
        ("ci,cpu,c30,50,%,down", "direction 'down': expected 'higher' or 'lower'"),
        ("ci,cpu,c30,50,s,lower", "metric 'cpu' is in 's', lower is better; expected '%', lower"),
        ("ci,cpu,,50,%,lower", "no revision"),
    ],
)
def test_invalid_rows_are_reported_and_skipped(line: str, message: str) -> None:
    result = run("-", text=csv(*CPU, line))

    assert result.exit_code == 1
    assert message.replace("-:92", "standard input:92") in result.stderr
    assert "c14..c15" in result.stdout


def test_a_metric_may_begin_later() -> None:
    late = list(rows("late", 1.2, "s", "lower"))[30:]
    result = run("-", "--verbose", text=csv(*CPU, *late))

    assert result.stdout.count("main c14..c15: rise") == 1
    assert "ci/default~late.s.lower       +" in result.stdout


def test_a_row_names_its_scenario() -> None:
    text = "\n".join([f"{HEADER},scenario", *(f"{line},boot" for line in CPU), ""])
    assert "ci/boot~cpu.percent.lower" in run("-", text=text).stdout
    (event,) = json.loads(run("-", "--json", "--scenario", CPU_OF_BOOT, text=text).stdout)
    assert event["series"][0]["scenario"] == CPU_OF_BOOT

    wrong = run("-", text=text + "ci,cpu,c30,50,%,lower,a/b\n")
    assert "scenario 'a/b': expected letters, digits" in wrong.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric,revision,value\ncpu,c1,5\n", "no column unit, direction in the header"),
        (f"{HEADER}\n", "no measurements; expected rows below the header"),
        (f"{HEADER}\nci,cpu,c1,x,%,lower\n", "no history found"),
    ],
)
def test_files_without_measurements_are_refused(text: str, message: str) -> None:
    result = run("-", text=text)

    assert result.exit_code == 1
    assert message in result.stderr
