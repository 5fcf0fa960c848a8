"""What names of revisions mean in real repositories, and the index behind it."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from netbisect.bisect.model import Commit
from netbisect.store.history import History, HistoryError
from netbisect.store.revision_file import open_index, place
from netbisect.store.revision_names import RevisionError
from netbisect.store.revisions import Range, Review, commit_named, resolve, whereabouts

BEGIN = 1_700_000_000
"""2023-11-14T22:13:20Z"""
HOUR = 3600


class Tree:
    """A repository whose commits are an hour apart."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = BEGIN
        directory.mkdir()
        self.git("init", "--quiet", "--bare", "--initial-branch=main")

    def git(self, *arguments: str, data: bytes | None = None) -> str:
        command = ["git", "-C", str(self.directory), *arguments]
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def grow(self, branch: str, *messages: str, upon: str = "", merged: str = "") -> list[str]:
        """Adds commits to a branch, the first one upon another commit if one is named."""
        stream = []
        if not upon and self.git("branch", "--list", branch):
            upon = f"refs/heads/{branch}^0"
        for mark, message in enumerate(messages, 1):
            self.time += HOUR
            text = message.encode()
            stream.append(
                f"commit refs/heads/{branch}\nmark :{mark}\n"
                f"committer C <c@example.org> {self.time} +0000\ndata {len(text)}\n".encode()
                + text
                + (f"\nfrom {upon}\n" if upon and mark == 1 else "\n").encode()
                + (f"merge {merged}\n" if merged and mark == 1 else "").encode()
                + f"M 644 inline f{mark % 7}\ndata 10\n{self.time}\n".encode()
            )
        marks = self.directory / "marks"
        options = ("--quiet", "--force", f"--export-marks={marks}")
        self.git("fast-import", *options, data=b"".join(stream))
        found = dict(line.split() for line in marks.read_text().splitlines())
        return [found[f":{mark}"] for mark in range(1, len(messages) + 1)]

    def at(self, branch: str, times: list[int], upon: str = "") -> list[str]:
        """Adds commits of these times to a branch."""
        stream = [
            f"commit refs/heads/{branch}\ncommitter C <c@example.org> {at} +0000\ndata 1\nc\n"
            + (f"from {upon}\n" if upon and i == 0 else "")
            for i, at in enumerate(times)
        ]
        self.git("fast-import", "--quiet", "--force", data="".join(stream).encode())
        return self.git("rev-list", "--first-parent", "--reverse", branch).split()

    def note(self, revision: str, text: str) -> None:
        people = ("-c", "user.name=C", "-c", "user.email=c@example.org")
        self.git(*people, "notes", "add", "--force", "-m", text, revision)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


@pytest.fixture
def history(tree: Tree, tmp_path: Path) -> History:
    return History(tmp_path / "clone", str(tree.directory))


def found(history: History, name: str, branch: str = "main") -> str:
    """Hash of what a name means."""
    return commit_named(history, name, default_branch=branch).revision


def refused(history: History, name: str, branch: str = "main") -> RevisionError:
    with pytest.raises(RevisionError) as caught:
        resolve(history, name, default_branch=branch)
    assert str(caught.value).isprintable()
    return caught.value


def named(error: RevisionError) -> dict[str, str]:
    """By name, the hashes of the candidates."""
    return {one.name: one.commit.revision for one in error.candidates}


class Published:
    """A tree such as FreeBSD's: a main branch, a stable one, tags, notes, a merge."""

    def __init__(self, folder: Path) -> None:
        tree = self.tree = Tree(folder / "tree")
        messages = [f"c{i}\n\nsvn path=/head/; revision={3000 + 10 * i}" for i in range(1, 31)]
        self.main = tree.grow("main", *messages)
        self.stable = tree.grow("stable/14", *(f"s{i}" for i in range(10)), upon=self.main[19])
        self.main += tree.grow("main", "a new one")
        self.side = tree.grow("vendor", "v1", "v2", upon=self.main[28])
        self.main += tree.grow("main", "the merge", merged=self.side[1])
        tree.git("branch", "--quiet", "-D", "vendor")
        tree.note(self.stable[1], "svn-revision: stable/14@3155\n")
        tree.git("tag", "release/14.0", self.stable[3])
        identity = ("-c", "user.name=C", "-c", "user.email=c@example.org")
        tree.git(*identity, "tag", "-a", "-m", "x", "release/14.1", self.stable[5])
        self.history = History(folder / "clone", str(tree.directory))
        self.history.update()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(tmp_path_factory.mktemp("published"))


