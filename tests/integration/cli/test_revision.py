"""`netbisect revision`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from programs import netbisect

from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_history
from netbisect.store.git.history import History


@pytest.fixture
def folder(own_service: Path) -> Path:
    """A service folder with a table of Subversion numbers."""
    path = own_service / "lab" / "lab.toml"
    path.write_text(path.read_text().replace("[source]\n", '[source]\nrevisions = "svn.tsv"\n'))
    table = own_service / "lab" / "svn.tsv"
    table.write_text("")
    first, second = (
        history_of(own_service).read("rev-list", "--first-parent", "--reverse", "main").split()[:2]
    )
    table.write_text(f"2001\tmain\t{first}\n2001\tstable/9\t{second}\n")
    return own_service


def history_of(folder: Path) -> History:
    return open_history(*load(folder / control.SETTINGS))


def run(folder: Path, *arguments: str) -> Result:
    return netbisect("revision", *arguments, "--folder", folder)


def test_a_commit_is_shown_with_hash_label_and_branches(folder: Path) -> None:
    commit = history_of(folder).commit("main~0")
    result = run(folder, "main", "n1")

    assert result.exit_code == 0
    assert result.output.splitlines()[:4] == [
        "main",
        f"  hash        {commit.revision}",
        f"  label       {commit.label}",
        "  branches    main",
    ]
    assert f"  subject     {commit.subject}\n" in result.output
    assert f"  author      {commit.author} <{commit.email}>\n" in result.output
    assert "  Subversion  head@2001\n" in result.output


def test_an_ambiguous_name_lists_candidates(folder: Path) -> None:
    result = run(folder, "r2001", "main")

    assert result.exit_code == 2
    assert "  r2001 may mean any of 2 commits; expected the name of one\n" in result.output
    assert "    head@2001  2025-01-0" in result.output
    assert "    stable/9@2001  2025-01-0" in result.output
    assert run(folder, "stable/9@2001").exit_code == 0


def test_reviews_and_ranges_are_shown(folder: Path) -> None:
    result = run(folder, "--json", "D5180", "D5180@main", "n1..main", "main~1", "r2001", "?")
    review, patched, range_, commit, ambiguous, invalid = json.loads(result.output)
    text = run(folder, "D5180@main", "n1..main").output

    assert result.exit_code == 2
    assert (review["kind"], review["review"], review["commit"]) == ("review", "D5180", None)
    assert patched["commit"]["revision"] == history_of(folder).head("main")
    assert (range_["good"]["number"], range_["bad"]["label"]) == (1, patched["commit"]["label"])
    assert range_["commits"] == range_["bad"]["number"] - 1
    assert commit["commit"]["revision"] == history_of(folder).resolve("main~1")
    assert commit["commit"]["branches"] == ["main"]
    assert len(ambiguous["candidates"]) == 2
    assert (invalid["name"], invalid["candidates"]) == ("?", [])
    assert "  review      D5180\n  its base\n    hash        " in text
    assert f"  range of    {range_['commits']} commit" in text
