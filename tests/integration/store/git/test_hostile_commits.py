"""Malformed commits, shallow repositories and Buildbot's poller."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hostile_commits import HostileBranch
from hypothesis import given
from hypothesis import strategies as st
from real_master import IdleMaster
from twisted.internet import defer

from netbisect.bisect.model.entities import Commit
from netbisect.localbisect.repository import Repository, RepositoryError
from netbisect.steps.scheduler import change_sources
from netbisect.store.git.history import History
from netbisect.store.git.mirror import HistoryError
from netbisect.store.git.raw_commit import LATEST, MOST_BYTES, parse
from netbisect.store.git.resolve import commit_named


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileBranch:
    return HostileBranch(tmp_path_factory.mktemp("hostile") / "tree")


@pytest.fixture(scope="module")
def history(hostile: HostileBranch, tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(tmp_path_factory.mktemp("clone") / "tree.git", str(hostile.folder))
    history.update()
    return history


@pytest.fixture(scope="module")
def commits(hostile: HostileBranch, history: History) -> dict[str, Commit]:
    found = history.between(hostile.base, "main")
    assert [commit.revision for commit in found] == hostile.line
    return {name: found[i] for i, name in enumerate(hostile.revisions)}


def test_unreadable_commits_are_shown_by_hash(commits: dict[str, Commit]) -> None:
    subjects = {name: commit.subject for name, commit in commits.items()}

    assert (subjects["utf-16"], commits["utf-16"].body) == ("in UTF-16", "or not")
    assert subjects["latin 1"] == "café"
    assert subjects["unknown encoding"] == "caf\ufffd"
    assert subjects["encoding unicode_escape"] == "\ufffd\\x00"
    assert subjects["no UTF-8"] == "caf\ufffd \ufffd\ufffd"
    assert subjects["NUL"] == "one\ufffdtwo"
    assert commits["NUL"].author == "N\ufffdL"
    assert subjects["control"] == "bell \x07 escape \x1b[31m line \u2028 return more"
    assert subjects["like output of git"] == "1\t2\ta/path"
    for name in ("no message", "blank", "unterminated"):
        assert subjects[name] == commits[name].revision[:12]
    assert (commits["no author"].author, commits["no author"].email) == ("", "")
    assert commits["repeated headers"].email == commits["signed"].email == "a@example.org"
    assert len(subjects["gigantic"]) + len(commits["gigantic"].body) < MOST_BYTES


def test_every_name_on_the_branch_is_found(hostile: HostileBranch, history: History) -> None:
    for number, revision in enumerate([hostile.base, *hostile.line], 1):
        for name in (f"n{number}", revision[:12]):
            assert commit_named(history, name, default_branch="main").revision == revision
        assert "\0" not in history.committer(revision)


@given(st.binary(), st.lists(st.sampled_from([b"author ", b"<", b">", b" 1", b"\n", b"\0"])))
def test_any_bytes_are_a_commit(noise: bytes, parts: list[bytes]) -> None:
    commit = parse("f" * 40, b"author " + b"".join(parts) + noise)

    assert 0 <= commit.at <= LATEST
    assert commit.subject
    assert "\0" not in f"{commit.author}{commit.email}{commit.message}"


def test_a_shallow_repository_is_recognized(hostile: HostileBranch, tmp_path: Path) -> None:
    """Git cannot fetch from it. A search in it reports the missing commits."""
    shallow = tmp_path / "shallow"
    command = ["git", "clone", "--quiet", "--depth=3", f"file://{hostile.folder}", str(shallow)]
    subprocess.run(command, check=True)
    for url in (str(shallow), f"file://{shallow}"):
        with pytest.raises(HistoryError, match=r"is shallow: .*`git fetch --unshallow` in it"):
            History(tmp_path / "clone", url).update()

    repository = Repository.containing(shallow)
    before, tip = hostile.line[-3], hostile.line[-1]
    with pytest.raises(RepositoryError, match="the repository is shallow: `git fetch --unshallow`"):
        repository.resolve(hostile.base, "--good")
    assert len(repository.commits_between(before, tip, names=(before, tip))) == 2
    assert repository.commit(before).revision == before


class Poller(IdleMaster):
    """Buildbot's poller in a real master, with a branch that grows by all malformed commits."""

    def test_every_commit_becomes_a_change(self) -> defer.Deferred[None]:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        hostile = HostileBranch(folder / "tree")

        def move(revision: str) -> None:
            git = ["git", "-C", str(hostile.folder), "update-ref", "refs/heads/main"]
            subprocess.run([*git, revision], check=True)

        async def work() -> None:
            move(hostile.base)
            poller = change_sources.GitPoller(
                repourl=str(hostile.folder),
                branches=["main"],
                workdir=str(hostile.folder.with_name("poller.git")),
                pollInterval=3600,
                pollAtLaunch=False,
            )
            await self.start_idle(folder, change_source=[poller])
            await poller.poll()
            move(hostile.tip)
            await poller.poll()
            changes = await self.master.data.get(("changes",))
            changes.sort(key=lambda one: one["changeid"])
            assert [one["revision"] for one in changes] == hostile.line
            assert {tuple(one["files"]) for one in changes} == {("level",)}
            now = self.master.reactor.seconds()
            assert all(0 <= one["when_timestamp"] <= now for one in changes)
            assert changes[0]["comments"] == "in UTF-16\n\nor not"
            assert changes[0]["author"] == "A U Thor <a@example.org>"

        return defer.ensureDeferred(work())
