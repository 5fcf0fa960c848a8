"""Imports measurements of netbenches: a file of histories, or folders of results.

netbenches reboots before each run, so each value has its own boot. Without times, the numbers of
revisions are used as times, which orders the imported facts before all measured ones.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from netbisect.bisect.model.entities import Boot, Commit, Conditions, Fact, Kernel, Sample
from netbisect.store.ledger import Ledger
from netbisect.store.netbenches.files import Imported, NetbenchesError, Parser, read

_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""Namespace for URLs of RFC 9562."""
_CONFIG = "netbenches"
"""Config of imported kernels, which is unknown."""


@dataclass(slots=True)
class ImportSummary:
    """Result of an import."""

    series: int = 0
    """Pairs of testbed and scenario."""
    kernels: int = 0
    """New kernels, boots and samples."""
    boots: int = 0
    samples: int = 0
    known: int = 0
    """Samples imported before."""
    skipped: list[str] = field(default_factory=list)
    """Sentences about skipped and doubtful data."""


def import_into(open_ledger: Callable[[], Ledger], path: Path, *, parser: Parser) -> ImportSummary:
    """Imports a file of histories, or all folders of results below a folder.

    All files are read before the ledger is opened, which may create it. Variants of a revision are
    imported to a branch such as `head+mbuf`. `parser` reads receivers' files.

    Raises NetbenchesError if there is nothing to import or a line is invalid, and StoreError.
    """
    skipped: list[str] = []
    found = list(_distinct(read(path, parser=parser, skip=skipped.append), skipped))
    if not found:
        reasons = f": {skipped[0]}" if skipped else ""
        raise NetbenchesError(
            f"{path} has nothing to import{reasons}; expected a histories.jsonl, or a folder with "
            "*.pps or bench.*.receiver files"
        )
    summary = record(open_ledger(), found)
    summary.skipped = skipped
    return summary


def record(ledger: Ledger, images: Iterable[Imported]) -> ImportSummary:
    """Stores images; known data are not added again. Raises StoreError."""
    summary = ImportSummary()
    for _, series in itertools.groupby(sorted(images, key=_series), key=_series):
        summary.series += 1
        _import_series(ledger, list(series), summary)
    return summary


def _series(image: Imported) -> tuple[str, str]:
    return image.testbed, image.scenario


def _distinct(found: Iterable[Imported], skipped: list[str]) -> Iterator[Imported]:
    """Skips images without boots, and further images with the same name in a series."""
    origins: dict[tuple[str, str, str], str] = {}
    for image in found:
        if not image.runs:
            skipped.append(f"{image.origin}: {image.revision.name} has no boot")
            continue
        key = (*_series(image), image.revision.name)
        if key in origins:
            skipped.append(
                f"{image.origin}: {image.revision.name} was already measured in {image.scenario} "
                f"on {image.testbed} by {origins[key]}"
            )
            continue
        origins[key] = image.origin
        yield image


def _import_series(ledger: Ledger, images: list[Imported], summary: ImportSummary) -> None:
    commits: defaultdict[str, list[Commit]] = defaultdict(list)
    facts: list[Fact] = []
    for image in images:
        revision = image.revision
        commits[image.branch].append(
            Commit(
                revision=revision.name,
                number=revision.number,
                subject=f"{revision.name}, imported",
                body="",
                author="",
                email="",
                at=image.at,
            )
        )
        facts += _facts(image)
    for branch, found in commits.items():
        ledger.commits.learn(found, branch)
    new = Counter(map(type, ledger.facts.record_all(facts, images[0].origin)))
    summary.kernels += new[Kernel]
    summary.boots += new[Boot]
    summary.samples += new[Sample]
    summary.known += Counter(map(type, facts))[Sample] - new[Sample]


def _facts(image: Imported) -> Iterator[Fact]:
    """Facts of an image, with reproducible ids."""
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
        at=image.at,
        seconds=0.0,
    )
    yield conditions
    for run in image.runs:
        at = run.at or image.at + run.iteration / 1000
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
