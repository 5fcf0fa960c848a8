"""Meaning of a revision name, as JSON values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from netbisect.bisect.model.entities import Commit
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.history import History
from netbisect.store.git.resolve import Range, Review, whereabouts


def answer(history: History, name: str, found: Commit | Review | Range) -> dict[str, Any]:
    """Meaning of a name.

    Raises:
        HistoryError: the clone cannot be read.
    """
    if isinstance(found, Commit):
        return {"name": name, **_commit(history, found)}
    if isinstance(found, Review):
        base = found.base and _commit(history, found.base)
        return {"name": name, "review": found.name, "base": base}
    return {
        "name": name,
        "good": _commit(history, found.good),
        "bad": _commit(history, found.bad),
        "commits": found.bad.number - found.good.number,
    }


def _commit(history: History, commit: Commit) -> dict[str, Any]:
    there = whereabouts(history, commit.revision)
    return {
        "revision": commit.revision,
        "label": commit.label,
        "number": commit.number,
        "branches": list(there.branches),
        "subversion": list(there.subversion),
        "date": datetime.fromtimestamp(commit.at, UTC).isoformat(),
        "author": f"{commit.author} <{commit.email}>",
        "subject": commit.subject,
    }


def refusal(name: str, error: RevisionError) -> dict[str, Any]:
    """The error, with possible meanings."""
    candidates = [
        {
            "name": one.name,
            "revision": one.commit.revision,
            "label": one.commit.label,
            "date": datetime.fromtimestamp(one.commit.at, UTC).isoformat(),
            "subject": one.commit.subject,
        }
        for one in error.candidates
    ]
    return {"name": name, "error": str(error), "candidates": candidates}
