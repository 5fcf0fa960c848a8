"""Whole series at a time, with what was measured under earlier conditions too.

One look at a testbed and scenario reads all its branches, so that hundreds of series can be told
of at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
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
    """By revision that was booted on the testbed: its place on the branch."""
    baseline: tuple[Level, ...]
    """Of the last epoch, the levels since the last confirmed change, as `Series.baseline`."""


_Found = dict[tuple[str, str], tuple[float, dict[str, list[tuple[float, bool]]]]]
"""By revision and image: when it was measured first, and by boot its runs."""


class Trails(Sessions):
    """Reads series as a whole."""

    def trails(self, testbed: str, scenario: str) -> list[Trail]:
        """The series of a testbed and scenario, one for each branch, ordered by branch."""
        return next(self.trails_of(testbed, [scenario]))

    def trails_of(self, testbed: str, scenarios: Iterable[str]) -> Iterator[list[Trail]]:
        """As `trails`, of one scenario after the other; what they share is read once."""
        with self.reading() as session:
            booted = _booted(session, testbed)
            for scenario in scenarios:
                yield _trails(session, booted, (testbed, scenario))

    def commits(self, revisions: Collection[str]) -> dict[str, Commit]:
        """By revision: those of these commits that were learned."""
        with self.reading() as session:
            return {
                row.revision: commit_of(row)
                for part in _parts(revisions)
                for row in session.scalars(select(CommitRow).where(CommitRow.revision.in_(part)))
            }

    def places(self, revisions: Collection[str]) -> dict[str, dict[str, int]]:
        """By branch: the place of each of these revisions that is on it."""
        with self.reading() as session:
            return _places(session, revisions)

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
                booted = _booted(session, testbed, BootRow.revision.in_(revisions))
                newest = comparable(session, testbed, [scenario])
                of_them = SampleRow.boot_id.in_(booted.images)
                by_conditions = _measured(session, booted, (testbed, scenario), newest, of_them)
                for measured in by_conditions.values():
                    for (revision, image), (at, boots) in measured.items():
                        level = level_of(revision, image, at, list(boots.values()))
                        found[testbed, scenario].setdefault(revision, level)
        return dict(found)


@dataclass(frozen=True, slots=True)
class _Booted:
    """What ran on a testbed."""

    images: Mapping[str, tuple[str, str]]
    """By boot: revision, and what identifies its kernel."""
    numbers: Mapping[str, Mapping[str, int]]
    """By branch: the place of each of these revisions that is on it."""


def _booted(session: Session, testbed: str, *where: ColumnElement[bool]) -> _Booted:
    of_testbed = BootRow.testbed == testbed
    identity = {
        (key, revision): name
        for key, revision, name in session.execute(
            select(KernelRow.key, KernelRow.revision, func.max(KernelRow.identity))
            .where(KernelRow.key.in_(select(BootRow.kernel).where(of_testbed, *where)))
            .group_by(KernelRow.key, KernelRow.revision)
        )
    }
    boots = select(BootRow.id, BootRow.revision, BootRow.kernel).where(of_testbed, *where)
    images = {
        boot: (revision, identity.get((kernel, revision), kernel))
        for boot, revision, kernel in session.execute(boots)
    }
    return _Booted(images, _places(session, {revision for revision, _ in images.values()}))


def _trails(session: Session, booted: _Booted, place: tuple[str, str]) -> list[Trail]:
    testbed, scenario = place
    by_conditions = _measured(session, booted, place)
    values = _conditions(session, testbed, scenario)
    trails = []
    for branch, numbers in sorted(booted.numbers.items()):
        epochs = tuple(
            Epoch(digest, values.get(digest, {}), levels)
            for digest, found in by_conditions.items()
            if (levels := _levels(found, numbers))
        )
        if not epochs:
            continue
        start, gaps = changes(session, (testbed, scenario, branch))
        baseline = tuple(
            level
            for level in (epochs[-1].levels if _newest(epochs, by_conditions) else ())
            if numbers[level.revision] >= start and kept(numbers[level.revision], level, gaps)
        )
        trails.append(Trail(SeriesName(testbed, scenario, branch), epochs, numbers, baseline))
    return trails


def _newest(epochs: tuple[Epoch, ...], found: dict[str, _Found]) -> bool:
    """Whether the branch was measured under the newest conditions of its testbed and scenario."""
    return bool(epochs) and epochs[-1].digest == next(reversed(found))


def _measured(
    session: Session, booted: _Booted, place: tuple[str, str], *where: ColumnElement[bool]
) -> dict[str, _Found]:
    """By digest of the conditions, the newest last: what was measured under them.

    Args:
        session: Where it is looked up.
        booted: On the testbed.
        place: Testbed and scenario.
        where: Conditions on the samples.
    """
    query = (
        select(
            SampleRow.conditions,
            SampleRow.boot_id,
            SampleRow.at,
            SampleRow.pps,
            SampleRow.offered_pps,
        )
        .where(SampleRow.testbed == place[0], SampleRow.scenario == place[1], SampleRow.valid)
        .where(*where)
        .order_by(SampleRow.at, SampleRow.id.desc())
    )
    found: dict[str, _Found] = {}
    images = booted.images
    last, of_epoch = None, {}
    # Past the mapper, which has nothing to do for columns: there are thousands of rows.
    for conditions, boot, at, pps, offered in session.connection().execute(query).all():
        if conditions != last:
            # That of the newest sample stands last.
            found[conditions] = of_epoch = found.pop(conditions, {})
            last = conditions
        image = images[boot]
        of_image = of_epoch.get(image)
        if of_image is None:
            of_epoch[image] = of_image = (at, {})
        of_image[1].setdefault(boot, []).append((math.log(pps), validity.saturated(pps, offered)))
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