# ------------------------------------------------------------------------------------ one commit


def test_every_kind_of_name_means_its_commit(published: Published) -> None:
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
        "n25": main[24],
        "stable/14-n25": stable[4],
        "origin/stable/14-n25": stable[4],
        f"main-n25-{main[24][:8]}": main[24],
        f"n25-{stable[4][:8]}": stable[4],
        f"stable/14-n25-{stable[4][:12]}": stable[4],
        "r3050": main[4],
        "3050": main[4],
        "head@3050": main[4],
        "main@3050": main[4],
        "main@3059": main[4],
        "stable/14@3155": stable[1],
        "r3155": stable[1],
        main[0]: main[0],
        main[0].upper(): main[0],
        main[7][:20]: main[7],
        stable[2][:20]: stable[2],
        published.side[0]: published.side[0],
        published.side[1][:20]: published.side[1],
        "main~1": main[30],
        "main~0": main[31],
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


def test_a_commit_is_told_in_full(published: Published) -> None:
    """With the number that the label of `uname -v` has, and what it changes."""
    commit = resolve(published.history, "r3050", default_branch="main")

    assert isinstance(commit, Commit)
    assert commit == published.history.commit(published.main[4])
    assert (commit.number, commit.subject) == (5, "c5")
    assert (commit.lines, len(commit.paths)) == (1, 1)


def test_the_number_of_what_was_merged_is_that_of_its_own_line(published: Published) -> None:
    """As `git rev-list --first-parent --count` has it."""
    commit = commit_named(published.history, published.side[1], default_branch="main")

    assert commit.number == 31
    assert commit == published.history.commit(published.side[1])


def test_numbers_and_days_are_those_of_the_default_branch(published: Published) -> None:
    """Which is the first that is watched, wherever a name has none of its own."""
    assert found(published.history, "n25", branch="stable/14") == published.stable[4]
    assert found(published.history, "2023-11-16", branch="stable/14") == published.stable[9]


def test_where_a_commit_is_and_what_it_was_is_told(published: Published) -> None:
    """Branches are those on whose first-parent lines it is."""
    both = whereabouts(published.history, published.main[4])
    noted = whereabouts(published.history, published.stable[1])
    merged = whereabouts(published.history, published.side[1])

    assert (both.branches, both.subversion) == (("main", "stable/14"), ("head@3050",))
    assert (noted.branches, noted.subversion) == (("stable/14",), ("stable/14@3155",))
    assert (merged.branches, merged.subversion) == ((), ())


# ------------------------------------------------------------------------- reviews and ranges


def test_a_review_is_no_commit_and_may_have_a_base(published: Published) -> None:
    """The base may be named in any way."""
    base = published.history.commit(published.main[4])

    assert resolve(published.history, "D5180", default_branch="main") == Review("D5180", None)
    assert resolve(published.history, "D5180@r3050", default_branch="main") == Review("D5180", base)
    assert refused(published.history, "D5180@r9").unknown
    with pytest.raises(RevisionError, match=r"^D5180 is a review; the name of one commit"):
        commit_named(published.history, "D5180", default_branch="main")


def test_a_range_has_two_ends_of_one_line(published: Published) -> None:
    """Also where they are named differently, and where the line leaves the branches."""
    history, main, side = published.history, published.main, published.side
    for name, (good, bad) in {
        "r3050..main": (main[4], main[31]),
        "n5..stable/14": (main[4], published.stable[9]),
        f"n5..{side[1]}": (main[4], side[1]),
        f"{side[0]}..{side[1]}": (side[0], side[1]),
    }.items():
        assert resolve(history, name, default_branch="main") == Range(
            history.commit(good), history.commit(bad)
        )
    with pytest.raises(RevisionError, match="is a range; the name of one commit"):
        commit_named(history, "n5..n6", default_branch="main")


