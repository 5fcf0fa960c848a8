"""`netbisect import measurements`, and `netbisect detect` with imported measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import netbisect as run

from netbisect.bisect.model.entities import Commit
from netbisect.cli.input.comparison import of_ledger
from netbisect.steps.service.database_thread import open_ledger

SERIES = "compiler~time.seconds.lower"


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'external.sqlite'}"


def row(number: int, seconds: float, **changes: object) -> dict[str, Any]:
    return {
        "scenario": "compiler",
        "metric": "time",
        "revision": f"c{number}",
        "time": f"2026-03-{number + 1:02}",
        "value": seconds,
        "unit": "seconds",
        "direction": "lower",
        **changes,
    }


def history(length: int = 30) -> list[dict[str, Any]]:
    """Three runs of each revision; the 16th is 10 % slower."""
    rng = np.random.default_rng(5)
    return [
        row(number, 40 * (1.1 if number >= 15 else 1) * math.exp(rng.normal(0, 0.004)))
        for number in range(length)
        for _ in range(3)
    ]


def lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def events(database: str, *arguments: str) -> list[dict[str, Any]]:
    result = run("detect", "--database", database, "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return list(json.loads(result.stdout))


def test_an_increase_of_seconds_is_a_rise(database: str) -> None:
    result = run("import", "measurements", "-", "--database", database, text=lines(history()))
    assert result.stdout == "1 series; 90 boots and 90 samples are new, 0 were known\n"

    (event,) = events(database, "--series", f"*/{SERIES}/*")
    assert (event["kind"], event["before"], event["at"]) == ("rise", "c14", "c15")
    assert event["series"][0]["percent"] == pytest.approx(10, abs=1)
    table = run("detect", "--database", database, "--since", "2026-03-10").stdout
    assert f"rise default/{SERIES} +" in " ".join(table.split())
    for image in of_ledger(database):
        assert image.scenario == SERIES
        assert image.pps == pytest.approx([42.0] * 3, rel=0.1)


def test_new_revisions_follow_known_ones(database: str) -> None:
    command = ["import", "measurements", "-", "--database", database]
    run(*command, text=lines(history()[:60]))
    result = run(*command, text=lines(history()[45:]))

    assert result.stdout == "1 series; 30 boots and 30 samples are new, 15 were known\n"
    (event,) = events(database)
    assert (event["before"], event["at"]) == ("c14", "c15")

    early = run(*command, text=lines([row(9, 40.0, revision="c99"), *history()]))
    assert early.exit_code == 1
    assert "c99 is before c0, but after it in an earlier import" in early.stderr


def test_other_values_of_known_rows_are_reported(database: str) -> None:
    command = ["import", "measurements", "-", "--database", database]
    run(*command, text=lines(history()))
    again = run(*command, text=lines([*history(), row(29, 41.0)]))
    other = run(*command, text=lines([row(3, 39.0), row(29, 41.0)]))

    assert again.stderr == ""
    assert other.stdout == "1 series; 0 boots and 0 samples are new, 2 were known\n"
    assert other.stderr == (
        f"left out: 1 row of c3 in default/{SERIES}/main: an earlier import has other values\n"
    )


def test_an_invalid_row_imports_nothing(database: str) -> None:
    text = lines([*history(), row(5, 0.0)])
    result = run("import", "measurements", "-", "--database", database, text=text)

    assert result.exit_code == 1
    wrong = "standard input:91: value 0.0: expected a number above 0"
    assert result.stderr.endswith(f"{wrong}\nnothing was imported\n")
    assert not open_ledger(database).series.names()


def test_import_to_a_watched_branch_is_refused(database: str) -> None:
    commit = Commit("a" * 40, 1, "Initial import", "", "Ann", "ann@example.org", 0.0)
    open_ledger(database).commits.learn([commit], "main")
    result = run("import", "measurements", "-", "--database", database, text=lines(history()))

    assert result.exit_code == 1
    assert "branch 'main' is watched in this database" in result.stderr


def asv(folder: Path) -> Path:
    """A results folder of asv with a benchmark in two cases.

    The first case fails or gives 0; the second becomes slower.
    """
    results = folder / "results"
    (results / "ci-1").mkdir(parents=True)
    (results / "ci-1" / "machine.json").write_text('{"machine": "ci-1"}')
    benchmarks = {
        "version": 2,
        "sort.time_sort": {"type": "time", "unit": "seconds", "param_names": ["n"]},
    }
    (results / "benchmarks.json").write_text(json.dumps(benchmarks))
    for number, measured in enumerate(history()[::3]):
        result = {
            "commit_hash": measured["revision"],
            "date": 1772000000000 + number * 86_400_000,
            "result_columns": ["result", "params", "version"],
            "results": {
                "sort.time_sort": [
                    [None if number % 2 else 0, measured["value"]],
                    [["10", "20"]],
                    "1",
                ]
            },
        }
        (results / "ci-1" / f"{measured['revision']}-py3.json").write_text(json.dumps(result))
    return results


def test_results_of_asv_are_imported_and_read_from_files(database: str, tmp_path: Path) -> None:
    folder = asv(tmp_path)
    run("import", "measurements", folder, "--database", database)
    from_files = run("detect", folder, "--json")

    (event,) = events(database)
    assert json.loads(from_files.stdout) == [event]
    assert (event["kind"], event["at"]) == ("rise", "c15")
    (series,) = event["series"]
    assert series["testbed"] == "ci-1"
    assert series["scenario"] == "sort.time_sort-20~time.seconds.lower"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("benchmarks.json", "", "benchmarks.json: not JSON"),
        ("benchmarks.json", "{}", "sort.time_sort: not in benchmarks.json\n"),
        ("ci-1/c3-py3.json", "[]", "c3-py3.json: expected a JSON object"),
    ],
)
def test_invalid_results_of_asv_are_reported(
    database: str, tmp_path: Path, name: str, text: str, message: str
) -> None:
    folder = asv(tmp_path)
    (folder / name).write_text(text)
    result = run("import", "measurements", folder, "--database", database)

    assert result.exit_code == 1
    assert message in result.stderr
    result = run("import", "measurements", tmp_path, "--database", database)
    assert "no benchmarks.json; expected a results folder of asv" in result.stderr
