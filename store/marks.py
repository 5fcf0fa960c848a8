"""By what a reader knows, in little time, that there is news: without reading what it is."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from netbisect.store.records import Event
from netbisect.store.sessions import Sessions
from netbisect.store.tables import (
    AlertRow,
    AlertSeriesRow,
    BootRow,
    CommitRow,
    ConditionsRow,
    EventRow,
    KernelRow,
    PlaceRow,
    SampleRow,
)

_LETTERS = 16


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of all that the series of a testbed and scenario are read from."""

    samples: int
    """Valid ones; facts are only ever added."""
    latest: float
    """Time of the newest, seconds since the epoch."""
    background: str
    """Digest of what else they are read from: kernels, places of commits, conditions, alerts."""


class Counted(NamedTuple):
    """The valid samples of a testbed and scenario; facts are only ever added."""

    samples: int
    latest: float
    """Time of the newest, seconds since the epoch."""


class Marks(Sessions):
    """Tells by a few numbers what has changed."""

    def mark(self) -> str:
        """The state of the whole ledger: as long as it is the same, nothing was written.

        All that is written is told by an event, and events are numbered in order.
        """
        last = select(EventRow.id, EventRow.at).order_by(EventRow.id.desc()).limit(1)
        with self.reading() as session:
            found = session.execute(last).first()
            return "" if found is None else f"{found.id} {found.at!r}"

    def events_after(self, mark: str, most: int = 20_000) -> list[Event] | None:
        """What happened since the ledger had this mark, oldest first.

        None where it was the mark of another ledger, or where too much has happened.
        """
        number = int(mark.partition(" ")[0] or 0)
        query = select(EventRow).where(EventRow.id >= number).order_by(EventRow.id).limit(most + 2)
        with self.reading() as session:
            rows = session.scalars(query).all()
            if not rows or f"{rows[0].id} {rows[0].at!r}" != mark or len(rows) > most + 1:
                return None
            return [
                Event(row.id, row.at, row.kind, row.question_id, dict(row.data)) for row in rows[1:]
            ]

    def counted(self, testbeds: Collection[str] | None = None) -> dict[tuple[str, str], Counted]:
        """By testbed and scenario that has valid samples, in order: how many, up to when.

        Args:
            testbeds: Only of these; all where they are not told.
        """
        with self.reading() as session:
            return _counted(session, testbeds)

    def marks(self) -> dict[tuple[str, str], Mark]:
        """By testbed and scenario that has valid samples, in order."""
        with self.reading() as session:
            booted, alerts = _booted(session), _alerts(session)
            known = {
                (testbed, scenario): count
                for testbed, scenario, count in session.execute(
                    select(ConditionsRow.testbed, ConditionsRow.scenario, func.count()).group_by(
                        ConditionsRow.testbed, ConditionsRow.scenario
                    )
                )
            }
            return {
                (testbed, scenario): Mark(
                    samples,
                    latest,
                    _digest(
                        [
                            booted.get(testbed, ""),
                            known.get((testbed, scenario), 0),
                            alerts.get((testbed, scenario), ""),
                        ]
                    ),
                )
                for (testbed, scenario), (samples, latest) in _counted(session, None).items()
            }


def _counted(session: Session, testbeds: Collection[str] | None) -> dict[tuple[str, str], Counted]:
    query = (
        select(SampleRow.testbed, SampleRow.scenario, func.count(), func.max(SampleRow.at))
        .where(SampleRow.valid)
        .group_by(SampleRow.testbed, SampleRow.scenario)
        .order_by(SampleRow.testbed, SampleRow.scenario)
    )
    if testbeds is not None:
        query = query.where(SampleRow.testbed.in_(testbeds))
    return {
        (testbed, scenario): Counted(samples, latest)
        for testbed, scenario, samples, latest in session.execute(query)
    }


def _digest(told: Iterable[object]) -> str:
    found = hashlib.sha256()
    for one in told:
        found.update(repr(one).encode("utf-8", "replace"))
    return found.hexdigest()[:_LETTERS]


def _booted(session: Session) -> dict[str, str]:
    """By testbed: the kernels that it booted, and where their revisions are."""
    built = (
        select(BootRow.testbed, func.count().label("kernels"))
        .join(
            KernelRow, (KernelRow.key == BootRow.kernel) & (KernelRow.revision == BootRow.revision)
        )
        .group_by(BootRow.testbed)
    )
    counts = {one.testbed: one.kernels for one in session.execute(built)}
    placed: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    places = (
        select(PlaceRow.revision, PlaceRow.branch, PlaceRow.number, CommitRow.number)
        .join(CommitRow, CommitRow.revision == PlaceRow.revision)
        .where(PlaceRow.revision.in_(select(BootRow.revision)))
        .order_by(PlaceRow.branch, PlaceRow.number)
    )
    for revision, *place in session.execute(places):
        placed[revision].append(tuple(place))
    of_testbed: defaultdict[str, list[object]] = defaultdict(list)
    pairs = select(BootRow.testbed, BootRow.revision).distinct()
    for testbed, revision in session.execute(pairs.order_by(BootRow.testbed, BootRow.revision)):
        of_testbed[testbed].append((revision, placed.get(revision)))
    return {
        testbed: _digest([counts.get(testbed, 0), *told]) for testbed, told in of_testbed.items()
    }


def _alerts(session: Session) -> dict[tuple[str, str], str]:
    """By testbed and scenario: what was announced of it, and what has become of that."""
    came, bad, went = aliased(CommitRow), aliased(CommitRow), aliased(CommitRow)
    query = (
        select(
            AlertSeriesRow.testbed,
            AlertSeriesRow.scenario,
            AlertSeriesRow.branch,
            AlertSeriesRow.bad,
            AlertRow.id,
            AlertRow.kind,
            AlertRow.state,
            AlertRow.culprit,
            AlertRow.recovery,
            AlertRow.closed_at,
            came.number,
            bad.number,
            went.number,
        )
        .join(AlertRow, AlertRow.id == AlertSeriesRow.alert_id)
        .outerjoin(came, came.revision == AlertRow.culprit)
        .outerjoin(bad, bad.revision == AlertSeriesRow.bad)
        .outerjoin(went, went.revision == AlertRow.recovery)
        .order_by(AlertSeriesRow.id)
    )
    found: defaultdict[tuple[str, str], list[object]] = defaultdict(list)
    for testbed, scenario, *told in session.execute(query):
        found[testbed, scenario].append(tuple(told))
    return {place: _digest(told) for place, told in found.items()}