def test_a_reversed_range_is_refused_with_the_right_one(published: Published) -> None:
    """It is not turned in silence: perhaps another one was meant."""
    error = refused(published.history, "main..r3050")

    assert str(error) == (
        "main..r3050 is reversed, r3050 is the older one: r3050..main would be right"
    )
    assert named(error) == {"r3050..main": published.main[4]}


def test_an_empty_range_is_refused(published: Published) -> None:
    """However its ends are named."""
    error = refused(published.history, "r3050..n5")

    assert str(error).startswith(f"r3050..n5 is empty: both ends are n5-{published.main[4][:12]}")


def test_ends_of_different_lines_are_refused_with_their_fork(published: Published) -> None:
    """Also where the good end was merged into the line of the bad one."""
    error = refused(published.history, "stable/14..main")
    merged = refused(published.history, f"{published.side[1]}..main")

    assert "stable/14 is not on the first-parent line that leads to main" in str(error)
    assert named(error) == {f"{published.main[19][:12]}..main": published.main[19]}
    assert named(merged) == {f"{published.main[28][:12]}..main": published.main[28]}


def test_ends_without_a_common_commit_are_refused(tree: Tree, history: History) -> None:
    """Such as those of two histories that were put into one repository."""
    tree.grow("main", "a", "b")
    tree.grow("other", "c")
    history.update()

    assert "they have no commit in common" in str(refused(history, "other..main"))


# ------------------------------------------------------------------------------ what is refused


def test_the_beginning_of_several_hashes_is_refused_with_all_of_them(
    tree: Tree, history: History
) -> None:
    """With hash, day and subject of each; what is no commit does not count."""
    revisions = tree.grow("main", *(f"c{i}" for i in range(1200)))
    history.update()
    begun: dict[str, list[str]] = {}
    for revision in revisions:
        begun.setdefault(revision[:4], []).append(revision)
    several = {prefix: ones for prefix, ones in begun.items() if len(ones) > 1}
    assert several

    for prefix, ones in several.items():
        error = refused(history, prefix)
        assert named(error) == {one: one for one in ones}
        assert str(error) == (
            f"{prefix} may mean any of {len(ones)} commits; the name of one would be right"
        )
        assert {one.commit.number for one in error.candidates} == {
            revisions.index(one) + 1 for one in ones
        }
    alone = next(ones[0] for ones in begun.values() if len(ones) == 1)
    objects = tree.git("rev-parse", f"--disambiguate={alone[:4]}").split()
    assert found(history, alone[:4]) == alone, objects


def test_a_number_of_several_branches_is_refused_where_the_default_has_none(
    tree: Tree, history: History
) -> None:
    """The candidates are labels, as kernels say them."""
    [first] = tree.grow("main", "a")
    [one] = tree.grow("stable/13", "b", upon=first)
    [two] = tree.grow("stable/14", "c", "d", upon=first)[:1]
    history.update()

    error = refused(history, "n2")

    assert named(error) == {f"n2-{one[:12]}": one, f"n2-{two[:12]}": two}
    assert {name: found(history, name) for name in named(error)} == named(error)
    assert found(history, "n3") == history.head("stable/14")
    assert found(history, "stable/14-n2") == two


def test_a_number_of_subversion_on_several_branches_is_refused_without_a_branch(
    tree: Tree, history: History
) -> None:
    """A commit to two branches was one revision there; the default branch is not taken."""
    [one, *_] = tree.grow("main", "a\n\nsvn path=/head/; revision=295802", "b")
    [two] = tree.grow("stable/10", "c\n\nsvn path=/stable/10/; revision=295802", upon=one)
    history.update()

    error = refused(history, "r295802")

    assert named(error) == {"head@295802": one, "stable/10@295802": two}
    assert {name: found(history, name) for name in named(error)} == named(error)


