"""`netbisect detect` and `netbisect import` with measurements of any metric."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import netbisect

from netbisect.bisect.model.entities import Commit
from netbisect.cli.input.comparison import of_ledger
from netbisect.store.ledger import open_ledger

HEADER = "testbed,metric,revision,value,unit,direction"


run = partial(netbisect, "detect")
imported = partial(netbisect, "import", "measurements")


def rows(metric: str, factor: float, unit: str, direction: str) -> Iterator[str]:
    """Rows of thirty revisions with three runs each; the 16th changes the values by a factor."""
    rng = np.random.default_rng(7)
    for number in range(30):
        level = 50 * (factor if number >= 15 else 1) * math.exp(rng.normal(0, 0.004))
        for noise in rng.normal(0, 0.004, 3):
            yield f"ci,{metric},c{number},{level * math.exp(noise):.4f},{unit},{direction}"


CPU = list(rows("cpu", 1.2, "%", "lower"))
CPU_OF_BOOT = "boot~cpu.percent.lower"


def timed(lines: list[str]) -> list[str]:
    return [f"{line},202603{1 + int(line.split(',')[2][1:]):02}" for line in lines]


def csv(*lines: str, header: str = HEADER) -> str:
    return "\n".join([header, *lines, ""])


def as_json(lines: list[str], header: str = HEADER, value: type = float) -> str:
    found = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    return "".join(json.dumps(row | {"value": value(row["value"])}) + "\n" for row in found)


TIMED, TIMED_HEADER = timed(CPU), f"{HEADER},time"
ARRAY = f"[{as_json(CPU).strip().replace('}', '},', len(CPU) - 1)}]"


@pytest.mark.parametrize("text", [csv(*CPU), as_json(CPU), as_json(CPU, value=str), ARRAY])
def test_an_increase_of_a_metric_with_direction_lower_is_a_rise(text: str) -> None:
    result = run("-", "--json", text=text)

    assert result.exit_code == 0
    (event,) = json.loads(result.stdout)
    assert (event["kind"], event["before"], event["at"]) == ("rise", "c14", "c15")
    (series,) = event["series"]
    assert series["percent"] == pytest.approx(20, abs=1.5)
    assert series["low"] < series["ln_ratio"] < series["high"]


def test_a_change_of_several_metrics_is_one_event() -> None:
    """A metric may lack older revisions, unless its rows are the first; rounding is no change."""
    late = list(rows("late", 1.2, "s", "lower"))[30:]
    small = np.random.default_rng(0).normal(3, 0.6, 90).round().clip(1)
    late += [f"ci,small,c{i // 3},{count:.0f},count,lower" for i, count in enumerate(small)]
    result = run("-", "--verbose", text=csv(*CPU, *rows("rate", 0.9, "Mbit/s", "higher"), *late))

    assert re.findall("main .*", result.stdout) == ["main c14..c15: rise"]
    assert "ci/default~cpu.percent.lower  +" in result.stdout
    assert "ci/default~late.s.lower       +" in result.stdout
    assert "ci/default~rate.Mbit-per-s    -" in result.stdout
    assert result.stderr == "times are missing: slow drift is not searched\n"
    assert "c9 is before c10, but after it in" in run("-", text=csv(*late, *CPU)).stderr


def test_rows_may_have_times(database: str) -> None:
    """Options select by them and by size; the newest revision is expected last."""
    text = csv(*TIMED, header=TIMED_HEADER)
    early, late = (run("-", "--since", f"2026-03-{day}", text=text) for day in (10, 20))
    large, larger = (run("-", "--min-effect", size, text=text).stdout for size in ("18", "22"))

    assert "c14..c15" in early.stdout
    assert "No change" in late.stdout
    assert "c14..c15  rise" in large
    assert "No change" in larger
    assert early.stderr == ""
    reverse = csv(TIMED[0], *TIMED[:2:-1], header=TIMED_HEADER)
    for result in (run("-", text=reverse), imported("-", "--database", database, text=reverse)):
        assert "branch main: by their times, 28 of 30 revisions are older" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ci,cpu,c30,fast,%,lower", "-:92 and 1 later row: value 'fast': expected a number"),
        ('ci,cpu,c30,"50,0",%,lower', "expected a number above 0 with a decimal point"),
        ("ci,cpu,c30,1e31,%,lower", "value '1e31': expected a number from 1e-30 to 1e+30"),
        ("ci,cpu,c30,50,,lower", "no unit"),
        ("ci,cpu,c30,50,1/s,lower", "unit '1/s': expected letters such as ns or bit/s, or %"),
        ("ci,CPU use,c30,50,%,lower", "metric 'CPU use': expected lower-case letters"),
        ("ci,cpu,c30,50,%,down", "direction 'down': expected 'higher' or 'lower'"),
        ("ci,cpu,c30,50,s,lower", "metric 'cpu' is in 's', lower is better; expected '%', lower"),
        ("ci,cpu,,50,%,lower", "no revision"),
        ("ci,cpu,c30,50,%,lower,2026-03-30,7", "7 is beyond the last column"),
        ("ci,cpu,c30,50,%,lower,nan", "-:92 and 1 later row: time 'nan': expected a time"),
        ("ci,cpu,c30,50,%,lower,inf", "time 'inf': expected a time such as 2026-03"),
        ("ci,cpu,c30,50,%,lower,1772332200000", "time '1772332200000': expected a time"),
        ("ci,cpu,c30,50,%,lower,yesterday", "time 'yesterday': expected a time"),
    ],
)
def test_invalid_rows_are_reported_and_skipped(line: str, message: str) -> None:
    result = run("-", text=csv(*TIMED, line, line, header=TIMED_HEADER))

    assert result.exit_code == 1
    assert message.replace("-:92", "standard input:92") in result.stderr
    assert "c14..c15" in result.stdout


def test_deeply_nested_json_is_reported_as_invalid() -> None:
    deep = '{"metric": ' + 100_000 * "[" + "\n"

    assert "standard input:1: not a line of JSON" in run("-", text=deep).stderr
    result = run("-", text=as_json(CPU) + deep)
    assert result.exit_code == 1
    assert "standard input:91: not a line of JSON; skipped" in result.stderr
    assert "c14..c15" in result.stdout


def test_rows_may_have_a_scenario_blanks_after_commas_and_long_names() -> None:
    text = csv(*(f"{line},boot" for line in CPU), header=f"{HEADER},scenario")
    table = run("-", text=text.replace(",", ", ")).stdout
    assert "ci/boot~cpu.percent.lower" in table == run("-", text=text).stdout
    (event,) = json.loads(run("-", "--json", "--series", "ci/boot", text=text).stdout)
    assert event["series"][0]["scenario"] == CPU_OF_BOOT

    name = 160 * "n"
    _, row = run("-", text=text.replace("ci,", f"{name},")).stdout.splitlines()
    assert f" {name}/boot~cpu.percent.lower  +" in row

    wrong = run("-", text=text + "ci,cpu,c30,50,%,lower,a/b\n")
    assert "scenario 'a/b': expected letters, digits" in wrong.stderr


@pytest.mark.parametrize("text", [csv(*CPU), as_json(CPU), csv(*CPU).replace(",", ";")])
def test_blank_lines_before_the_first_row_count_in_messages(text: str) -> None:
    """Semicolons may separate the columns, as in exports of spreadsheets."""
    result = run("-", text=f"\n \n{text}x\n")

    assert result.exit_code == 1
    assert f"standard input:{len(text.splitlines()) + 3}: no" in result.stderr
    assert "c14..c15" in result.stdout
    assert run("-", text=text).stdout == result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric,revision,value\ncpu,c1,5\n", "no column unit, direction in the header"),
        (f"{as_json(CPU[:1])}[1]\n", "standard input:2: expected a JSON object, not [1]"),
        (f"[{as_json(CPU[:1])},[1]]", "standard input: expected JSON objects in the array"),
        (f"{HEADER},unit\n", "two columns of the header have the same name"),
        (f"{HEADER}\n", "no measurements; expected rows below the header"),
        (f"{HEADER}\nci,cpu,c1,x,%,lower\n", "no history found"),
        (csv(*CPU, 'ci,"cpu,c30,50,%,lower', *CPU), "standard input:92: unexpected end of data"),
        (csv(*CPU, 'ci,"cpu,c30,50,%,lower', *CPU * 100), "standard input:92: field larger than"),
    ],
)
def test_files_without_measurements_are_refused(text: str, message: str) -> None:
    result = run("-", text=text)

    assert result.exit_code == 1
    assert message in result.stderr


def lnt(number: int, level: float) -> dict[str, object]:
    """A report of LNT in format 2."""
    times = [level, level * 1.002, level * 0.999]
    return {
        "format_version": "2",
        "machine": {"name": "lab-1", "hardware": "x86_64"},
        "run": {
            "start_time": f"2026-03-{number + 1:02d}T02:30:00",
            "end_time": f"2026-03-{number + 1:02d}T03:30:00",
            "llvm_project_revision": f"c{number}",
        },
        "tests": [
            {"name": "suite/sqlite3.test", "execution_time": times, "hash": "d41d8cd9"},
            {"name": "suite/broken.test", "compile_time": 1.5, "execution_status": 1},
            {"name": "suite/steady.test", "execution_time": 7.0 + number % 3 / 100},
        ],
    }


def perfherder(_: int, level: float) -> dict[str, object]:
    """A performance artifact of Perfherder."""
    subtests = [
        {"name": "load time", "value": level, "unit": "ms", "lowerIsBetter": True},
        {"name": "failed", "value": -1},
    ]
    suite = {"name": "page", "lowerIsBetter": True, "value": level, "subtests": subtests}
    return {"framework": {"name": "browsertime"}, "suites": [suite]}


def csit(number: int, level: float) -> dict[str, object]:
    """A test case of CSIT in model 1.2, with its optional fields."""
    rate = {"values": [4e8 / level] * 3, "avg": 4e8 / level, "stdev": 0.0, "unit": "pps"}
    return {
        "version": "1.2.0",
        "start_time": f"2026-03-{number + 1:02d}T02:30:00.000000Z",
        "hosts": ["192.0.2.44", "192.0.2.45"],
        "dut_type": "VPP",
        "dut_version": f"c{number}",
        "passed": True,
        "test_name_long": "25ge2p1xxv710-64b-2t1c-ethip4-ip4base",
        "result": {"type": "mrr", "receive_rate": {"rate": rate}},
    }


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize(
    ("make", "name", "kind", "series"),
    [
        (lnt, "{:02}.json", "rise", "lab-1/suite-sqlite3.test~execution-time.seconds.lower"),
        (perfherder, "17{:08}-c{:d}.json", "rise", "default/page.load-time~subtest.ms.lower"),
        (
            csit,
            "{:02}.info.json",
            "drop",
            "192.0.2.44-192.0.2.45/25ge2p1xxv710-64b-2t1c-ethip4-ip4base~mrr.pps",
        ),
    ],
    ids=["lnt", "perfherder", "csit"],
)
def test_documented_recipes_convert_exports_of_other_tools(
    make: Callable[[int, float], dict[str, object]],
    name: str,
    kind: str,
    series: str,
    tmp_path: Path,
) -> None:
    tool = make.__name__
    page = (Path(__file__).parents[3] / "docs" / "detection.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    [recipe] = [block for block in blocks if f"{tool}/" in block]
    rng = np.random.default_rng(3)
    (tmp_path / tool).mkdir()
    for number in range(30):
        level = 40 * (1.1 if number >= 15 else 1) * math.exp(rng.normal(0, 0.004))
        path = tmp_path / tool / name.format(number, number)
        path.write_text(json.dumps(make(number, level)))
    subprocess.run(["sh", "-e", "-c", recipe], cwd=tmp_path, check=True)
    result = run(tmp_path / f"{tool}.jsonl", "--json")

    assert result.exit_code == 0, result.stderr
    (event,) = json.loads(result.stdout)
    assert (event["kind"], event["before"], event["at"]) == (kind, "c14", "c15")
    assert [f"{row['testbed']}/{row['scenario']}" for row in event["series"]] == [series]


SERIES = "default~time.seconds.lower"
HISTORY = timed(list(rows("time", 1.1, "seconds", "lower")))


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'external.sqlite'}"


def of_time(*lines: str) -> str:
    """Rows of an import, without testbed and scenario."""
    return as_json([line.removeprefix("ci,") for line in lines], TIMED_HEADER.partition(",")[2])


def row(number: int, seconds: float, revision: str = "") -> str:
    [line] = timed([f"ci,time,c{number},{seconds},seconds,lower"])
    return line.replace(f"c{number}", revision or f"c{number}")


def events(database: str, *arguments: str) -> list[dict[str, Any]]:
    result = run("--database", database, "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return list(json.loads(result.stdout))


def test_an_increase_of_seconds_is_a_rise(database: str) -> None:
    """Other values of known rows are reported, other units are refused."""
    command = ["-", "--database", database]
    result = imported(*command, text=of_time(*HISTORY))
    assert result.stdout == "1 series; 90 boots and 90 samples are new, 0 were known\n"

    (event,) = events(database, "--series", "default/default~time")
    assert (event["kind"], event["before"], event["at"]) == ("rise", "c14", "c15")
    assert event["series"][0]["percent"] == pytest.approx(10, abs=1)
    table = run("--database", database, "--since", "2026-03-10").stdout
    assert f"rise default/{SERIES} +" in " ".join(table.split())
    for image in of_ledger(database):
        assert image.scenario == SERIES
        assert image.pps == pytest.approx([52.5] * 3, rel=0.1)

    assert imported(*command, text=of_time(*HISTORY, row(29, 41.0))).stderr == ""
    other = imported(*command, text=of_time(row(3, 39.0), row(29, 41.0)))
    assert other.stdout == "1 series; 0 boots and 0 samples are new, 2 were known\n"
    assert other.stderr == (
        f"left out: 1 row of c3 in default/{SERIES}/main: an earlier import has other values\n"
    )
    milliseconds = imported(*command, text=of_time(*HISTORY).replace("seconds", "ms"))
    assert f"default~time.ms.lower: an earlier import has {SERIES}" in milliseconds.stderr


def test_new_revisions_follow_known_ones(database: str) -> None:
    command = ["-", "--database", database]
    imported(*command, text=of_time(*HISTORY[:60]))
    result = imported(*command, text=of_time(*HISTORY[45:]))

    assert result.stdout == "1 series; 30 boots and 30 samples are new, 15 were known\n"
    (event,) = events(database)
    assert (event["before"], event["at"]) == ("c14", "c15")

    early = imported(*command, text=of_time(row(9, 40.0, "c99"), *HISTORY))
    assert early.exit_code == 1
    assert "c99 is before c0, but after it in an earlier import" in early.stderr


def test_an_invalid_row_or_a_watched_branch_imports_nothing(database: str) -> None:
    text = of_time(*HISTORY, row(5, 0.0))
    result = imported("-", "--database", database, text=text)

    assert result.exit_code == 1
    wrong = "standard input:91: value 0.0: expected a number above 0"
    assert result.stderr.endswith(f"{wrong}\nnothing was imported\n")
    assert not open_ledger(database).series.names()

    commit = Commit("a" * 40, 1, "Initial import", "", "Ann", "ann@example.org", 0.0)
    open_ledger(database).commits.learn([commit], "main")
    result = imported("-", "--database", database, text=of_time(*HISTORY))

    assert result.exit_code == 1
    assert "branch 'main' is watched in this database" in result.stderr


def asv(folder: Path) -> Path:
    """Results of asv: failures, zeros, a slower case, an old version, a removed benchmark."""
    results = folder / "results"
    (results / "ci-1").mkdir(parents=True)
    (results / "ci-1" / "machine.json").write_text('{"machine": "ci-1"}')
    benchmarks = {
        "version": 2,
        "sort.time_sort": {"type": "time", "unit": "seconds", "version": "1"},
    }
    (results / "benchmarks.json").write_text(json.dumps(benchmarks))
    for number, line in enumerate(HISTORY[::3]):
        _, _, revision, value, *_ = line.split(",")
        result = {
            "commit_hash": revision,
            "date": 1772000000000 + number * 86_400_000,
            "result_columns": ["result", "params", "version"],
            "results": {
                "sort.time_sort": [
                    [None if number % 2 else 0, float(value) * (1 if number else 9)],
                    [["10", "20"]],
                    "1" if number else "0",
                ],
                "sort.time_gone": [[number + 1.0], [], "1"],
            },
        }
        (results / "ci-1" / f"{revision}-py3.json").write_text(json.dumps(result))
        result |= {"results": {"sort.time_sort": {"result": [1, 20], "params": [["10", "20"]]}}}
        if number > 8:
            (results / "ci-1" / f"{revision}-pypy.json").write_text(json.dumps(result))
    return results


def test_results_of_asv_are_imported_and_read_from_files(database: str, tmp_path: Path) -> None:
    folder = asv(tmp_path)
    imported(folder, "--database", database)
    from_files = run(folder, folder, "--json", "--series", "ci-1-py3/*", "--series", "ci-1-pypy/*")

    (event,) = events(database)
    assert json.loads(from_files.stdout) == [event]
    assert "later rows: also in an earlier file; counted once\n" in from_files.stderr
    assert (event["kind"], event["at"]) == ("rise", "c15")
    (series,) = event["series"]
    assert series["testbed"] == "ci-1-py3"
    assert series["scenario"] == "sort.time_sort-20~time.seconds.lower"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("benchmarks.json", "", "benchmarks.json: not JSON"),
        ("benchmarks.json", "{}", "results: no results of the benchmarks in benchmarks.json\n"),
        ("ci-1/c3-py3.json", "[]", "c3-py3.json: expected a JSON object"),
    ],
)
def test_invalid_results_of_asv_are_reported(
    database: str, tmp_path: Path, name: str, text: str, message: str
) -> None:
    folder = asv(tmp_path)
    (folder / name).write_text(text)
    result = imported(folder, "--database", database)

    assert result.exit_code == 1
    assert message in result.stderr
    assert ("c14..c15" in run(folder).stdout) == (name == "ci-1/c3-py3.json")
    result = imported(tmp_path, "--database", database)
    assert "no benchmarks.json; expected a results folder of asv" in result.stderr
