"""Levels of a testbed and scenario, of all branches."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.metric import metric_of
from netbisect.store.db.tables import BootRow, SampleRow
from netbisect.store.repositories.evidence import comparable, image_of_boot

ByConditions = Mapping[str, tuple[Level, ...]]
"""By digest of the conditions, that of the newest sample last: at least one level, of any branch.
Levels are ordered by their first sample."""


def measured(
    session: Session, testbed: str, scenarios: Iterable[str]
) -> Iterator[tuple[str, ByConditions]]:
    """By scenario: its levels; rows that scenarios share are read once."""
    images = images_of(session, BootRow.testbed == testbed)
    for scenario in scenarios:
        of_scenario = SampleRow.testbed == testbed, SampleRow.scenario == scenario
        yield scenario, grouped(samples(session, *of_scenario), images, scenario)


def newest_levels(
    session: Session, testbed: str, scenario: str, *booted: ColumnElement[bool]
) -> tuple[Level, ...]:
    """Levels under the newest conditions, of the boots that meet conditions on BootRow."""
    images = images_of(session, *booted)
    boots = select(BootRow.id).where(*booted)
    newest = comparable(session, testbed, [scenario]), SampleRow.boot.in_(boots)
    found = grouped(samples(session, *newest), images, scenario)
    return next(iter(found.values()), ())


def images_of(session: Session, *where: ColumnElement[bool]) -> dict[str, tuple[str, str]]:
    """By boot that meets conditions on BootRow: revision, and identity of the kernel."""
    boots = select(BootRow.id, BootRow.revision, image_of_boot())
    found = session.execute(boots.where(*where))
    return {boot: (revision, identity) for boot, revision, identity in found}


def with_samples(testbed: str, scenario: str) -> ColumnElement[bool]:
    """The condition that a boot has valid samples of a scenario.

    In imported measurements, every scenario has its own boots.
    """
    of_scenario = SampleRow.testbed == testbed, SampleRow.scenario == scenario, SampleRow.valid
    return BootRow.id.in_(select(SampleRow.boot).where(*of_scenario))


def samples(session: Session, *where: ColumnElement[bool]) -> Sequence[Any]:
    """Valid samples for `grouped`, oldest first."""
    query = (
        select(
            SampleRow.conditions,
            SampleRow.boot,
            SampleRow.at,
            SampleRow.pps,
            SampleRow.offered_pps,
        )
        .where(*where, SampleRow.valid)
        .order_by(SampleRow.at, SampleRow.id.desc())
    )
    # Without the mapper, which is slow for thousands of rows.
    return session.connection().execute(query).all()


def grouped(
    rows: Iterable[Any], images: Mapping[str, tuple[str, str]], scenario: str
) -> dict[Any, tuple[Level, ...]]:
    """Groups samples into levels, by conditions or by another key.

    `rows` come from `samples`, for one testbed and scenario, with the key in the first column;
    `images` come from `images_of`.
    """
    level_of_run = metric_of(scenario).level
    found: dict[Any, dict[tuple[str, str], tuple[float, dict[str, list[tuple[float, bool]]]]]] = {}
    last, of_epoch = None, {}
    for key, boot, at, pps, offered in rows:
        if key != last:
            # Keys are ordered by their newest sample.
            found[key] = of_epoch = found.pop(key, {})
            last = key
        image = images[boot]
        of_image = of_epoch.get(image)
        if of_image is None:
            of_epoch[image] = of_image = (at, {})
        of_image[1].setdefault(boot, []).append(
            (level_of_run(pps), sample_validity.saturated(pps, offered))
        )
    return {
        key: tuple(
            [_level(*image, at, list(runs.values())) for image, (at, runs) in of_epoch.items()]
        )
        for key, of_epoch in found.items()
    }


def _level(
    revision: str, identity: str, first: float, boots: list[list[tuple[float, bool]]]
) -> Level:
    """A level of boots: for each run ln pps, and whether the generator limited it."""
    limited = [saturated for runs in boots for _, saturated in runs]
    # Lists, not generators: hundreds of series have a thousand levels each.
    return Level(
        revision,
        identity,
        first,
        tuple(
            [
                statistics.fmean(ln_pps for ln_pps, _ in runs) if len(runs) > 1 else runs[0][0]
                for runs in boots
            ]
        ),
        2 * sum(limited) > len(limited),
    )
