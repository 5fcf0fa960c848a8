"""A bare clone of a repository, read by one git process per query."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import cast

from netbisect.errors import UserError
from netbisect.store.git.raw_commit import RawCommit, parse

_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_HTTP_LOW_SPEED_LIMIT": "1",  # gives up on a silent server
    "GIT_HTTP_LOW_SPEED_TIME": "300",
}
_OLD_SECONDS = 600.0
"""Age of a stale lock: git holds one for seconds, while it writes references or the graph."""
_WRITTEN = ("HEAD", "config", "objects", "packed-refs", "refs")
"""What git writes in a clone; others may be a person's."""
_PROGRESS_SECONDS = 10.0
"""Interval of progress messages during the first fetch."""
_SSH_FAILED = "fatal: Could not read from remote repository."
"""Last message of git about a connection that failed; the line before it says why."""


class HistoryError(UserError):
    """The history cannot be read; the message is one sentence."""


@dataclass(eq=False)
class Mirror:
    """The bare clone of one repository; `update` makes it.

    All methods raise HistoryError if the clone cannot be read.
    """

    directory: Path
    """Folder of the clone; missing, empty, or made by `update`."""
    url: str
    """As `git fetch` takes it, also a path."""
    progress: Callable[[str], None] | None = field(default=None, kw_only=True)
    """Called with a line every 10 seconds during the first fetch."""
    read_seconds = 600.0
    """Time limit of a git command that reads the clone."""
    answer_seconds = 60.0
    """Time limit of a list of the server's branches: some accept a connection and say nothing."""
    fetch_seconds = 6 * 3600.0
    """Time limit of the first fetch: of a large repository over a slow line it takes hours."""
    later_seconds = 3600.0
    """Time limit of other fetches: a night waits for them."""

    def update(self, seconds: float | None = None) -> None:
        """Fetches all branches, tags and notes, and removes those that are gone.

        The fetch ends after `seconds`, or its limit. Raises HistoryError also if there are no
        commits, or the directory holds something else.
        """
        if self.url.startswith("-"):
            raise HistoryError(f"{self.url!r} is not the URL of a repository")
        self._check_directory()
        if self._clean_up() or not self.is_clone():
            self._run("init", "--quiet", "--bare", "--template=", str(self.directory.absolute()))
        refspecs = [f"+refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags", "notes")]
        options = ["--prune", "--no-write-fetch-head", self.url, *refspecs]
        # The graph makes counting 300,000 commits a matter of milliseconds.
        # Its second version counts by dates, which never ends where one of them is 2 ** 64 - 1.
        graph = ["-c", "fetch.writeCommitGraph=true", "-c", "commitGraph.generationVersion=1"]
        heads = self._run("ls-remote", "--heads", self.url, seconds=self.answer_seconds)
        known = bool(self.references())
        limit = seconds or (self.later_seconds if known else self.fetch_seconds)
        if self.progress is None or known:
            self._run(*graph, "fetch", "--quiet", *options, seconds=limit)
        else:
            self._fetch_first([*graph, "fetch", "--progress", *options], limit)
        if not self.references("refs/heads"):
            raise HistoryError(self._why_empty(heads))

    def is_clone(self) -> bool:
        """Whether the directory holds a clone."""
        return all((self.directory / name).exists() for name in ("HEAD", "config", "objects"))

    def not_yet(self) -> str:
        """Error message for a missing clone."""
        return f"{self.url} has not been fetched into {self.directory} yet"

    def read(self, *arguments: str, ask: bool = False) -> str:
        """Standard output of a git command; with `ask`, "" for exit status 1."""
        return self._bytes(*arguments, ask=ask).decode(errors="replace")

    def references(self, *prefixes: str) -> dict[str, str]:
        """Objects that branches, tags and notes point to, by full name of the reference."""
        output = self.read("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        # Not splitlines: names may hold U+2028.
        pairs = (line.split(" ", 1) for line in output.split("\n") if line)
        return {name: revision for revision, name in pairs}

    def line(self, *what: str) -> list[tuple[str, str]]:
        """Commits along first parents, newest first, each with its first parent; "" without one.

        `what` are arguments of `git rev-list`.
        """
        output = self.read("rev-list", "--first-parent", "--parents", *what, "--")
        found = (line.split(" ") for line in output.splitlines())
        return [(one[0], one[1] if len(one) > 1 else "") for one in found]

    def commits(self, revisions: Sequence[str]) -> Iterator[RawCommit]:
        """Commits by full hash, in the order given, whatever bytes they hold."""
        for revision, raw in zip(revisions, self._objects(revisions), strict=True):
            yield parse(revision, raw)

    def _check_directory(self) -> None:
        """Raises HistoryError if the directory holds neither a clone nor the beginning of one."""
        begun = (self.directory / "refs").is_dir()  # without a template, git makes it first
        empty = not self.directory.exists() or not any(self.directory.iterdir())
        if not (empty or begun or self.is_clone()):
            raise HistoryError(
                f"{self.directory} is neither empty nor a clone of {self.url}; expected "
                "an empty or a new directory"
            )

    def _clean_up(self) -> bool:
        """Removes locks of a git that was killed, and files that a power cut emptied.

        Returns whether there were empty files. All references go before them, so that the next
        fetch checks all objects, and fetches them again if any is missing.
        """
        empty = []
        for path, status in self._old_files():
            if path.suffix == ".lock":
                path.unlink(missing_ok=True)
            elif not status.st_size and _is_written_whole(path.relative_to(self.directory)):
                empty.append(path)
        if empty:
            (self.directory / "packed-refs").unlink(missing_ok=True)
            for folder in ("refs/heads", "refs/tags", "refs/notes", "objects/info"):
                shutil.rmtree(self.directory / folder, ignore_errors=True)
        for path in empty:
            path.unlink(missing_ok=True)
        return bool(empty)

    def _old_files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Files of git that have not changed for `_OLD_SECONDS`."""
        for folder, _, names in os.walk(self.directory):  # unlike rglob, ignores a removed folder
            for path in (Path(folder, name) for name in names):
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    if time.time() - status.st_mtime > _OLD_SECONDS:
                        yield path, status

    def _fetch_first(self, arguments: Sequence[str], seconds: float) -> None:
        """Fetches everything, and reports the progress that git prints."""
        assert self.progress is not None
        self.progress(f"fetching {self.url} for the first time, which takes minutes if it is large")
        with self._started(seconds, *arguments) as process:
            printed, reported = deque[str](maxlen=20), time.monotonic()
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.close()
            # git ends a line of progress with a carriage return.
            with TextIOWrapper(process.stderr, "utf-8", "replace") as lines:
                for line in lines:
                    printed.append(line)
                    if time.monotonic() - reported >= _PROGRESS_SECONDS:
                        self.progress(line.strip())
                        reported = time.monotonic()
            status = process.wait()
        if status:
            raise HistoryError(
                f"the repository {self.url} cannot be read: {_reason(printed, status)}"
            )
        self.progress(f"{self.url} is fetched")

    def _why_empty(self, heads: bytes) -> str:
        """Why no branch could be fetched, although the server listed these."""
        if heads:
            return (
                f"the repository {self.url} is shallow: without the older part of its history "
                "nothing can be fetched from it; run `git fetch --unshallow` in it"
            )
        return f"the repository {self.url} has no commits yet"

    def _objects(self, names: Sequence[str]) -> Iterator[bytes]:
        """Contents of objects, in that order."""
        if not names:
            return
        given = "".join(f"{name}\n" for name in names).encode()
        output = self._bytes("cat-file", "--batch", "--buffer", given=given)
        begin = 0
        for name in names:
            end = output.index(b"\n", begin)
            size = output[begin:end].rpartition(b" ")[2]
            if not size.isdigit():
                raise HistoryError(f"the clone of {self.url} lacks {name}")
            yield output[end + 1 : end + 1 + int(size)]
            begin = end + int(size) + 2

    def _bytes(self, *arguments: str, ask: bool = False, given: bytes = b"") -> bytes:
        if not self.is_clone():
            raise HistoryError(self.not_yet())
        return self._run(*arguments, ask=ask, given=given)

    def _run(
        self,
        *arguments: str,
        ask: bool = False,
        given: bytes = b"",
        seconds: float | None = None,
    ) -> bytes:
        """Standard output of a git command; exit status 1 is an empty answer if `ask`.

        `given` is its standard input, `seconds` its time limit instead of `read_seconds`.
        """
        with self._started(seconds or self.read_seconds, *arguments) as process:
            output, errors = process.communicate(given)
        if ask and process.returncode == 1:
            return b""
        if process.returncode:
            lines = errors.decode(errors="replace").splitlines()
            raise HistoryError(
                f"the repository {self.url} cannot be read: {_reason(lines, process.returncode)}"
            )
        return output

    @contextlib.contextmanager
    def _started(self, seconds: float, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A git command; it and its children are killed after so many seconds, or on an error."""
        # Importing GitPython runs git, and fails without it.
        try:
            from git import Git  # noqa: PLC0415 - see above
        except ImportError as error:
            raise HistoryError("git is not installed, or not in PATH") from error
        # GitPython's own time limit kills git alone, and needs a `ps` that FreeBSD has not.
        # GIT_DIR: the clone may lie within another checkout.
        started = Git().execute(
            ["git", *arguments],
            istream=subprocess.PIPE,
            env={**_ENVIRONMENT, "GIT_DIR": str(self.directory.absolute())},
            as_process=True,
            start_new_session=True,
        )
        process = cast("subprocess.Popen[bytes]", started.proc)
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            _kill(process)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            with process:
                try:
                    yield process
                except BaseException:
                    _kill(process)
                    raise
        finally:
            timer.cancel()
        if expired.is_set():
            command = next(one for one in arguments if one[0] != "-" and "=" not in one)
            raise HistoryError(
                f"`git {command}` for {self.url} was killed after its time limit, {seconds:g} s"
            )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _is_written_whole(path: Path) -> bool:
    """Whether git writes this file elsewhere, moves it here, and never leaves it empty."""
    marks = (".keep", ".promisor")  # of packs, also a person's
    return (
        path.parts[0] in _WRITTEN
        and not path.name.startswith("tmp_")
        and path.name != "alternates"
        and path.suffix not in marks
    )


def _reason(lines: Iterable[str], status: int) -> str:
    """The error message among the lines that git and ssh printed."""
    printed = [line.strip() for line in lines if line.strip()]
    if _SSH_FAILED in printed[1:]:
        printed = [printed[printed.index(_SSH_FAILED, 1) - 1]]
    reasons = [line for line in printed if line.startswith(("fatal:", "error:"))] or printed
    if not reasons:
        return f"git ended with status {status}"
    return reasons[0].partition(": ")[2] if ": " in reasons[0] else reasons[0]
