"""Subversion numbers from a table, notes and messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from revision_tree import Published, Tree, found, named, refused

from netbisect.store.git.history import History, HistoryError
from netbisect.store.git.resolve import resolve, whereabouts


def test_subversion_numbers_are_read_from_messages(tree: Tree, history: History) -> None:
    """Conversions have used several formats."""
    revisions = tree.grow(
        "main",
        "a\n\nsvn path=/head/; revision=101001",
        "b\n\nSome text.\n\nRevision: 101002\n",
        "c\n\ngit-svn-id: svn+ssh://svn.freebsd.org/base/head@101003 ccf9f872-aa2e-dd11-9fc8",
        "d\n\nNotes:\n    svn path=/head/; revision=101004",
        "e\n\nRevision: r101005",
        "f\n\nDifferential Revision: https://reviews.freebsd.org/D101006\nSee Revision: 101007 ok",
    )
    history.update()

    assert [found(history, f"r{101001 + i}") for i in range(5)] == revisions[:5]
    assert found(history, "head@101002") == revisions[1]
    for number in (101006, 101007):
        assert refused(history, f"r{number}").unknown
    assert whereabouts(history, revisions[1]).subversion == ("r101002",)
    assert whereabouts(history, revisions[2]).subversion == ("head@101003",)


def test_number_with_a_branch_is_a_revision_of_that_branch(published: Published) -> None:
    """A number without a branch must belong to a commit; the error suggests a branch."""
    error = refused(published.history, "r3059")

    assert found(published.history, "main@3059") == published.main[4]
    assert str(error) == (
        "r3059 changed no branch that is known; main@3059 means main as it was then"
    )
    assert named(error) == {"main@3059": published.main[4]}


def test_added_changed_and_removed_notes_are_followed(tree: Tree, history: History) -> None:
    """The history of the notes may be rewritten."""
    one, two = tree.grow("main", "a", "b")
    history.update()
    assert "have no numbers of Subversion" in str(refused(history, "r2001"))

    tree.note(one, "svn path=/head/; revision=2001")
    tree.note(two, "an opinion")
    history.update()
    assert found(history, "r2001") == one

    tree.note(one, "svn path=/head/; revision=2002")
    tree.note(two, "svn path=/head/; revision=2003")
    history.update()
    assert (found(history, "r2002"), found(history, "r2003")) == (one, two)
    assert refused(history, "r2001").unknown

    tree.git("update-ref", "-d", "refs/notes/commits")
    tree.note(two, "svn path=/head/; revision=2001")
    history.update()
    history.read("reflog", "expire", "--expire=now", "--all")
    history.read("gc", "--quiet", "--prune=now")
    assert found(history, "r2001") == two
    assert refused(history, "r2002").unknown

    tree.git("update-ref", "-d", "refs/notes/commits")
    history.update()
    assert "have no numbers of Subversion" in str(refused(history, "r2001"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "2001 main 0a1b\n",
            "line 1: expected a number, a branch and a full hash with a tab between each",
        ),
        (f"# x\n2001\tmain\t{'g' * 40}\n", "line 2: expected a number"),
        (f"2001\tmain\t{'0' * 39}\n", "line 1: expected a number"),
        ("\u0660\n", "holds more than ASCII, at byte 0"),
    ],
)
def test_an_invalid_table_is_reported(
    tree: Tree, history: History, tmp_path: Path, text: str, sentence: str
) -> None:
    """The message has the line, and no entry of the table is used."""
    tree.grow("main", "a")
    history.update()
    history.table = tmp_path / "svn.tsv"
    history.table.write_text(text)

    with pytest.raises(HistoryError, match=re.escape(sentence)):
        resolve(history, "r2001", default_branch="main")
    history.table.unlink()
    with pytest.raises(HistoryError, match=r"svn.tsv cannot be read: No such file"):
        resolve(history, "r2001", default_branch="main")


def test_a_table_may_name_missing_commits(tree: Tree, history: History, tmp_path: Path) -> None:
    """The missing commit is reported when its number is resolved."""
    tree.grow("main", "a")
    history.update()
    history.table = tmp_path / "svn.tsv"
    history.table.write_text(f"2001\tmain\t{'0' * 40}\n")

    error = refused(history, "r2001")

    assert "2001" in str(error)
    assert error.unknown
