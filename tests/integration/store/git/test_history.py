"""History of commits, read from real repositories."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from programs import git

from netbisect.store.git.history import History
from netbisect.store.git.mirror import HistoryError


class Repository:
    """A repository whose commits are a second apart."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = 1_700_000_000
        directory.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        self.time += 1
        people = {"AUTHOR": ("Åsa Ōno", "asa@example.org"), "COMMITTER": ("C", "c@example.org")}
        variables = {f"GIT_{one}_DATE": f"{self.time} +0000" for one in people}
        for one, (name, email) in people.items():
            variables |= {f"GIT_{one}_NAME": name, f"GIT_{one}_EMAIL": email}
        return git(self.directory, *arguments, env={**os.environ, **variables})

    def commit(self, message: str, **files: str | bytes) -> str:
        for name, content in files.items():
            path = self.directory / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "tree")


def test_the_first_fetch_reports_its_progress(tree: Repository, tmp_path: Path) -> None:
    """Later fetches report nothing."""
    tree.commit("first", a="1\n")
    url = f"file://{tree.directory}"
    messages: list[str] = []
    history = History(tmp_path / "clone", url, progress=messages.append)
    history.update()

    assert messages[0].startswith(f"fetching {url} for the first time")
    assert messages[-1] == f"{url} is fetched"
    assert history.branches() == ["main"]
    del messages[:]
    history.update()
    assert messages == []


