"""`netbisect bisect run --layouts`: programs whose speed depends on where the linker put things."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hand_fixtures import Files, MakeRepository, Repository, numbered

from netbisect.steps import cli

LINK = 'echo "$(cat file) $NETBISECT_LAYOUT" | cksum | cut -d " " -f 1 > linked'
"""A linker whose result has luck of its own, by revision and layout."""
PROGRAM = """#!/bin/sh
# Prints the tree's level, 2.6 % up or down by what was linked, and a little by the run.
echo "$NETBISECT_REVISION $NETBISECT_LAYOUT" >> "$JOURNAL"
awk -v n="$(wc -l < "$JOURNAL")" -v level="$(cat level)" -v linked="$(cat linked)" 'BEGIN {
    srand(n * 7919 + 13); for (i = 0; i < 12; i++) luck += rand() - 0.5
    luck = 0.002 * luck + 0.026 * ((linked % 2001) / 1000 - 1)
    printf "%.2f\\n", level * (1 + luck)
}'
"""
OPTIONS = ("--setup", LINK, "--effect", "6", "--image-noise", "1.5", "--noise", "0.3")


@pytest.fixture
def lucky(make_repository: MakeRepository) -> Repository:
    """Thirty commits, the 17th of which costs 6 %."""
    changes: dict[int, Files] = {0: {"program.sh": PROGRAM}, 17: {"level": "940\n"}}
    return make_repository(numbered(31, changes))


def orders(repository: Repository) -> set[tuple[str, str]]:
    """Revisions and layouts that the program ran in."""
    lines = repository.journal.read_text().splitlines()
    return {(line.split()[0], line.split()[1]) for line in lines}


def test_further_layouts_of_the_same_commits_name_the_culprit(lucky: Repository) -> None:
    """Culprit and parent are set up in several layouts, and the log replays to the same."""
    done = lucky.search(*OPTIONS, "--layouts", "9", "--json", "--", "./program.sh")
    found = json.loads(done.stdout)
    told = lucky.search(*OPTIONS, "--layouts", "9", "--", "./program.sh").stdout
    replayed = CliRunner().invoke(cli.main, ["bisect", "replay", str(lucky.log)])

    assert done.returncode == 0, done.stderr
    assert found["culprit"] == lucky.revisions[17]
    sides = (found["culprit"], found["parent"])
    assert all(found["layouts"][revision] > 1 for revision in sides)
    for revision in sides:
        layouts = {layout for name, layout in orders(lucky) if name == revision}
        assert layouts == {str(i) for i in range(found["layouts"][revision])}
    assert f"in {found['layouts'][sides[0]]} layouts" in told
    assert replayed.exit_code == 0, replayed.output
    assert " in layout 1" in replayed.output
    assert lucky.untouched()


def test_without_layouts_the_luck_of_the_linker_leaves_a_range(lucky: Repository) -> None:
    """The same search asks for the ordinary layout alone, and names nobody."""
    done = lucky.search(*OPTIONS, "--json", "--", "./program.sh")
    found = json.loads(done.stdout)

    assert done.returncode == 3, done.stderr
    assert {layout for _, layout in orders(lucky)} == {"0"}
    assert lucky.revisions[17] in found["suspects"]
    assert "layouts" not in found


def test_a_layout_that_cannot_be_set_up_is_no_skipped_revision(lucky: Repository) -> None:
    """It is asked for once; the search goes on with the ordinary ones, and tells a range."""
    setup = f'[ "$NETBISECT_LAYOUT" = 0 ] || {{ echo "no such option" >&2; exit 1; }}; {LINK}'
    options = ("--setup", setup, *OPTIONS[2:], "--layouts", "3", "--json")
    done = lucky.search(*options, "--", "./program.sh")
    found = json.loads(done.stdout)
    duds = lucky.facts("dud")

    assert done.returncode == 3, done.stderr
    assert found["result"] == "suspects"
    assert lucky.revisions[17] in found["suspects"]
    assert found["skipped"] == {}
    assert len(duds) == len({dud["revision"] for dud in duds}) > 0
    assert all(dud["layout"] for dud in duds)
    assert "layout 1, skipped" in done.stderr
