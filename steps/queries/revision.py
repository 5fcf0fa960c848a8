"""Meaning of a revision name."""

from __future__ import annotations

from datetime import UTC, datetime

from netbisect.bisect.model.entities import Commit
from netbisect.reports.documents import api
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.history import History
from netbisect.store.git.resolve import Range, Review, whereabouts


def answer(history: History, name: str, found: Commit | Review | Range) -> api.RevisionMatches:
    """Meaning of a name.

    Raises:
        HistoryError: the clone cannot be read.
    """
    if isinstance(found, Commit):
        return api.RevisionMatches(name=name, kind="commit", commit=_commit(history, found))
    if isinstance(found, Review):
        base = _commit(history, found.base) if found.base else None
        return api.RevisionMatches(name=name, kind="review", review=found.name, commit=base)
    return api.RevisionMatches(
        name=name,
        kind="range",
        good=_commit(history, found.good),
        bad=_commit(history, found.bad),
        commits=found.bad.number - found.good.number,
    )


def _commit(history: History, commit: Commit) -> api.NamedCommit:
    there = whereabouts(history, commit.revision)
    return api.NamedCommit(
        revision=commit.revision,
        label=commit.label,
        number=commit.number,
        branches=there.branches,
        subversion=there.subversion,
        date=datetime.fromtimestamp(commit.at, UTC).isoformat(),
        author=f"{commit.author} <{commit.email}>",
        subject=commit.subject,
    )


def refusal(error: RevisionError) -> api.Refusal:
    """The error, with possible meanings."""
    candidates = (
        api.RevisionMatch(
            name=one.name,
            revision=one.commit.revision,
            label=one.commit.label,
            date=datetime.fromtimestamp(one.commit.at, UTC).isoformat(),
            subject=one.commit.subject,
        )
        for one in error.candidates
    )
    return api.Refusal(error=str(error), faults={"name": str(error)}, candidates=tuple(candidates))
