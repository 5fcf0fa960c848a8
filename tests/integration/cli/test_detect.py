"""`netbisect detect` with files and databases."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from ledger_facts import measured
from programs import netbisect

from netbisect.bisect.model.entities import Commit, Conditions, Fact, Kernel
from netbisect.store.ledger import open_ledger

HISTORIES = Path(__file__).parents[4] / "shared" / "netbenches" / "histories.jsonl"
PAGE = (Path(__file__).parents[3] / "docs" / "detection.md").read_text()
SERIES = "apu2-i210-2019/inet4-forwarding"


run = partial(netbisect, "detect")


def points(
    *shape: tuple[int, float], seed: int = 1, first: int = 300_000, boots: int = 5
) -> list[dict[str, Any]]:
    """Points of a history, one image every 100 revisions; levels are in units of 600 kpps."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for count, factor in shape:
        for _ in range(count):
            revision = first + 100 * len(found)
            image = 600_000 * factor * math.exp(rng.normal(0, 0.005))
            rates = [round(image * math.exp(x), 1) for x in rng.normal(0, 0.006, boots)]
            found.append({"rev": revision, "image": str(revision), "v": rates})
    return found


def line(listed: Sequence[Any], hw: str = "APU2", **others: Any) -> str:
    history = {
        "kind": "history",
        "hw": hw,
        "nic": "Intel_i210",
        "dir": f"{hw}/Intel_i210/firewalls/results/fbsd.2019",
        "cfg": "forwarding",
        "points": listed,
    }
    return json.dumps({**history, **others}) + "\n"


STEP = line(points((15, 1.0), (15, 0.9)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "histories.jsonl"
    path.write_text(STEP)
    return path


def listed(result: Result) -> list[tuple[str, str, str, int]]:
    return [
        (event["kind"], event["before"], event["at"], len(event["series"]))
        for event in json.loads(result.stdout)
    ]


def test_events_of_a_file_are_a_table_or_json_with_the_documented_keys(file: Path) -> None:
    """A file needs no database."""
    result = run(file)

    assert result.exit_code == 0
    head, row = result.stdout.splitlines()
    assert head.split()[:3] == ["branch", "range", "kind"]
    assert row.split()[:4] == ["head", "r301400..r301500", "drop", SERIES]
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]

    (event,) = json.loads(run(file, "--json").stdout)
    (series,) = event["series"]

    assert series["low"] < math.log(0.9) < series["high"]
    assert series["percent"] == round(100 * math.expm1(series["ln_ratio"]), 2)
    assert (series["images_before"], series["images_after"]) == (15, 15)
    assert (series["boots_before"], series["boots_after"]) == (75, 75)
    assert event["why"].startswith(f"Score {series['score']:.1f} at a noise of ")
    assert (event["branch"], event["also_on"], event["back"]) == ("head", [], None)

    tables = PAGE.split("### JSON", 1)[1].split("### History files", 1)[0].split("|---|---|\n")[1:]
    of_event, of_series = (
        [
            key
            for row in part.split("\n\n", 1)[0].splitlines()
            for key in re.findall(r"`(\w+)`", row.split("|")[1])
        ]
        for part in tables
    )

    assert of_event == list(event)
    assert of_series == list(event["series"][0])


def test_series_are_selected_by_patterns(file: Path) -> None:
    file.write_text(STEP + line(points((15, 1.0), (15, 0.9), seed=2), hw="C2558"))

    assert listed(run(file, "--json")) == [("drop", "r301400", "r301500", 2)]
    assert listed(run(file, "--json", "--series", "apu2*")) == [("drop", "r301400", "r301500", 1)]
    assert listed(run(file, "--json", "--series", "*/inet4-forwarding/head"))[0][3] == 2
    both = ("--series", "c2558-i210-2019", "--series", SERIES)
    assert listed(run(file, "--json", *both))[0][3] == 2
    wrong = run(file, "--series", "apu3-i210-2019")
    assert wrong.exit_code == 1
    assert "there is no series 'apu3-i210-2019'; found apu2-i210-2019/" in wrong.output


def test_since_takes_a_revision_or_a_day(file: Path) -> None:
    file.write_text(line(points((15, 1.0), (15, 0.9), (15, 1.0))))

    for since in ("r301501", "r303000", "301600"):
        assert listed(run(file, "--json", "--since", since)) == [
            ("improvement", "r302900", "r303000", 1)
        ]
    assert len(listed(run(file, "--json", "--since", "r301500"))) == 2
    wrong = run(file, "--since", "yesterday")
    assert wrong.exit_code == 1
    assert "--since yesterday: no such revision was measured" in wrong.output

    result = run(file, "--since", "2019-01-01")
    assert result.stdout == "No change of level of 2 % or more found.\n"
    assert "2 events without a time left out" in result.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"v": [600000, None]}, "r300300: 1 of 2 boots left out"),
        ({"v": [600000, -1, "fast", True]}, 'is -1, "fast", true'),
        ({"v": [600000, 0]}, "r300300: 1 of 2 boots left out: no packet was received"),
        ({"v": []}, "r300300 has no boot with a rate: a gap in the series"),
        ({"v": None}, "point 4 (300300) has no list of values `v`: it was left out"),
        ({"rev": None, "image": "x"}, "point 4 has no revision `rev`: it was left out"),
        ({"v": [600000, 10**400]}, "r300300: 1 of 2 boots left out"),
        ({"rev": [1]}, "point 4 has [1] for its revision `rev`: it was left out"),
        ({"rev": "7f4e724829e", "image": ""}, "image 7f4e724829e names no revision by number"),
        (
            {"v": [600000]},
            f"revisions with a single value, which may be an outlier: 1 (in {SERIES}/head)",
        ),
        ({"patch": "D123"}, "1 (r300300+d123)\nseries with a single revision show no change: 1"),
        ("x", "point 4 is 'x', not an object: it was left out"),
    ],
)
def test_invalid_points_are_reported_and_skipped(file: Path, change: Any, sentence: str) -> None:
    bad: list[Any] = points((15, 1.0), (15, 0.9))
    bad[3] = {**bad[3], **change} if isinstance(change, dict) else change
    file.write_text(line(bad))
    result = run(file, "--json")

    assert result.exit_code == 0
    assert sentence in result.stderr.replace(" 300300: ", " r300300: ")
    assert listed(result) == [("drop", "r301400", "r301500", 1)]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ('{"id": "cut', "not a line of JSON"),
        ("[1, 2]", "not a netbenches history: not an object, but [1, 2]"),
        ('{"kind": "history"}', "required field missing @ line.points"),
        ('{"points": []}', "required field missing @ line.hw"),
    ],
)
def test_invalid_lines_are_reported_and_skipped(file: Path, bad: str, sentence: str) -> None:
    file.write_text(bad + "\n\n" + STEP)
    result = run(file, "--json")

    assert result.exit_code == 1
    assert f"{file}:1: " in result.stderr
    assert sentence in result.stderr
    assert listed(result) == [("drop", "r301400", "r301500", 1)]