def test_git_is_killed_after_its_time_limit(tree: Repository, tmp_path: Path) -> None:
    tree.commit("first", a="1\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        history = History(tmp_path / "clone", f"git://127.0.0.1:{silent.getsockname()[1]}/tree")
        history.answer_seconds = 0.3
        with pytest.raises(HistoryError, match=r"^`git ls-remote` for git://.* limit, 0.3 s$"):
            history.update()
    hook = tmp_path / "clone" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexec sleep 60\n")
    hook.chmod(0o755)
    history = History(tmp_path / "clone", f"file://{tree.directory}", progress=lambda _: None)
    with pytest.raises(HistoryError, match=r"^`git fetch` for file://.* time limit, 0.3 s$"):
        history.update(0.3)


def test_a_commit_has_author_files_position_and_diff(tree: Repository, history: History) -> None:
    first = tree.commit("first", a="1\n2\n")
    revision = tree.commit(
        "net: forward faster\n\nLonger text\nin two lines.\n\nReviewed by: b\n",
        a="1\n3\n",
        sys__net__if_DOT_c="x\n",
        logo=b"\0\1\2",
    )
    at = float(tree.git("log", "-1", "--format=%ct"))
    history.update()

    commit = history.commit("main")

    assert (commit.revision, commit.number) == (revision, 2)
    assert commit.subject == "net: forward faster"
    assert commit.body == "Longer text\nin two lines.\n\nReviewed by: b"
    assert (commit.author, commit.email) == ("Åsa Ōno", "asa@example.org")
    assert commit.at == at
    assert commit.paths == ("a", "logo", "sys/net/if.c")
    assert commit.lines == 3
    diff = history.diff(revision, ["a"]).splitlines()
    assert (diff[0], diff[-2:]) == ("diff --git a/a b/a", ["-2", "+3"])
    assert history.diff(first, ["a"]).endswith("+2\n")
    assert history.diff(revision, ["b"]) == ""
    odd = tree.commit("names are no patterns of git", **{"*": "1\n", ":x": "2\n", "other": "3\n"})
    history.update()
    added = [line for line in history.diff(odd, ["*", ":x"]).splitlines() if line[0] == "+"]
    assert added == ["+++ b/*", "+1", "+++ b/:x", "+2"]


def test_between_lists_commits_after_good_up_to_bad(tree: Repository, history: History) -> None:
    """A stretch includes both ends, newest first."""
    revisions = [tree.commit(f"change {i}", **{f"f{i}": "x\n"}) for i in range(6)]
    tree.git("checkout", "--quiet", "-b", "side", revisions[0])
    other = tree.commit("aside", b="b")
    history.update()

    commits = history.between(revisions[1], revisions[4])

    assert [commit.revision for commit in commits] == revisions[2:5]
    assert [commit.number for commit in commits] == [3, 4, 5]
    assert [commit.paths for commit in commits] == [("f2",), ("f3",), ("f4",)]
    assert commits == [history.commit(revision) for revision in revisions[2:5]]
    assert history.between(revisions[1], revisions[1]) == []
    assert history.stretch(revisions[1], revisions[3]) == revisions[3:0:-1]
    assert history.stretch(revisions[1], revisions[1]) == revisions[1:2]
    for first, last in ((revisions[2], revisions[0]), (revisions[1], other)):
        with pytest.raises(HistoryError, match=f"{first} does not lead to {last}"):
            history.stretch(first, last)


def test_commits_since_another_include_those_below_a_wrong_date(
    tree: Repository, history: History
) -> None:
    """A wrong date hides one commit at most."""
    first = tree.commit("first")
    tree.git("branch", "stable/15")
    culprit = tree.commit("culprit")
    tree.git("checkout", "--quiet", "stable/15")
    merged = tree.commit("merged")
    now, tree.time = tree.time, 1_000_000_000
    tree.commit("of 2001")
    tree.time = now
    last = tree.commit("last")
    history.update()

    found = history.since("stable/15", history.commit(culprit))

    assert [(one.revision, one.number) for one in found] == [(merged, 2), (last, 4)]
    assert len(history.since("stable/15", history.commit(first))) == 2


def test_a_merge_is_one_commit_with_all_its_changes(tree: Repository, history: History) -> None:
    base = tree.commit("base", a="1\n")
    tree.git("checkout", "--quiet", "-b", "side")
    side = [tree.commit(f"side {i}", **{f"s{i}": "1\n2\n"}) for i in range(3)]
    tree.git("checkout", "--quiet", "main")
    before = tree.commit("on main", b="1\n")
    tree.git("merge", "--quiet", "--no-ff", "--message", "merge side", "side")
    merge = tree.git("rev-parse", "HEAD")
    after = tree.commit("empty")
    history.update()

    commits = history.between(base, "main")

    assert [commit.revision for commit in commits] == [before, merge, after]
    assert [commit.number for commit in commits] == [2, 3, 4]
    assert commits[1].paths == ("s0", "s1", "s2")
    assert commits[1].lines == 6
    assert (commits[2].paths, commits[2].lines) == ((), 0)
    assert [commit.revision for commit in history.between(base, "side")] == side
    with pytest.raises(HistoryError, match="must be on one line of first parents"):
        history.between(side[0], "main")


def test_updates_follow_rewritten_and_removed_branches(tree: Repository, history: History) -> None:
    first = tree.commit("first", a="1\n")
    tree.git("branch", "stable/15")
    history.update()
    assert (history.branches(), history.head("main")) == (["main", "stable/15"], first)

    tree.commit("to be rewritten", a="2\n")
    history.update()
    tree.git("reset", "--quiet", "--hard", first)
    second = tree.commit("second", a="3\n")
    tree.git("branch", "--quiet", "-D", "stable/15")
    tree.git("tag", "release/1.0")
    history.update()

    assert (history.branches(), history.head("main")) == (["main"], second)
    assert history.resolve("release/1.0") == second
    assert history.resolve(second[:9]) == second
    assert history.resolve("main~1") == first


def test_old_locks_of_a_killed_git_are_removed(tree: Repository, history: History) -> None:
    """A young one may be that of a git that runs. Empty marks of packs are no damage."""
    tree.commit("first")
    history.update()
    second = tree.commit("second")
    lock = history.directory / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(HistoryError, match="exists"):
        history.update()
    keep = history.directory / "objects" / "pack" / "pack-1.keep"
    keep.touch()
    for path in (lock, keep):
        os.utime(path, (1e9, 1e9))
    history.update()
    assert (history.head("main"), keep.exists()) == (second, True)


@pytest.mark.parametrize("made", [(), ("refs",), ("refs", "HEAD", "config")])
def test_a_clone_is_made_where_git_init_was_killed(
    tree: Repository, history: History, made: tuple[str, ...]
) -> None:
    head = tree.commit("first")
    history.directory.mkdir()
    git(history.directory, "init", "--quiet", "--bare", "--template=", ".")
    for path in set(history.directory.iterdir()) - {history.directory / name for name in made}:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    history.update()

    assert history.head("main") == head


@pytest.mark.parametrize(
    "emptied",
    [
        *("HEAD", "config", "packed-refs", "refs/heads/*"),
        *("objects/??/*", "objects/pack/*.pack", "objects/pack/*.idx", "objects/info/*/*"),
    ],
)
def test_a_clone_recovers_from_files_that_a_power_cut_emptied(
    tree: Repository, history: History, emptied: str
) -> None:
    """It has packed and loose objects and references."""
    tree.commit("first", a="1\n")
    tree.git("branch", "stable/15")
    history.update()
    git(history.directory, "gc", "--quiet")
    tree.commit("second", a="2\n")
    head = tree.commit("third", b="3\n")
    history.update()
    files = list(history.directory.glob(emptied))
    for path in files:
        path.chmod(0o600)
        path.write_bytes(b"")
        os.utime(path, (1e9, 1e9))

    history.update()

    assert files
    assert (history.head("main"), history.branches()) == (head, ["main", "stable/15"])
    assert git(history.directory, "fsck", "--full") == ""
    assert [one.subject for one in history.between("main~2", "main")] == ["second", "third"]


def test_gc_may_remove_a_folder_during_an_update(
    tree: Repository, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replacement of `os.scandir` makes the removal certain."""
    tree.commit("first")
    history.update()
    listed = os.scandir

    def scandir(path: os.PathLike[str] | str) -> object:
        if os.fspath(path).endswith("objects/pack"):
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    history.update()


def test_unknown_names_are_reported(tree: Repository, history: History) -> None:
    first = tree.commit("first", a="1\n")
    second = tree.commit("second", a="2\n")
    tree.git("branch", "stable/15")
    history.update()

    with pytest.raises(HistoryError) as caught:
        history.head("main~1")
    assert str(caught.value) == (
        f"there is no branch 'main~1' in {tree.directory}; found main, stable/15"
    )
    for name in ("nothing", "0" * 40, "-x", "main..main", ""):
        with pytest.raises(HistoryError, match=r"is not a branch, tag or|cannot be read"):
            history.resolve(name)
    with pytest.raises(HistoryError, match="they are the other way round"):
        history.between(second, first)


def test_an_unreadable_or_empty_repository_and_a_full_folder_are_reported(
    tree: Repository, tmp_path: Path
) -> None:
    """A failed first update can be repeated."""
    history = History(tmp_path / "clone", str(tmp_path / "nowhere"))
    with pytest.raises(HistoryError) as caught:
        history.update()

    assert str(caught.value).startswith(f"the repository {tmp_path}/nowhere cannot be read: ")
    assert "does not appear to be a git repository" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(HistoryError, match="is not the URL of a repository"):
        History(tmp_path / "clone", "--upload-pack=true").update()
    with pytest.raises(HistoryError, match=r"read: connect to host .* Connection refused$"):
        History(tmp_path / "clone", "ssh://127.0.0.1:1/src").update()
    history.url = str(tree.directory)
    with pytest.raises(HistoryError, match=r"has no commits yet$"):
        history.update()
    with pytest.raises(HistoryError, match="has not been fetched into"):
        history.head("main")

    revision = tree.commit("first", a="1\n")
    history.update()
    assert history.head("main") == revision

    directory = tmp_path / "full"
    directory.mkdir()
    (directory / "notes").write_text("mine")

    with pytest.raises(HistoryError, match="is neither empty nor a clone of"):
        History(directory, str(tree.directory)).update()

    assert [path.name for path in directory.iterdir()] == ["notes"]


def test_a_clone_inside_a_checkout_is_read(tree: Repository, tmp_path: Path) -> None:
    revision = tree.commit("the tree", a="1\n")
    checkout = Repository(tmp_path / "checkout")
    checkout.commit("something else", b="1\n")
    history = History(checkout.directory / "clone", str(tree.directory))

    history.update()

    assert history.head("main") == revision
    assert checkout.git("log", "--format=%s") == "something else"
