"""Results of asv, as rows of measurements.

A folder of asv has `benchmarks.json`, and `MACHINE/COMMIT-ENVIRONMENT.json` with the results of a
commit: https://asv.readthedocs.io/en/stable/dev.html#file-format. In format 1, results are numbers,
or objects if a benchmark has parameters. As in `asv publish`, only results of the benchmarks and
versions in `benchmarks.json` count: it lacks those that were removed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netbisect.cli.input.measurements import Record

_OTHER_FILES = {"machine.json"}


def records(folder: Path) -> Iterator[Record]:
    """One row per number, in the order of the commits' times.

    Raises OSError, and ValueError if the folder is not one of asv.
    """
    described = folder / "benchmarks.json"
    if not described.is_file():
        raise ValueError(f"{folder}: no benchmarks.json; expected a results folder of asv")
    try:
        benchmarks = _object(described)
    except ValueError as error:
        raise ValueError(f"{described}: {error}") from error
    results = []
    files = (path for path in folder.glob("*/*.json") if path.name not in _OTHER_FILES)
    for path in sorted(files):
        try:
            results.append((path, _object(path)))
        except ValueError as error:
            yield str(path), error
    for path, result in sorted(results, key=lambda one: one[1].get("date") or 0):
        yield from _rows(path, result, benchmarks)


def _object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - bad input
    return data


def _rows(path: Path, result: dict[str, Any], benchmarks: dict[str, Any]) -> Iterator[Record]:
    columns = result.get("result_columns") or ["result", "params"]
    _, _, environment = path.stem.partition("-")
    for name, values in (result.get("results") or {}).items():
        about = benchmarks.get(name)
        if not isinstance(about, dict):
            continue
        listed = values if isinstance(values, list) else [[values]]
        found = values if isinstance(values, dict) else dict(zip(columns, listed, strict=False))
        version = found.get("version")
        if version not in (None, about.get("version", version)):
            continue
        numbers = found.get("result")
        cases = itertools.product(*(found.get("params") or []))
        for number, case in zip(numbers if isinstance(numbers, list) else [], cases, strict=False):
            if number in (None, 0) or number != number:  # noqa: PLR0124 - failed, NaN, no level
                continue
            yield (
                f"{path}: {name}",
                {
                    # Environments, such as versions of Python, have levels of their own.
                    "testbed": _clean(f"{path.parent.name}-{environment}"),
                    "scenario": _clean("-".join([name, *map(str, case)])),
                    "metric": about.get("type"),
                    "revision": result.get("commit_hash"),
                    "time": (result.get("date") or 0) / 1000 or None,
                    "value": number,
                    "unit": about.get("unit"),
                    "direction": "lower",
                },
            )


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@=-]+", "-", name).strip("-")
