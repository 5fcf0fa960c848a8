"""Permissions of the service's folders and databases.

Buildbot's database contains the key that signs login cookies.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from netbisect.steps.service.settings import Settings
from netbisect.store.db.database import sqlite_file
from netbisect.workers.config.toml import FileError

UMASK = 0o077
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
BUILDBOTS = "state.sqlite"
"""Buildbot's database, as master.cfg names it."""
_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Suffixes of SQLite's files."""


def exposed_paths(folder: Path, settings: Settings) -> list[Path]:
    """Returns the folders and databases that other users can access."""
    return [path for path in _private(folder, settings) if _mode(path) & _OTHERS]


def restrict(folder: Path, settings: Settings) -> None:
    """Removes other users' access to the folders and databases. Raises FileError."""
    for path in exposed_paths(folder, settings):
        try:
            path.chmod(_mode(path) & ~_OTHERS)
        except FileNotFoundError:  # SQLite's own files come and go
            continue
        except OSError as error:
            raise FileError(
                f"{path} is accessible by other users; chmod failed: {error.strerror}"
            ) from error


def _private(folder: Path, settings: Settings) -> Iterator[Path]:
    yield folder
    if settings.state.is_dir() and not settings.state.samefile(folder):
        yield settings.state
    databases = [folder / BUILDBOTS]
    if path := sqlite_file(settings.database):
        databases.append(path)
    yield from (Path(f"{path}{more}") for path in databases for more in _SUFFIXES)


def _mode(path: Path) -> int:
    """Permission bits, or 0 for a missing file."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
