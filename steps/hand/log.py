"""The log of a search: one JSON object a line, on the disk before anything follows from it.

The first line says what was asked; then come the questions put to the engine, its decisions and all
facts, in the order in which they happened. A decision is what the engine makes of the lines above
it and of nothing else, which is what makes a log replay.
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

from netbisect.bisect import wire
from netbisect.bisect.model import Boot, Sample, Visit
from netbisect.steps.hand.search import Entry, Search

_FORMAT = 1
_converter = make_converter(forbid_extra_keys=True, detailed_validation=True)
_DERIVED = {"line", "commits", "good_subject"}
"""Fields of a search that follow from the others and the repository."""


class LogError(Exception):
    """A log that cannot be used; the text says which, where and why, in one sentence."""


def dumps(entry: Entry) -> str:
    """A line of the log, without its end."""
    if isinstance(entry, Search):
        data = {"is": "search", "format": _FORMAT, **_converter.unstructure(entry)}
        return json.dumps(data, separators=(",", ":"))
    if isinstance(entry, Visit):
        # It follows from the lines above, and would be the greater part of the file.
        entry = replace(entry, belief=None)
    return wire.dumps(entry)


def _loads(line: str) -> Entry:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise wire.WireError(f"not a line of JSON: {error}") from error
    if not isinstance(data, dict) or data.get("is") != "search":
        entry: Entry = wire.loads(line)
        return entry
    if data.pop("format", None) != _FORMAT:
        raise wire.WireError(f"a search of another format, expected {_FORMAT}")
    del data["is"]
    try:
        return _converter.structure(data, Search)
    except (cattrs.BaseValidationError, ValueError, TypeError) as error:
        raise wire.WireError("; ".join(cattrs.transform_error(error, path="search"))) from error


def read(path: Path) -> list[Entry]:
    """All entries of a log; a last line that was never finished is left out.

    Raises:
        LogError: There is no such file, or it is no log of a search.
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
        except (wire.WireError, UnicodeDecodeError) as error:
            raise LogError(f"{path}, line {number}: {error}") from error
        if (number == 1) != isinstance(entry, Search):
            raise LogError(f"{path}, line {number}: a log begins with one line of a search")
        if isinstance(entry, Boot):
            boots.add(entry.id)
        if isinstance(entry, Sample) and (entry.boot not in boots or not entry.valid):
            raise LogError(f"{path}, line {number}: a sample above 0 of a boot before it expected")
        entries.append(entry)
    return entries


def differences(old: Search, new: Search) -> list[str]:
    """Names the options in which two searches differ, with both their values."""
    found = []
    for name in (field.name for field in fields(Search) if field.name not in _DERIVED):
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


class Log:
    """A log that is being written, by one process at a time."""

    def __init__(self, path: Path, search: Search, *, reset: bool = False) -> None:
        """Opens the log of this search, or begins it.

        Args:
            path: Made with its folder where it is not there.
            search: What is asked.
            reset: Begin anew; what was there is kept as `.old`.

        Raises:
            LogError: It cannot be written, another process writes it, it is no log, or it is the
                log of another search. Nothing has changed then.
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
            raise LogError(f"{self.path}: a search with this log runs already") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return self._open(fresh=False)

    def _begin(self, search: Search) -> None:
        content = self.path.read_bytes()
        self.entries = _parse(self.path, content)
        if not self.entries:
            os.ftruncate(self._descriptor, 0)
            self.append(search)
            return
        assert isinstance(self.entries[0], Search)
        if found := differences(self.entries[0], search):
            raise LogError(
                f"{self.path} is the log of another search: {'; '.join(found)}. "
                "--reset begins anew, --log takes another file"
            )
        # A line that a kill cut short was never answered, so nothing is lost with it.
        os.ftruncate(self._descriptor, content.rfind(b"\n") + 1)

    @property
    def search(self) -> Search:
        """What is asked."""
        search = self.entries[0]
        assert isinstance(search, Search)
        return search

    def append(self, *entries: Entry) -> None:
        """Writes entries that belong together; they are on the disk when this returns.

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
