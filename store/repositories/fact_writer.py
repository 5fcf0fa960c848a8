"""Adds facts to their tables; duplicates are ignored."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias, assert_never

from sqlalchemy import insert, select, tuple_
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import (
    Boot,
    Conditions,
    Fact,
    Failure,
    Kernel,
    Sample,
)
from netbisect.store.db.database import StoreError
from netbisect.store.db.sessions import WriteTransaction
from netbisect.store.db.tables import (
    Base,
    BootRow,
    ConditionsRow,
    DudRow,
    KernelRow,
    SampleRow,
    clean,
)

_Name: TypeAlias = tuple[type[Base], tuple[object, ...]]
"""The table of a fact, and its key there."""

_TABLES: dict[type[Fact], type[Base]] = {
    Kernel: KernelRow,
    Conditions: ConditionsRow,
    Boot: BootRow,
    Sample: SampleRow,
    Failure: DudRow,
}
"""Tables by class, in the order in which they are filled."""
_KEYS: dict[type[Base], tuple[str, ...]] = {
    KernelRow: ("revision", "config", "arch", "key", "at"),
    ConditionsRow: ("testbed", "scenario", "digest"),
    BootRow: ("id",),
    SampleRow: ("id",),
    DudRow: ("id",),
}
"""Columns of the key of each table."""
_EVENTS: dict[type[Fact], tuple[str, tuple[str, ...]]] = {
    Kernel: ("kernel", ("revision", "config", "arch", "seconds")),
    Conditions: ("conditions", ("testbed", "scenario", "digest")),
    Boot: ("boot", ("testbed", "revision", "seconds")),
    Sample: ("sample", ("testbed", "scenario", "pps", "problems", "warnings")),
    Failure: ("dud", ("testbed", "revision", "scenario", "stage", "reaction", "why")),
}
"""Kind of the event of each class, and the fields that it has."""
_AT_ONCE = 500
"""Keys in one query; SQLite takes 32,766 parameters."""


def add_facts(
    writing: WriteTransaction, facts: Sequence[Fact], decision: int | None = None, log: str = ""
) -> list[Fact]:
    """Adds the new ones of these facts, and returns them.

    Raises:
        StoreError: a Sample's boot is not recorded, nor among the facts; or a number is not
            finite.
    """
    for fact in facts:
        _check_numbers(fact)
    known = _known(writing.session, [_name(fact) for fact in facts])
    added: list[Fact] = []
    for fact in facts:
        if (name := _name(fact)) not in known:
            known.add(name)
            added.append(fact)
    _check_boots(writing.session, added)
    for table in _KEYS:
        rows = [
            _values(fact, decision, log, writing.now) for fact in added if _name(fact)[0] is table
        ]
        if rows:
            writing.session.execute(insert(table), rows)
    return added


def add_event(writing: WriteTransaction, fact: Fact, job: int | None) -> None:
    """Adds the event of a new fact."""
    kind, fields = _EVENTS[type(fact)]
    data = {name: getattr(fact, name) for name in fields}
    if isinstance(fact, Sample):
        data["revision"] = writing.session.get_one(BootRow, fact.boot).revision
    writing.note(kind, job, **data)


def _name(fact: Fact) -> _Name:
    """The key as the database stores it, with clean text."""
    table = _TABLES[type(fact)]
    return _named(table, *(getattr(fact, column) for column in _KEYS[table]))


def _named(table: type[Base], *parts: object) -> _Name:
    return table, tuple(clean(part) if isinstance(part, str) else part for part in parts)


def _values(fact: Fact, decision: int | None, log: str, now: float) -> dict[str, Any]:
    """The columns of a fact."""
    values = dataclasses.asdict(fact)
    match fact:
        case Conditions():
            return {**values, "at": now}
        case Sample():
            values["boot_id"] = values.pop("boot")
            values["valid"] = fact.valid
        case Failure():
            values.update(stage=fact.stage.value, reaction=fact.reaction.value)
            values["log"] = fact.log or log
        case Kernel() | Boot():
            pass
        case _:
            assert_never(fact)
    return {**values, "decision_id": decision}


def _known(session: Session, names: list[_Name]) -> set[_Name]:
    """The keys that are in their tables."""
    known: set[_Name] = set()
    for table, keys in _KEYS.items():
        columns = [getattr(table, name) for name in keys]
        wanted = [name for kind, name in names if kind is table]
        for some in _in_parts(wanted):
            query = select(*columns).where(tuple_(*columns).in_(some))
            known |= {(table, tuple(row)) for row in session.execute(query)}
    return known


def _in_parts(names: list[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    for _, part in groupby(enumerate(names), lambda item: item[0] // _AT_ONCE):
        yield [name for _, name in part]


def _check_boots(session: Session, facts: list[Fact]) -> None:
    coming = {_name(fact) for fact in facts if isinstance(fact, Boot)}
    missing = {
        boot: sample
        for sample in facts
        if isinstance(sample, Sample) and (boot := _named(BootRow, sample.boot)) not in coming
    }
    there = _known(session, list(missing))
    for boot, sample in missing.items():
        if boot not in there:
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