def test_a_name_of_a_branch_and_a_tag_is_refused(tree: Tree, history: History) -> None:
    """Unless both mean one commit."""
    one, two = tree.grow("main", "a", "b")
    tree.git("tag", "main", one)
    tree.git("tag", "n2", one)
    tree.git("branch", "same", two)
    tree.git("tag", "same", two)
    history.update()

    assert named(refused(history, "main")) == {"refs/heads/main": two, "refs/tags/main": one}
    assert named(refused(history, "n2")) == {f"n2-{two[:12]}": two, "refs/tags/n2": one}
    assert found(history, "refs/tags/main") == one
    assert found(history, "same") == two


def test_a_label_that_contradicts_itself_is_refused(published: Published) -> None:
    """Number, hash and branch must all be those of one commit; what is like it is told."""
    main, stable = published.main, published.stable
    for name in (
        f"main-n24-{main[24][:12]}",
        f"main-n25-{stable[4][:12]}",
        f"n25-{'0' * 12}",
        f"stable/14-n25-{main[24][:12]}",
    ):
        error = refused(published.history, name)
        assert "has both this number and this hash" in str(error)
        assert error.candidates
    assert set(named(refused(published.history, f"main-n24-{main[24][:12]}")).values()) == {
        main[23],
        main[24],
    }


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("f" * 40, "has a hash that is ffff"),
        ("0123456789ab", "has a hash that begins with 0123456789ab"),
        ("stable/15", "there is stable/14; if it is new, it may not have been fetched yet"),
        ("nothing", "'nothing' is no branch, tag or commit of"),
        ("n500", "n500: main has 32 commits"),
        ("stable/14-n500", "stable/14-n500: stable/14 has 30 commits"),
        ("stable/9-n5", "there is no branch 'stable/9'"),
        ("stable/9@2023-11-15", "there is no branch 'stable/9'"),
        ("r9999", "r9999 is not known; the last number of Subversion in"),
        ("stable/9@3100", "nothing is known of stable/9 up to r3100"),
        ("HEAD", "'HEAD' is no branch, tag or commit"),
        ("FETCH_HEAD", "'FETCH_HEAD' is no branch"),
        ("config", "'config' is no branch"),
        ("../../etc/passwd", "a range has two ends"),
    ],
)
def test_what_the_tree_does_not_have_gets_a_sentence(
    published: Published, name: str, sentence: str
) -> None:
    """A newer tree may have it, which is told apart from what can never be right."""
    error = refused(published.history, name)

    assert sentence in str(error)
    assert error.unknown != (".." in name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("9000-01-01", "9000-01-01 has not come yet"),
        ("1999-01-01", "1999-01-01: main has no commit so early"),
        ("main~32", "main~32: main is commit 32 of its line, which has none 32 before it"),
    ],
)
def test_what_can_be_in_no_tree_gets_a_sentence(
    published: Published, name: str, sentence: str
) -> None:
    """Fetching does not help."""
    error = refused(published.history, name)

    assert str(error) == sentence
    assert not error.unknown


def test_a_tag_of_something_else_than_a_commit_is_refused(tree: Tree, history: History) -> None:
    """FreeBSD has none; others tag keys and trees."""
    tree.grow("main", "a")
    tree.git("tag", "odd", tree.git("rev-parse", "main^{tree}"))
    history.update()

    assert str(refused(history, "odd")) == "the tag odd names no commit"


def test_nothing_that_is_typed_reaches_git(published: Published, tmp_path: Path) -> None:
    """A name that git would take as an option, a command or a path does nothing."""
    for name in (
        f"--output={tmp_path / 'x'}",
        f"-O{tmp_path / 'x'}",
        f"$(touch {tmp_path / 'x'})",
        f"`touch {tmp_path / 'x'}`",
        f"main;touch {tmp_path / 'x'}",
        "main@{u}",
        "main^{/fix}",
        "--all",
    ):
        refused(published.history, name)

    assert not list(tmp_path.iterdir())


def test_before_the_first_update_nothing_can_be_named(history: History) -> None:
    """And no index is made."""
    with pytest.raises(HistoryError, match="has not been fetched into"):
        resolve(history, "main", default_branch="main")

    assert not place(history).exists()


