"""The log of a search: one JSON object per line, synced to disk before it is acted upon.

The first line is the search; jobs, decisions and facts follow in chronological order. A decision
depends only on the lines above it, so that a log can be replayed. Marks of commits are in a file
beside the log, which a running search reads before each decision.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
from contextlib import ExitStack
from dataclasses import fields, replace
from io import FileIO
from pathlib import Path
from typing import Self

import cattrs
from cattrs.preconf.json import make_converter

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Sample
from netbisect.bisect.model.marks import CommitMark
from netbisect.bisect.model.results import Trial
from netbisect.errors import UserError
from netbisect.localbisect.search import Entry, SearchSpec, spec_of

_FORMAT = 1
_converter = make_converter(forbid_extra_keys=True, detailed_validation=True)
_DERIVED = {"line", "commits", "good_subject"}
"""Fields derived from other fields and the repository."""
_OPTIONS = {"paths": "--path", "overlays": "--overlay", "command": "the command"}
"""Options by field, if their names differ."""


class LogError(UserError):
    """A log cannot be used."""


def dumps(entry: Entry) -> str:
    """A line of the log, without the newline."""
    if isinstance(entry, SearchSpec):
        data = {"is": "search", "format": _FORMAT, **_converter.unstructure(entry)}
        return json.dumps(data, separators=(",", ":"))
    if isinstance(entry, Trial):
        # Derived from the lines above, and large.
        entry = replace(entry, posterior=None)
    return serialization.dumps(entry)


def _loads(line: str) -> Entry:
    """An entry from a line; raises ValueError."""
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - bad input
    if data.pop("is", "") != "search":
        entry: Entry = serialization.loads(line)
        return entry
    if data.pop("format", None) != _FORMAT:
        raise ValueError(f"unknown format, expected {_FORMAT}")
    try:
        return _converter.structure(data, SearchSpec)
    except (cattrs.BaseValidationError, TypeError) as error:
        raise ValueError("; ".join(cattrs.transform_error(error, path="search"))) from error


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
        except json.JSONDecodeError as error:
            raise LogError(f"{path}, line {number}: invalid JSON: {error}") from error
        except ValueError as error:
            raise LogError(f"{path}, line {number}: {error}") from error
        if (number == 1) != isinstance(entry, SearchSpec):
            raise LogError(f"{path}, line {number}: expected one search, in the first line")
        if isinstance(entry, Boot):
            boots.add(entry.id)
        if isinstance(entry, Sample) and (entry.boot not in boots or not entry.valid):
            raise LogError(f"{path}, line {number}: expected a sample above 0 from an earlier boot")
        entries.append(entry)
    return entries


def changed_options(old: SearchSpec, new: SearchSpec) -> list[str]:
    """Options in which two searches differ, with both values."""
    found = []
    for name in (field.name for field in fields(SearchSpec) if field.name not in _DERIVED):
        before, now = getattr(old, name), getattr(new, name)
        if before != now:
            option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
            found.append(f"{option} was {_show(before)} and is {_show(now)}")
    return found


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return shlex.join(map(str, value)) if value else "not given"
    return "not given" if value in (None, "") else str(value)


class SearchLog:
    """A log open for appending, by one process at a time."""

    def __init__(self, path: Path, search: SearchSpec, *, reset: bool = False) -> None:
        """Opens or creates the log of a search, with its folder.

        With `reset` it starts over; the old log is kept as `.old`.

        Raises:
            LogError: It cannot be written, is in use, is not a log, or has runs of another search.
                The file is unchanged.
        """
        self.path = path
        self.entries: list[Entry] = []
        with ExitStack() as stack:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._open(stack)
                if reset and self._file.tell():
                    path.rename(f"{path}.old")
                    self._file = self._open(stack)
            except BlockingIOError:
                raise LogError(f"{path}: a search with this log is running") from None
            except OSError as error:
                raise LogError(f"{path} cannot be written: {error.strerror}") from error
            self._begin(search)
            self._files = stack.pop_all()

    def _open(self, stack: ExitStack) -> FileIO:
        file = stack.enter_context(self.path.open("ab", buffering=0))
        if not self.path.is_file():  # /dev/full would be read without end
            raise LogError(f"{self.path} is not a file: expected the log of a search, or a new one")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def _begin(self, search: SearchSpec) -> None:
        content = self.path.read_bytes()
        self.entries = _parse(self.path, content)
        found = changed_options(spec_of(self.entries), search) if self.entries else []
        if found and any(isinstance(entry, Sample) for entry in self.entries):
            raise LogError(
                f"{self.path} is the log of another search: {'; '.join(found)}. "
                "--reset starts over, --log selects another file"
            )
        if found or not self.entries:  # without a run, nothing is lost
            self.entries = []
            self._file.truncate(0)
            self.append(search)
            return
        # Removes an incomplete last line; nothing depends on it.
        self._file.truncate(content.rfind(b"\n") + 1)

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
        size = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - undone below
            os.fsync(self._file)
        except OSError as error:
            self._file.truncate(size)
            raise LogError(f"{self.path} cannot be written: {error.strerror}") from error
        self.entries += entries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()


def _marks_path(log: Path) -> Path:
    return log.with_name(f"{log.name}.marks")


def add_mark(log: Path, mark: CommitMark) -> None:
    """Adds a mark for the searches with this log. Raises LogError."""
    path = _marks_path(log)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as stream:
            stream.seek(0)
            # An incomplete last line, as after a power failure, is no mark.
            stream.truncate(stream.read().rfind(b"\n") + 1)
            stream.write(f"{serialization.dumps(mark)}\n".encode())
    except OSError as error:
        raise LogError(f"{path} cannot be written: {error.strerror}") from error


def unread_marks(log: SearchLog) -> list[CommitMark]:
    """The marks of the search's commits that are not in its log yet.

    Raises:
        LogError: The file is no list of marks.
    """
    path = _marks_path(log.path)
    try:
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        marks = [serialization.loads_as(line, CommitMark) for line in lines if line.endswith("\n")]
    except (OSError, ValueError) as error:
        raise LogError(f"{path} cannot be read: {error}") from error
    known = {entry for entry in log.entries if isinstance(entry, CommitMark)}
    return [mark for mark in marks if mark.revision in log.spec.subjects and mark not in known]
