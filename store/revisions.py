"""Finds what the name of a revision means: `resolve` takes any name that people use.

Names are taken apart by `store/revision_names.py`; numbers, times and Subversion's numbers are
looked up by `store/revision_finder.py`, in the index that `store/revision_file.py` keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect.model import Commit
from netbisect.store.history import History
from netbisect.store.revision_file import open_index
from netbisect.store.revision_finder import Finder, credible
from netbisect.store.revision_names import RangeName, RevisionError, Single, Subversion, parse


@dataclass(frozen=True, slots=True)
class Review:
    """A patch under review."""

    name: str
    """Such as D5180."""
    base: Commit | None
    """What it is to be applied to; None where the name does not say."""


@dataclass(frozen=True, slots=True)
class Range:
    """The commits that lead from one to another on the first-parent line."""

    good: Commit
    """The older end, which is not among them."""
    bad: Commit
    """The last of them."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What else is known of a commit."""

    branches: tuple[str, ...]
    """On whose first-parent lines it is."""
    subversion: tuple[str, ...]
    """What it was there: head@311849, or r311849 where the branch is not told."""


def resolve(history: History, name: str, *, default_branch: str) -> Commit | Review | Range:
    """What a name means, as the clone stands; nothing is fetched.

    Args:
        history: Of the tree under watch, fetched at least once.
        name: A hash or the beginning of one, `r311849`, `stable/10@295802`, `n302145`,
            `main-n302145-0a1b2c3d`, a branch, a tag, `2026-11-01`, `2026-11-01T12:00Z`, any of
            them with `~3` behind it; `D5180`, `D5180@stable/14`; `r311848..r313448`.
        default_branch: Where numbers and days are counted when the name has no branch.

    Raises:
        RevisionError: the name means nothing, or several commits, or contradicts itself. What is
            typed by anybody is never the cause of anything else.
        HistoryError: the clone cannot be read.
    """
    parsed = parse(name)
    with open_index(history) as index:
        finder = Finder(history, index, default_branch)
        if isinstance(parsed, RangeName):
            return Range(*finder.ends(parsed))
        if isinstance(parsed, Single):
            return finder.commit(parsed)
        base = None if parsed.base is None else finder.commit(parsed.base)
        return Review(parsed.review, base)


def commit_named(history: History, name: str, *, default_branch: str) -> Commit:
    """The commit that a name means; arguments and errors as of `resolve`.

    Raises:
        RevisionError: as `resolve`, and where it is a review or a range.
        HistoryError: the clone cannot be read.
    """
    found = resolve(history, name, default_branch=default_branch)
    if not isinstance(found, Commit):
        kind = "review" if isinstance(found, Review) else "range"
        raise RevisionError(f"{name} is a {kind}; the name of one commit would be right")
    return found


def whereabouts(history: History, revision: str) -> Whereabouts:
    """Where a commit is, and what it was in Subversion.

    Args:
        history: Of the tree under watch, fetched at least once.
        revision: Full hash.

    Raises:
        HistoryError: the clone cannot be read.
    """
    with open_index(history) as index:
        spot = index.spot(revision)
        branches = () if spot is None else tuple(index.branches_of(spot))
        origins = credible(index, index.origins(revision))
        names = (str(Subversion(one.number, one.path)) for one in origins)
        return Whereabouts(branches, tuple(dict.fromkeys(names)))