# ------------------------------------------------------------------------ Subversion's numbers


def test_numbers_of_subversion_are_told_by_messages_in_several_ways(
    tree: Tree, history: History
) -> None:
    """As different conversions have written them."""
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


def test_a_number_that_a_message_has_copied_is_not_believed(tree: Tree, history: History) -> None:
    """A merge to a stable branch may repeat the message of the original."""
    message = "a\n\nsvn path=/head/; revision=101001"
    first, original = tree.grow("main", "0", message)
    [copy] = tree.grow("stable/14", message, upon=first)
    history.update()

    assert found(history, "r101001") == original
    assert whereabouts(history, copy).subversion == ()


def test_with_a_branch_a_number_means_the_branch_as_it_was_then(
    published: Published,
) -> None:
    """As in Subversion; without one it must be a commit's own, and the other is offered."""
    error = refused(published.history, "r3059")

    assert found(published.history, "main@3059") == published.main[4]
    assert str(error) == (
        "r3059 changed no branch that is known; main@3059 means main as it was then"
    )
    assert named(error) == {"main@3059": published.main[4]}


def test_notes_that_come_change_and_go_are_followed(tree: Tree, history: History) -> None:
    """Also where the notes' own history was rewritten."""
    one, two = tree.grow("main", "a", "b")
    history.update()
    assert "neither notes nor messages" in str(refused(history, "r2001"))

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
    assert "neither notes nor messages" in str(refused(history, "r2001"))


def test_a_table_tells_numbers_and_has_the_last_word(
    tree: Tree, history: History, tmp_path: Path
) -> None:
    """It is read again when it has changed."""
    one, two, three = tree.grow("main", "a\n\nsvn path=/head/; revision=2001", "b", "c")
    table = tmp_path / "svn.tsv"
    table.write_text(f"# old ranges\n\n2001\tmain\t{two}\nr2000\thead\t{one}\n")
    history.table = table
    history.update()

    assert (found(history, "r2001"), found(history, "r2000")) == (two, one)
    assert whereabouts(history, two).subversion == ("head@2001",)

    table.write_text(f"2007\tmain\t{three}\n")
    assert (found(history, "r2001"), found(history, "r2007")) == (one, three)
    history.table = None
    assert refused(history, "r2007").unknown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2001 main 0a1b\n", "line 1: a number, a branch and a full hash with a tab between each"),
        (f"# x\n2001\tmain\t{'g' * 40}\n", "line 2: a number"),
        (f"2001\tmain\t{'0' * 39}\n", "line 1: a number"),
        ("\u0660\n", "holds more than ASCII, at byte 0"),
    ],
)
def test_a_faulty_table_gets_a_sentence(
    tree: Tree, history: History, tmp_path: Path, text: str, sentence: str
) -> None:
    """With its line; nothing of it counts."""
    tree.grow("main", "a")
    history.update()
    history.table = tmp_path / "svn.tsv"
    history.table.write_text(text)

    with pytest.raises(HistoryError, match=re.escape(sentence)):
        resolve(history, "main", default_branch="main")
    history.table.unlink()
    with pytest.raises(HistoryError, match=r"svn.tsv cannot be read: No such file"):
        resolve(history, "main", default_branch="main")


def test_a_table_may_name_what_the_tree_has_not(
    tree: Tree, history: History, tmp_path: Path
) -> None:
    """Which is said when the number is asked for."""
    tree.grow("main", "a")
    history.update()
    history.table = tmp_path / "svn.tsv"
    history.table.write_text(f"2001\tmain\t{'0' * 40}\n")

    error = refused(history, "r2001")

    assert "2001" in str(error)
    assert error.unknown


# -------------------------------------------------------------------------------------- the index


def truth(history: History) -> dict[str, list[str]]:
    """By branch, its first-parent line as git tells it, oldest first."""
    return {
        name: history.read("rev-list", "--first-parent", "--reverse", name).split()
        for name in history.branches()
    }


