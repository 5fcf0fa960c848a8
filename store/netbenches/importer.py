"""Takes in measurements of netbenches: a file of histories, or folders of results.

netbenches reboots between any two runs, so that every value is a boot of its own. When it was
measured is not told: the times of imported facts are numbers of revisions, which put them in
their order and a long way before anything that is measured here.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from netbisect.bisect.model.entities import (
    Boot,
    Commit,
    Conditions,
    Fact,
    Kernel,
    Sample,
)
from netbisect.store.ledger import Ledger
from netbisect.store.netbenches.files import Imported, NetbenchesError, Parser, read

_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""RFC 9562's for URLs."""
_CONFIG = "netbenches"
"""The config of imported kernels: theirs is not told."""


@dataclass(slots=True)
class ImportSummary:
    """What an import found, and how much of it was new."""

    series: int = 0
    """Pairs of testbed and scenario that were read."""
    kernels: int = 0
    """New ones; so for boots and samples."""
    boots: int = 0
    samples: int = 0
    known: int = 0
    """Samples that had been imported before."""
    skipped: list[str] = field(default_factory=list)
    """What was left out or is doubtful, and why: a sentence each."""


# ----------------------------------------------------------------------------------- importing


def import_into(
    ledger: Ledger,
    path: Path,
    *,
    parser: Parser,
    branch: str = "head",
    git_branch: str = "main",
    testbed: str = "",
    on_progress: Callable[[int, int], None] | None = None,
) -> ImportSummary:
    """Imports a file of histories, or every folder of results in and below a directory.

    Everything is read before anything is written, and what was imported before is not added
    again. Images with more in them than a revision go to a branch of their own, such as
    `head+mbuf`, and so stay out of the history of the branch.

    Args:
        ledger: Where to.
        path: The file or directory.
        parser: How receivers' files are read.
        branch: For revisions numbered by Subversion.
        git_branch: For revisions numbered by git's count of commits.
        testbed: Its name, instead of one made from the directories.
        on_progress: Told how many of how many images are done.

    Raises:
        NetbenchesError: nothing to import is there, or a line is malformed.
        StoreError: the database refused.
    """
    summary = ImportSummary()
    found = list(
        _distinct(read(path, parser=parser, testbed=testbed, skip=summary.skipped.append), summary)
    )
    if not found:
        reasons = f": {summary.skipped[0]}" if summary.skipped else ""
        raise NetbenchesError(
            f"{path} holds nothing to import{reasons}; a histories.jsonl, or a folder with "
            "*.pps or bench.*.receiver files would be right"
        )
    found.sort(key=_series)
    done = 0
    for _, images in itertools.groupby(found, key=_series):
        summary.series += 1
        done += _import_series(ledger, list(images), branch, git_branch, summary)
        if on_progress is not None:
            on_progress(done, len(found))
    return summary


def _series(image: Imported) -> tuple[str, str]:
    return image.testbed, image.scenario


def _distinct(found: Iterable[Imported], summary: ImportSummary) -> Iterator[Imported]:
    """Leaves out an image that was measured twice under one name: which one counts?"""
    origins: dict[tuple[str, str, str], str] = {}
    for image in found:
        key = (*_series(image), image.revision.name)
        if key in origins:
            summary.skipped.append(
                f"{image.origin}: {image.revision.name} was already measured in {image.scenario} "
                f"on {image.testbed} by {origins[key]}"
            )
            continue
        origins[key] = image.origin
        yield image


def _import_series(
    ledger: Ledger, images: list[Imported], branch: str, git_branch: str, summary: ImportSummary
) -> int:
    """Writes the images of one series; how many there were."""
    commits: defaultdict[str, list[Commit]] = defaultdict(list)
    facts: list[Fact] = []
    for image in images:
        revision = image.revision
        line = git_branch if revision.counted_by_git else branch
        commits[f"{line}+{revision.variant}" if revision.variant else line].append(
            Commit(
                revision=revision.name,
                number=revision.number,
                subject=f"{revision.name}, imported from netbenches",
                body="",
                author="",
                email="",
                at=float(revision.number),
            )
        )
        facts += _facts(image)
    for line, taught in commits.items():
        ledger.commits.learn(taught, line)
    added = ledger.facts.record_all(facts, images[0].origin)
    summary.kernels += sum(isinstance(fact, Kernel) for fact in added)
    summary.boots += sum(isinstance(fact, Boot) for fact in added)
    new = sum(isinstance(fact, Sample) for fact in added)
    summary.samples += new
    summary.known += sum(isinstance(fact, Sample) for fact in facts) - new
    return len(images)


def _facts(image: Imported) -> Iterator[Fact]:
    """The facts of an image; the same ones whenever it is read again."""
    number = float(image.revision.number)
    conditions = Conditions.of(image.testbed, image.scenario, image.values)
    kernel = f"{image.testbed} {image.revision.name}"
    key = hashlib.sha256(f"netbenches {kernel}".encode()).hexdigest()
    yield Kernel(
        revision=image.revision.name,
        config=_CONFIG,
        arch=image.arch,
        identity=key,
        key=key,
        version=image.version,
        size=0,
        at=number,
        seconds=0.0,
    )
    yield conditions
    for run in image.runs:
        at = number + run.iteration / 1000
        name = f"netbenches:{kernel} {image.scenario} {run.iteration}"
        boot = uuid.uuid5(_NAMESPACE, f"{name} boot").hex
        yield Boot(boot, image.testbed, key, image.revision.name, at, 0.0)
        yield Sample(
            id=uuid.uuid5(_NAMESPACE, f"{name} sample").hex,
            boot=boot,
            testbed=image.testbed,
            scenario=image.scenario,
            pps=run.pps,
            offered_pps=0.0,
            received=run.received,
            offered=(),
            problems=run.problems,
            conditions=conditions.digest,
            at=at,
            seconds=0.0,
        )
