"""The log of a search: one JSON object per line, synced to disk before it is acted upon.

The first line is the search; jobs, decisions and facts follow in chronological order. A decision
depends only on the lines above it, so that a log can be replayed.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import cattrs
from cattrs.preconf.json import make_converter

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Sample
from netbisect.bisect.model.results import Trial
from netbisect.errors import UserError
from netbisect.localbisect.search import Entry, SearchSpec, spec_of

_FORMAT = 1
_converter = make_converter(forbid_extra_keys=True, detailed_validation=True)
_DERIVED = {"line", "commits", "good_subject"}
"""Fields derived from other fields and the repository."""


class LogError(UserError):
    """A log cannot be used."""


def dumps(entry: Entry) -> str:
    """A line of the log, without the newline."""
    if isinstance(entry, SearchSpec):
        data = {"is": "search", "format": _FORMAT, **_converter.unstructure(entry)}
        return json.dumps(data, separators=(",", ":"))
    if isinstance(entry, Trial):
        # Derived from the lines above, and large.
        entry = replace(entry, belief=None)
    return serialization.dumps(entry)


def _loads(line: str) -> Entry:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise serialization.WireError(f"invalid JSON: {error}") from error
    if not isinstance(data, dict) or data.get("is") != "search":
        entry: Entry = serialization.loads(line)
        return entry
    if data.pop("format", None) != _FORMAT:
        raise serialization.WireError(f"unknown format, expected {_FORMAT}")
    del data["is"]
    try:
        return _converter.structure(data, SearchSpec)
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise serialization.WireError(
            "; ".join(cattrs.transform_error(error, path="search"))
        ) from error


def read(path: Path) -> list[Entry]:
    """All entries of a log, without an incomplete last line.

    Raises:
        LogError: The file is missing or is not a log.
    """
    try:
        return _parse(path, path.read_bytes())
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}") from error


def _parse(path: Path, content: bytes) -> list[Entry]:
    entries: list[Entry] = []
    boots: set[str] = set()
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            entry = _loads(line.decode())
        except (serialization.WireError, UnicodeDecodeError) as error:
            raise LogError(f"{path}, line {number}: {error}") from error
        if (number == 1) != isinstance(entry, SearchSpec):
            raise LogError(f"{path}, line {number}: expected one search, in the first line")
        if isinstance(entry, Boot):
            boots.add(entry.id)
        if isinstance(entry, Sample) and (entry.boot not in boots or not entry.valid):
            raise LogError(f"{path}, line {number}: expected a sample above 0 of an earlier boot")
        entries.append(entry)
    return entries


def changed_options(old: SearchSpec, new: SearchSpec) -> list[str]:
    """Options in which two searches differ, with both values."""
    found = []
    for name in (field.name for field in fields(SearchSpec) if field.name not in _DERIVED):
        before, now = getattr(old, name), getattr(new, name)
        if before != now:
            option = {
                "paths": "--path",
                "overlays": "--overlay",
                "command": "the command",
            }.get(name, f"--{name.replace('_', '-')}")
            found.append(f"{option} was {_show(before)} and is {_show(now)}")
    return found


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return repr(" ".join(map(str, value))) if value else "not given"
    return "not given" if value in (None, "") else str(value)


class SearchLog:
    """A log open for appending, by one process at a time."""

    def __init__(self, path: Path, search: SearchSpec, *, reset: bool = False) -> None:
        """Opens or creates the log of a search.

        Args:
            path: Created with its folder if missing.
            search: The search.
            reset: Start over; the old log is kept as `.old`.

        Raises:
            LogError: It cannot be written, is in use, is not a log, or belongs to another search.
                The file is unchanged.
        """
        self.path = path
        self.entries: list[Entry] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._open(fresh=reset)
        except OSError as error:
            raise LogError(f"{path} cannot be written: {error.strerror}") from error
        try:
            self._begin(search)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _open(self, *, fresh: bool) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not fresh or os.fstat(descriptor).st_size == 0:
                return descriptor
            self.path.rename(f"{self.path}.old")
        except BlockingIOError:
            os.close(descriptor)
            raise LogError(f"{self.path}: a search with this log is running") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return self._open(fresh=False)

    def _begin(self, search: SearchSpec) -> None:
        content = self.path.read_bytes()
        self.entries = _parse(self.path, content)
        if not self.entries:
            os.ftruncate(self._descriptor, 0)
            self.append(search)
            return
        assert isinstance(self.entries[0], SearchSpec)
        if found := changed_options(self.entries[0], search):
            raise LogError(
                f"{self.path} is the log of another search: {'; '.join(found)}. "
                "--reset starts over, --log selects another file"
            )
        # Removes an incomplete last line; nothing depends on it.
        os.ftruncate(self._descriptor, content.rfind(b"\n") + 1)

    @property
    def spec(self) -> SearchSpec:
        """The search."""
        return spec_of(self.entries)

    def append(self, *entries: Entry) -> None:
        """Appends entries atomically and syncs them to disk.

        Raises:
            LogError: They could not be written; the log is as it was before.
        """
        content = "".join(f"{dumps(entry)}\n" for entry in entries).encode()
        size = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, content) < len(content):
                raise LogError(f"{self.path} cannot be written: no space is left")  # noqa: TRY301 - undone below
            os.fsync(self._descriptor)
        except (OSError, LogError) as error:
            os.ftruncate(self._descriptor, size)
            raise LogError(f"{self.path} cannot be written: {error}") from error
        self.entries += entries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)
