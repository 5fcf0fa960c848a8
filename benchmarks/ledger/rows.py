"""A ledger with many searches, written as rows: through its methods it would take an hour."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice
from typing import Any

import numpy as np
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    Integer,
    Table,
    Text,
    cast,
    func,
    insert,
    literal,
    select,
    text,
)

from benchmarks.site.ledger import BRANCH, DAY, FIRST, bed, head, revision, scenario
from netbisect.bisect import wire
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Candidate,
    Comparison,
    Conditions,
    Confirmed,
    Culprit,
    Effect,
    Finding,
    Night,
    NightDone,
    Noise,
    Question,
)
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.store import tables
from netbisect.store.database import open_database, writer
from netbisect.store.schema import migrate

Row = tuple[type[tables.Base], dict[str, Any]]

_COMMITS = 24
_LEARNT = 8
"""Nights before the first search."""
_MOVED = 5
"""Scenarios that a change is seen in."""
_VISITS = 6
_AT_ONCE = 5000
_CONFIG, _ARCH = "GENERIC-NODEBUG", "amd64"
_OFFERED = 14_880_000.0
_APART = 1_000_000
"""Between the numbers of one testbed and those of the next."""
_NUMBERS = {"question_id", "parent_id", "decision_id", "alert_id", "comparison_id", "bisection_id"}
_NAMING = {"testbed", "target", "noun", "key", "kernel", "identity", "boot_id", "message_id"}
"""Columns with the name of a testbed in them; names of rows and data of events have it too."""
_ORDER: tuple[type[tables.Base], ...] = (
    tables.CommitRow,
    tables.PlaceRow,
    tables.QuestionRow,
    tables.DecisionRow,
    tables.KernelRow,
    tables.BootRow,
    tables.ConditionsRow,
    tables.SampleRow,
    tables.AlertRow,
    tables.AlertSeriesRow,
    tables.AlertChangeRow,
    tables.MailRow,
    tables.EventRow,
)
"""So that what a row refers to is there before it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large it is; as given here, a million samples."""

    testbeds: int = 20
    scenarios: int = 10
    nights: int = 700
    boots: int = 5
    searches: int = 10_000

    @property
    def now(self) -> float:
        """Behind the last night, seconds since the epoch."""
        return FIRST + self.nights * DAY


def fill(url: str, size: Size) -> None:
    """Makes the tables in an empty database, and fills them.

    What the first testbed has is written row by row, and the database makes the same for the
    others: no ten thousand searches are alike to a reader, and all of them are to a database.
    """
    engine = open_database(url)
    migrate(engine)
    rows = _Rows(size)
    for part in (rows.background(), rows.nights(), rows.searches()):
        _write(engine, part)
    for testbed in range(1, size.testbeds):
        with writer(engine).begin() as connection:
            for table in _ORDER[2:]:
                connection.execute(_copy(connection, table.__table__, testbed))  # type: ignore[arg-type] # a table
    _finish(engine)
    engine.dispose()


def _copy(connection: Connection, table: Table, testbed: int) -> Insert:
    """What the first testbed has of a table, for another one."""

    def column(of: Column[Any]) -> ColumnElement[Any]:
        if of.name in _NUMBERS or (of.name == "id" and isinstance(of.type, Integer)):
            return of + testbed * _APART
        if of.name == "external_id":
            number = cast(table.c.question_id + testbed * _APART, Text)
            return literal("nb:") + number + ":" + cast(table.c.seq, Text) + ":1"
        if of.name not in _NAMING | {"id", "data"}:
            return of
        renamed = func.replace(cast(of, Text), bed(0), bed(testbed))
        json = isinstance(of.type, JSON) and connection.dialect.name == "postgresql"
        return cast(renamed, JSON) if json else renamed

    columns = list(table.c)
    mine = table.c.testbed == bed(0) if "testbed" in table.c else table.c.id <= _APART
    rows = select(*map(column, columns)).where(mine)
    return insert(table).from_select([one.name for one in columns], rows)


def _write(engine: Engine, rows: Iterator[Row]) -> None:
    found: defaultdict[type[tables.Base], list[dict[str, Any]]] = defaultdict(list)
    for table, row in rows:
        found[table].append(row)
    with writer(engine).begin() as connection:
        for table in _ORDER:
            waiting = iter(found[table])
            while batch := list(islice(waiting, _AT_ONCE)):
                connection.execute(insert(table.__table__), batch)  # type: ignore[arg-type] # a table


def _finish(engine: Engine) -> None:
    """PostgreSQL goes on numbering behind what was written, and knows what there is."""
    if engine.dialect.name == "sqlite":
        return
    with writer(engine).begin() as connection:
        for table in (one for one in _ORDER if "id" in one.__table__.c):
            name = table.__tablename__
            connection.execute(
                text(
                    f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) FROM {name} "  # noqa: S608 - our own tables
                    f"WHERE pg_get_serial_sequence('{name}', 'id') IS NOT NULL"
                )
                if name not in ("boots", "samples")
                else text("SELECT 1")
            )
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("VACUUM ANALYZE"))


class _Rows:
    """Numbers its rows."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._random = np.random.default_rng(1)
        self._numbers: defaultdict[type[tables.Base], count[int]] = defaultdict(lambda: count(1))

    def _row(self, table: type[tables.Base], **values: object) -> Row:
        return table, {"id": next(self._numbers[table]), **values}

    def _event(self, kind: str, at: float, question: int | None, /, **data: object) -> Row:
        return self._row(tables.EventRow, at=at, kind=kind, question_id=question, data=data)

    def background(self) -> Iterator[Row]:
        """Commits, their places, and the conditions of all series."""
        for number in range(head(-1), head(self._size.nights + 1)):
            commit = {
                "revision": revision(number),
                "number": number,
                "subject": f"sys: keep the counters of path {number % 25} apart",
                "body": "",
                "author": "A Committer",
                "email": "committer@example.org",
                "at": FIRST + (number - 300_000) / _COMMITS * DAY,
                "paths": ["sys/netinet/ip_output.c"],
                "lines": 12,
            }
            yield tables.CommitRow, commit
            place = {"branch": BRANCH, "number": number, "revision": commit["revision"]}
            yield tables.PlaceRow, place
        for path in range(self._size.scenarios):
            yield tables.ConditionsRow, {**asdict(_conditions(path)), "at": FIRST}

    def nights(self) -> Iterator[Row]:
        """All nights of the first testbed."""
        size, name = self._size, bed(0)
        names = tuple(map(scenario, range(size.scenarios)))
        for number in range(size.nights):
            at, one = FIRST + number * DAY + 3600.0, revision(head(number))
            night = Night(BRANCH, name, one, names, size.boots)
            key = f"night:{BRANCH}:{name}:{one}"
            question = yield from self._question(night, key, at, NightDone(size.boots))
            images = self._random.normal(0, 0.006, size.scenarios)
            for boot in range(size.boots):
                start = at + 600.0 + boot * 900.0
                scatter = images + self._random.normal(0, 0.009, size.scenarios)
                levels = dict(zip(range(size.scenarios), scatter, strict=True))
                yield from self._visit(question, boot + 1, one, start, levels)

    def searches(self) -> Iterator[Row]:
        """Its comparisons with their alerts, searches, boots and mails."""
        for number in range(self._size.searches // self._size.testbeds):
            yield from self._search(number)

    def _question(
        self, noun: Question, key: str, at: float, finding: Finding, parent: int | None = None
    ) -> Generator[Row, None, int]:
        table, row = self._row(
            tables.QuestionRow,
            kind=type(noun).__name__.lower(),
            noun=wire.dumps(noun),
            parent_id=parent,
            key=key,
            branch=BRANCH,
            testbed=noun.testbed,
            priority=100,
            requested_by="",
            state="closed",
            finding=wire.dumps(finding),
            opened_at=at,
            closed_at=at + 9000.0,
        )
        yield table, row
        yield self._event("asked", at, row["id"], key=key, kind=row["kind"], branch=BRANCH)
        yield self._event("closed", at + 9000.0, row["id"], key=key, kind=row["kind"])
        return int(row["id"])

    def _visit(
        self,
        question: int,
        seq: int,
        one: str,
        at: float,
        levels: dict[int, float],
        belief: Belief | None = None,
    ) -> Iterator[Row]:
        """A decision with its kernel, its boot and a sample of each of these scenarios."""
        name = bed(0)
        table, decision = self._row(
            tables.DecisionRow,
            question_id=question,
            seq=seq,
            attempt=1,
            external_id=f"nb:{question}:{seq}:1",
            stage="trial",
            revision=one,
            target=name,
            testbed=name,
            config=_CONFIG,
            arch=_ARCH,
            runs=1,
            why="most to learn for its price",
            belief=None if belief is None else asdict(belief),
            buildset=1,
            outcome="ok",
            note="",
            intended_at=at,
            submitted_at=at,
            finished_at=at + 800.0,
        )
        yield table, decision
        yield self._event("decided", at, question, decision=decision["id"], revision=one)
        yield self._event("finished", at + 800.0, question, decision=decision["id"])
        key = f"{one[:20]}-{name}"
        of_it = {"revision": one, "at": at, "decision_id": decision["id"]}
        if seq == 1 or belief is not None:
            built = {"config": _CONFIG, "arch": _ARCH, "identity": key, "key": key}
            yield self._row(
                tables.KernelRow, **of_it, **built, version="v", size=30_000_000, seconds=500.0
            )
        boot = f"{name}-{question}-{seq}"
        booted = {"id": boot, "testbed": name, "kernel": key, "seconds": 170.0}
        yield tables.BootRow, {**of_it, **booted}
        yield self._event("boot", at, question, testbed=name, revision=one, seconds=170.0)
        for path, ln in levels.items():
            yield (
                tables.SampleRow,
                {
                    "id": f"{boot}-{path}",
                    "boot_id": boot,
                    "testbed": name,
                    "scenario": scenario(path),
                    "pps": 600_000 * math.exp(ln),
                    "offered_pps": _OFFERED,
                    "received": [],
                    "offered": [],
                    "problems": [],
                    "valid": True,
                    "conditions": _conditions(path).digest,
                    "at": at + 200.0 + 30.0 * path,
                    "seconds": 30.0,
                    "decision_id": decision["id"],
                },
            )

    def _search(self, number: int) -> Iterator[Row]:
        size = self._size
        searches = max(size.searches // size.testbeds, 1)
        first = _LEARNT + number * (size.nights - _LEARNT) // searches
        name, at = bed(0), FIRST + first * DAY + 20_000.0
        good, bad = head(first - 1), head(first)
        paths = list(range(number % 2, size.scenarios, 2))[:_MOVED]
        moved = tuple(map(scenario, paths))
        effects = tuple(Effect(one, -0.04, -0.05, -0.03, 1e-8, 12, 12) for one in moved)
        ends = BRANCH, name, revision(good)
        comparison = Comparison(*ends, revision(bad), moved, moved[0], -0.04)
        asked = yield from self._question(
            comparison, f"compare:{name}:{number}", at, Confirmed(effects)
        )
        inside = [revision(one) for one in range(good + 1, bad + 1)]
        culprit = inside[len(inside) // 2]
        belief = Belief({one: 0.99 if one == culprit else 0.0004 for one in inside}, 0.001)
        finding = Culprit(culprit, inside[len(inside) // 2 - 1], belief, effects, 0.99)
        search = Bisection(*ends, tuple(map(Candidate, inside)), moved, moved[0], -0.04, Noise())
        searched = yield from self._question(search, f"bisect:{name}:{number}", at, finding, asked)
        for visit in range(_VISITS):
            one = inside[(visit * 7 + number) % len(inside)]
            levels = {path: float(self._random.normal(0, 0.01)) for path in paths}
            start = at + 1000.0 * (visit + 1)
            yield from self._visit(searched, visit + 1, one, start, levels, belief)
        yield from self._alert(number, (asked, searched), effects, (good, bad, culprit), at)

    def _alert(
        self,
        number: int,
        questions: tuple[int, int],
        effects: tuple[Effect, ...],
        ends: tuple[int, int, str],
        at: float,
    ) -> Iterator[Row]:
        name, (good, bad, culprit) = bed(0), ends
        stands = number == self._size.searches // self._size.testbeds - 1
        told = {"good": revision(good), "bad": revision(bad)}
        table, alert = self._row(
            tables.AlertRow,
            testbed=name,
            branch=BRANCH,
            lead=effects[0].scenario,
            **told,
            effects=[asdict(one) for one in effects],
            state=(AlertState.CULPRIT_FOUND if stands else AlertState.FIXED).value,
            culprit=culprit,
            comparison_id=questions[0],
            bisection_id=questions[1],
            thread=f"<{name}.{number}@netbisect.invalid>",
            opened_at=at,
            closed_at=None if stands else at + 2 * DAY,
            kind=AlertKind.DROP.value,
            announced_at=at,
            muted_until=None,
            recovery="" if stands else revision(bad + _COMMITS),
            merged_into=None,
        )
        yield table, alert
        for one in effects:
            yield self._row(
                tables.AlertSeriesRow,
                alert_id=alert["id"],
                testbed=name,
                scenario=one.scenario,
                branch=BRANCH,
                **told,
                effect=asdict(one),
                at=at,
            )
        for state in ("candidate", "open", "bisecting", alert["state"]):
            yield self._row(
                tables.AlertChangeRow,
                alert_id=alert["id"],
                at=at,
                who="netbisect",
                what="as it was measured",
                state=state,
            )
        for kind in ("opened", "culprit"):
            yield self._row(
                tables.MailRow,
                message_id=f"<{name}.{number}.{kind}@netbisect.invalid>",
                key=f"alert:{name}:{number}:{kind}",
                alert_id=alert["id"],
                subject="a drop",
                recipients=["people@example.org"],
                body="what was found\n" * 40,
                in_reply_to="",
                refers_to=[],
                state="sent",
                attempts=1,
                next_try_at=at,
                last_error="",
                created_at=at,
                sent_at=at,
            )


def _conditions(path: int) -> Conditions:
    return Conditions.of(bed(0), scenario(path), {"flows": "2000", "nic": "1.63"})
