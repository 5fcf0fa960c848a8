"""Measurements of any metric: CSV with a header, or one JSON object per line.

A row is one run of one revision.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from netbisect.bisect.model.entities import Level, SeriesName
from netbisect.bisect.model.metric import (
    LEAST_VALUE,
    MOST_VALUE,
    NAME,
    UNIT,
    SeriesMetric,
    metric_of,
    scenario_of,
)
from netbisect.reports.render import words
from netbisect.store.netbenches.files import Imported, NetbenchesRun
from netbisect.store.netbenches.names import NetbenchesRevision

REQUIRED = ("metric", "revision", "value", "unit", "direction")
_DIRECTIONS = ("higher", "lower")
_SCENARIO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@=-]*\Z")

Record: TypeAlias = tuple[str, Mapping[str, Any] | ValueError]
"""File and line, and the row by column or why there is none."""


@dataclass(frozen=True, slots=True)
class _Row:
    series: SeriesName
    revision: str
    value: float
    at: float | None
    """Seconds since the epoch; None if not recorded."""


class Measurements:
    """Reads files of measurements into series."""

    def __init__(self) -> None:
        self._refused: defaultdict[str, list[str]] = defaultdict(list)
        """Invalid rows by what is wrong."""
        self.timed = True
        """Whether every row has a time."""
        self.order: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """Positions of revisions by branch, in the order of their first rows."""
        self._metrics: dict[tuple[str, str], SeriesMetric] = {}
        self._rows: defaultdict[SeriesName, dict[str, list[_Row]]] = defaultdict(dict)
        self._counted: Counter[_Row] = Counter()
        """Rows of earlier files."""
        self._repeated: list[str] = []
        """Messages about rows that are in two files."""
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        """By branch, of the first rows of its revisions."""

    def read(self, lines: Iterable[str], name: str) -> None:
        """Reads a file of CSV, or of JSON if its first character is `{`.

        Invalid rows are refused, and the others count; messages contain `name`. Raises ValueError
        if the header lacks a column, or is the only line.
        """
        if not self.take(_records(lines, name)):
            raise ValueError(f"{name}: no measurements; expected rows below the header")

    def take(self, records: Iterable[Record]) -> int:
        """Adds rows; invalid ones are refused. Returns the number of both."""
        count = 0
        own, repeated = Counter[_Row](), list[str]()
        for count, (where, record) in enumerate(records, 1):  # noqa: B007 - the last one counts
            try:
                if isinstance(record, ValueError):
                    raise record
                row = _row(record)
                if own[row] < self._counted[row]:
                    repeated.append(where)
                else:
                    self._add(row)
                own[row] += 1
            except ValueError as error:
                self._refused[str(error)].append(where)
        self._counted |= own
        if repeated:
            self._repeated.append(f"{_places(repeated)}also in an earlier file; counted once")
        return count

    def _add(self, row: _Row) -> None:
        scenario, metric = scenario_of(row.series.scenario), metric_of(row.series.scenario)
        known = self._metrics.setdefault((scenario, metric.name), metric)
        if known != metric:
            raise ValueError(
                f"metric {metric.name!r} is in {metric.unit!r}, {metric.better} is better; "
                f"expected {known.unit!r}, {known.better}, as in the rows before"
            )
        order = self.order[row.series.branch]
        if row.at is None:
            self.timed = False
        elif row.revision not in order:
            self._times[row.series.branch].append(row.at)
        order.setdefault(row.revision, len(order) + 1)
        self._rows[row.series].setdefault(row.revision, []).append(row)

    @property
    def refused(self) -> list[str]:
        """Messages about invalid rows; those with the same fault have one."""
        return [_places(rows) + problem for problem, rows in self._refused.items()]

    def series(self) -> dict[SeriesName, list[Level]]:
        """Levels by series, in the order of the revisions."""
        return {
            name: [
                self._level(name, revision, revisions[revision])
                for revision in self.order[name.branch]
                if revision in revisions
            ]
            for name, revisions in sorted(self._rows.items(), key=lambda item: str(item[0]))
        }

    def doubtful(self) -> Iterator[str]:
        """Messages about rows in two files, and branches or series in another order."""
        yield from self._repeated
        for branch, times in self._times.items():
            older = sum(before > after for before, after in itertools.pairwise(times))
            if 3 * older >= len(times):  # fewer may be old revisions measured late
                yield (
                    f"branch {branch}: by their times, {older:,} of {len(times):,} revisions are "
                    "older than the one before; expected the oldest first, or changes are missed "
                    "or inverted"
                )
        for name, revisions in self._rows.items():
            order = self.order[name.branch]
            for one, other in itertools.pairwise(revisions):
                if order[one] > order[other]:
                    yield (
                        f"{name.title}: {one} is before {other}, but after it in rows above; "
                        "expected rows in the order of revisions, not of series"
                    )
                    break

    def _level(self, name: SeriesName, revision: str, rows: list[_Row]) -> Level:
        times = [row.at for row in rows if row.at is not None]
        at = min(times) if self.timed else float(self.order[name.branch][revision])
        values = tuple(metric_of(name.scenario).level(row.value) for row in rows)
        return Level(revision, f"{name.testbed} {revision}", at, values)

    def images(self, numbers: Mapping[str, Mapping[str, int]]) -> Iterator[Imported]:
        """The measurements for an import, with positions of all revisions by branch."""
        for name, revisions in self._rows.items():
            for revision, rows in revisions.items():
                number = numbers[name.branch][revision]
                yield Imported(
                    origin=str(name),
                    testbed=name.testbed,
                    scenario=name.scenario,
                    revision=NetbenchesRevision(revision, number, "", counted_by_git=True),
                    branch=name.branch,
                    version="",
                    arch="",
                    values={"source": "measurements"},
                    runs=tuple(
                        NetbenchesRun(count, row.value, at=row.at or 0.0)
                        for count, row in enumerate(rows, 1)
                    ),
                )


def is_measurements(first: str) -> bool:
    """Whether the first line of a file is that of measurements, not of a netbenches history."""
    if not first.lstrip().startswith("{"):
        return "metric" in first
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return "metric" in record and "points" not in record


def _places(rows: list[str]) -> str:
    """The beginning of a message about rows."""
    first, *more = rows
    return first + (f" and {words.count(len(more), 'later row')}: " if more else ": ")


def _records(lines: Iterable[str], name: str) -> Iterator[Record]:
    rest = iter(lines)
    begin, first = next(((n, line) for n, line in enumerate(rest, 1) if line.strip()), (1, ""))
    every = itertools.chain([first], rest)
    if first.lstrip().startswith(("{", "[")):
        yield from _json(every, name, begin)
        return
    delimiter = max(",;\t", key=first.count)  # spreadsheets write `;` beside decimal commas
    # Strict: an open quotation mark would hide all rows behind it.
    reader = csv.DictReader(every, strict=True, skipinitialspace=True, delimiter=delimiter)
    blank = begin - 1
    try:
        columns = list(filter(None, reader.fieldnames or ()))
        missing = [column for column in REQUIRED if column not in columns]
        if missing:
            raise ValueError(f"{name}: no column {', '.join(missing)} in the header")
        if len(set(columns)) < len(columns):
            raise ValueError(f"{name}: two columns of the header have the same name")
        for record in reader:
            where, beyond = f"{name}:{blank + reader.line_num}", "".join(record.get(None) or ())
            yield where, ValueError(f"{beyond} is beyond the last column") if beyond else record
            begin = blank + reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{name}:{begin}: {error}; expected CSV with quotation marks in pairs"
        ) from error


def _json(lines: Iterable[str], name: str, begin: int) -> Iterator[Record]:
    for count, line in enumerate(lines, begin):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = ValueError("not a line of JSON")
        if not isinstance(record, dict | ValueError):
            record = ValueError(f"expected a JSON object, not {line.strip()[:40]}")
        yield f"{name}:{count}", record


def _row(record: Mapping[str, Any]) -> _Row:
    empty = [name for name in REQUIRED if record.get(name) in (None, "")]
    if empty:
        raise ValueError(f"no {' and no '.join(empty)}")
    direction, unit = str(record["direction"]), str(record["unit"])
    if direction not in _DIRECTIONS:
        raise ValueError(f"direction {direction!r}: expected 'higher' or 'lower'")
    if not UNIT.match(unit):
        raise ValueError(f"unit {unit!r}: expected letters such as ns or bit/s, or %")
    metric = SeriesMetric(str(record["metric"]), unit, lower=direction == "lower")
    scenario = str(record.get("scenario") or "default")
    if not NAME.match(metric.name):
        raise ValueError(
            f"metric {metric.name!r}: expected lower-case letters, digits and '-', such as cpu; "
            "name a benchmark in the column scenario"
        )
    if not _SCENARIO.match(scenario):
        raise ValueError(f"scenario {scenario!r}: expected letters, digits, '.', '_', '-' or '@'")
    series = SeriesName(
        str(record.get("testbed") or "default"),
        metric.of(scenario),
        str(record.get("branch") or "main"),
    )
    value, at = _value(record["value"]), _time(record.get("time"))
    return _Row(series, str(record["revision"]), value, at)


def _value(text: object) -> float:
    try:
        value = float(str(text))
    except ValueError:
        value = math.nan
    if not LEAST_VALUE <= value <= MOST_VALUE:
        limits = f"from {LEAST_VALUE:g} to {MOST_VALUE:g}" if value > 0 else "above 0"
        hint = " with a decimal point" if "," in str(text) else ""
        raise ValueError(f"value {text!r}: expected a number {limits}{hint}")
    return value


def _time(value: object) -> float | None:
    if value in (None, ""):
        return None
    text = str(value)
    try:
        # Eight digits are a day: 20260301.
        seconds = None if re.fullmatch(r"[12]\d{7}", text) else float(text)
    except ValueError:
        seconds = None
    try:
        if seconds is not None:
            datetime.fromtimestamp(seconds, UTC)  # refuses nan, and milliseconds
            return seconds
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"time {text!r}: expected a time such as 2026-03-01T02:30:00Z, or seconds since 1970"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