@pytest.mark.parametrize(
    "content", ["", "\n", "{", 99 * "{\n", line([]), "ci-1,c1,950\nci-1,c2,951\n"]
)
def test_a_file_without_history_is_refused(file: Path, content: str) -> None:
    file.write_text(content)
    result = run(file)

    assert result.exit_code == 1
    problem = "no history found" if content.strip() else "empty"
    assert f"{file}: {problem}; expected JSON lines with hw, nic" in result.stderr
    assert len(result.stderr.splitlines()) <= min(1 + content.count("{"), 3)


def test_points_are_sorted_and_the_first_of_a_revision_counts(file: Path) -> None:
    ordered = json.loads(run(file, "--json").stdout)
    other = points((15, 1.0), (15, 0.9))
    reverse = line(other[::-1])
    other[3]["v"] = [1.0, 2.0]
    file.write_text(reverse + line(other[:4]))
    result = run(file, "--json")

    assert "its points are not in the order of their revisions; they were put in" in result.stderr
    assert f"{file}:2: r300300 was measured in {SERIES}/head by {file}:1 too" in result.stderr
    assert f"{file}:2: 3 images of" in result.stderr
    assert json.loads(result.stdout) == ordered


def facts(revision: str, night: int, pps: float, conditions: str = "c1") -> list[Fact]:
    """A kernel and four boots of it in a night."""
    at = 1.7e9 + 86400 * night
    key, scenario = f"key {revision}", "inet4-forwarding"
    made: list[Fact] = [
        Kernel(revision, "ROUTER", "amd64", f"id {revision}", key, "", 1, at, 1.0),
        Conditions(conditions, "apu2", scenario, {"generator": conditions}),
    ]
    rng = np.random.default_rng(night)
    for i in range(4):
        boot = f"{revision} {i} {conditions}"
        rates = {scenario: pps * math.exp(rng.normal(0, 0.006))}
        made += measured(boot, "apu2", key, revision, at + i, rates, conditions=conditions)
    return made


