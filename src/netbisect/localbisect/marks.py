"""Marks of commits, in a file beside the log that a running search reads before each decision."""

from __future__ import annotations

from pathlib import Path

from netbisect.bisect.model import serialization
from netbisect.bisect.model.marks import CommitMark
from netbisect.localbisect.log import LogError, SearchLog


def _path(log: Path) -> Path:
    return log.with_name(f"{log.name}.marks")


def add_mark(log: Path, mark: CommitMark) -> None:
    """Adds a mark for the searches with this log.

    Raises:
        LogError: The file cannot be written.
    """
    path = _path(log)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as stream:
            stream.write(f"{serialization.dumps(mark)}\n")
    except OSError as error:
        raise LogError(f"{path} cannot be written: {error.strerror}") from error


def unread_marks(log: SearchLog) -> list[CommitMark]:
    """The marks of the search's commits that are not in its log yet.

    Raises:
        LogError: The file is no list of marks.
    """
    path = _path(log.path)
    try:
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        marks = [serialization.loads_as(line, CommitMark) for line in lines if line.endswith("\n")]
    except (OSError, ValueError) as error:
        raise LogError(f"{path} cannot be read: {error}") from error
    known = {entry for entry in log.entries if isinstance(entry, CommitMark)}
    return [mark for mark in marks if mark.revision in log.spec.subjects and mark not in known]
