"""Commits and their places on branches."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, inspect, select
from sqlalchemy.orm import InstanceState, Session

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.revision_key import parts_of, short, with_patch
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, CommitRow, PlaceRow, record_of

_MOST = 100
"""Most revisions in an event."""
_PART = 10_000
"""Names in one query; SQLite takes 32,766 parameters."""


class CommitRepository(LedgerRepository):
    """Stores and reads commits."""

    def learn(self, commits: Iterable[Commit], branch: str) -> None:
        """Stores commits of a branch's first-parent line; newer data replace older data.

        A commit replaces another one with the same number: the branch was rewritten. Facts about
        the replaced commit stay. New commits cause one event.
        """
        with self.writing() as writing:
            session = writing.session
            rows = _merged(session, commits)
            # After a flush, the session cannot tell new rows from known ones.
            numbers = _new_numbers(session, rows)
            session.flush()
            with session.no_autoflush:
                places = [
                    session.merge(PlaceRow(branch=branch, number=one.number, revision=one.revision))
                    for one in rows
                ]
            numbers |= _new_numbers(session, places)
            if numbers:
                writing.note("learned", branch=branch, first=min(numbers), last=max(numbers))

    def know(self, commits: Iterable[Commit]) -> None:
        """Stores commits of other branches, which are in no series.

        Newer data replace older data; new commits cause one event.
        """
        with self.writing() as writing:
            session = writing.session
            rows = _merged(session, commits)
            news = [row.revision for row in rows if _is_news(session, row)]
            if news:
                writing.note("known", revisions=sorted(news) if len(news) <= _MOST else None)

    def get(self, revision: str) -> Commit | None:
        """The commit, or None if unknown."""
        with self.reading() as session:
            row = session.get(CommitRow, revision)
            return None if row is None else record_of(Commit, row)

    def label(self, revision: str) -> str:
        """Label of a revision: that of its commit, or a short hash if the commit is unknown.

        The label names the patch and the layout, if any.
        """
        plain, layout = split_kernel_name(revision)
        name, patch = parts_of(plain)
        commit = self.get(name)
        label = short(plain) if commit is None else with_patch(commit.label, patch)
        return f"{label}, layout {layout}" if layout else label

    def numbers(self) -> dict[str, dict[str, int]]:
        """By branch: number of every booted revision."""
        with self.reading() as session:
            return booted_numbers(session)

    def newest(self, branch: str) -> str | None:
        """The newest known revision of a branch, or None."""
        places = select(PlaceRow.revision).where(PlaceRow.branch == branch)
        with self.reading() as session:
            return session.scalar(places.order_by(PlaceRow.number.desc()).limit(1))

    def find(self, revisions: Collection[str]) -> dict[str, Commit]:
        """By revision: the known ones of these commits."""
        with self.reading() as session:
            return {
                row.revision: record_of(Commit, row)
                for part in _parts(revisions)
                for row in session.scalars(select(CommitRow).where(CommitRow.revision.in_(part)))
            }

    def booted(self) -> list[str]:
        """All booted revisions without a patch, in the default layout."""
        ordinary = ~BootRow.revision.contains("#")
        with self.reading() as session:
            booted = session.scalars(select(BootRow.revision).where(ordinary).distinct())
            return [one for one in booted if not parts_of(one)[1]]


def booted_numbers(session: Session, *where: ColumnElement[bool]) -> dict[str, dict[str, int]]:
    """By branch: numbers of the revisions of boots that meet conditions on BootRow."""
    booted = select(BootRow.revision).where(*where)
    query = select(PlaceRow.branch, PlaceRow.revision, PlaceRow.number)
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for branch, revision, number in session.execute(query.where(PlaceRow.revision.in_(booted))):
        found[branch][revision] = number
    return dict(found)


def _merged(session: Session, commits: Iterable[Commit]) -> list[CommitRow]:
    known = {commit.revision: commit for commit in commits}.values()
    with session.no_autoflush:
        return [session.merge(CommitRow(**dataclasses.asdict(one))) for one in known]


def _new_numbers(session: Session, rows: Iterable[CommitRow | PlaceRow]) -> set[int]:
    """Numbers of new and changed rows, and former numbers of changed ones."""
    found: set[int] = set()
    for row in rows:
        if _is_news(session, row):
            state: InstanceState[CommitRow | PlaceRow] = inspect(row)
            found |= {row.number, *state.attrs.number.history.deleted}
    return found


def _is_news(session: Session, row: CommitRow | PlaceRow) -> bool:
    """Whether a row is new or changed."""
    return row in session.new or session.is_modified(row)


def _parts(names: Collection[str]) -> Iterable[list[str]]:
    ordered = sorted(names)
    return (ordered[at : at + _PART] for at in range(0, len(ordered), _PART))
