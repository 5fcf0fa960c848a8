"""The sample tree: a history like FreeBSD's, whose kernels cost what their sources say."""

from __future__ import annotations

import re
from pathlib import Path

from programs import captured

from netbisect.demo.tree.create import SampleTree, create


def git(tree: SampleTree, *arguments: str) -> str:
    return captured(["git", "--git-dir", str(tree.repository), *arguments], check=True).stdout


def cost(tree: SampleTree, number: int, *places: str) -> int:
    """Nanoseconds at these places, summed over the sources of a revision."""
    found = git(tree, "grep", "-h", "-o", r"PATH_COST([a-z0-9_]*, [0-9]*)", tree.revisions[number])
    pairs = re.findall(r"\((\w+), (\d+)\)", found)
    return sum(int(nanoseconds) for place, nanoseconds in pairs if place in places)


def test_the_same_story_gives_the_same_hashes(sample_tree: SampleTree, tmp_path: Path) -> None:
    assert create(tmp_path / "again.git").revisions == sample_tree.revisions


def test_commits_land_one_after_the_other(tmp_path: Path) -> None:
    tree = create(tmp_path / "tree.git")
    assert tree.land(20) == tree.revisions[19]
    assert git(tree, "rev-list", "--first-parent", "--count", "main").strip() == "20"


def test_revisions_are_the_first_parent_history(sample_tree: SampleTree) -> None:
    """A merge brings the commits of its side branch, which are not on the line."""
    line = git(sample_tree, "rev-list", "--first-parent", "--reverse", "main").split()
    assert line == list(sample_tree.revisions)
    everything = git(sample_tree, "rev-list", "main").split()
    assert len(everything) - len(line) == 3


def test_only_the_culprit_changes_the_cost_of_igb(sample_tree: SampleTree) -> None:
    """286 ns, from the sources."""
    igb = [cost(sample_tree, number, "igb") for number in range(len(sample_tree.revisions))]
    steps = [number for number in range(1, len(igb)) if igb[number] != igb[number - 1]]
    culprit = [n for n, rev in enumerate(sample_tree.revisions) if rev_role(sample_tree, rev)]
    assert steps == culprit
    assert igb[steps[0]] - igb[steps[0] - 1] == 286


def rev_role(tree: SampleTree, revision: str) -> bool:
    return tree.roles.get(revision) == "culprit"