def indexed(history: History) -> dict[str, list[str]]:
    """The same as the index tells it."""
    lines = {}
    with open_index(history) as index:
        for name, (_, number) in index.branches.items():
            line = index.line(name)
            spots = [index.at(line, one) for one in range(1, number + 1)]
            lines[name] = [spot.revision for spot in spots if spot is not None]
            assert index.at(line, number + 1) is None
    return lines


@pytest.mark.parametrize("seed", range(3))
def test_the_index_follows_the_tree_wherever_it_goes(
    tree: Tree, history: History, seed: int
) -> None:
    """Branches grow, fork, are merged, rewritten and removed; the index is as git sees them."""
    chance = random.Random(seed)
    tree.grow("main", *(f"c{i}" for i in range(300)))
    for turn in range(8):
        branches = tree.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").split()
        branch = chance.choice(branches)
        length = int(tree.git("rev-list", "--first-parent", "--count", branch))
        back = f"{branch}~{chance.randrange(length // 2)}"
        texts = [f"t{turn}.{i}" for i in range(chance.randint(1, 30))]
        match chance.randrange(6):
            case 0:
                tree.grow(f"stable/{turn}", *texts, upon=f"{back}^0")
            case 1:  # rewritten
                tree.grow(branch, *texts, upon=f"{back}^0")
            case 2:  # cut short
                tree.git("branch", "--quiet", "--force", branch, back)
            case 3 if branch != "main":
                tree.git("branch", "--quiet", "-D", branch)
            case 4:  # the other's line becomes this one's side
                other = chance.choice(branches)
                tree.grow("main", *texts, merged=f"{other}^0")
            case _:
                tree.grow(branch, *texts)
        history.update()
        assert indexed(history) == truth(history)

    count = sqlite3.connect(place(history))
    with count:
        [(commits,)] = count.execute("SELECT COUNT(*) FROM commits").fetchall()
    count.close()
    assert commits == len({one for line in truth(history).values() for one in line})


def test_a_rewritten_commit_is_no_longer_named(tree: Tree, history: History) -> None:
    """Though the clone still has it."""
    one, two = tree.grow("main", "a", "b\n\nsvn path=/head/; revision=2001")
    history.update()
    assert found(history, "n2") == found(history, "r2001") == two
    [new] = tree.grow("main", "c", upon=one)
    history.update()

    assert history.resolve(two) == two
    assert found(history, "n2") == new
    for name in (two, two[:12], "r2001", f"main-n2-{two[:8]}"):
        assert refused(history, name).unknown


def test_of_times_out_of_order_the_last_commit_in_time_counts(tree: Tree, history: History) -> None:
    """As with `git rev-list --before`: committers' clocks are not always right."""
    times = (BEGIN, BEGIN + 9 * HOUR, BEGIN + 2 * HOUR, BEGIN + 12 * HOUR)
    revisions = []
    for at in times:
        tree.time = at - HOUR
        revisions += tree.grow("main", f"at {at}")
    history.update()

    assert found(history, "2023-11-15T01:00Z") == revisions[2]
    assert found(history, "2023-11-14T23:00Z") == revisions[0]


def test_days_of_a_long_line_are_found_among_odd_clocks(tree: Tree, history: History) -> None:
    """As whoever looks at every commit would find them, before and after a branch is rewritten."""
    chance = random.Random(1)
    whole = [BEGIN + HOUR * i + chance.choice((0, 0, 0, -400, 400)) * HOUR for i in range(2_300)]
    trunk = tree.at("main", whole)
    own = [BEGIN + HOUR * chance.randrange(5_000) for _ in range(1_300)]
    tree.at("stable/14", own, upon=trunk[1_499])
    history.update()
    assert_days(history, chance, {"main": whole, "stable/14": whole[:1_500] + own})

    later = [BEGIN + HOUR * chance.randrange(5_000) for _ in range(30)]
    tree.at("main", later, upon=trunk[1_990])
    tree.git("branch", "--quiet", "--force", "stable/14", trunk[0])
    history.update()
    assert_days(history, chance, {"main": whole[:1_991] + later, "stable/14": whole[:1]})


