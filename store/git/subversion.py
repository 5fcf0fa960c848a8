"""Subversion numbers of commits: from a table, from notes, and from commit messages.

The table is the most reliable source, messages the least: a message may be a copy of another
commit's. The first source that has a number decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from netbisect.store.git.history import History, HistoryError

_NOTES = "refs/notes/commits"
_PATTERNS = (
    re.compile(r"^[ \t]*svn-revision:[ \t]*(?P<path>\S+)@(?P<number>\d{1,9})\b", re.MULTILINE),
    re.compile(
        r"^[ \t]*svn path=(?P<path>\S*?);[ \t]*revision=(?P<number>\d{1,9})\b", re.MULTILINE
    ),
    re.compile(
        r"^[ \t]*git-svn-id:[ \t]*[^\s/]+//[^\s/]*/(?:\S*\bbase/)?(?P<path>\S+?)"
        r"@(?P<number>\d{1,9})\b",
        re.MULTILINE,
    ),
    re.compile(r"^[ \t]*(?P<path>)Revision:[ \t]*r?(?P<number>\d{1,9})[ \t]*$", re.MULTILINE),
)
_GREP = r"(svn-revision:.*@|svn path=.*revision=|git-svn-id:.*@|Revision:[[:space:]]*r?)"
"""Selects lines for `_PATTERNS`; POSIX extended."""
_FULL_HASH = re.compile(r"[0-9a-f]{40}")
_ROW = re.compile(r"r?(\d{1,9})\t([^\t\s]+)\t([0-9a-f]{40})")


@dataclass(frozen=True, slots=True)
class SubversionCommit:
    """A commit and its number in Subversion."""

    number: int
    path: str
    """Path of the branch, such as head or stable/10; "" if unknown."""
    revision: str


class SubversionNumbers:
    """Looks up Subversion numbers in a clone and in the table of its `History`.

    All methods raise HistoryError if one of them cannot be read.
    """

    def __init__(self, history: History, branches: dict[str, str]) -> None:
        """Reads nothing; `branches` are full hashes of their newest commits, by name."""
        self._history = history
        self._heads = {subversion_path(name): head for name, head in branches.items()}

    def commits(self, number: int) -> list[SubversionCommit]:
        """Commits with this number, ordered by path."""
        messages = filter(self._is_on_its_branch, self._messages(number))
        sources = (self._table(), self._notes(number), messages)
        found = (_sorted(one for one in source if one.number == number) for source in sources)
        return next((_with_path(one) for one in found if one), [])

    def before(self, number: int, path: str) -> SubversionCommit | None:
        """Last commit of a branch up to a number; takes seconds."""
        line = [self._heads[path]] if path in self._heads else ["--branches"]
        for source in (self._table(), self._notes(), self._messages(revisions=line)):
            found = [one for one in source if one.path == path and one.number <= number]
            if found:
                return max(found, key=lambda one: one.number)
        return None

    @cached_property
    def highest(self) -> int:
        """Highest number of table and notes, or else of messages, or 0; takes seconds."""
        known = [*self._table(), *self._notes()] or [*self._messages()]
        return max((one.number for one in known), default=0)

    def of(self, revision: str) -> list[SubversionCommit]:
        """Numbers of a commit, ordered by path."""
        sources = (
            (one for one in self._table() if one.revision == revision),
            _numbers(revision, self._note(revision)),
            filter(self._is_on_its_branch, self._in_messages([revision])),
        )
        return next((_with_path(found) for found in map(_sorted, sources) if found), [])

    def _table(self) -> Iterator[SubversionCommit]:
        return iter(()) if self._history.table is None else _rows(self._history.table)

    def _note(self, revision: str) -> str:
        if not self._history.references(_NOTES):
            return ""
        return self._history.read("notes", f"--ref={_NOTES}", "show", revision, ask=True)

    def _notes(self, number: int | None = None) -> Iterator[SubversionCommit]:
        if not self._history.references(_NOTES):
            return
        options = ("--text", "--null", "--no-color", "--no-column", "--no-line-number", "-E")
        output = self._history.read("grep", *options, _pattern(number), _NOTES, "--", ask=True)
        for line in output.split("\n"):
            name, _, text = line.partition("\0")
            revision = name.partition(":")[2].replace("/", "")
            if _FULL_HASH.fullmatch(revision):
                yield from _numbers(revision, text)

    def _messages(
        self, number: int | None = None, revisions: Sequence[str] = ("--branches",)
    ) -> Iterator[SubversionCommit]:
        options = ("--first-parent", "-E", f"--grep={_pattern(number)}")
        found = self._history.read("rev-list", *options, *revisions, "--").split()
        yield from self._in_messages(found)

    def _in_messages(self, revisions: Sequence[str]) -> Iterator[SubversionCommit]:
        for commit in self._history.commits(revisions):
            yield from _numbers(commit.revision, commit.message)

    def _is_on_its_branch(self, commit: SubversionCommit) -> bool:
        """Whether the first-parent line of the branch in a message has the commit, if it exists."""
        head = self._heads.get(commit.path)
        return head is None or self._history.is_on_line(commit.revision, head)


def subversion_path(branch: str) -> str:
    """Name of a branch in Subversion."""
    path = branch.strip("/").removeprefix("base/")
    return "head" if path in {"main", "master"} else path


def _pattern(number: int | None) -> str:
    return f"{_GREP}{'[0-9]' if number is None else f'0*{number}([^0-9]|$)'}"


def _numbers(revision: str, text: str) -> Iterator[SubversionCommit]:
    """Numbers in a note or a message."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            path = subversion_path(match["path"])
            yield SubversionCommit(int(match["number"]), path, revision)


def _sorted(commits: Iterable[SubversionCommit]) -> list[SubversionCommit]:
    return sorted(set(commits), key=lambda one: (one.path, one.number, one.revision))


def _with_path(commits: list[SubversionCommit]) -> list[SubversionCommit]:
    """Those with a path, for numbers that have one."""
    with_path = {one.number for one in commits if one.path}
    return [one for one in commits if one.path or one.number not in with_path]


def _rows(table: Path) -> Iterator[SubversionCommit]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()
    except UnicodeDecodeError as error:
        raise HistoryError(f"{table} has a byte that is not ASCII, at {error.start}") from error
    except OSError as error:
        raise HistoryError(f"{table} cannot be read: {error.strerror}") from error
    for at, line in enumerate(lines, 1):
        row = _ROW.fullmatch(line)
        if row is not None:
            yield SubversionCommit(int(row[1]), subversion_path(row[2]), row[3])
        elif line.strip() and not line.startswith("#"):
            raise HistoryError(
                f"{table}, line {at}: expected a number, a branch and a full hash, separated "
                "by tabs, such as 311849, head and 40 digits"
            )
