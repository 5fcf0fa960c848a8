"""`netbisect report compare`: sources of values, written files and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from programs import netbisect

from netbisect.cli.input.comparison import Choice, ImageResults, StudyFile, StudyScenario, chosen
from netbisect.reports.render.ministat import Variant, ministat
from netbisect.workers.config.toml import load

OLD = [1465887, 1442680, 1443536, 1440210.5, 1452100]
NEW = [1428782, 1423177, 1410213, 1431000, 1425000]


def lines(values: list[float]) -> str:
    return "".join(f"{value}\n" for value in values)


@pytest.fixture(autouse=True)
def data_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of values in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("old.pps").write_text(lines(OLD))
    Path("new.pps").write_text(lines(NEW))


def compare(*arguments: str) -> Result:
    return netbisect("report", "compare", *arguments, "-o", "out")


def written(*arguments: str) -> str:
    """The README of a comparison that succeeds."""
    result = compare(*arguments)
    assert result.exit_code == 0, result.output
    return Path("out/README.md").read_text()


def refused(*arguments: str) -> str:
    """The error message of a refused comparison, which writes nothing."""
    result = compare(*arguments)
    assert result.exit_code in {1, 2}, result.output
    assert "Traceback" not in result.output
    assert not Path("out").exists()
    return result.stderr.split("Error: ", 1)[1].strip()


SETS = ("--set", "r311848=old.pps", "--set", "r311849=new.pps", "--title", "Impact")


def test_files_of_values_are_compared_and_copied() -> None:
    Path("flame.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    options = ("--scenario", "pf", "--condition", "Xeon", "--condition", "2000 flows")
    text = written(*SETS, *options, "--flame-graph", "r311849=flame.svg")

    assert text.startswith("Impact\n  - Xeon\n  - 2000 flows\n")
    block = ministat([("r311848", OLD), ("r311849", NEW)])
    assert f"\nOn pf:\n\n```\n{block}```\n" in text
    names = ["README.md", "flame.svg", "graph.png", "graph.svg", "new.pps", "old.pps"]
    assert sorted(path.name for path in Path("out").iterdir()) == names
    assert Path("out/old.pps").read_text() == lines(OLD)
    assert "  - [r311849](flame.svg)" in text
    assert Path("out/flame.svg").read_text() == Path("flame.svg").read_text()


STUDY = """\
title = "Impact of D5180"
conditions = ["Xeon L5630", "2000 flows of smallest UDP packets"]
variant = "2015"
width = 80

[[scenario]]
name = "pf impact on forwarding"
[scenario.sets]
"295150.pf" = "old.pps"
"295150mbuf.pf" = "new.pps"