def commit(revision: str, number: int) -> Commit:
    return Commit(revision, number, "", "", "", "", 1.7e9 + number)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A database with thirty nights of a renamed branch and a drop after fifteen."""
    address = f"sqlite:///{tmp_path / 'lab.sqlite'}"
    ledger = open_ledger(address)
    revisions = [f"{night:040x}" for night in range(30)]
    for branch in ("main", "trunk"):
        ledger.commits.learn([commit(name, n) for n, name in enumerate(revisions, 1)], branch)
    ledger.commits.learn([commit("f" * 40, 1)], "elsewhere")
    for night, revision in enumerate(revisions):
        ledger.facts.record_all(facts(revision, night, 600_000 if night < 15 else 540_000), "test")
    return address


def test_since_takes_a_day_or_a_hash(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sixteenth night is that of 2023-11-29; the service has its database elsewhere."""
    mail = '[mail]\nto = ["a@lab.invalid"]\nsender = "a@lab.invalid"\n'
    settings = f'branches = ["main"]\ndatabase = "{address}"\n{mail}'
    (tmp_path / "netbisect.toml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    revisions = {"2023-11-29": 1, "2023-11-30": 0, f"n16-{15:040x}": 1, f"{16:040x}": 0}
    assert {one: len(listed(run("--json", "--since", one))) for one in revisions} == revisions


def test_excluded_samples_are_reported(address: str) -> None:
    """Revisions on no branch and samples under earlier conditions are excluded."""
    ledger = open_ledger(address)
    ledger.facts.record_all(facts("e" * 40, 3, 1.0), "test")
    result = run("--database", address, "--json")

    assert f"{'e' * 12} is left out: it is on no known branch" in result.stderr
    assert len(listed(result)) == 1

    ledger.facts.record_all(facts(f"{29:040x}", 40, 540_000, conditions="c2"), "test")
    result = run("--database", address)
    assert "apu2/inet4-forwarding: samples under earlier conditions are left out" in result.stderr
    assert result.stdout == "No change of level of 2 % or more found.\n"


def test_a_missing_or_empty_database_is_refused(tmp_path: Path) -> None:
    """A file and a database are mutually exclusive."""
    address = f"sqlite:///{tmp_path / 'new.sqlite'}"
    both = run(__file__, "--database", address)
    assert both.exit_code == 2
    assert "FILE and --database are mutually exclusive" in both.output
    assert run(tmp_path / "gone.jsonl").exit_code == 2
    result = run("--database", address)

    assert result.exit_code == 1
    assert f"there is no database {address}; expected a FILE of histories" in result.stderr
    assert list(tmp_path.iterdir()) == []
    open_ledger(address)
    result = run("--database", address)
    assert result.exit_code == 1
    assert f"no measurements in the database {address}" in result.stderr


@pytest.mark.long
@pytest.mark.data
def test_published_changes_are_detected_once(tmp_path: Path) -> None:
    """A file and a database of it give the same events."""
    if not HISTORIES.is_file():
        pytest.skip(f"the published measurements are not there: {HISTORIES}")
    result = run(HISTORIES, "--json")
    found = json.loads(result.stdout)
    shifts = {
        (event["at"], shift["testbed"], shift["scenario"]): shift["percent"]
        for event in found
        for shift in event["series"]
    }

    c2558, apu2 = "atom-c2558-i350", "amd-gx-412tc-i210at"
    forwarding, ipfw, pf = "inet4-forwarding", "inet4-ipfw-stateful", "inet4-pf-stateful"
    documented = [
        ("r303643", f"{c2558}-2016", forwarding, -7.7),
        ("r309257", f"{c2558}-2016", forwarding, 32.7),
        ("r309257", f"{c2558}-2016", ipfw, 15.5),
        ("r309257", f"{c2558}-2016", pf, 11.5),
        ("r309257", f"{apu2}-2016", forwarding, 13.5),
        ("r309257", f"{apu2}-2016", ipfw, 9.9),
        ("r311849", f"{c2558}-12-head-iflib", forwarding, -11.2),
        ("r311849", f"{apu2}-12-head-iflib", forwarding, -25.5),
        ("r315217", f"{c2558}-12-head-r315217", forwarding, -11.9),
        ("r315217", f"{c2558}-12-head-r315217", ipfw, -12.0),
        ("r315217", f"{c2558}-12-head-r315217", pf, -9.4),
        ("r315217", f"{apu2}-12-head-r315217", forwarding, -27.0),
        ("r315217", f"{apu2}-12-head-r315217", pf, -10.7),
        ("r364730", f"{apu2}-13-r364730-d26162", forwarding, 12.5),
    ]
    for revision, testbed, scenario, percent in documented:
        assert abs(shifts[revision, testbed, scenario] - percent) < 6, (revision, testbed, scenario)
    ranges = [(event["branch"], event["before"], event["at"]) for event in found]
    assert len(ranges) == len(set(ranges))
    places = [
        (shift["testbed"], shift["scenario"], shift["at"])
        for event in found
        for shift in event["series"]
    ]
    assert len(places) == len(set(places))
    assert len(found) <= 14

    address = f"sqlite:///{tmp_path / 'x.sqlite'}"
    file = tmp_path / "histories.jsonl"
    histories = HISTORIES.read_text().splitlines(keepends=True)
    file.write_text("".join(one for one in histories if "Atom_C2558" in one))
    assert netbisect("import", "netbenches", file, "--database", address).exit_code == 0
    events = json.loads(run("--database", address, "--json").stdout)
    assert len(events) >= 4
    assert events == json.loads(run(file, "--json").stdout)
    unknown = run("--database", address, "--series", f"{c2558}-2017")
    assert f"there is no series '{c2558}-2017'" in unknown.stderr
    assert f"{c2558}-2016" in unknown.stderr
