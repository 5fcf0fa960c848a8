"""Series with their levels under earlier conditions, read for all branches at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Level
from netbisect.store.db.records import SeriesName
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import (
    BootRow,
    ConditionsRow,
    PlaceRow,
)
from netbisect.store.repositories.levels import (
    ByConditions,
    measured,
)
from netbisect.store.repositories.series import EndedChanges, changes_of


@dataclass(frozen=True, slots=True)
class ConditionsEpoch:
    """Levels under the same conditions."""

    digest: str
    values: Mapping[str, str]
    levels: tuple[Level, ...]
    """In the order of the branch; at least one."""


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """A series since its beginning."""

    name: SeriesName
    epochs: tuple[ConditionsEpoch, ...]
    """In the order of their newest samples; comparisons use the last one."""
    numbers: Mapping[str, int]
    """By revision booted on the testbed: its number on the branch."""
    baseline: tuple[Level, ...]
    """Levels of the last epoch since the last confirmed change; see `Levels`."""


_NONE = (0, EndedChanges())
"""Result of `changes_of` for a series without changes."""


class SeriesHistoryRepository(LedgerRepository):
    """Reads series since their beginning."""

    def of(self, testbed: str, scenario: str) -> list[SeriesHistory]:
        """The series of a testbed and scenario, by branch."""
        return next(self.of_scenarios(testbed, [scenario]))

    def of_scenarios(self, testbed: str, scenarios: Sequence[str]) -> Iterator[list[SeriesHistory]]:
        """As `of`, for several scenarios; rows that they share are read once."""
        with self.reading() as session:
            booted = _booted(session, testbed)
            values = _conditions(session, testbed, scenarios)
            changed = changes_of(session, testbed, scenarios)
            for scenario, found in measured(session, testbed, scenarios):
                yield [
                    _trail(name, found, values, numbers, changed.get((scenario, branch), _NONE))
                    for branch, numbers in sorted(booted.items())
                    if any(one.revision in numbers for levels in found.values() for one in levels)
                    for name in (SeriesName(testbed, scenario, branch),)
                ]


def _trail(
    name: SeriesName,
    found: ByConditions,
    values: Mapping[tuple[str, str], Mapping[str, str]],
    numbers: Mapping[str, int],
    changed: tuple[int, EndedChanges],
) -> SeriesHistory:
    epochs = tuple(
        ConditionsEpoch(digest, values.get((name.scenario, digest), {}), levels)
        for digest, all_levels in found.items()
        if (levels := _levels(all_levels, numbers))
    )
    start, gaps = changed
    # A branch without samples under the newest conditions has no baseline.
    newest = epochs[-1].levels if epochs[-1].digest == [*found][-1] else ()
    baseline = tuple(
        level
        for level in newest
        if numbers[level.revision] >= start and gaps.keep(numbers[level.revision], level)
    )
    return SeriesHistory(name, epochs, numbers, baseline)


def _levels(found: Iterable[Level], numbers: Mapping[str, int]) -> tuple[Level, ...]:
    """The levels of one branch, in its order."""
    of_branch = [(numbers[one.revision], one) for one in found if one.revision in numbers]
    # The kernels of a revision are ordered by time, as in `SeriesRepository.levels`.
    of_branch.sort(key=lambda item: (item[0], item[1].at))
    return tuple([level for _, level in of_branch])


def _booted(session: Session, testbed: str) -> dict[str, dict[str, int]]:
    """By branch: numbers of the revisions booted on a testbed."""
    places: defaultdict[str, dict[str, int]] = defaultdict(dict)
    query = select(PlaceRow.branch, PlaceRow.revision, PlaceRow.number).where(
        PlaceRow.revision.in_(select(BootRow.revision).where(BootRow.testbed == testbed))
    )
    for branch, revision, number in session.execute(query):
        places[branch][revision] = number
    return places


def _conditions(
    session: Session, testbed: str, scenarios: Sequence[str]
) -> dict[tuple[str, str], Mapping[str, str]]:
    """By scenario and digest."""
    query = select(ConditionsRow).where(
        ConditionsRow.testbed == testbed, ConditionsRow.scenario.in_(scenarios)
    )
    return {(row.scenario, row.digest): dict(row.values) for row in session.scalars(query)}
