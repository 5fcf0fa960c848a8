"""Resolution of revision names in real repositories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from revision_tree import Published, Tree, found, named, refused

from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.history import History, HistoryError
from netbisect.store.git.resolve import Review, commit_named, resolve, whereabouts


def test_every_kind_of_name_is_resolved(published: Published) -> None:
    """Each of these is unambiguous."""
    main, stable = published.main, published.stable
    expected = {
        "main": main[31],
        "origin/main": main[31],
        "refs/heads/main": main[31],
        "stable/14": stable[9],
        "release/14.0": stable[3],
        "release/14.1": stable[5],
        "refs/tags/release/14.1": stable[5],
        "n5": main[4],
        "stable/14-n25": stable[4],
        "origin/stable/14-n25": stable[4],
        f"main-n25-{main[24][:8]}": main[24],
        f"n25-{stable[4][:8]}": stable[4],
        "r3050": main[4],
        "head@3050": main[4],
        "main@3050": main[4],
        "main@3059": main[4],
        "stable/14@3155": stable[1],
        "r3155": stable[1],
        main[0]: main[0],
        main[0].upper(): main[0],
        stable[2][:20]: stable[2],
        published.side[0]: published.side[0],
        "main~1": main[30],
        "r3050~2": main[2],
        "stable/14~10": main[19],
        f"{published.side[1]}~2": main[28],
        "2023-11-14": main[0],
        "2023-11-15": main[24],
        "stable/14@2023-11-16": stable[9],
        "2023-11-15T03:13:20Z": main[4],
        "2023-11-15T03:13:19Z": main[3],
        "2023-11-15T05:13:20+02:00": main[4],
    }

    assert {name: found(published.history, name) for name in expected} == expected


def test_a_commit_has_its_branches_and_names(published: Published) -> None:
    """Branches are those whose first-parent line contains the commit."""
    both = whereabouts(published.history, published.main[4])
    noted = whereabouts(published.history, published.stable[1])
    merged = whereabouts(published.history, published.side[1])

    assert (both.branches, both.subversion) == (("main", "stable/14"), ("head@3050",))
    assert (noted.branches, noted.subversion) == (("stable/14",), ("stable/14@3155",))
    assert (merged.branches, merged.subversion) == ((), ())


def test_a_review_has_an_optional_base(published: Published) -> None:
    """The base may have any kind of name."""
    base = published.history.commit(published.main[4])

    assert resolve(published.history, "D5180", default_branch="main") == Review("D5180", None)
    assert resolve(published.history, "D5180@r3050", default_branch="main") == Review("D5180", base)
    refused(published.history, "D5180@r9")
    with pytest.raises(RevisionError, match=r"^D5180 is a review; expected the name of one commit"):
        commit_named(published.history, "D5180", default_branch="main")


def test_reversed_or_forked_range_is_rejected_with_the_right_one(published: Published) -> None:
    """It is not swapped. A good end that was merged is on another line, a number on no branch."""
    error = refused(published.history, "main..r3050")

    assert str(error) == ("main..r3050 is reversed, r3050 is the older one; expected r3050..main")
    assert named(error) == {"r3050..main": published.main[4]}

    assert named(refused(published.history, "r3059")) == {"main@3059": published.main[4]}
    error = refused(published.history, "stable/14..main")
    merged = refused(published.history, f"{published.side[1]}..main")

    assert "stable/14 is not on the first-parent line that leads to main" in str(error)
    assert named(error) == {f"{published.main[19][:12]}..main": published.main[19]}
    assert named(merged) == {f"{published.main[28][:12]}..main": published.main[28]}


def test_unrelated_ends_and_tags_of_trees_are_rejected(tree: Tree, history: History) -> None:
    """One repository may contain unrelated histories, and tag keys or trees."""
    tree.grow("main", "a", "b")
    tree.grow("other", "c")
    tree.git("tag", "odd", tree.git("rev-parse", "main^{tree}"))
    history.update()

    assert str(refused(history, "odd")) == "the tag odd names no commit"
    assert "they have no commit in common" in str(refused(history, "other..main"))


def test_an_ambiguous_abbreviation_lists_its_commits(tree: Tree, history: History) -> None:
    """Only commits count; other objects with the prefix are ignored."""
    revisions = tree.grow("main", *(f"c{i}" for i in range(1200)))
    history.update()
    by_prefix: dict[str, list[str]] = {}
    for revision in revisions:
        by_prefix.setdefault(revision[:4], []).append(revision)
    ambiguous = {prefix: ones for prefix, ones in by_prefix.items() if len(ones) > 1}
    assert ambiguous

    for prefix, ones in ambiguous.items():
        error = refused(history, prefix)
        assert named(error) == {one: one for one in ones}
        assert str(error) == (
            f"{prefix} may mean any of {len(ones)} commits; expected the name of one"
        )
        assert {one.commit.number for one in error.candidates} == {
            revisions.index(one) + 1 for one in ones
        }
    unique = next(ones[0] for ones in by_prefix.values() if len(ones) == 1)
    objects = tree.git("rev-parse", f"--disambiguate={unique[:4]}").split()
    assert found(history, unique[:4]) == unique, objects


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("f" * 40, "has a hash that is ffff"),
        ("0123456789ab", "has a hash that begins with 0123456789ab"),
        ("stable/15", "found stable/14; if it is new, it may not have been fetched yet"),
        ("nothing", "'nothing' is not a branch, tag or commit of"),
        ("n500", "n500: main has 32 commits"),
        ("stable/14-n500", "stable/14-n500: stable/14 has 30 commits"),
        ("stable/9-n5", "there is no branch 'stable/9'"),
        ("stable/9@2023-11-15", "there is no branch 'stable/9'"),
        ("r3059", "r3059 changed no branch that is known; main@3059 means main as it was then"),
        ("r9999", "r9999 is unknown; the last number of Subversion in"),
        ("stable/9@3100", "stable/9 is unknown up to r3100"),
        ("HEAD", "'HEAD' is not a branch, tag or commit"),
        ("FETCH_HEAD", "'FETCH_HEAD' is not a branch"),
        ("config", "'config' is not a branch"),
        ("../../etc/passwd", "expected two ends of a range"),
        ("9000-01-01", "9000-01-01 is in the future"),
        ("1999-01-01", "1999-01-01: main has no commit that early"),
        ("main~32", "main~32: main is commit 32 of its line, which has none 32 before it"),
    ],
)
def test_names_without_a_commit_are_refused(published: Published, name: str, sentence: str) -> None:
    assert sentence in str(refused(published.history, name))


def test_a_rewritten_commit_is_not_found(tree: Tree, history: History) -> None:
    """The clone still contains the commit."""
    with pytest.raises(HistoryError, match="has not been fetched into"):
        resolve(history, "main", default_branch="main")
    one, two = tree.grow("main", "a", "b\n\nsvn path=/head/; revision=2001")
    history.update()
    assert found(history, "n2") == found(history, "r2001") == two
    [new] = tree.grow("main", "c", upon=one)
    history.update()

    assert history.resolve(two) == two
    assert found(history, "n2") == new
    for name in (two, two[:12], "r2001", f"main-n2-{two[:8]}"):
        refused(history, name)


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
        refused(history, f"r{number}")
    assert whereabouts(history, revisions[1]).subversion == ("r101002",)
    assert whereabouts(history, revisions[2]).subversion == ("head@101003",)


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
    refused(history, "r2001")

    tree.git("update-ref", "-d", "refs/notes/commits")
    tree.note(two, "svn path=/head/; revision=2001")
    history.update()
    history.read("reflog", "expire", "--expire=now", "--all")
    history.read("gc", "--quiet", "--prune=now")
    assert found(history, "r2001") == two
    refused(history, "r2002")

    tree.git("update-ref", "-d", "refs/notes/commits")
    history.update()
    assert "have no numbers of Subversion" in str(refused(history, "r2001"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "2001 main 0a1b\n",
            "line 1: expected a number, a branch and a full hash, separated by tabs",
        ),
        (f"# x\n2001\tmain\t{'g' * 40}\n", "line 2: expected a number"),
        (f"2001\tmain\t{'0' * 39}\n", "line 1: expected a number"),
        ("\u0660\n", "has a byte that is not ASCII, at 0"),
    ],
)
def test_an_invalid_table_is_reported(
    tree: Tree, history: History, tmp_path: Path, text: str, sentence: str
) -> None:
    """The message has the line; a missing commit is reported when its number is resolved."""
    tree.grow("main", "a")
    history.update()
    history.table = tmp_path / "svn.tsv"
    history.table.write_text(f"2001\tmain\t{'0' * 40}\n")
    refused(history, "r2001")
    history.table.write_text(text)

    with pytest.raises(HistoryError, match=re.escape(sentence)):
        resolve(history, "r2001", default_branch="main")
    history.table.unlink()
    with pytest.raises(HistoryError, match=r"svn.tsv cannot be read: No such file"):
        resolve(history, "r2001", default_branch="main")
