"""What was measured on a testbed in a scenario, whatever the branch: the levels of all series.

Facts are only ever added, so what was read once holds for all revisions of which nothing new is
told: whoever keeps it need not read it again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from netbisect.bisect import validity
from netbisect.bisect.model import Level
from netbisect.store.series import level_of
from netbisect.store.tables import BootRow, KernelRow, SampleRow

_MANY = 10_000
"""Boots with news from which on all is read; SQLite takes 32,766 parameters."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured under the same conditions."""

    latest: float
    """Time of the newest sample, seconds since the epoch."""
    levels: tuple[Level, ...]
    """At least one, of all branches; those of one revision in the order in which they began."""


ByConditions = Mapping[str, Measured]
"""By digest of the conditions, those of the newest sample last."""


class Memory(Protocol):
    """Keeps what was measured from one reading to the next."""

    def recall(self, testbed: str, scenario: str) -> tuple[ByConditions, Collection[str]] | None:
        """What was known, and the revisions of which there may be news since; None: nothing."""

    def keep(self, testbed: str, scenario: str, found: ByConditions) -> None:
        """Takes what is known now."""


def measured(
    session: Session, testbed: str, scenarios: Iterable[str], memory: Memory | None = None
) -> Iterator[tuple[str, ByConditions]]:
    """What each of these scenarios has, one after the other; what they share is read once.

    Args:
        session: Where it is looked up.
        testbed: Of all of them.
        scenarios: One or several.
        memory: What is known already.
    """
    known = {one: memory.recall(testbed, one) if memory else None for one in scenarios}
    news = {name for told in known.values() if told is not None for name in told[1]}
    images: Mapping[str, tuple[str, str]] = {}
    rows: Mapping[str, Sequence[Any]] = {}
    if news:
        images = images_of(session, testbed, BootRow.revision.in_(news))
        if len(images) > _MANY:
            known = dict.fromkeys(known)
        else:
            rows = _rows_of(session, testbed, list(images))
    whole: Mapping[str, tuple[str, str]] = {}
    for scenario, told in known.items():
        found = None
        if told is not None:
            found = _extended(told[0], news, by_conditions(rows.get(scenario, ()), images))
        if found is None:
            whole = whole or images_of(session, testbed)
            of_scenario = SampleRow.testbed == testbed, SampleRow.scenario == scenario
            found = by_conditions(samples(session, *of_scenario), whole)
        if memory is not None:
            memory.keep(testbed, scenario, found)
        yield scenario, found


def images_of(
    session: Session, testbed: str, *where: ColumnElement[bool]
) -> dict[str, tuple[str, str]]:
    """By boot of a testbed: revision, and what identifies its kernel."""
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
    return {
        boot: (revision, identity.get((kernel, revision), kernel))
        for boot, revision, kernel in session.execute(boots)
    }


def samples(session: Session, *where: ColumnElement[bool]) -> Sequence[Any]:
    """Valid samples in the order of their times, as `by_conditions` takes them."""
    query = (
        select(
            SampleRow.conditions,
            SampleRow.boot_id,
            SampleRow.at,
            SampleRow.pps,
            SampleRow.offered_pps,
            SampleRow.testbed,
            SampleRow.scenario,
        )
        .where(*where, SampleRow.valid)
        .order_by(SampleRow.at, SampleRow.id.desc())
    )
    # Past the mapper, which has nothing to do for columns: there are thousands of rows.
    return session.connection().execute(query).all()


def by_conditions(
    rows: Iterable[Any], images: Mapping[str, tuple[str, str]]
) -> dict[str, Measured]:
    """Puts samples together.

    Args:
        rows: As `samples` gives them, of one testbed and scenario.
        images: By boot, as `images_of`.
    """
    found: dict[str, dict[tuple[str, str], tuple[float, dict[str, list[tuple[float, bool]]]]]] = {}
    latest: dict[str, float] = {}
    last, of_epoch = None, {}
    for conditions, boot, at, pps, offered, *_ in rows:
        if conditions != last:
            # That of the newest sample stands last.
            found[conditions] = of_epoch = found.pop(conditions, {})
            last = conditions
        latest[conditions] = at
        image = images[boot]
        of_image = of_epoch.get(image)
        if of_image is None:
            of_epoch[image] = of_image = (at, {})
        of_image[1].setdefault(boot, []).append((math.log(pps), validity.saturated(pps, offered)))
    return {
        conditions: Measured(
            latest[conditions],
            tuple(
                [level_of(*image, at, list(runs.values())) for image, (at, runs) in told.items()]
            ),
        )
        for conditions, told in found.items()
    }


def _rows_of(session: Session, testbed: str, boots: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """By scenario: the samples of these boots."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    # By boot alone: with the testbed, a database may look at all of its samples.
    for row in samples(session, SampleRow.boot_id.in_(boots)):
        if row.testbed == testbed:
            found[row.scenario].append(row)
    return found


def _extended(
    known: ByConditions, news: Collection[str], again: ByConditions
) -> dict[str, Measured] | None:
    """What is known, with revisions of which there is news as they are now.

    Args:
        known: Of all revisions, as it was.
        news: Revisions.
        again: What was measured of them, as it is now.

    Returns:
        None where two conditions were measured at the same time, so that their order is not told.
    """
    found = {}
    for conditions in {**known, **again}:
        both = [one[conditions] for one in (known, again) if conditions in one]
        kept = [one for one in both[0].levels if conditions in known and one.revision not in news]
        if conditions in again:
            kept += again[conditions].levels
        found[conditions] = Measured(max(one.latest for one in both), tuple(kept))
    ordered = sorted(found.items(), key=lambda item: item[1].latest)
    return dict(ordered) if len({one.latest for one in found.values()}) == len(found) else None
