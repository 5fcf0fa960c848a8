"""Meaning of a revision name."""

from __future__ import annotations

from datetime import UTC, datetime

from netbisect.bisect.model.entities import Commit
from netbisect.reports.documents import api
from netbisect.store.db.tables import record_of
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.history import History
from netbisect.store.git.resolve import Range, Review, whereabouts


def answer(history: History, name: str, found: Commit | Review | Range) -> api.RevisionMatches:
    """Meaning of a name. Raises HistoryError if the clone cannot be read."""
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
    return record_of(
        api.NamedCommit,
        commit,
        branches=there.branches,
        subversion=there.subversion,
        date=_date(commit),
        author=f"{commit.author} <{commit.email}>",
    )


def _date(commit: Commit) -> str:
    return datetime.fromtimestamp(commit.at, UTC).isoformat()


def refusal(error: RevisionError) -> api.Refusal:
    """The error, with possible meanings."""
    candidates = (
        record_of(api.RevisionMatch, one.commit, name=one.name, date=_date(one.commit))
        for one in error.candidates
    )
    return api.Refusal(error=str(error), faults={"name": str(error)}, candidates=tuple(candidates))
