"""Time that measurements take."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Stage
from netbisect.bisect.model.evidence import Cost, Prices
from netbisect.store.db.records import Action
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, FailureRow, KernelRow, SampleRow

_RECENT = 50
"""Latest builds, boots and runs that count: labs change."""


_Timed: TypeAlias = type[KernelRow | BootRow | SampleRow | FailureRow]


class CostRepository(LedgerRepository):
    """Durations of builds, boots and runs."""

    def prices(self, testbed: str) -> Prices:
        """Seconds of a build, a boot, a run and a link: medians of the latest ones, or defaults."""
        booted = select(BootRow.kernel).where(BootRow.testbed == testbed)
        builds = select(KernelRow.seconds).where(KernelRow.key.in_(booted))
        relinked = KernelRow.revision.contains("#")  # in another layout
        boots = select(BootRow.seconds).where(BootRow.testbed == testbed)
        # Of the latest boots, because a search among all samples is slow in a large ledger.
        latest = select(BootRow.id).where(BootRow.testbed == testbed)
        latest = latest.order_by(BootRow.at.desc()).limit(_RECENT)
        runs = select(SampleRow.seconds).where(SampleRow.boot.in_(latest))
        default = Prices()
        with self.reading() as session:
            return Prices(
                build=_median(session, builds.where(~relinked), KernelRow) or default.build,
                boot=_median(session, boots, BootRow) or default.boot,
                run=_median(session, runs, SampleRow) or default.run,
                relink=_median(session, builds.where(relinked), KernelRow),
            )

    def of_jobs(self, jobs: Iterable[int]) -> Cost:
        """Lab time of these jobs, with failed attempts."""
        decisions = select(Action.id).where(Action.job.in_(list(jobs)))
        building = FailureRow.stage.in_([Stage.CHECKOUT, Stage.BUILD])
        running = FailureRow.scenario != ""
        failed: dict[_Timed, ColumnElement[bool]] = {
            KernelRow: building,
            BootRow: ~building & ~running,
            SampleRow: ~building & running,
        }
        with self.reading() as session:
            found = [
                (_spent(session, row, decisions), _spent(session, FailureRow, decisions, failure))
                for row, failure in failed.items()
            ]
        builds, boots, runs = (sum(times for times, _ in pair) for pair in found)
        return Cost(builds, boots, runs, math.fsum(spent for pair in found for _, spent in pair))


def _median(session: Session, query: Select[Any], row: _Timed) -> float | None:
    recent = query.where(row.seconds > 0).order_by(row.at.desc()).limit(_RECENT)
    seconds = session.scalars(recent).all()
    return statistics.median(seconds) if seconds else None


def _spent(
    session: Session, row: _Timed, decisions: Select[Any], *conditions: ColumnElement[bool]
) -> tuple[int, float]:
    """Number of rows of actions, and the sum of their seconds."""
    query = select(func.count(), func.coalesce(func.sum(row.seconds), 0.0))
    query = query.where(row.decision_id.in_(decisions), *conditions)
    times, seconds = session.execute(query).one()
    return times, seconds
