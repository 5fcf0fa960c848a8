"""Facts: added once, never changed or deleted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Boot, Conditions, Fact, Failure, Kernel, Sample
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Action
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row
from netbisect.store.db.tables import (
    Base,
    BootRow,
    ConditionsRow,
    FailureRow,
    KernelRow,
    SampleRow,
    clean,
    record_of,
)


class FactRepository(LedgerRepository):
    """Stores and reads facts of the lab."""

    def record(self, fact: Fact, decision: int | None = None) -> None:
        """Stores a fact, optionally of an action with this id; a duplicate is ignored.

        Raises StoreError if there is no such action, the boot of a Sample is not recorded, or a
        number is not finite.
        """
        with self.writing() as writing:
            job = None if decision is None else get_row(writing.session, Action, decision).job
            for added in add_facts(writing, [fact], decision):
                add_event(writing, added, job)

    def record_all(self, facts: Iterable[Fact], source: str) -> list[Fact]:
        """Stores facts in any order in one transaction, with one event; returns the new ones.

        `source` is their origin, for the event. Raises StoreError as `record`.
        """
        with self.writing() as writing:
            given = list(facts)
            place = {id(fact): at for at, fact in enumerate(given)}
            added = sorted(add_facts(writing, given), key=lambda fact: place[id(fact)])
            if added:
                writing.note("import", source=source, facts=len(added))
            return added

    def of_job(self, job: int) -> list[Fact]:
        """All facts of a job, oldest first."""
        decisions = select(Action.id).where(Action.job == job)
        with self.reading() as session:
            return facts_where(session, list(session.scalars(decisions)))

    def of_action(self, decision: int) -> list[Fact]:
        """Facts of an action, oldest first."""
        with self.reading() as session:
            return facts_where(session, [decision])

    def last_boots(self) -> dict[str, str]:
        """By testbed: the boot ordered last, regardless of the clocks of machines."""
        last = (
            select(BootRow.testbed, func.max(BootRow.decision_id).label("decision"))
            .where(BootRow.decision_id.is_not(None))
            .group_by(BootRow.testbed)
            .subquery()
        )
        query = select(BootRow.testbed, BootRow.id).join(
            last, (last.c.testbed == BootRow.testbed) & (last.c.decision == BootRow.decision_id)
        )
        with self.reading() as session:
            return {row.testbed: row.id for row in session.execute(query)}


def facts_where(session: Session, decisions: Sequence[int]) -> list[Fact]:
    """Facts of these actions, oldest first; conditions before their first sample."""
    dated: list[tuple[float, Fact]] = []
    first: dict[tuple[str, str, str], float] = {}
    kinds: tuple[type[Kernel | Boot | Sample | Failure], ...] = (Kernel, Boot, Sample, Failure)
    for kind in kinds:
        table: Any = _TABLES[kind][0]
        for row in session.scalars(select(table).where(table.decision_id.in_(decisions))):
            dated.append((row.at, record_of(kind, row)))
            if kind is Sample:
                key = (row.testbed, row.scenario, row.conditions)
                first[key] = min(row.at, first.get(key, row.at))
    for key, at in first.items():
        if held := session.get(ConditionsRow, key):
            dated.append((at, record_of(Conditions, held)))
    dated.sort(key=lambda item: (item[0], isinstance(item[1], Sample | Failure)))
    return [fact for _, fact in dated]


_TABLES: dict[type[Fact], tuple[type[Base], tuple[str, ...]]] = {
    Kernel: (KernelRow, ("revision", "config", "arch", "key", "at")),
    Conditions: (ConditionsRow, ("testbed", "scenario", "digest")),
    Boot: (BootRow, ("id",)),
    Sample: (SampleRow, ("id",)),
    Failure: (FailureRow, ("id",)),
}
"""Table and columns of its key by class, in the order in which they are filled."""
_EVENTS: dict[type[Fact], tuple[str, tuple[str, ...]]] = {
    Kernel: ("kernel", ("revision", "config", "arch", "seconds")),
    Conditions: ("conditions", ("testbed", "scenario", "digest")),
    Boot: ("boot", ("testbed", "revision", "seconds")),
    Sample: ("sample", ("testbed", "scenario", "pps", "problems", "warnings")),
    Failure: ("dud", ("testbed", "revision", "scenario", "stage", "reaction", "why")),
}
"""Kind of the event of each class, and the fields that it has."""


def add_facts(
    writing: WriteTransaction, facts: Sequence[Fact], decision: int | None = None
) -> Iterator[Fact]:
    """Adds the new ones of these facts, and yields them in the order of their tables.

    Raises StoreError as `FactRepository.record`; the boot of a Sample may be among the facts.
    """
    dialect = writing.session.get_bind().dialect.name
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    boots = {fact.id for fact in facts if isinstance(fact, Boot)}
    for fact in facts:
        _check_numbers(fact)
        if isinstance(fact, Sample) and fact.boot not in boots:
            _check_boot(writing.session, fact)
    for kind, (table, keys) in _TABLES.items():
        some = [fact for fact in facts if type(fact) is kind]
        if not some:
            continue
        rows = [_values(fact, decision, writing.now) for fact in some]
        adding = insert(table).on_conflict_do_nothing()
        columns = [getattr(table, name) for name in keys]
        new = set(map(tuple, writing.session.execute(adding.returning(*columns), rows)))
        for fact in some:
            key = tuple(
                clean(part) if isinstance(part, str) else part
                for part in (getattr(fact, name) for name in keys)
            )
            if key in new:
                new.remove(key)
                yield fact


def add_event(writing: WriteTransaction, fact: Fact, job: int | None) -> None:
    """Adds the event of a new fact."""
    kind, fields = _EVENTS[type(fact)]
    data = {name: getattr(fact, name) for name in fields}
    if isinstance(fact, Sample):
        data["revision"] = writing.session.get_one(BootRow, clean(fact.boot)).revision
    writing.note(kind, job, **data)


def _values(fact: Fact, decision: int | None, now: float) -> dict[str, Any]:
    """The columns of a fact."""
    values = dataclasses.asdict(fact)
    if isinstance(fact, Conditions):
        return {**values, "at": now}
    if isinstance(fact, Sample):
        values["valid"] = fact.valid
    return {**values, "decision_id": decision}


def _check_boot(session: Session, sample: Sample) -> None:
    if session.get(BootRow, clean(sample.boot)) is None:
        raise StoreError(
            f"sample {sample.id} of {sample.scenario} on {sample.testbed} belongs to boot "
            f"{sample.boot}, which was not recorded; its Boot must come first"
        )


def _check_numbers(fact: Fact) -> None:
    for field in dataclasses.fields(fact):
        value = getattr(fact, field.name)
        numbers = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            if isinstance(number, float) and not math.isfinite(number):
                raise StoreError(
                    f"a {type(fact).__name__} with {field.name} = {number} was not recorded: "
                    "every number must be finite"
                )
