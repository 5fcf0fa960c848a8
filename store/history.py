"""The tree's history: first-parent lines of branches as Commits, from a bare clone.

git does the walking, one process for any number of commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from netbisect.bisect.model import Commit
from netbisect.store.mirror import HistoryError, Mirror

__all__ = ["History", "HistoryError"]

_FORMAT = "%H%x00%P%x00%ct%x00%an%x00%ae%x00%s%x00%b%x00"
_FIELDS = _FORMAT.count("%x00")
_CHANGED = re.compile(r"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_SHOWN = 8
"""Branches named in an error; FreeBSD has hundreds."""


class History(Mirror):
    """The history of one repository."""

    def __init__(self, directory: Path, url: str, table: Path | None = None) -> None:
        """Nothing is read yet; `update` makes the clone.

        Args:
            directory: Where the bare clone is, or will be: missing, empty, or made here.
            url: As `git fetch` takes it; a path also.
            table: Which commit was which number of Subversion, where neither notes nor
                messages say so; docs/requests.md has its form.
        """
        super().__init__(directory, url)
        self.table = table

    def branches(self) -> list[str]:
        """Names of all branches, in order.

        Raises:
            HistoryError: the clone cannot be read.
        """
        refs = self.read("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
        return refs.split()

    def head(self, branch: str) -> str:
        """Full hash of the newest commit of a branch.

        Raises:
            HistoryError: there is no such branch, or the clone cannot be read.
        """
        revision = self._lookup(f"refs/heads/{branch}")
        if revision is None:
            names = self.branches()
            if not names:
                raise HistoryError(self.not_yet())
            others = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise HistoryError(
                f"there is no branch {branch!r} in {self.url}; "
                f"there is {', '.join(names[:_SHOWN])}{others}"
            )
        return revision

    def resolve(self, name: str) -> str:
        """Full hash of the commit that a branch, a tag or a short hash means.

        Raises:
            HistoryError: it means none, or the clone cannot be read.
        """
        for reference in (f"refs/heads/{name}", f"refs/tags/{name}", name):
            revision = self._lookup(reference)
            if revision is not None:
                return revision
        raise HistoryError(
            f"{name!r} is no branch, tag or commit of {self.url}; "
            "if it is new, it may not have been fetched yet"
        )

    def commit(self, revision: str) -> Commit:
        """One commit, by its full hash, short hash, branch or tag.

        Raises:
            HistoryError: as `resolve`.
        """
        revision = self.resolve(revision)
        [(commit, _)] = self._log("-1", revision)
        return replace(commit, number=self._number(revision))

    def described(self, numbers: Mapping[str, int]) -> list[Commit]:
        """Commits whose numbers are known, in the order given.

        Args:
            numbers: By full hash.

        Raises:
            HistoryError: one of them is unknown, or the clone cannot be read.
        """
        found = self._log("--no-walk=unsorted", *numbers) if numbers else ()
        return [replace(commit, number=numbers[commit.revision]) for commit, _ in found]

    def committer(self, revision: str) -> str:
        """The mail address of who committed it, which need not be its author's.

        Raises:
            HistoryError: as `resolve`.
        """
        return self.read("log", "-1", "--format=%ce", self.resolve(revision)).strip()

    def between(self, good: str, bad: str, *, paths: bool = True) -> list[Commit]:
        """The commits that lead from `good` to `bad` on the first-parent line, oldest first.

        `good` is left out and `bad` is the last one; a merge counts as one commit, with what it
        changed against its first parent.

        Args:
            good: The older one.
            bad: The newer one.
            paths: Whether their paths and lines are wanted, which take git most of its time.

        Raises:
            HistoryError: one of them is unknown, or `good` is not on the first-parent line
                that leads to `bad`.
        """
        first, last = self.resolve(good), self.resolve(bad)
        if first == last:
            return []
        found = list(self._log(f"{first}..{last}", paths=paths))
        if not found or found[-1][1] != first:
            if any(parent == last for _, parent in self._log(f"{last}..{first}")):
                hint = "they are the other way round"
            else:
                hint = "the two must be on one line of first parents, the older one first"
            raise HistoryError(f"{good} does not lead to {bad} in {self.url}: {hint}")
        number = self._number(last)
        commits = [replace(commit, number=number - i) for i, (commit, _) in enumerate(found)]
        return commits[::-1]

    def since(self, branch: str, at: float, *, paths: bool = True) -> list[Commit]:
        """The commits of a branch from that moment on, on the first-parent line, oldest first.

        Args:
            branch: Its name.
            at: Seconds since the epoch, by the commits' own time.
            paths: As for `between`.

        Raises:
            HistoryError: there is no such branch, or the clone cannot be read.
        """
        head = self.head(branch)
        found = list(self._log(f"--since=@{int(at)}", head, paths=paths))
        number = self._number(head)
        return [replace(commit, number=number - i) for i, (commit, _) in enumerate(found)][::-1]

    def stretch(self, first: str, last: str) -> list[str]:
        """Full hashes from `first` to `last` on the first-parent line, newest first.

        Raises:
            HistoryError: one of them is unknown, or `first` is not on the first-parent line
                that leads to `last`.
        """
        begin, end = self.resolve(first), self.resolve(last)
        said = self.read("rev-list", "--first-parent", "--parents", f"{begin}..{end}")
        walked = [line.split() for line in said.splitlines()]
        if (walked[-1][1:2] if walked else [end]) != [begin]:
            raise HistoryError(f"{first} does not lead to {last} in {self.url}")
        return [*(revision for revision, *_ in walked), begin]

    # -------------------------------------------------------------------------------- inside

    def _number(self, revision: str) -> int:
        return int(self.read("rev-list", "--first-parent", "--count", revision))

    def _log(self, *what: str, paths: bool = True) -> Iterator[tuple[Commit, str]]:
        """Commits along first parents, newest first, each with its first parent's hash.

        Their numbers are still 0.
        """
        options = ["-z", "--first-parent", "--no-renames", "--no-show-signature"]
        options.append("--numstat" if paths else "--no-patch")
        text = self.read("log", *options, "--no-color", f"--format={_FORMAT}", *what, "--")
        tokens = text.split("\0")
        position = 0
        while position < len(tokens):
            if not tokens[position]:
                position += 1
                continue
            revision, parents, at, author, email, subject, body = tokens[
                position : position + _FIELDS
            ]
            position += _FIELDS
            changes: list[str] = []
            lines = 0
            while position < len(tokens):
                changed = _CHANGED.fullmatch(tokens[position])
                if changed:
                    changes.append(changed[3])
                    lines += sum(int(count) for count in changed.group(1, 2) if count != "-")
                elif tokens[position]:
                    break
                position += 1
            yield (
                Commit(
                    revision=revision,
                    number=0,
                    subject=subject,
                    body=body.strip("\n"),
                    author=author,
                    email=email,
                    at=float(at),
                    paths=tuple(changes),
                    lines=lines,
                ),
                parents.split(" ")[0],
            )

    def _lookup(self, reference: str) -> str | None:
        if reference.startswith("-"):
            return None
        arguments = ("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
        return self.read(*arguments, ask=True).strip() or None
