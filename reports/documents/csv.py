"""Samples as CSV (RFC 4180): a row for every run of a scenario."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TextIO

from netbisect.bisect.model.entities import Boot, Sample
from netbisect.reports.render import words

COLUMNS = (
    "at",
    "testbed",
    "scenario",
    "branches",
    "revision",
    "boot",
    "kernel",
    "identity",
    "pps",
    "offered_pps",
    "valid",
    "problems",
    "conditions",
    "seconds",
    "sample",
)
_FORMULA = ("=", "+", "-", "@")
"""First characters of a cell that a spreadsheet evaluates as a formula."""


def write(runs: Iterable[tuple[Sample, Boot, str, Sequence[str]]], stream: TextIO) -> None:
    """Writes the rows, the names of the columns first.

    A run is a sample, its boot, the identity of the kernel, and the branches with the revision.
    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for sample, boot, identity, branches in runs:
        writer.writerow(
            (
                datetime.fromtimestamp(sample.at, tz=UTC).isoformat(timespec="seconds"),
                _text(sample.testbed),
                _text(sample.scenario),
                _text(" ".join(branches)),
                _text(boot.revision),
                _text(boot.id),
                _text(boot.kernel),
                _text(identity),
                sample.pps,
                sample.offered_pps,
                int(sample.valid),
                _text("; ".join(sample.problems)),
                _text(sample.conditions),
                f"{sample.seconds:.3f}",
                _text(sample.id),
            )
        )


def _text(text: str) -> str:
    plain = words.clean(text)
    return f"'{plain}" if plain.startswith(_FORMULA) else plain
