"""Facts and commits: taken in once, never changed, never lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import assert_never

from sqlalchemy import inspect, select
from sqlalchemy.orm import InstanceState, Session

from netbisect.bisect.model.entities import (
    Boot,
    Commit,
    Conditions,
    Fact,
    Failure,
    Kernel,
    Sample,
)
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.revision_key import parts_of, short, with_patch
from netbisect.store.db.database import StoreError
from netbisect.store.db.rows import (
    boot_of,
    commit_of,
    conditions_of,
    failure_of,
    kernel_of,
    sample_of,
)
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import (
    BootRow,
    CommitRow,
    ConditionsRow,
    DecisionRow,
    DudRow,
    KernelRow,
    PlaceRow,
    SampleRow,
)
from netbisect.store.repositories.fact_writer import add_event, add_facts

_TOLD = 100
"""Revisions that one event names at most."""


class FactRepository(LedgerRepository):
    """Stores facts of the lab and commits of the history."""

    def record(self, fact: Fact, decision: int | None = None, log: str = "") -> None:
        """Stores a fact; a duplicate is ignored.

        Args:
            fact: From the lab.
            decision: Id of its action, or None.
            log: The end of what the machine said, for a failure without a log.

        Raises:
            StoreError: there is no such decision; the fact is a Sample of a boot that was not
                recorded; or a number in it is not finite.
        """
        with self.writing() as writing:
            job = _job_of(writing.session, decision)
            for added in add_facts(writing, [fact], decision, log):
                add_event(writing, added, job)

    def record_all(self, facts: Iterable[Fact], source: str) -> list[Fact]:
        """Stores facts of another source in one transaction; returns the new ones.

        Args:
            facts: In any number and order.
            source: Their origin, for the single event of all of them.

        Raises:
            StoreError: as `record`.
        """
        with self.writing() as writing:
            added = add_facts(writing, list(facts))
            if added:
                writing.note(
                    "import",
                    source=source,
                    facts=len(added),
                    revisions=_revisions(added),
                    testbeds=sorted({fact.testbed for fact in added if isinstance(fact, Sample)}),
                )
            return added

    def facts_of(self, job: int) -> list[Fact]:
        """All facts of a job, oldest first."""
        decisions = select(DecisionRow.id).where(DecisionRow.question_id == job)
        with self.reading() as session:
            return facts_where(session, list(session.scalars(decisions)))

    # -------------------------------------------------------------------------- the background

    def learn(self, commits: Iterable[Commit], branch: str) -> None:
        """Stores commits of a branch's first-parent line; newer data replace older data.

        A commit at a number where another one stood takes its place: the branch was rewritten.
        Facts about the other one are kept, but it is no longer of this branch. One event tells
        of all that was not known.
        """
        taught = {commit.revision: commit for commit in commits}
        with self.writing() as writing:
            session = writing.session
            # What is flushed is no news any more to the session, which flushes when it looks.
            with session.no_autoflush:
                rows = [session.merge(_row_of(commit)) for commit in taught.values()]
                numbers = _new_numbers(session, rows)
            session.flush()
            with session.no_autoflush:
                places = [
                    session.merge(PlaceRow(branch=branch, number=one.number, revision=one.revision))
                    for one in taught.values()
                ]
                numbers |= _new_numbers(session, places)
            if numbers:
                writing.note("learned", branch=branch, first=min(numbers), last=max(numbers))

    def know(self, commits: Iterable[Commit]) -> None:
        """Takes in commits that are on no branch that is watched: they are in no series.

        What is said last is right; one event tells of all that was not known.
        """
        taught = {commit.revision: commit for commit in commits}
        with self.writing() as writing:
            session = writing.session
            with session.no_autoflush:
                rows = [session.merge(_row_of(commit)) for commit in taught.values()]
                news = [row.revision for row in rows if _is_news(session, row)]
            if news:
                writing.note("known", revisions=sorted(news) if len(news) <= _TOLD else None)

    def commit(self, revision: str) -> Commit | None:
        """The commit, if it was learned."""
        with self.reading() as session:
            row = session.get(CommitRow, revision)
            return None if row is None else commit_of(row)

    def label(self, revision: str) -> str:
        """What people call a revision: its commit's label, or a short hash if none was learned.

        Of a patch and of a further layout the name is told too.
        """
        plain, layout = split_kernel_name(revision)
        name, patch = parts_of(plain)
        commit = self.commit(name)
        label = short(plain) if commit is None else with_patch(commit.label, patch)
        return f"{label}, layout {layout}" if layout else label


def facts_where(session: Session, decisions: Sequence[int]) -> list[Fact]:
    """What came of these decisions, oldest first; conditions before their first sample."""
    kernels = session.scalars(select(KernelRow).where(KernelRow.decision_id.in_(decisions))).all()
    boots = session.scalars(select(BootRow).where(BootRow.decision_id.in_(decisions))).all()
    samples = session.scalars(select(SampleRow).where(SampleRow.decision_id.in_(decisions))).all()
    failures = session.scalars(select(DudRow).where(DudRow.decision_id.in_(decisions))).all()
    first: dict[tuple[str, str, str], float] = {}
    for row in samples:
        key = (row.testbed, row.scenario, row.conditions)
        first[key] = min(row.at, first.get(key, row.at))
    conditions = [
        (at, held)
        for key, at in first.items()
        if (held := session.get(ConditionsRow, key)) is not None
    ]
    told: list[tuple[float, Fact]] = [
        *((row.at, kernel_of(row)) for row in kernels),
        *((row.at, boot_of(row)) for row in boots),
        *((at, conditions_of(row)) for at, row in conditions),
        *((row.at, sample_of(row)) for row in samples),
        *((row.at, failure_of(row)) for row in failures),
    ]
    return [fact for _, fact in sorted(told, key=lambda item: item[0])]


# ------------------------------------------------------------------------------------ into rows


def _job_of(session: Session, decision: int | None) -> int | None:
    if decision is None:
        return None
    row = session.get(DecisionRow, decision)
    if row is None:
        raise StoreError(f"there is no decision {decision} from which a fact could come")
    return row.question_id


def _revisions(facts: Sequence[Fact]) -> list[str] | None:
    """Those that were built, booted or measured, if they are few; conditions concern any."""
    boots = {fact.id for fact in facts if isinstance(fact, Boot)}
    found: set[str] = set()
    for fact in facts:
        match fact:
            case Conditions():
                return None
            case Kernel() | Boot() | Failure():
                found.add(fact.revision)
            case Sample():
                if fact.boot not in boots:
                    return None  # of a boot that was taken in before
            case _:
                assert_never(fact)
    return sorted(found) if len(found) <= _TOLD else None


def _new_numbers(session: Session, rows: Iterable[CommitRow | PlaceRow]) -> set[int]:
    """Numbers of those that are to be written, or are to be others than they were."""
    found: set[int] = set()
    for row in rows:
        if _is_news(session, row):
            state: InstanceState[CommitRow | PlaceRow] = inspect(row)
            found |= {row.number, *state.attrs.number.history.deleted}
    return found


def _is_news(session: Session, row: CommitRow | PlaceRow) -> bool:
    """Whether it is to be written, or is to be another than it was."""
    return row in session.new or session.is_modified(row)


def _row_of(commit: Commit) -> CommitRow:
    return CommitRow(**{**dataclasses.asdict(commit), "paths": list(commit.paths)})
