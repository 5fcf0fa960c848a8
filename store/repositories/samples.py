"""Samples, valid or not, with their boots and kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import func, select

from netbisect.bisect.model.entities import Boot, Sample
from netbisect.bisect.model.revision_key import parts_of, short
from netbisect.store.db.sessions import LedgerRepository
from netbisect.store.db.tables import BootRow, PlaceRow, SampleRow, record_of
from netbisect.store.repositories.evidence import image_of_boot

_PART = 1000
"""Rows to fetch at once."""


class MeasuredSample(NamedTuple):
    """A sample with its boot and kernel."""

    sample: Sample
    boot: Boot
    identity: str
    """Identity of the kernel, or its key if it is not in the ledger."""
    branches: tuple[str, ...]
    """Branches with the revision on their first-parent line, by name."""


class Coverage(NamedTuple):
    """Data of a testbed and branch."""

    revisions: int
    """Revisions with a valid sample."""
    latest: float
    """Time of the newest boot with one."""


class SampleCount(NamedTuple):
    """The valid samples of a testbed and scenario; samples are only ever added."""

    samples: int
    latest: float
    """Time of the newest, seconds since the epoch."""


class SampleRepository(LedgerRepository):
    """Reads samples."""

    def select(
        self,
        *,
        testbed: str | None = None,
        scenario: str | None = None,
        branch: str | None = None,
        since: float | None = None,
    ) -> Iterator[MeasuredSample]:
        """Samples, oldest first; each argument is a filter.

        `branch` has the revision on its first-parent line; `since` is in seconds since the epoch.
        """
        query = (
            select(SampleRow, BootRow, image_of_boot())
            .join(BootRow, SampleRow.boot == BootRow.id)
            .order_by(SampleRow.at, SampleRow.id)
        )
        if testbed is not None:
            query = query.where(SampleRow.testbed == testbed)
        if scenario is not None:
            query = query.where(SampleRow.scenario == scenario)
        if branch is not None:
            places = select(PlaceRow.revision).where(PlaceRow.branch == branch)
            query = query.where(BootRow.revision.in_(places))
        if since is not None:
            query = query.where(SampleRow.at >= since)
        with self.reading() as session:
            branches: defaultdict[str, list[str]] = defaultdict(list)
            placed = select(PlaceRow.revision, PlaceRow.branch).where(
                PlaceRow.revision.in_(select(BootRow.revision))
            )
            for revision, name in session.execute(placed.order_by(PlaceRow.branch)):
                branches[revision].append(name)
            found = session.execute(query.execution_options(yield_per=_PART))
            for sample, boot, identity in found:
                names = tuple(branches.get(boot.revision, ()))
                yield MeasuredSample(
                    record_of(Sample, sample), record_of(Boot, boot), identity, names
                )

    def names(self) -> dict[str, set[str]]:
        """Names of all testbeds, scenarios and branches with samples."""
        columns = {
            "testbed": select(SampleRow.testbed),
            "scenario": select(SampleRow.scenario),
            "branch": select(PlaceRow.branch).where(
                PlaceRow.revision.in_(select(BootRow.revision))
            ),
        }
        with self.reading() as session:
            return {name: set(session.scalars(query.distinct())) for name, query in columns.items()}

    def counts(self) -> dict[tuple[str, str], SampleCount]:
        """Valid samples by testbed and scenario, in order; pairs without any are left out."""
        query = (
            select(SampleRow.testbed, SampleRow.scenario, func.count(), func.max(SampleRow.at))
            .where(SampleRow.valid)
            .group_by(SampleRow.testbed, SampleRow.scenario)
            .order_by(SampleRow.testbed, SampleRow.scenario)
        )
        with self.reading() as session:
            found = session.execute(query)
            return {(bed, scenario): SampleCount(many, at) for bed, scenario, many, at in found}

    def coverage(self) -> dict[tuple[str, str], Coverage]:
        """By testbed and branch."""
        measured = select(SampleRow.id).where(SampleRow.boot == BootRow.id, SampleRow.valid)
        place = (BootRow.testbed, PlaceRow.branch)
        query = (
            select(*place, func.count(BootRow.revision.distinct()), func.max(BootRow.at))
            .join(PlaceRow, PlaceRow.revision == BootRow.revision)
            .where(measured.exists())
            .group_by(*place)
            .order_by(*place)
        )
        with self.reading() as session:
            found = session.execute(query)
            return {(bed, branch): Coverage(many, at) for bed, branch, many, at in found}

    def excluded(self) -> list[str]:
        """Sentences about samples that are in no series, with the reason."""
        unplaced = (
            select(BootRow.revision)
            .join(SampleRow, SampleRow.boot == BootRow.id)
            .where(SampleRow.valid, BootRow.revision.not_in(select(PlaceRow.revision)))
            .where(~BootRow.revision.contains("#"))  # a further layout belongs to its search
            .distinct()
            .order_by(BootRow.revision)
        )
        invalid = select(func.count()).select_from(SampleRow).where(~SampleRow.valid)
        epochs = (
            select(SampleRow.testbed, SampleRow.scenario)
            .where(SampleRow.valid)
            .group_by(SampleRow.testbed, SampleRow.scenario)
            .having(func.count(SampleRow.conditions.distinct()) > 1)
            .order_by(SampleRow.testbed, SampleRow.scenario)
        )
        with self.reading() as session:
            reasons = [
                f"{short(revision)} is left out: it is on no known branch"
                for revision in session.scalars(unplaced)
                if not parts_of(revision)[1]  # samples of patches belong to requests
            ]
            if count := session.scalar(invalid):
                reasons.append(f"invalid samples are left out: {count:,}")
            reasons += [
                f"{testbed}/{scenario}: samples under earlier conditions are left out"
                for testbed, scenario in session.execute(epochs)
            ]
        return reasons
