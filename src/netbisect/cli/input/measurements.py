"""Measurements of any metric: CSV with a header, or one JSON object per line.

A row is one run of one revision. Numbers that should be low are inverted, so that a fall of the
level is a change for the worse in every series.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from netbisect.bisect.model.entities import Level
from netbisect.store.db.records import SeriesName

REQUIRED = ("metric", "revision", "value", "unit", "direction")
_DIRECTIONS = ("higher", "lower")


@dataclass(frozen=True, slots=True)
class MetricUnit:
    """Unit of a metric, and the direction of better numbers."""

    unit: str
    direction: str
    """`higher` or `lower`."""


@dataclass(frozen=True, slots=True)
class _Row:
    series: SeriesName
    revision: str
    metric: MetricUnit
    value: float
    at: float | None
    """Seconds since the epoch; None if not recorded."""


class Measurements:
    """Reads files of measurements into series."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        """Messages about rows that were skipped."""
        self.metrics: dict[str, MetricUnit] = {}
        self._rows: defaultdict[SeriesName, dict[str, list[_Row]]] = defaultdict(dict)
        self._order: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def read(self, lines: Iterable[str], name: str) -> None:
        """Reads a file; invalid rows are refused, and the others count.

        Args:
            lines: The file: CSV, or JSON if its first character is `{`.
            name: Its name, for messages.

        Raises:
            ValueError: The header lacks a column, or is the only line.
        """
        count = 0
        for where, record in _records(lines, name):
            count += 1
            try:
                if isinstance(record, ValueError):
                    raise record
                self._add(_row(record))
            except ValueError as error:
                self.refused.append(f"{where}: {error}; skipped")
        if not count:
            raise ValueError(f"{name}: no measurements; expected rows below the header")

    def _add(self, row: _Row) -> None:
        known = self.metrics.setdefault(row.series.scenario, row.metric)
        if known != row.metric:
            raise ValueError(
                f"metric {row.series.scenario!r} is in {row.metric.unit!r}, {row.metric.direction} "
                f"is better; expected {known.unit!r}, {known.direction}, as in the rows before"
            )
        order = self._order[row.series.branch]
        order.setdefault(row.revision, len(order) + 1)
        self._rows[row.series].setdefault(row.revision, []).append(row)

    def numbers(self) -> Mapping[str, Mapping[str, int]]:
        """Positions of revisions by branch, in the order of their first rows."""
        return self._order

    def series(self) -> dict[SeriesName, list[Level]]:
        """Levels by series, in the order of the revisions."""
        return {
            name: [
                self._level(name, revision, revisions[revision])
                for revision in self._order[name.branch]
                if revision in revisions
            ]
            for name, revisions in sorted(self._rows.items(), key=lambda item: str(item[0]))
        }

    def timed(self) -> bool:
        """Whether every row has a time."""
        every = (rows for revisions in self._rows.values() for rows in revisions.values())
        return all(row.at is not None for row in itertools.chain.from_iterable(every))

    def _level(self, name: SeriesName, revision: str, rows: list[_Row]) -> Level:
        times = [row.at for row in rows if row.at is not None]
        at = min(times) if self.timed() else float(self._order[name.branch][revision])
        sign = -1 if self.metrics[name.scenario].direction == "lower" else 1
        values = tuple(sign * math.log(row.value) for row in rows)
        return Level(revision, f"{name.testbed} {revision}", at, values)


def is_measurements(first: str) -> bool:
    """Whether the first line of a file is that of measurements, not of a netbenches history."""
    if not first.lstrip().startswith("{"):
        return "metric" in first
    try:
        record = json.loads(first)
    except ValueError:
        return False
    return "metric" in record and "points" not in record


def _records(
    lines: Iterable[str], name: str
) -> Iterator[tuple[str, Mapping[str, Any] | ValueError]]:
    rest = iter(lines)
    first = next(rest, "")
    every = itertools.chain([first], rest)
    if first.lstrip().startswith("{"):
        yield from _json(every, name)
        return
    reader = csv.DictReader(every)
    missing = [column for column in REQUIRED if column not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{name}: no column {', '.join(missing)} in the header")
    for record in reader:
        yield f"{name}:{reader.line_num}", record


def _json(lines: Iterable[str], name: str) -> Iterator[tuple[str, Mapping[str, Any] | ValueError]]:
    for count, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = ValueError("not a line of JSON")
        if not isinstance(record, dict | ValueError):
            record = ValueError(f"expected a JSON object, not {line.strip()[:40]}")
        yield f"{name}:{count}", record


def _row(record: Mapping[str, Any]) -> _Row:
    empty = [name for name in REQUIRED if record.get(name) in (None, "")]
    if empty:
        raise ValueError(f"no {' and no '.join(empty)}")
    metric = MetricUnit(str(record["unit"]), str(record["direction"]))
    if metric.direction not in _DIRECTIONS:
        raise ValueError(f"direction {metric.direction!r}: expected 'higher' or 'lower'")
    series = SeriesName(
        str(record.get("testbed") or "default"),
        str(record["metric"]),
        str(record.get("branch") or "main"),
    )
    value, at = _value(record["value"]), _time(record.get("time"))
    return _Row(series, str(record["revision"]), metric, value, at)


def _value(told: object) -> float:
    try:
        value = float(str(told))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"value {told!r}: expected a number above 0")
    return value


def _time(value: object) -> float | None:
    if value in (None, ""):
        return None
    text = str(value)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"time {text!r}: expected a time such as 2026-03-01T02:30:00Z, or seconds since 1970"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
