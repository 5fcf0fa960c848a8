"""First-parent history of a repository, as `Commit` objects."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.commit_trailers import MergeStatus, merge_status
from netbisect.bisect.model.entities import Commit
from netbisect.store.git.mirror import HistoryError, Mirror

__all__ = ["History", "HistoryError"]

_CHANGED = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_STAT = "--stat=75,75,12"
"""Columns and files of a diffstat."""
_SHOWN = 8
"""Branches named in an error; FreeBSD has hundreds."""


class NoCommitError(HistoryError):
    """The clone has no such commit."""


@dataclass(eq=False)
class History(Mirror):
    """The history of one repository.

    All methods raise HistoryError if the clone cannot be read, or has no such branch or commit.
    """

    table: Path | None = None
    """File of Subversion numbers; docs/api.md describes it."""

    def branches(self) -> list[str]:
        """Names of all branches, in order."""
        return [name.removeprefix("refs/heads/") for name in self.references("refs/heads")]

    def head(self, branch: str) -> str:
        """Full hash of the newest commit of a branch."""
        name = f"refs/heads/{branch}"
        revision = self.references(name).get(name)
        if revision is None:
            names = self.branches()
            if not names:
                raise HistoryError(self.not_yet())
            others = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise HistoryError(
                f"there is no branch {branch!r} in {self.url}; "
                f"found {', '.join(names[:_SHOWN])}{others}"
            )
        return revision

    def files_in(self, branch: str, folder: str) -> frozenset[str]:
        """Names of what a folder holds at the head of a branch; none if it is not there."""
        listed = self.read("ls-tree", "--name-only", "-z", self.head(branch), f"{folder}/")
        return frozenset(one.rpartition("/")[2] for one in listed.split("\0") if one)

    def resolve(self, name: str) -> str:
        """Full hash of a branch, a tag or a short hash. Raises NoCommitError if there is none."""
        for reference in (f"refs/heads/{name}", f"refs/tags/{name}", name):
            revision = self.commit_of(reference)
            if revision is not None:
                return revision
        raise NoCommitError(
            f"{name!r} is not a branch, tag or commit of {self.url}; "
            "if it is new, it may not have been fetched yet"
        )

    def commit(self, revision: str) -> Commit:
        """One commit, by its full hash, short hash, branch or tag."""
        revision = self.resolve(revision)
        [commit] = self.described({revision: self.number(revision)})
        return commit

    def number(self, revision: str) -> int:
        """Place of a commit, by its full hash, on its first-parent line, from 1."""
        return int(self.read("rev-list", "--first-parent", "--count", revision))

    def ancestor(self, revision: str, steps: int) -> str:
        """Full hash of the commit so many steps back along first parents, or ""."""
        return self.read("rev-list", "--first-parent", "-1", f"--skip={steps}", revision).strip()

    def parents(self, revision: str) -> list[str]:
        """Full hashes of all parents of a commit."""
        return self.read("rev-list", "--no-walk", "--parents", revision).split()[1:]

    def is_on_line(self, revision: str, tip: str) -> bool:
        """Whether a commit is on the first-parent line of another; both are full hashes."""
        steps = self.number(tip) - self.number(revision)
        return steps >= 0 and self.ancestor(tip, steps) == revision

    def first_parents(self, *exclude: str) -> list[tuple[str, str]]:
        """Commits on first-parent lines of branches, oldest first, each with its first parent.

        The commits of the full hashes `exclude` and their ancestors are left out.
        """
        return self.line("--topo-order", "--reverse", "--branches", *(f"^{one}" for one in exclude))

    def described(self, numbers: Mapping[str, int]) -> list[Commit]:
        """Commits whose numbers are known, by full hash, in the order given."""
        line = self.line("--no-walk=unsorted", *numbers) if numbers else []
        return self._read(line, [numbers[revision] for revision, _ in line])

    def committer(self, revision: str) -> str:
        """Mail address of the committer."""
        [commit] = self.commits([self.resolve(revision)])
        return commit.committer_email

    def diffstat(self, revision: str) -> str:
        """What `git diff --stat` prints of a commit against its first parent, in 75 columns."""
        return self._diff(revision, _STAT)

    def diff(self, revision: str, paths: Sequence[str]) -> str:
        """What `git diff` prints of files of a commit against its first parent."""
        return self._diff(revision, "--patch", "--", *paths)

    def _diff(self, revision: str, form: str, *more: str) -> str:
        [(commit, parent)] = self.line("-1", self.resolve(revision))
        options = ("--root", "--no-commit-id", "--no-renames", "-r", form)
        revisions = filter(None, (parent, commit))
        return self.read("--literal-pathspecs", "diff-tree", *options, *revisions, *more)

    def between(self, good: str, bad: str, *, paths: bool = True) -> list[Commit]:
        """The commits that lead from `good` to `bad` on the first-parent line, oldest first.

        `good` is left out and `bad` is the last one; a merge counts as one commit, with what it
        changed against its first parent. Reading `paths` and lines takes most of the time.

        Raises:
            HistoryError: one of them is unknown, or `good` is not on the first-parent line
                that leads to `bad`.
        """
        first, last = self.resolve(good), self.resolve(bad)
        if first == last:
            return []
        line = self.line(f"{first}..{last}")[::-1]
        if not line or line[0][1] != first:
            if any(parent == last for _, parent in self.line(f"{last}..{first}")):
                hint = "they are the other way round"
            else:
                hint = "the two must be on one line of first parents, the older one first"
            raise HistoryError(f"{good} does not lead to {bad} in {self.url}: {hint}")
        return self._read(line, itertools.count(self.number(last) - len(line) + 1), paths=paths)

    def since(self, branch: str, commit: Commit) -> list[Commit]:
        """Commits of a branch's first-parent line since another commit, oldest first.

        Leaves out its ancestors and commits with older dates. Paths and lines are not read.
        """
        head = self.head(branch)
        # git's --since ends at the first older date, which may be a wrong one.
        options = ("--first-parent", "--timestamp", head, f"^{commit.revision}")
        listed = self.read("rev-list", *options, "--").split()
        numbered = zip(listed[::2], listed[1::2], itertools.count(self.number(head), -1))
        found = {revision: number for at, revision, number in numbered if int(at) >= commit.at}
        line = [(revision, "") for revision in reversed(found)]
        return self._read(line, reversed(found.values()), paths=False)

    def stretch(self, first: str, last: str) -> list[str]:
        """Full hashes from `first` to `last` on the first-parent line, newest first.

        Raises:
            HistoryError: one of them is unknown, or `first` is not on the first-parent line
                that leads to `last`.
        """
        begin, end = self.resolve(first), self.resolve(last)
        walked = self.line(f"{begin}..{end}")
        if (walked[-1][1] if walked else end) != begin:
            raise HistoryError(f"{first} does not lead to {last} in {self.url}")
        return [*(revision for revision, _ in walked), begin]

    def _read(
        self, line: Sequence[tuple[str, str]], numbers: Iterable[int], *, paths: bool = True
    ) -> list[Commit]:
        """Commits, given with their parents and numbers."""
        changes = self._changes(line) if paths else {}
        revisions = [revision for revision, _ in line]
        found = []
        for commit, number in zip(self.commits(revisions), numbers, strict=False):
            names, lines = changes.get(commit.revision, ((), 0))
            found.append(
                Commit(
                    revision=commit.revision,
                    number=number,
                    subject=commit.subject,
                    body=commit.body,
                    author=commit.author,
                    email=commit.email,
                    at=float(commit.at),
                    paths=tuple(names),
                    lines=lines,
                )
            )
        return found

    def _changes(self, line: Sequence[tuple[str, str]]) -> dict[str, tuple[list[str], int]]:
        """Paths and number of lines that commits change, each against its first parent."""
        pairs = "".join(f"{revision} {parent}".strip() + "\n" for revision, parent in line)
        options = ("--stdin", "-r", "-z", "--root", "--numstat", "--no-renames")
        output = self._bytes("diff-tree", *options, given=pairs.encode()).decode(errors="replace")
        found: dict[str, tuple[list[str], int]] = {}
        revision, lines = "", 0
        names: list[str] = []
        for token in output.split("\0"):
            changed = _CHANGED.fullmatch(token)
            if changed is None:
                revision, names, lines = token.strip("\n"), [], 0
                continue
            names.append(changed[3])
            lines += sum(int(count) for count in changed.group(1, 2) if count != "-")
            found[revision] = (names, lines)
        return found

    def commit_of(self, reference: str) -> str | None:
        """Full hash of the commit that a reference or a tag object leads to, or None."""
        if reference.startswith("-"):
            return None
        arguments = ("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
        return self.read(*arguments, ask=True).strip() or None


def merge_status_of(
    history: History, revision: str, branch: str, stable: Iterable[str]
) -> MergeStatus:
    """Merges and fixes of a commit of `branch`, also on branches such as `stable/14`.

    Raises HistoryError if the commit is not on the first-parent line of `branch`, a branch does not
    exist, or the clone cannot be read.
    """
    commit = history.commit(revision)
    later = history.between(commit.revision, history.head(branch), paths=False)
    landed = {name: history.since(name, commit) for name in stable}
    return merge_status(commit, later, landed)
