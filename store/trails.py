"""Whole series at a time, with what was measured under earlier conditions too.

One look at a testbed and scenario reads all its branches, so that hundreds of series can be told
of at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from netbisect.bisect import validity
from netbisect.bisect.model import Commit, Level
from netbisect.bisect.subject import parts_of
from netbisect.store.evidence import comparable
from netbisect.store.lookup import SeriesName
from netbisect.store.questions import asked_of
from netbisect.store.records import Asked
from netbisect.store.rows import commit_of
from netbisect.store.series import changes, kept, level_of
from netbisect.store.sessions import Sessions
from netbisect.store.tables import (
    AlertChangeRow,
    BootRow,
    CommitRow,
    ConditionsRow,
    DecisionRow,
    KernelRow,
    PlaceRow,
    QuestionRow,
    SampleRow,
)

_PART = 10_000
"""Names in one query; SQLite takes 32,766 parameters."""


@dataclass(frozen=True, slots=True)
class Mark:
    """By which a testbed and scenario is known to have been measured since."""

    samples: int
    latest: float
    """Time of the newest, seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What was measured under the same conditions."""

    digest: str
    values: Mapping[str, str]
    levels: tuple[Level, ...]
    """In the order of the branch; at least one."""


@dataclass(frozen=True, slots=True)
class Trail:
    """A series from its beginning."""

    name: SeriesName
    epochs: tuple[Epoch, ...]
    """In the order of their newest samples; the last one is what comparisons use."""
    numbers: Mapping[str, int]
    """By revision: its place on the branch."""
    baseline: tuple[Level, ...]
    """Of the last epoch, the levels since the last confirmed change, as `Series.baseline`."""


_Found = dict[tuple[str, str], tuple[float, dict[str, list[tuple[float, bool]]]]]
"""By revision and image: when it was measured first, and by boot its runs."""


class Trails(Sessions):
    """Reads series as a whole."""

    def marks(self) -> dict[tuple[str, str], Mark]:
        """By testbed and scenario: how many valid samples there are, and the time of the newest."""
        query = (
            select(SampleRow.testbed, SampleRow.scenario, func.count(), func.max(SampleRow.at))
            .where(SampleRow.valid)
            .group_by(SampleRow.testbed, SampleRow.scenario)
            .order_by(SampleRow.testbed, SampleRow.scenario)
        )
        with self.reading() as session:
            return {
                (testbed, scenario): Mark(samples, latest)
                for testbed, scenario, samples, latest in session.execute(query)
            }

    def trails(self, testbed: str, scenario: str) -> list[Trail]:
        """The series of a testbed and scenario, one for each branch, ordered by branch."""
        with self.reading() as session:
            by_conditions = _measured(session, testbed, scenario)
            values = _conditions(session, testbed, scenario)
            revisions = {revision for found in by_conditions.values() for revision, _ in found}
            trails = []
            for branch, numbers in sorted(_places(session, revisions).items()):
                name = SeriesName(testbed, scenario, branch)
                epochs = tuple(
                    Epoch(digest, values.get(digest, {}), levels)
                    for digest, found in by_conditions.items()
                    if (levels := _levels(found, numbers))
                )
                start, gaps = changes(session, (testbed, scenario, branch))
                baseline = tuple(
                    level
                    for level in (epochs[-1].levels if _newest(epochs, by_conditions) else ())
                    if numbers[level.revision] >= start
                    and kept(numbers[level.revision], level, gaps)
                )
                trails.append(Trail(name, epochs, numbers, baseline))
            return trails

    def commits(self, revisions: Collection[str]) -> dict[str, Commit]:
        """By revision: those of these commits that were learned."""
        with self.reading() as session:
            return {
                row.revision: commit_of(row)
                for part in _parts(revisions)
                for row in session.scalars(select(CommitRow).where(CommitRow.revision.in_(part)))
            }

    def questions(self, kind: str) -> list[Asked]:
        """All questions of a kind, `comparison` or `bisection`, oldest first."""
        query = select(QuestionRow).where(QuestionRow.kind == kind).order_by(QuestionRow.id)
        with self.reading() as session:
            return [asked_of(row) for row in session.scalars(query)]

    def last_nights(self, seconds: float) -> list[Asked]:
        """The nights that were asked for at most so long before the last one, repeats left out."""
        nights = (QuestionRow.kind == "night") & QuestionRow.parent_id.is_(None)
        last = select(func.max(QuestionRow.opened_at)).where(nights)
        with self.reading() as session:
            at = session.scalar(last)
            if at is None:
                return []
            query = select(QuestionRow).where(nights, QuestionRow.opened_at >= at - seconds)
            rows = session.scalars(query.order_by(QuestionRow.testbed, QuestionRow.id))
            return [asked_of(row) for row in rows]

    def progress(self) -> dict[int, tuple[int, int]]:
        """By question: how many attempts there were, and how many of them are over."""
        query = select(DecisionRow.question_id, func.count(), func.count(DecisionRow.outcome))
        with self.reading() as session:
            found = session.execute(query.group_by(DecisionRow.question_id))
            return {question: (begun, over) for question, begun, over in found}

    def alert_news(self) -> dict[int, tuple[int, float]]:
        """By alert: how often it was changed, and when last."""
        query = select(AlertChangeRow.alert_id, func.count(), func.max(AlertChangeRow.at))
        with self.reading() as session:
            found = session.execute(query.group_by(AlertChangeRow.alert_id))
            return {alert: (times, at) for alert, times, at in found}

    def measured_revisions(self) -> list[str]:
        """Every revision whose ordinary kernel was booted; without those with a patch."""
        ordinary = ~BootRow.revision.contains("#")
        with self.reading() as session:
            booted = session.scalars(select(BootRow.revision).where(ordinary).distinct())
            return [one for one in booted if not parts_of(one)[1]]

    def images(self, revisions: Collection[str]) -> dict[tuple[str, str], dict[str, Level]]:
        """By testbed and scenario, then by revision: levels under the newest conditions.

        Where a revision has several kernels, that which was measured first.
        """
        found: defaultdict[tuple[str, str], dict[str, Level]] = defaultdict(dict)
        with self.reading() as session:
            places = session.execute(
                select(SampleRow.testbed, SampleRow.scenario)
                .join(BootRow, SampleRow.boot_id == BootRow.id)
                .where(BootRow.revision.in_(revisions), SampleRow.valid)
                .distinct()
            ).all()
            for testbed, scenario in places:
                newest = comparable(session, testbed, [scenario])
                by_conditions = _measured(session, testbed, scenario, revisions, newest)
                for measured in by_conditions.values():
                    for (revision, image), (at, boots) in measured.items():
                        level = level_of(revision, image, at, list(boots.values()))
                        found[testbed, scenario].setdefault(revision, level)
        return dict(found)


def _newest(epochs: tuple[Epoch, ...], found: dict[str, _Found]) -> bool:
    """Whether the branch was measured under the newest conditions of its testbed and scenario."""
    return bool(epochs) and epochs[-1].digest == next(reversed(found))


def _measured(
    session: Session,
    testbed: str,
    scenario: str,
    revisions: Collection[str] | None = None,
    *where: ColumnElement[bool],
) -> dict[str, _Found]:
    """By digest of the conditions, the newest last: what was measured under them.

    Args:
        session: Where it is looked up.
        testbed: Of the samples.
        scenario: Of the samples.
        revisions: Only these.
        where: Conditions on the samples.
    """
    only = [] if revisions is None else [BootRow.revision.in_(revisions)]
    identity = {
        (key, revision): name
        for key, revision, name in session.execute(
            select(KernelRow.key, KernelRow.revision, func.max(KernelRow.identity))
            .where(KernelRow.key.in_(select(BootRow.kernel).where(BootRow.testbed == testbed)))
            .group_by(KernelRow.key, KernelRow.revision)
        )
    }
    query = (
        select(
            SampleRow.conditions,
            BootRow.revision,
            BootRow.kernel,
            BootRow.id,
            SampleRow.at,
            SampleRow.pps,
            SampleRow.offered_pps,
        )
        .join(BootRow, SampleRow.boot_id == BootRow.id)
        .where(SampleRow.testbed == testbed, SampleRow.scenario == scenario, SampleRow.valid)
        .where(*only, *where)
        .order_by(SampleRow.at, SampleRow.id.desc())
    )
    found: dict[str, _Found] = {}
    for conditions, revision, kernel, boot, at, pps, offered in session.execute(query):
        image = identity.get((kernel, revision), kernel)
        of_epoch = found.pop(conditions, {})
        found[conditions] = of_epoch  # that of the newest sample stands last
        boots = of_epoch.setdefault((revision, image), (at, {}))[1]
        boots.setdefault(boot, []).append((math.log(pps), validity.saturated(pps, offered)))
    return found


def _levels(found: _Found, numbers: Mapping[str, int]) -> tuple[Level, ...]:
    """The levels of one branch, in its order."""
    of_branch = [key for key in found if key[0] in numbers]
    # As in `Series.series`, of one revision the kernel that was measured first stands first.
    of_branch.sort(key=lambda key: (numbers[key[0]], found[key][0]))
    return tuple(
        level_of(
            revision, image, found[revision, image][0], list(found[revision, image][1].values())
        )
        for revision, image in of_branch
    )


def _conditions(session: Session, testbed: str, scenario: str) -> dict[str, Mapping[str, str]]:
    query = select(ConditionsRow).where(
        ConditionsRow.testbed == testbed, ConditionsRow.scenario == scenario
    )
    return {row.digest: dict(row.values) for row in session.scalars(query)}


def _places(session: Session, revisions: Collection[str]) -> dict[str, dict[str, int]]:
    """By branch: the place of each of these revisions."""
    places: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for part in _parts(revisions):
        query = select(PlaceRow.branch, PlaceRow.revision, PlaceRow.number)
        for branch, revision, number in session.execute(query.where(PlaceRow.revision.in_(part))):
            places[branch][revision] = number
    return dict(places)


def _parts(names: Collection[str]) -> Iterable[list[str]]:
    ordered = sorted(names)
    return (ordered[at : at + _PART] for at in range(0, len(ordered), _PART))
