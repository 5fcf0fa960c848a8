"""A bare clone of the tree, read by git alone, one process for each question."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from git import Git, GitCommandError, GitCommandNotFound

_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",  # nobody is there to answer
    "GIT_HTTP_LOW_SPEED_LIMIT": "1",  # a server that has gone silent is given up
    "GIT_HTTP_LOW_SPEED_TIME": "300",
}
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_NONE = "0" * 40
_FIRST, _MOST = 200, 20_000
"""Commits of the first stretch of a walk, and of a later one at most."""


class HistoryError(Exception):
    """The history could not be read; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Step:
    """A commit of a first-parent line, as a walk meets it."""

    revision: str
    at: int
    """Commit time, seconds since the epoch."""
    message: str


class Mirror:
    """The clone of one repository, and what git says of it."""

    def __init__(self, directory: Path, url: str) -> None:
        """Nothing is read yet; `update` makes the clone.

        Args:
            directory: Where the bare clone is, or will be: missing, empty, or made here.
            url: As `git fetch` takes it; a path also.
        """
        self.directory = directory
        self.url = url

    def update(self) -> None:
        """Fetches all branches, tags and notes, and forgets those that are gone.

        Raises:
            HistoryError: the repository cannot be read, it has no commits, or the directory
                holds something else.
        """
        if self.url.startswith("-"):
            raise HistoryError(f"{self.url!r} is no url of a repository")
        if not self.is_clone():
            if self.directory.exists() and any(self.directory.iterdir()):
                raise HistoryError(
                    f"{self.directory} holds something that is no clone of {self.url}; "
                    "an empty or a new directory would be right"
                )
            self._run("init", "--quiet", "--bare", str(self.directory.absolute()))
        what = [f"+refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags", "notes")]
        options = ["--quiet", "--prune", "--no-write-fetch-head"]
        # The graph makes counting 300 000 commits a matter of milliseconds.
        graph = ["-c", "fetch.writeCommitGraph=true"]
        self._run(*graph, "fetch", *options, self.url, *what)
        if not self.references("refs/heads"):
            raise HistoryError(f"the repository {self.url} has no commits yet")

    def is_clone(self) -> bool:
        """Whether there is anything to be read."""
        return (self.directory / "HEAD").is_file() and (self.directory / "objects").is_dir()

    def not_yet(self) -> str:
        """What is to be said where there is not."""
        return f"{self.url} has not been fetched into {self.directory} yet"

    def read(self, *arguments: str, ask: bool = False) -> str:
        """What git says; "" where it is only asked whether, and says no.

        Raises:
            HistoryError: there is no clone, or git cannot answer.
        """
        return self._bytes(*arguments, ask=ask).decode(errors="replace")

    def references(self, *prefixes: str) -> dict[str, str]:
        """By full name, the object that a branch, a tag or another reference names.

        Raises:
            HistoryError: the clone cannot be read.
        """
        said = self.read("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        pairs = (line.split(" ", 1) for line in said.splitlines())
        return {name: revision for revision, name in pairs}

    def walk(self, revision: str) -> Iterator[Step]:
        """A commit and its first parents, newest first, as far as they are asked for.

        Args:
            revision: Full hash.

        Raises:
            HistoryError: the clone cannot be read.
        """
        most = _FIRST
        while revision:
            form = "--format=%H%x00%P%x00%ct%x00%B"
            options = ["-z", "--first-parent", "--no-show-signature", "--no-color", f"-n{most}"]
            said = self.read("log", *options, form, revision, "--").split("\0")
            for at in range(0, len(said) - 3, 4):
                yield Step(said[at], int(said[at + 2]), said[at + 3])
            last = (len(said) // 4 - 1) * 4
            revision = said[last + 1].split(" ")[0]
            most = min(8 * most, _MOST)

    def notes(self, old: str | None, new: str) -> Iterator[tuple[str, str | None]]:
        """Notes that came, changed or went: the commit of each, and its text; None: it went.

        Args:
            old: A commit of notes; None: all notes of `new`.
            new: A later one.

        Raises:
            HistoryError: the clone cannot be read, or has no longer the old commit.
        """
        trees = [_EMPTY_TREE if old is None else f"{old}^{{tree}}", f"{new}^{{tree}}"]
        said = self.read("diff-tree", "-r", "-z", "--raw", "--no-renames", *trees).split("\0")
        changed = [
            (path.replace("/", ""), change.split(" ")[3])
            for change, path in zip(said[::2], said[1::2], strict=False)
        ]
        # A note may only have moved: notes spread over more folders as they become more.
        there = {commit: blob for commit, blob in changed if blob != _NONE}
        yield from ((commit, None) for commit, _ in changed if commit not in there)
        blobs = "".join(f"{blob}\n" for blob in there.values()).encode()
        with tempfile.TemporaryFile() as file:
            file.write(blobs)
            file.seek(0)
            texts = self._bytes("cat-file", "--batch", "--buffer", given=cast(BinaryIO, file))
        begin = 0
        for commit in there:
            end = texts.index(b"\n", begin)
            size = int(texts[begin:end].rpartition(b" ")[2])
            yield commit, texts[end + 1 : end + 1 + size].decode(errors="replace")
            begin = end + size + 2

    # -------------------------------------------------------------------------------- inside

    def _bytes(self, *arguments: str, ask: bool = False, given: BinaryIO | None = None) -> bytes:
        if not self.is_clone():
            raise HistoryError(self.not_yet())
        return self._run(*arguments, ask=ask, given=given)

    def _run(self, *arguments: str, ask: bool = False, given: BinaryIO | None = None) -> bytes:
        try:
            # The directory is named, never searched for: it may lie within another checkout.
            said = Git().execute(
                ["git", *arguments],
                istream=given,
                env={**_ENVIRONMENT, "GIT_DIR": str(self.directory.absolute())},
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        except GitCommandNotFound as error:
            raise HistoryError("git is not installed, or not in PATH") from error
        except GitCommandError as error:
            if ask and error.status == 1:
                return b""
            raise HistoryError(
                f"the repository {self.url} cannot be read: {_last_words(error)}"
            ) from error
        assert isinstance(said, bytes)
        return said


def _last_words(error: GitCommandError) -> str:
    """What git gave as its reason."""
    said = str(error.stderr).strip().removeprefix("stderr: '").removesuffix("'")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    if not reasons:
        return f"git ended with status {error.status}"
    return reasons[0].partition(": ")[2] if ": " in reasons[0] else reasons[0]