[[scenario]]
name = "forwarding"
heading = "No firewall:"
[scenario.sets]
"295150" = "new.pps"
"295150mbuf" = "old.pps"
"""


def test_the_documented_study_file_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reports.md").read_text()
    example = page.split("```toml\n", 1)[1].split("```", 1)[0]
    Path("study.toml").write_text(example)
    study = load(Path("study.toml"), StudyFile)

    assert len(study.scenario) == 2
    keys = {field.name for kind in (StudyFile, StudyScenario) for field in fields(kind)}
    table = page.split("\n### A study file\n", 1)[1].split("|---", 1)[1].split("\n\n", 1)[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == keys


def test_a_study_file_sets_scenarios_variant_and_width() -> None:
    Path("study.toml").write_text(STUDY)
    text = written("study.toml")

    assert text.startswith(
        "Impact of D5180\n  - Xeon L5630\n  - 2000 flows of smallest UDP packets\n"
    )
    for heading, sets in (
        ("On pf impact on forwarding:", [("295150.pf", OLD), ("295150mbuf.pf", NEW)]),
        ("No firewall:", [("295150", NEW), ("295150mbuf", OLD)]),
    ):
        block = ministat(sets, width=80, variant=Variant.V2015)
        assert f"\n{heading}\n\n```\n{block}```\n" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("title", "titel", "unknown key 'titel'; did you mean 'title'?"),
        ('"2015"', '"2014"', "variant: 2014 is not one of ['2013', '2015', '2017', 'current']"),
        ("width = 80", "width = 1", "the width of the plots is 1"),
        ("old.pps", "none.pps", "none.pps: No such file or directory"),
        ("[[scenario]]", "[scenario", "study.toml: not a TOML file"),
    ],
)
def test_an_invalid_study_file_is_refused(old: str, new: str, words: str) -> None:
    Path("study.toml").write_text(STUDY.replace(old, new))

    assert words in refused("study.toml")


def test_folders_of_results_are_compared() -> None:
    """In netbenches, files of a study of one revision have the names of the settings."""
    revisions, settings = Path("fbsd11-stable.r320897"), Path("fbsd11.1")
    for folder, old, new in (
        (revisions, "320896.inet4", "320897.inet4"),
        (revisions, "320896.inet6", "320897.inet6"),
        (settings, "disabled", "enabled"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / f"{old}.pps").write_text(lines(OLD))
        (folder / f"{new}.pps").write_text(lines(NEW))
    text = written(str(revisions))

    assert text.startswith("r320897 compared with r320896\n  - testbed 11-stable-r320897\n")
    assert "  - inet4-forwarding: -1.7% +/- 0.9%\n  - inet6-forwarding: -1.7%" in text
    assert ministat([("r320896", OLD), ("r320897", NEW)]) in text
    text = written(str(settings), "--force")
    assert text.startswith("inet4-enabled compared with inet4-disabled\n")
    assert ministat([("inet4-disabled", OLD), ("inet4-enabled", NEW)]) in text


def test_tunables_of_one_revision_are_compared() -> None:
    """A scenario without tunables measured beside it is omitted."""
    names = ("pf", "pf@net.isr.maxthreads=2", "forwarding")
    images = [replace(results("r1"), scenario=name) for name in names]
    (scenario,) = chosen(images, Choice(("r1",)), print).scenarios

    assert scenario.name == "pf"
    assert [(values.name, values.file) for values in scenario.sets] == [
        ("without", "pf"),
        ("net.isr.maxthreads=2", "pf@net.isr.maxthreads=2"),
    ]


def history(*revisions: int, **fields: Any) -> str:
    points = [{"rev": rev, "v": [rev + 1, rev + 2, rev + 3]} for rev in revisions]
    return json.dumps({"hw": "Box", "nic": "igb", "cfg": "forwarding", **fields, "points": points})


def test_results_of_several_testbeds_need_the_option_testbed() -> None:
    Path("h.jsonl").write_text(
        f"{history(311848, 311849)}\n{history(311848, 311849, hw='Other')}\n"
    )

    assert refused("h.jsonl") == (
        "there are results of 2 testbeds; expected --testbed with one of box-igb, other-igb"
    )
    assert "x r311848\n" in written("h.jsonl", "--testbed", "other-igb")


def test_revisions_of_a_database_are_compared() -> None:
    Path("h.jsonl").write_text(history(311848, 311849, 311850))
    database = ("--database", "sqlite:///n.sqlite")
    imported = netbisect("import", "netbenches", "h.jsonl", *database)
    assert imported.exit_code == 0, imported.output
    text = written(*database, "--revision", "r311848", "--revision", "311850")

    values = {rev: [rev + 1, rev + 2, rev + 3] for rev in (311848, 311850)}
    assert ministat([(f"r{rev}", v) for rev, v in values.items()]) in text
    assert "  - testbed box-igb\n  - branch head\n  - config: forwarding\n" in text


def results(revision: str, pps: tuple[float, ...] = (1, 2, 3)) -> ImageResults:
    return ImageResults("box", "main", "pf", revision, revision, pps, ())


def test_the_kernel_with_the_most_boots_is_used() -> None:
    warnings: list[str] = []
    images = [results("r1"), results("r1", (4, 5, 6, 7)), results("r1", (8, 9, 10)), results("r2")]
    (scenario,) = chosen(images, Choice(("n1-r1", "r2")), warnings.append).scenarios

    assert scenario.sets[0].pps == (4, 5, 6, 7)
    assert warnings == ["pf: r1 has several kernels; using the one with the most boots"] * 2


def test_a_revision_is_found_by_the_number_of_its_label_and_shown_abbreviated() -> None:
    found = [replace(results(digit * 40), label=f"n{digit}-{digit * 12}") for digit in "12"]
    (scenario,) = chosen(found, Choice(("n1", "n2")), print).scenarios

    assert [one.name for one in scenario.sets] == ["n1-111111111111", "n2-222222222222"]
    with pytest.raises(click.ClickException, match=r"'n3'; found 1{12}, 2{12}$"):
        chosen(found, Choice(("n3",)), print)

    names = ("n1-rc", "n2-rc")
    (scenario,) = chosen([*map(results, names)], Choice(names), print).scenarios
    assert [one.name for one in scenario.sets] == list(names)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to compare; expected SOURCE, two --set NAME=FILE, or a --revision"),
        (["--set", "old.pps"], "--set old.pps: expected NAME=FILE"),
        (["--set", "a=none", "--title", "t"], "none: No such file"),
        (["--set", "a=old.pps"], "there is no title"),
        (["old.pps", "--set", "a=old.pps"], "SOURCE and --set are mutually exclusive"),
        ([*SETS, "--revision", "r1"], "--revision, --testbed and --branch do not apply"),
        ([*SETS, "--scenario", "a", "--scenario", "b"], "a study file can have several"),
        ([*SETS, "--flame-graph", "a=old.pps"], "old.pps: not an SVG"),
        ([*SETS, "--set", "b=bad.pps"], "Invalid data on line 3 in bad.pps; expected one rate"),
        ([*SETS * 4], "has 8 sets; expected 1 to 7"),
        (["--revision", "r1"], "there is no database sqlite:///netbisect.sqlite"),
        (["old.pps"], "old.pps:1: not a netbenches history"),
        (["nowhere.toml"], "'nowhere.toml' does not exist"),
        (
            ["h.jsonl", "--revision", "311847"],
            "there is no revision '311847'; found r311849, r311848",
        ),
        (["h.jsonl", "--revision", "r3"], "r3 is ambiguous: r311848, r311849"),
        (
            ["h.jsonl", "--revision", "r311849"],
            "nothing to compare: expected another revision beside",
        ),
        (["h.jsonl", "--testbed", "bix"], "there is no testbed 'bix'; found box-igb"),
        (["h.jsonl", "--scenario", "pf"], "there is no scenario 'pf'; found inet4-forwarding"),
        (["h.jsonl", "--branch", "main"], "there is no branch 'main' at all"),
    ],
)
def test_invalid_comparisons_are_refused(arguments: list[str], words: str) -> None:
    """The error for an unknown name lists known names."""
    Path("bad.pps").write_text("1\n2\nfast\n")
    Path("h.jsonl").write_text(history(311848, 311849))
    assert words in refused(*arguments)


def test_other_files_are_not_overwritten() -> None:
    Path("out").mkdir()
    Path("out/README.md").write_text("another text\n")
    Path("out/notes").write_text("notes\n")
    result = compare(*SETS)

    assert result.exit_code == 1
    assert "README.md exists and differs" in result.stderr
    assert sorted(path.name for path in Path("out").iterdir()) == ["README.md", "notes"]
    assert written(*SETS, "--force") == written(*SETS), "equal files are accepted"
    assert Path("out/notes").read_text() == "notes\n"

    result = netbisect("report", "compare", *SETS, "-o", "old.pps/out")
    assert result.exit_code == 1
    assert "cannot be written: Not a directory" in result.stderr
