"""`netbisect revision`: what it says, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netbisect.demo.house import House
from netbisect.steps import cli, control
from netbisect.steps.memory import history_of
from netbisect.steps.settings import load
from netbisect.store.history import History


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service that never runs, with a table of numbers."""
    house = House(tmp_path_factory.mktemp("revision") / "house")
    house.build()
    (house.place / "tree.git").rename(house.place / "upstream.git")
    path = house.place / "lab" / "lab.toml"
    text = path.read_text().replace("/tree.git", "/upstream.git")
    path.write_text(text.replace("[source]\n", '[source]\nrevisions = "svn.tsv"\n'))
    table = house.place / "lab" / "svn.tsv"
    table.write_text("")
    history = told(house.place)
    history.update()
    first, second = history.read("rev-list", "--first-parent", "--reverse", "main").split()[:2]
    table.write_text(f"2001\tmain\t{first}\n2001\tstable/9\t{second}\n")
    return house.place


def told(folder: Path) -> History:
    return history_of(*load(folder / control.SETTINGS))


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["revision", *arguments, "--folder", str(folder)])


def test_a_commit_is_told_in_a_few_lines(folder: Path) -> None:
    """Hash, label, branches, Subversion's number, date, author, subject."""
    commit = told(folder).commit("main~0")
    first = told(folder).commit(told(folder).read("rev-list", "--max-parents=0", "main").strip())

    result = run(folder, "main", f"n{first.number}")

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


def test_several_commits_are_listed_and_the_exit_status_is_two(folder: Path) -> None:
    """Each with a name that means it alone, its day and its subject."""
    result = run(folder, "r2001", "main")

    assert result.exit_code == 2
    assert "  r2001 may mean any of 2 commits; the name of one would be right\n" in result.output
    assert "    head@2001  2025-01-0" in result.output
    assert "    stable/9@2001  2025-01-0" in result.output
    assert run(folder, "stable/9@2001").exit_code == 0


def test_what_means_nothing_gets_its_sentence_and_exit_status_one(folder: Path) -> None:
    """The other names are answered."""
    result = run(folder, "main", "@x", "m\u0430in")

    assert result.exit_code == 1
    assert "'@x': before @ comes a branch" in result.output
    assert "CYRILLIC SMALL LETTER A" in result.output
    assert "  hash  " in result.output


def test_reviews_and_ranges_are_told_with_their_commits(folder: Path) -> None:
    """As text and as JSON."""
    result = run(folder, "--json", "D5180", "D5180@main", "n1..main", "main~1", "r2001", "?")
    review, upon, stretch, commit, several, wrong = json.loads(result.output)
    text = run(folder, "D5180@main", "n1..main").output

    assert result.exit_code == 2
    assert review == {"name": "D5180", "review": "D5180", "base": None}
    assert upon["base"]["revision"] == told(folder).head("main")
    assert (stretch["good"]["number"], stretch["bad"]["label"]) == (1, upon["base"]["label"])
    assert stretch["commits"] == stretch["bad"]["number"] - 1
    assert commit["revision"] == told(folder).resolve("main~1")
    assert commit["branches"] == ["main"]
    assert len(several["candidates"]) == 2
    assert wrong["candidates"] == []
    assert "  review      D5180\n  its base\n    hash        " in text
    assert f"  range of    {stretch['commits']} commit" in text


def test_the_tree_is_fetched_unless_it_is_said_not_to(folder: Path) -> None:
    """A commit of a minute ago has a name."""
    _, lab = load(folder / control.SETTINGS)
    upstream = History(Path(lab.source.repository), lab.source.repository)
    head = upstream.head("main")
    upstream.read("update-ref", "refs/tags/just-now", head)

    old, new = run(folder, "just-now", "--no-fetch"), run(folder, "just-now")

    assert old.exit_code == 1
    assert "if it is new, it may not have been fetched yet" in old.output
    assert new.exit_code == 0
    assert head in new.output


def test_a_subject_cannot_write_on_the_terminal(folder: Path) -> None:
    """Control characters of a message are left out."""
    _, lab = load(folder / control.SETTINGS)
    upstream = History(Path(lab.source.repository), lab.source.repository)
    tree = upstream.read("rev-parse", "main^{tree}").strip()
    message = "red \x1b[31m text \u202e"
    revision = upstream.read("commit-tree", tree, "-p", "main", "-m", message).strip()
    upstream.read("update-ref", "refs/heads/odd", revision)

    assert "  subject     red [31m text\n" in run(folder, "odd").output


def test_a_faulty_table_of_numbers_gets_one_sentence(folder: Path) -> None:
    """With file and line."""
    table = folder / "lab" / "svn.tsv"
    before = table.read_text()
    table.write_text("2001 main\n")
    try:
        result = run(folder, "main")
    finally:
        table.write_text(before)

    assert result.exit_code == 1
    assert f"Error: {table}, line 1: a number, a branch and a full hash" in result.output


def test_a_branch_for_numbers_and_days_can_be_named(folder: Path) -> None:
    """A wrong one is refused by name."""
    assert run(folder, "n1", "--branch", "main").exit_code == 0
    result = run(folder, "n1", "--branch", "stable/9")

    assert result.exit_code == 1
    assert "there is no branch 'stable/9'" in result.output
