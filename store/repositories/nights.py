"""Nightly jobs, and kernels measured in several of them."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import Any

from sqlalchemy import Select, func, select

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import NightlyResult
from netbisect.store.db.records import Action, JobRecord, JobState
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, SampleRow
from netbisect.store.repositories.evidence import comparable, image_of_boot
from netbisect.store.repositories.levels import level_of

_NIGHT = JobRecord.kind == "night"
_AT_ONCE = 10
"""Rows to fetch at once; mostly the first one is the result."""
_REPEAT = JobRecord.parent.is_not(None)
"""A nightly job with a parent repeats it."""


class NightRepository(LedgerRepository):
    """Reads nightly jobs."""

    def last(self, testbed: str, branch: str) -> JobRecord | None:
        """The newest completed nightly job that is no repeat, or None."""
        nights = (
            select(JobRecord)
            .where(
                _NIGHT,
                ~_REPEAT,
                JobRecord.testbed == testbed,
                JobRecord.branch == branch,
                JobRecord.state == JobState.CLOSED,
            )
            .order_by(JobRecord.id.desc())
            .execution_options(yield_per=_AT_ONCE)
        )
        with self.reading() as session, closing(session.scalars(nights)) as rows:
            return next((one for one in rows if isinstance(one.result, NightlyResult)), None)

    def since(self, at: float) -> list[JobRecord]:
        """Nightly jobs added at or after this time, oldest first."""
        nights = select(JobRecord).where(_NIGHT, JobRecord.opened_at >= at)
        return self._all(nights.order_by(JobRecord.id))

    def last_repeat(self, testbed: str) -> float | None:
        """When the last repeat was added for a testbed.

        Without repeats, the time of its first nightly job, or None.
        """
        of_testbed = JobRecord.testbed == testbed
        last = select(func.max(JobRecord.opened_at)).where(_NIGHT, _REPEAT, of_testbed)
        first = select(func.min(JobRecord.opened_at)).where(_NIGHT, of_testbed)
        with self.reading() as session:
            at = session.scalar(last)
            return session.scalar(first) if at is None else at

    def repeated(self, testbed: str, scenario: str, branch: str) -> list[list[Level]]:
        """Levels of the kernels measured in several nights: one per night, oldest first.

        Samples count as for `SeriesRepository.levels`, but only those of nightly jobs: a compare
        job follows an unusual night, so its boots would regress to the mean. Equal kernels of
        different revisions are one kernel.
        """
        image = image_of_boot()

        def of_nights(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
            return (
                query.join(Action, BootRow.decision_id == Action.id)
                .join(JobRecord, Action.job == JobRecord.id)
                .where(_NIGHT, JobRecord.branch == branch, BootRow.testbed == testbed)
            )

        twice = of_nights(select(image).select_from(BootRow)).group_by(image)
        columns = (image, JobRecord.id, BootRow.revision, BootRow.id)
        samples = select(*columns, SampleRow.at, SampleRow.pps, SampleRow.offered_pps)
        level_of_run = metric_of(scenario).level
        nights: defaultdict[str, dict[int, _Night]] = defaultdict(dict)
        with self.reading() as session:
            images = session.scalars(twice.having(func.count(JobRecord.id.distinct()) > 1)).all()
            if not images:
                return []
            query = (
                of_nights(samples.join(BootRow, SampleRow.boot == BootRow.id))
                .where(comparable(session, testbed, [scenario]), image.in_(images))
                .order_by(JobRecord.id, SampleRow.at, SampleRow.id)
            )
            for name, night, revision, boot, at, pps, offered in session.execute(query):
                of_night = nights[name].setdefault(night, (revision, at, {}))
                run = level_of_run(pps), sample_validity.saturated(pps, offered)
                of_night[2].setdefault(boot, []).append(run)
        return [
            [level_of(revision, name, at, list(boots.values())) for revision, at, boots in found]
            for name, found in ((name, by_night.values()) for name, by_night in nights.items())
            if len(found) > 1
        ]

    def latest(self, seconds: float) -> list[JobRecord]:
        """The last nightly job of each testbed and branch, without repeats.

        Args:
            seconds: A job belongs to the night if it was opened within so many seconds before the
                last one.
        """
        nights = _NIGHT & ~_REPEAT
        last = select(func.max(JobRecord.opened_at)).where(nights)
        with self.reading() as session:
            at = session.scalar(last)
            if at is None:
                return []
            query = select(JobRecord).where(nights, JobRecord.opened_at >= at - seconds)
            found = session.scalars(query.order_by(JobRecord.testbed, JobRecord.id))
            return list({(one.testbed, one.job.branch): one for one in found}.values())


_Night = tuple[str, float, dict[str, list[tuple[float, bool]]]]
"""Revision, time of the first sample, and by boot the ln pps of its runs and whether the
generator limited them."""
