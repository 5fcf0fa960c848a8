"""The input of `netbisect detect`: the series of a database or of history files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from netbisect.bisect.model.entities import Level, SeriesName
from netbisect.cli.input import asv
from netbisect.cli.input.measurements import Measurements, is_measurements
from netbisect.store.netbenches.histories import Histories, few_measurements

_EXPECTED = (
    "expected JSON lines with hw, nic, dir, cfg, pktgen and points, or "
    "measurements with metric, revision, value, unit and direction"
)
_SHOWN = 2
"""Messages shown about files without a series."""
_NO_TIMES = "times are missing: slow drift is not searched"


@dataclass(frozen=True, slots=True)
class DetectionInput:
    """Series to examine."""

    series: Mapping[SeriesName, Sequence[Level]]
    order: Mapping[str, Mapping[str, int]]
    """Positions of revisions by branch."""
    notes: Sequence[str]
    """Series left out, with reasons."""
    errors: Sequence[str]
    """Lines that could not be read."""


def of_files(files: Sequence[str]) -> DetectionInput:
    """The series of files of histories, or of files of measurements; `-` is standard input."""
    histories, measurements = Histories(), Measurements()
    kinds = {_read(name, measurements, histories) for name in files}
    if len(kinds) > 1:
        raise click.ClickException("histories of netbenches and measurements cannot be mixed")
    found = _of_measurements(measurements) if kinds == {True} else _of_histories(histories)
    if not found.series:
        sentences = [*found.errors, *(one for one in found.notes if one != _NO_TIMES)]
        if len(sentences) > _SHOWN:
            sentences[1:] = [f"{len(sentences) - 1:,} more messages"]
        for sentence in sentences:
            click.echo(sentence, err=True)
        raise click.ClickException(
            f"{', '.join(map(_shown, files))}: no history found; {_EXPECTED}"
        )
    return found


def read_measurements(name: str) -> Measurements:
    """The measurements of a file or folder."""
    measurements = Measurements()
    _read(name, measurements)
    return measurements


def _read(name: str, measurements: Measurements, histories: Histories | None = None) -> bool:
    """Reads a file or folder; whether it contains measurements."""
    shown = _shown(name)
    try:
        if Path(name).is_dir():
            if not measurements.take(asv.records(Path(name))):
                message = f"{shown}: no results of the benchmarks in benchmarks.json"
                raise click.ClickException(message)
            return True
        with click.open_file(name, encoding="utf-8-sig", errors="replace") as stream:
            head = []
            for line in stream:
                head.append(line)
                if line.strip():
                    break
            first, lines = "".join(head[-1:]), itertools.chain(head, stream)
            if first.lstrip().startswith("["):
                rows = _rows("".join(lines), shown)
                first, lines = rows[0], itertools.chain(rows)
            if histories is not None and not is_measurements(first):
                if not first.lstrip().startswith(("{", "[")):
                    problem = "no history found" if first.strip() else "empty"
                    raise click.ClickException(f"{shown}: {problem}; {_EXPECTED}")
                histories.take(lines, shown)
                return False
            measurements.read(lines, shown)
            return True
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _rows(text: str, name: str) -> list[str]:
    """The elements of a JSON array as lines; the lines of JSON lines. Raises ValueError."""
    try:
        rows, end = json.JSONDecoder().raw_decode(text, text.index("["))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not JSON: {error}") from error
    if text[end:].strip():
        return text.splitlines(keepends=True)
    if not rows or not all(isinstance(one, dict) for one in rows):
        raise ValueError(f"{name}: expected JSON objects in the array")
    return [json.dumps(one) for one in rows]


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


def _of_histories(histories: Histories) -> DetectionInput:
    series = histories.series()
    notes = [*histories.remarks(), *few_measurements(series), _NO_TIMES]
    return DetectionInput(series, histories.numbers(), notes, histories.refused)


def _of_measurements(measurements: Measurements) -> DetectionInput:
    series = measurements.series()
    untimed = () if measurements.timed else (_NO_TIMES,)
    notes = [*measurements.doubtful(), *few_measurements(series), *untimed]
    skipped = [f"{row}; skipped" for row in measurements.refused]
    return DetectionInput(series, measurements.order, notes, skipped)


def of_database(address: str) -> DetectionInput:
    """The series of a database. Raises StoreError."""
    from netbisect.store.db.database import database_exists  # noqa: PLC0415 - an extra
    from netbisect.store.ledger import open_ledger  # noqa: PLC0415 - an extra

    if not database_exists(address):
        raise click.ClickException(
            f"there is no database {address}; expected a FILE of histories or --database"
        )
    ledger = open_ledger(address)
    series = {
        name: levels
        for name in ledger.series.names()
        if (levels := ledger.series.levels(name.testbed, name.scenario, name.branch))
    }
    if not series:
        raise click.ClickException(f"no measurements in the database {address}")
    notes = [*ledger.samples.excluded(), *few_measurements(series)]
    return DetectionInput(series, ledger.commits.numbers(), notes, ())
