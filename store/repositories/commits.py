"""Commits and their places on branches."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.revision_key import parts_of, short, with_patch
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, CommitRow, PlaceRow, one_of, record_of

_OF_GIT = CommitRow.author != ""
"""The condition that a commit is not an imported revision."""


class CommitRepository(LedgerRepository):
    """Stores and reads commits."""

    def learn(self, commits: Iterable[Commit], branch: str) -> None:
        """Stores commits of a branch's first-parent line; newer data replace older data.

        A commit replaces another one with the same number: the branch was rewritten. Facts about
        the replaced commit stay. New commits cause one event.
        """
        with self.writing() as writing:
            rows = _rows_of(commits)
            new = _merge(writing.session, rows)
            places = [
                PlaceRow(branch=branch, number=row.number, revision=row.revision) for row in rows
            ]
            if _merge(writing.session, places) or new:
                writing.note("learned", branch=branch)

    def follow(self, branch: str, line: Collection[str]) -> None:
        """Adapts the series of a branch, which may have been rewritten, to its first-parent line.

        `line` has at least the revisions since `oldest`. Commits that are not on it leave, unless
        only the newest one would stay; measured ones that are on no branch return. Imported
        revisions stay, and so do facts.
        """
        measured = CommitRow.revision.in_(select(BootRow.revision))
        absent = CommitRow.revision.not_in(select(PlaceRow.revision))
        lost = select(CommitRow.revision, CommitRow.number).where(_OF_GIT, measured, absent)
        with self.writing() as writing:
            session = writing.session
            rows = session.scalars(_on(branch, PlaceRow)).all()
            gone = [row for row in rows if row.revision not in line]
            back = [
                PlaceRow(branch=branch, number=number, revision=revision)
                for revision, number in session.execute(lost)
                if revision in line
            ]
            if len(rows) - len(gone) + len(back) == 1:
                return
            for row in gone:
                session.delete(row)
            session.flush()
            if _merge(session, back) or gone:
                writing.note("learned", branch=branch)

    def oldest(self, branch: str) -> int:
        """Number of the first known commit of a branch; 1 if none is known."""
        with self.reading() as session:
            return session.scalar(_on(branch, func.min(PlaceRow.number))) or 1

    def know(self, commits: Iterable[Commit]) -> None:
        """Stores commits of other branches, which are in no series.

        Newer data replace older data; new commits cause one event.
        """
        with self.writing() as writing:
            if _merge(writing.session, _rows_of(commits)):
                writing.note("known")

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

    def find(self, revisions: Iterable[str]) -> dict[str, Commit]:
        """By revision: the known ones of these commits."""
        query = select(CommitRow).where(one_of(CommitRow.revision, revisions))
        with self.reading() as session:
            return {row.revision: record_of(Commit, row) for row in session.scalars(query)}

    def booted(self) -> list[str]:
        """All booted revisions without a patch, in the default layout."""
        ordinary = ~BootRow.revision.contains("#")
        with self.reading() as session:
            booted = session.scalars(select(BootRow.revision).where(ordinary).distinct())
            return [one for one in booted if not parts_of(one)[1]]


def _on(branch: str, what: Any) -> Select[Any]:  # noqa: ANN401 - a table or an expression
    """Selects from the places of a branch, without imported revisions."""
    joined = select(what).join(CommitRow, CommitRow.revision == PlaceRow.revision)
    return joined.where(PlaceRow.branch == branch, _OF_GIT)


def booted_numbers(session: Session, *where: ColumnElement[bool]) -> dict[str, dict[str, int]]:
    """By branch: numbers of the revisions of boots that meet conditions on BootRow."""
    booted = select(BootRow.revision).where(*where)
    query = select(PlaceRow.branch, PlaceRow.revision, PlaceRow.number)
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for branch, revision, number in session.execute(query.where(PlaceRow.revision.in_(booted))):
        found[branch][revision] = number
    return dict(found)


def _rows_of(commits: Iterable[Commit]) -> list[CommitRow]:
    known = {commit.revision: commit for commit in commits}.values()
    return [CommitRow(**dataclasses.asdict(one)) for one in known]


def _merge(session: Session, rows: Iterable[CommitRow | PlaceRow]) -> bool:
    """Adds or replaces rows; whether any is new or changed."""
    with session.no_autoflush:
        merged = [session.merge(row) for row in rows]
    # After a flush, the session cannot tell new rows from known ones.
    changed = any(row in session.new or session.is_modified(row) for row in merged)
    session.flush()
    return changed
