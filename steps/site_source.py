"""Where a site comes from, and whether there is news: quick to import, and to ask."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import netbisect
from netbisect.steps.settings import Settings
from netbisect.steps.site_files import Folder, Report
from netbisect.store.database import StoreError, open_database
from netbisect.store.marks import Marks
from netbisect.store.mirror import HistoryError, Mirror
from netbisect.workers.lab import Lab

_FOLDERS = ("bisect", "reports", "steps", "store", "workers")
_SOURCES = {".py", ".json", ".html", ".css", ".js", ".txt", ".toml"}
_LIBRARIES = ("jinja2", "matplotlib", "numpy", "scipy")
"""Whose other versions may make other pages."""


@dataclass(frozen=True)
class Source:
    """Where the site comes from."""

    database: str
    commit_link: str = ""
    lab: Lab | None = None
    min_effect: float | None = None
    """Smallest change worth an alert, as |ln ratio|; None for the usual one."""
    home: Settings | None = None
    """Of the service, where its folders are there."""

    def digest(self) -> str:
        """Of all but the database: settings, the lab, the program and its libraries."""
        found = hashlib.sha256()
        settings = self.commit_link, self.lab, self.min_effect, self.home
        told = repr((*settings, sys.version, *_versions()))
        found.update(told.encode("utf-8", "replace"))
        for path in self._files():
            found.update(f"{path.name}\n".encode("utf-8", "replace"))
            found.update(path.read_bytes())
        return found.hexdigest()[:16]

    def tree(self) -> str:
        """State of the clone of the tree under watch; "" where there is none."""
        if self.home is None or self.lab is None or not self.home.mirror.is_dir():
            return ""
        try:
            found = Mirror(self.home.mirror, self.lab.source.repository).references()
        except HistoryError:
            return ""
        return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]

    def _files(self) -> Iterator[Path]:
        """The program's own, and those that the lab has of scenarios."""
        home = Path(netbisect.__file__).parent
        folders = [home / name for name in _FOLDERS]
        folders += self.lab.scenario_directories if self.lab else ()
        for folder in folders:
            yield from sorted(
                path for path in folder.rglob("*") if path.suffix in _SOURCES and path.is_file()
            )


def _versions() -> list[str]:
    return [metadata.version(name) for name in _LIBRARIES]


def unchanged(folder: Folder, source: Source) -> Report | None:
    """What there is to say of a site that is as a new one would be; None when it may not be."""
    known = folder.manifest
    over = known.until is not None and time.time() >= known.until
    if over or not known.mark or known.made_by != source.digest():
        return None
    try:
        engine = open_database(source.database)
        mark = Marks(engine).mark()
    except StoreError:
        return None  # whoever reads it brings it up to date, or says what is wrong
    engine.dispose()
    same = mark == known.mark and source.tree() == known.tree
    return folder.report() if same and folder.complete() else None