def assert_days(history: History, chance: random.Random, times: Mapping[str, list[int]]) -> None:
    with open_index(history) as index:
        for branch, of_branch in times.items():
            for _ in range(150):
                until = BEGIN + HOUR * chance.randrange(-500, 5_000)
                spot = index.until(index.line(branch), until)
                there = [number for number, at in enumerate(of_branch, 1) if at <= until]
                assert (spot.number if spot else 0) == max(there, default=0)


@pytest.mark.parametrize("damage", ["garbage", "cut", "other version", "empty"])
def test_a_damaged_index_is_made_anew(tree: Tree, history: History, damage: str) -> None:
    """Nobody has to be told."""
    revisions = tree.grow("main", *(f"c{i}" for i in range(500)))
    history.update()
    assert found(history, "n400") == revisions[399]
    path = place(history)
    match damage:
        case "garbage":
            path.write_bytes(b"not a database " * 1000)
        case "cut":
            path.write_bytes(path.read_bytes()[:5000])
        case "other version":
            database = sqlite3.connect(path)
            database.execute("PRAGMA user_version = 99")
            database.close()
        case _:
            path.write_bytes(b"")

    assert found_in_the_end(history, "n400") == revisions[399]


def found_in_the_end(history: History, name: str) -> str:
    """At once, or the second time where the damage is only met on the way."""
    with contextlib.suppress(HistoryError):
        return found(history, name)
    return found(history, name)


def test_an_index_that_cannot_be_written_gets_a_sentence(tree: Tree, history: History) -> None:
    """Here a folder lies in its place."""
    tree.grow("main", "a")
    history.update()
    place(history).mkdir()

    with pytest.raises(HistoryError, match=r"clone.revisions cannot be used: unable to open"):
        resolve(history, "main", default_branch="main")


def test_what_was_killed_half_way_leaves_nothing_half_done(
    tree: Tree, history: History, tmp_path: Path
) -> None:
    """The next one makes the index as if nobody had begun."""
    revisions = tree.grow("main", *(f"c{i}" for i in range(500)))
    history.update()
    code = (
        "import sys, time; from pathlib import Path\n"
        "from netbisect.store import revision_file\n"
        "from netbisect.store.history import History\n"
        "def wait(*_): print('half way', flush=True); time.sleep(600)\n"
        "revision_file._follow_notes = wait\n"
        "with revision_file.open_index(History(Path(sys.argv[1]), '')): pass\n"
    )
    command = [sys.executable, "-c", code, str(history.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half way\n"
        process.send_signal(signal.SIGKILL)

    assert found(history, "n500") == revisions[499]
    assert indexed(history) == truth(history)


def test_several_at_once_make_one_index(tree: Tree, history: History) -> None:
    """Whoever comes second waits for the first, and finds its work done."""
    revisions = tree.grow("main", *(f"c{i}" for i in range(500)))
    history.update()
    code = (
        "import sys; from pathlib import Path\n"
        "from netbisect.store.history import History\n"
        "from netbisect.store.revisions import commit_named\n"
        "sys.stdin.readline()\n"
        "history = History(Path(sys.argv[1]), '')\n"
        "print(commit_named(history, 'n400', default_branch='main').revision)\n"
    )
    command = [sys.executable, "-c", code, str(history.directory)]
    pipes: Mapping[str, int] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, **pipes, text=True) for _ in range(2)]
    said = [process.communicate("go\n")[0] for process in processes]

    assert said == [f"{revisions[399]}\n"] * 2
    assert indexed(history) == truth(history)


def test_threads_may_ask_while_the_tree_moves(tree: Tree, history: History) -> None:
    """Each answer is of one moment of the tree."""
    revisions = tree.grow("main", *(f"c{i}" for i in range(50)))
    history.update()
    answers: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(found(history, "n50"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(4):
        tree.grow("main", f"more {turn}", upon="main~0" if turn % 2 else revisions[49])
        history.update()
        found(history, "main")
    while len(answers) < 10:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()

    assert set(answers) == {revisions[49]}
