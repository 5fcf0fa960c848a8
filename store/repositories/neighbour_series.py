"""Series of other testbeds around a change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.metric import metric_of
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, PlaceRow, SampleRow

_BEFORE, _SINCE = 12, 2
"""Revisions per testbed before the change, for its noise, and since the change."""
_COMMITS = 2000
"""Commits of the branch to search on each side."""


@dataclass(frozen=True, slots=True)
class NeighbourSeries:
    """A series around a change on another testbed."""

    before: tuple[float, ...]
    """ln pps of the revisions up to the last good commit, under the conditions of `since`; at least
    one."""
    since: float
    """ln pps of the first revision with the bad commit."""
    saturated: bool
    """Whether the generator limited it."""


class NeighbourSeriesRepository(LedgerRepository):
    """Reads across testbeds."""

    def around(
        self, branch: str, testbed: str, ends: tuple[int, int], until: float = math.inf
    ) -> dict[tuple[str, str], NeighbourSeries]:
        """By testbed and scenario: the series of a branch with levels on both sides of a change.

        `testbed` is left out. `ends` are the numbers of the last good and the first bad commit;
        samples after `until`, in seconds since the epoch, are ignored. The level of a revision is
        the mean rate of all its runs.
        """
        with self.reading() as session:
            numbers = _numbers(session, branch, ends)
            wanted = _wanted(session, testbed, numbers, ends)
            query = (
                select(
                    SampleRow.testbed,
                    SampleRow.scenario,
                    SampleRow.conditions,
                    BootRow.revision,
                    func.avg(SampleRow.pps),
                    func.avg(SampleRow.offered_pps),
                )
                .join(BootRow, SampleRow.boot == BootRow.id)
                .where(
                    BootRow.testbed.in_(sorted(wanted)),
                    BootRow.revision.in_(sorted(set().union(*wanted.values()))),
                    SampleRow.valid,
                    SampleRow.at <= until,
                )
                .group_by(
                    SampleRow.testbed, SampleRow.scenario, SampleRow.conditions, BootRow.revision
                )
            )
            rows = session.execute(query).all() if wanted else []
        series: defaultdict[tuple[str, str], list[_Level]] = defaultdict(list)
        for name, scenario, conditions, revision, pps, offered in rows:
            if revision in wanted[name]:
                level = _Level(numbers[revision], conditions, pps, offered)
                series[name, scenario].append(level)
        found = {place: _sides(levels, ends, place[1]) for place, levels in series.items()}
        return {place: sides for place, sides in sorted(found.items()) if sides is not None}


class _Level(NamedTuple):
    """Level of a revision in a series."""

    number: int
    conditions: str
    pps: float
    offered: float


def _sides(levels: list[_Level], ends: tuple[int, int], scenario: str) -> NeighbourSeries | None:
    good, bad = ends
    level = metric_of(scenario).level
    since = min((one for one in levels if one.number >= bad), default=None)
    before = [
        level(one.pps)
        for one in sorted(levels)
        if since is not None and one.number <= good and one.conditions == since.conditions
    ]
    if since is None or not before:
        return None
    limited = sample_validity.saturated(since.pps, since.offered)
    return NeighbourSeries(tuple(before), level(since.pps), limited)


def _numbers(session: Session, branch: str, ends: tuple[int, int]) -> dict[str, int]:
    """By revision: its number on the branch, on both sides of a change."""
    good, bad = ends
    places = select(PlaceRow.revision, PlaceRow.number).where(PlaceRow.branch == branch)
    before = places.where(PlaceRow.number <= good).order_by(PlaceRow.number.desc())
    since = places.where(PlaceRow.number >= bad).order_by(PlaceRow.number)
    return {
        revision: number
        for side in (before, since)
        for revision, number in session.execute(side.limit(_COMMITS))
    }


def _wanted(
    session: Session, testbed: str, numbers: Mapping[str, int], ends: tuple[int, int]
) -> dict[str, set[str]]:
    """By testbed with revisions on both sides: the booted revisions nearest to the change."""
    good, bad = ends
    booted: defaultdict[str, list[str]] = defaultdict(list)
    for name, revision in session.execute(select(BootRow.testbed, BootRow.revision).distinct()):
        if revision in numbers and name != testbed:
            booted[name].append(revision)
    wanted = {}
    for name, revisions in booted.items():
        revisions.sort(key=numbers.__getitem__)
        before = [one for one in revisions if numbers[one] <= good][-_BEFORE:]
        since = [one for one in revisions if numbers[one] >= bad][:_SINCE]
        if before and since:
            wanted[name] = {*before, *since}
    return wanted
