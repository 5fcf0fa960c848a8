"""Resolves revision names.

`grammar.py` parses names, `lookup.py` looks them up with git, and `subversion.py` looks up
numbers of Subversion.
"""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect.model.entities import Commit
from netbisect.store.git.grammar import RangeName, RevisionError, Single, Subversion, parse
from netbisect.store.git.history import History
from netbisect.store.git.lookup import RevisionFinder


@dataclass(frozen=True, slots=True)
class Review:
    """A patch under review."""

    name: str
    """Such as D5180."""
    base: Commit | None
    """Base of the patch, or None."""


@dataclass(frozen=True, slots=True)
class Range:
    """Commits of a first-parent line between two of its commits."""

    good: Commit
    """Older end, excluded."""
    bad: Commit
    """Newer end, included."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Branches and Subversion numbers of a commit."""

    branches: tuple[str, ...]
    """Branches with this commit on their first-parent line."""
    subversion: tuple[str, ...]
    """Such as head@311849, or r311849 if the branch is unknown."""


def resolve(history: History, name: str, *, default_branch: str) -> Commit | Review | Range:
    """Resolves a name in the clone, without fetching.

    Args:
        history: Of the tree under watch, fetched at least once.
        name: A hash or the beginning of one, `r311849`, `stable/10@295802`, `n302145`,
            `main-n302145-0a1b2c3d`, a branch, a tag, `2026-11-01`, `2026-11-01T12:00Z`, any of
            them with `~3` behind it; `D5180`, `D5180@stable/14`; `r311848..r313448`.
        default_branch: Where numbers and days are counted when the name has no branch.

    Raises:
        RevisionError: the name is wrong, unknown, ambiguous or contradictory; no other input
            causes another error.
        HistoryError: the clone cannot be read.
    """
    parsed = parse(name)
    finder = RevisionFinder(history, default_branch)
    if isinstance(parsed, RangeName):
        return Range(*finder.ends(parsed))
    if isinstance(parsed, Single):
        return finder.commit(parsed)
    base = None if parsed.base is None else finder.commit(parsed.base)
    return Review(parsed.review, base)


def commit_named(history: History, name: str, *, default_branch: str) -> Commit:
    """Resolves the name of a commit; arguments and errors as of `resolve`.

    Raises:
        RevisionError: as of `resolve`, and for a review or a range.
        HistoryError: the clone cannot be read.
    """
    found = resolve(history, name, default_branch=default_branch)
    if not isinstance(found, Commit):
        kind = "review" if isinstance(found, Review) else "range"
        raise RevisionError(f"{name} is a {kind}; the name of one commit would be right")
    return found


def whereabouts(history: History, revision: str) -> Whereabouts:
    """Branches and Subversion numbers of a commit.

    Args:
        history: Of the tree under watch, fetched at least once.
        revision: Full hash.

    Raises:
        HistoryError: the clone cannot be read.
    """
    finder = RevisionFinder(history, "")
    numbers = finder.subversion.of(revision)
    names = (str(Subversion(one.number, one.path)) for one in numbers)
    return Whereabouts(tuple(finder.branches_with(revision)), tuple(dict.fromkeys(names)))
