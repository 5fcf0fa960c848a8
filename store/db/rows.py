"""The nouns of bisect/model/entities.py out of their rows; `facts.py` puts them in."""

from __future__ import annotations

from netbisect.bisect.model.entities import (
    Boot,
    Commit,
    Conditions,
    Failure,
    Kernel,
    Reaction,
    Sample,
    Stage,
)
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.store.db.tables import (
    BootRow,
    CommitRow,
    ConditionsRow,
    DudRow,
    KernelRow,
    SampleRow,
)


def kernel_of(row: KernelRow) -> Kernel:
    """The noun in this row."""
    return Kernel(
        revision=row.revision,
        config=row.config,
        arch=row.arch,
        identity=row.identity,
        key=row.key,
        version=row.version,
        size=row.size,
        at=row.at,
        seconds=row.seconds,
        layout=split_kernel_name(row.revision)[1],
    )


def boot_of(row: BootRow) -> Boot:
    """The noun in this row."""
    return Boot(row.id, row.testbed, row.kernel, row.revision, row.at, row.seconds)


def conditions_of(row: ConditionsRow) -> Conditions:
    """The noun in this row."""
    return Conditions(row.digest, row.testbed, row.scenario, dict(row.values))


def sample_of(row: SampleRow) -> Sample:
    """The noun in this row."""
    return Sample(
        id=row.id,
        boot=row.boot_id,
        testbed=row.testbed,
        scenario=row.scenario,
        pps=row.pps,
        offered_pps=row.offered_pps,
        received=tuple(row.received),
        offered=tuple(row.offered),
        problems=tuple(row.problems),
        conditions=row.conditions,
        at=row.at,
        seconds=row.seconds,
    )


def failure_of(row: DudRow) -> Failure:
    """The noun in this row."""
    return Failure(
        id=row.id,
        revision=row.revision,
        stage=Stage(row.stage),
        reaction=Reaction(row.reaction),
        why=row.why,
        at=row.at,
        seconds=row.seconds,
        testbed=row.testbed,
        scenario=row.scenario,
        log=row.log,
        fault=row.fault,
        layout=split_kernel_name(row.revision)[1],
    )


def commit_of(row: CommitRow) -> Commit:
    """The noun in this row."""
    return Commit(
        revision=row.revision,
        number=row.number,
        subject=row.subject,
        body=row.body,
        author=row.author,
        email=row.email,
        at=row.at,
        paths=tuple(row.paths),
        lines=row.lines,
    )
