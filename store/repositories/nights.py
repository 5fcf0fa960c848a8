"""Nightly jobs, and kernels measured in several of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from itertools import chain

from sqlalchemy import Select, func, select

from netbisect.bisect.model.entities import Level, SeriesName
from netbisect.bisect.model.results import NightlyResult
from netbisect.store.db.records import Action, JobRecord, JobState
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, SampleRow
from netbisect.store.repositories.evidence import comparable
from netbisect.store.repositories.levels import grouped, images_of, with_samples

_NIGHT = JobRecord.kind == "night"
_AT_ONCE = 10
"""Rows to fetch at once; mostly the first one is the result."""
_REPEAT = JobRecord.parent.is_not(None)
"""A nightly job with a parent repeats it."""


def _nights(testbed: str, branch: str, state: JobState) -> Select[JobRecord]:
    """Nightly jobs in this state, without repeats."""
    return select(JobRecord).where(
        _NIGHT,
        ~_REPEAT,
        JobRecord.testbed == testbed,
        JobRecord.branch == branch,
        JobRecord.state == state,
    )


class NightRepository(LedgerRepository):
    """Reads nightly jobs."""

    def last(self, testbed: str, branch: str) -> JobRecord | None:
        """The newest completed nightly job that is no repeat, or None."""
        nights = (
            _nights(testbed, branch, JobState.CLOSED)
            .order_by(JobRecord.id.desc())
            .execution_options(yield_per=_AT_ONCE)
        )
        with self.reading() as session, closing(session.scalars(nights)) as rows:
            return next((one for one in rows if isinstance(one.result, NightlyResult)), None)

    def since(self, at: float) -> list[JobRecord]:
        """Nightly jobs added at or after this time, without repeats, oldest first."""
        nights = select(JobRecord).where(_NIGHT, ~_REPEAT, JobRecord.opened_at >= at)
        return self._all(nights.order_by(JobRecord.id))

    def unfinished(self, testbed: str, branch: str) -> list[JobRecord]:
        """The open nightly jobs of a testbed and branch, without repeats, oldest first."""
        return self._all(_nights(testbed, branch, JobState.OPEN).order_by(JobRecord.id))

    def last_repeat(self, testbed: str, branch: str) -> float | None:
        """When the last repeat was added for a testbed and branch.

        Without repeats, the time of their first nightly job, or None.
        """
        here = _NIGHT & (JobRecord.testbed == testbed) & (JobRecord.branch == branch)
        last = select(func.max(JobRecord.opened_at)).where(here, _REPEAT)
        first = select(func.min(JobRecord.opened_at)).where(here)
        with self.reading() as session:
            at = session.scalar(last)
            return session.scalar(first) if at is None else at

    def repeated(self, testbed: str, scenario: str, branch: str) -> list[list[Level]]:
        """Levels of the kernels measured in several nights: one per night, oldest first.

        Samples count as for `SeriesRepository.levels`, but only those of nightly jobs: a compare
        job follows an unusual night, so its boots would regress to the mean. Equal kernels of
        different revisions are one kernel.
        """
        columns = (SampleRow.boot, SampleRow.at, SampleRow.pps, SampleRow.offered_pps)
        found: defaultdict[str, list[Level]] = defaultdict(list)
        with self.reading() as session:
            images = images_of(session, with_samples(testbed, scenario))
            samples = session.execute(
                select(JobRecord.id, *columns)
                .join(BootRow, SampleRow.boot == BootRow.id)
                .join(Action, BootRow.decision_id == Action.id)
                .join(JobRecord, Action.job == JobRecord.id)
                .where(_NIGHT, JobRecord.branch == branch)
                .where(comparable(session, testbed, [scenario]))
                .order_by(JobRecord.id, SampleRow.at, SampleRow.id)
            )
            nights = grouped(samples, images, scenario)
        for level in chain.from_iterable(nights.values()):
            found[level.identity].append(level)
        return [levels for levels in found.values() if len(levels) > 1]

    def latest(self, seconds: float = math.inf) -> list[JobRecord]:
        """The last nightly job of each testbed and branch, without repeats.

        A job belongs to the night if it was opened at most `seconds` before the last one.
        """
        nights = _NIGHT & ~_REPEAT
        at = select(func.max(JobRecord.opened_at)).where(nights).scalar_subquery()
        last = (
            select(func.max(JobRecord.id))
            .where(nights, JobRecord.opened_at >= at - seconds)
            .group_by(JobRecord.testbed, JobRecord.branch)
        )
        query = select(JobRecord).where(JobRecord.id.in_(last))
        return self._all(query.order_by(JobRecord.testbed, JobRecord.id))

    def outside(self, names: Iterable[SeriesName]) -> set[SeriesName]:
        """The series that the last night of their testbed and branch did not include.

        None of testbeds without a night, such as those of imported data.
        """
        nights: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for one in self.latest():
            nights[one.testbed].update((scenario, one.branch) for scenario in one.job.scenarios)
        return {
            one
            for one in names
            if one.testbed in nights and (one.scenario, one.branch) not in nights[one.testbed]
        }
