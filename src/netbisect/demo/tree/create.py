"""Writes the sample tree's history into a bare git repository."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from netbisect.demo.tree.story import COMMITTERS, QUIET_WEEKS, Files, StoryCommit, story

_FIRST_DAY = 1_735_776_000
"""2025-01-02, a Thursday."""
_STEP = 5_000
"""Seconds between two commits."""
_HIDDEN = "refs/story/main"


@dataclass(frozen=True, slots=True)
class SampleTree:
    """A repository with commits that are not yet on its branch."""

    repository: Path
    revisions: tuple[str, ...]
    """The whole first-parent line, oldest first."""
    roles: dict[str, str]
    """Roles by revision, for tests and for the final line of the demonstration."""

    def land(self, count: int) -> str:
        """Moves `main` to the first `count` commits; returns its new head."""
        head = self.revisions[count - 1]
        _git(self.repository, "update-ref", "refs/heads/main", head)
        return head


def _git(repository: Path, *arguments: str, feed: bytes | None = None) -> str:
    return subprocess.run(
        ["git", "--git-dir", str(repository), *arguments],
        input=feed,
        capture_output=True,
        check=True,
    ).stdout.decode()


def base_files() -> Files:
    """The files of the first commit."""
    base = Path(str(resources.files("netbisect.demo"))) / "tree" / "base"
    return {
        path.relative_to(base).as_posix(): path.read_text()
        for path in sorted(base.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


class _Writer:
    """Feeds git fast-import."""

    def __init__(self) -> None:
        self.stream = bytearray()
        self.marks = 0
        self.clock = _FIRST_DAY

    def _data(self, text: str) -> None:
        raw = text.encode()
        self.stream += f"data {len(raw)}\n".encode() + raw + b"\n"

    def commit(
        self, ref: str, author: str, message: str, files: Files, parents: tuple[int, ...]
    ) -> int:
        self.marks += 1
        self.clock += _STEP
        who = f"{COMMITTERS[author]} {self.clock} +0000"
        head = f"commit {ref}\nmark :{self.marks}\nauthor {who}\ncommitter {who}\n"
        self.stream += head.encode()
        self._data(message)
        for word, parent in zip(("from", *["merge"] * len(parents)), parents, strict=False):
            self.stream += f"{word} :{parent}\n".encode()
        self.stream += b"deleteall\n"
        for path, text in sorted(files.items()):
            self.stream += f"M 644 inline {path}\n".encode()
            self._data(text)
        return self.marks


def _message(commit: StoryCommit) -> str:
    return f"{commit.subject}\n\n{commit.body}" if commit.body else f"{commit.subject}\n"


def create(repository: Path, commits: Sequence[StoryCommit] | None = None) -> SampleTree:
    """Creates a bare repository with `main` after the first quiet weeks."""
    commits = story() if commits is None else commits
    subprocess.run(
        ["git", "init", "-q", "--bare", "--initial-branch=main", str(repository)], check=True
    )
    writer = _Writer()
    files = base_files()
    head = writer.commit(_HIDDEN, "network", "Import a small tree\n", files, ())
    for commit in commits:
        parents: tuple[int, ...] = (head,)
        if commit.side:
            side_files, side = dict(files), head
            for one in commit.side:
                for edit in one.edits:
                    edit(side_files)
                side = writer.commit(
                    "refs/story/side", one.author, _message(one), side_files, (side,)
                )
            files, parents = side_files, (head, side)
        for edit in commit.edits:
            edit(files)
        head = writer.commit(_HIDDEN, commit.author, _message(commit), files, parents)
    _git(repository, "fast-import", "--quiet", "--force", feed=bytes(writer.stream))
    line = _git(repository, "rev-list", "--first-parent", "--reverse", _HIDDEN).split()
    roles = {
        revision: commit.role
        for revision, commit in zip(line[1:], commits, strict=True)
        if commit.role
    }
    tree = SampleTree(repository, tuple(line), roles)
    tree.land(QUIET_WEEKS)
    return tree
