"""`netbisect bisect run --layouts`: programs whose speed depends on the link order."""

from __future__ import annotations

import json

import pytest
from localbisect_fixtures import Files, MakeRepository, Repository, numbered

LINK = 'echo "$(cat file) $NETBISECT_LAYOUT" | cksum | cut -d " " -f 1 > linked'
"""A linker whose output depends on revision and layout."""
PROGRAM = """#!/bin/sh
# Prints the level of the tree, plus or minus 2.6 % by the linked file and some noise by run.
echo "$NETBISECT_REVISION $NETBISECT_LAYOUT" >> "$JOURNAL"
awk -v n="$(wc -l < "$JOURNAL")" -v level="$(cat level)" -v linked="$(cat linked)" 'BEGIN {
    x = n * 7919 + 13  # rand() differs from awk to awk
    for (i = 0; i < 12; i++) { x = (x * 16807) % 2147483647; noise += x / 2147483647 - 0.5 }
    noise = 0.002 * noise + 0.026 * ((linked % 2001) / 1000 - 1)
    printf "%.2f\\n", level * (1 + noise)
}'
"""
OPTIONS = ("--setup", LINK, "--effect", "6", "--image-noise", "1.5", "--noise", "0.3")


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    """Thirty commits; the 17th makes the program 6 % slower."""
    changes: dict[int, Files] = {0: {"program.sh": PROGRAM}, 17: {"level": "940\n"}}
    return make_repository(numbered(31, changes))


def test_culprit_and_parent_are_measured_in_several_layouts(repository: Repository) -> None:
    done = repository.search(*OPTIONS, "--layouts", "9", "--json", "--", "./program.sh")
    found = json.loads(done.stdout)
    printed = repository.search(*OPTIONS, "--layouts", "9", "--", "./program.sh").stdout

    assert done.returncode == 0, done.stderr
    assert found["culprit"] == repository.revisions[17]
    sides = (found["culprit"], found["parent"])
    orders = {tuple(line.split()[:2]) for line in repository.journal.read_text().splitlines()}
    assert all(found["layouts"][revision] > 1 for revision in sides)
    for revision in sides:
        layouts = {layout for name, layout in orders if name == revision}
        assert layouts == {str(i) for i in range(found["layouts"][revision])}
    assert f"in {found['layouts'][sides[0]]} layouts" in printed
    assert " in layout 1" in repository.replay()
    assert repository.is_clean()


@pytest.mark.long
def test_failing_layouts_do_not_skip_the_revision(repository: Repository) -> None:
    setup = f'[ "$NETBISECT_LAYOUT" = 0 ] || {{ echo "no such option" >&2; exit 1; }}; {LINK}'
    options = ("--setup", setup, *OPTIONS[2:], "--layouts", "3", "--json")
    done = repository.search(*options, "--", "./program.sh")
    found = json.loads(done.stdout)
    failures = repository.facts("dud")
    named = found["suspects"] if found["result"] == "suspects" else [found["culprit"]]

    assert repository.revisions[17] in named, done.stderr
    assert found["skipped"] == {}
    assert len(failures) == len({failure["revision"] for failure in failures}) > 0
    assert all(failure["layout"] for failure in failures)
    assert "layout 1, skipped" in done.stderr
