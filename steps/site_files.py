"""The folder of a site: what is in it, and how it is changed without ever being half a site."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

PAGE = ".html"
_MANIFEST = "site.json"
_LOCK = ".site.lock"
_STAGING = ".new-"
_KEPT = ".kept"
_HIDDEN = {_LOCK, _KEPT}


class SiteError(Exception):
    """The folder cannot be used; the text says why, in one sentence."""


class RevisionError(Exception):
    """A name that is not one revision; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did."""

    pages: int
    largest: int
    """Bytes of the largest page."""
    drawn: int = 0
    """Pages whose inputs had changed."""
    written: int = 0
    removed: int = 0


@dataclass
class Manifest:
    """What was written, and from what."""

    made_by: str = ""
    """Of the program and the settings: pages made by others are made anew."""
    mark: str = ""
    """Of the whole ledger, as it was before anything was read."""
    tree: str = ""
    """Of the tree under watch, at the same time."""
    until: float | None = None
    """Seconds since the epoch from which on time alone changes what is told; None: never."""
    marks: dict[str, str] = field(default_factory=dict)
    """By task: the state of its inputs."""
    extents: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """By task of a case: what it is about, as `site_touched.Extent`."""
    conditions: dict[str, str] = field(default_factory=dict)
    """By testbed: digest of those of its newest samples."""
    pages: dict[str, dict[str, str]] = field(default_factory=dict)
    """By task: the digest of each of its files."""
    series: dict[str, list[Any]] = field(default_factory=dict)
    """By task: the series in a line, for pages that tell of many."""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Revisions that are compared on a page of their own."""

    def digests(self) -> dict[str, str]:
        """By file: its digest."""
        return {name: digest for files in self.pages.values() for name, digest in files.items()}


class Folder:
    """A site that is being written."""

    def __init__(self, place: Path, staging: Path, manifest: Manifest) -> None:
        self.place = place
        self.staging = staging
        """Where new files are written first."""
        self.manifest = manifest
        """As it was found."""
        self.kept = place / _KEPT
        """Folder of what saves work the next time, and is no part of the site."""
        self._sizes = {one.name: one.stat().st_size for one in os.scandir(place) if one.is_file()}

    def whole(self, task: str) -> bool:
        """Whether all files of a task are there."""
        pages = self.manifest.pages
        return task in pages and self._sizes.keys() >= pages[task].keys()

    def complete(self) -> bool:
        """Whether all files are there."""
        return self._sizes.keys() >= self.manifest.digests().keys()

    def report(self) -> Report:
        """What is there; no page was drawn."""
        files = [name for name in self.manifest.digests() if name.endswith(PAGE)]
        return Report(len(files), max(self._sizes.get(name, 0) for name in files))

    def replace(self, manifest: Manifest) -> tuple[int, int]:
        """Puts the new files in their places; returns how many were changed, and how many left.

        A file that leads to others comes after them, and what nothing leads to any more goes
        last: whenever this is interrupted, the site can be read, and the next run mends the rest.
        """
        before, after = self.manifest.digests(), manifest.digests()
        staged = {one.name: one.stat().st_size for one in os.scandir(self.staging)}
        changed = [
            name
            for name in after
            if name in staged and not (before.get(name) == after[name] and name in self._sizes)
        ]
        # What was known of the files that change does not hold from here on.
        told = {
            task for task, files in manifest.pages.items() if not files.keys().isdisjoint(changed)
        }
        marks = {task: mark for task, mark in self.manifest.marks.items() if task not in told}
        if changed:
            self._write(replace(self.manifest, mark="", marks=marks))
        for name in sorted(changed, key=_leading):
            (self.staging / name).replace(self.place / name)
            self._sizes[name] = staged[name]
        gone = [name for name in before if name not in after]
        if changed or manifest != self.manifest:
            self._write(manifest)
        for name in gone:
            (self.place / name).unlink(missing_ok=True)
        self.manifest = manifest
        return len(changed), len(gone)

    def _write(self, manifest: Manifest) -> None:
        work = self.staging / _MANIFEST
        work.write_text(json.dumps(vars(manifest), separators=(",", ":")))
        work.replace(self.place / _MANIFEST)


def _leading(name: str) -> tuple[bool, bool, str]:
    """By which a file is put after those that it leads to."""
    return name == "index.html", name.endswith(".html"), name


def mark_of(told: object) -> str:
    """A digest of what something is made from."""
    return _digest(repr(told).encode("utf-8", "replace"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def put(staging: Path, name: str, text: str) -> str:
    """Writes a file and returns its digest."""
    content = text.encode("utf-8", "replace")
    (staging / name).write_bytes(content)
    return _digest(content)


@contextmanager
def opened(place: Path) -> Iterator[Folder]:
    """The folder of a site, which nobody else may change meanwhile.

    Raises:
        SiteError: it is not that of a site and not empty, it cannot be written, or it is being
            written by another process.
    """
    new = not place.exists()
    try:
        place.mkdir(parents=True, exist_ok=True)
        _check(place)
        with (place / _LOCK).open("w") as lock:
            _take(lock.fileno(), place)
            for left in place.glob(f"{_STAGING}*"):
                shutil.rmtree(left, ignore_errors=True)  # of a run that was interrupted
            with tempfile.TemporaryDirectory(dir=place, prefix=_STAGING) as staging:
                yield Folder(place, Path(staging), _read(place / _MANIFEST))
    except OSError as error:
        raise SiteError(
            f"{error.filename or place}: cannot be written: {os.strerror(error.errno or 0)}"
        ) from error
    except BaseException:
        if new:
            _remove_empty(place)
        raise


def _check(place: Path) -> None:
    """Refuses a folder with files that are not those of a site."""
    if (place / _MANIFEST).is_file():
        return
    for one in place.iterdir():
        # What begins like this was left by a first run that was interrupted.
        if one.name not in _HIDDEN and not one.name.startswith(_STAGING):
            raise SiteError(
                f"{place} has files and is no site ({one.name}): a new or empty folder would be "
                "right"
            )


def _take(lock: int, place: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SiteError(f"{place} is being written by another process; wait for its end") from error


def _remove_empty(place: Path) -> None:
    """Nothing half-done stays behind."""
    if not (place / _MANIFEST).exists() and {one.name for one in place.iterdir()} <= _HIDDEN:
        shutil.rmtree(place, ignore_errors=True)


def _read(path: Path) -> Manifest:
    """What is known of the files; nothing where that cannot be read."""
    try:
        data: Mapping[str, Any] = json.loads(path.read_text())
        pairs = [(before, after) for before, after in data["pairs"]]
        return Manifest(
            made_by=data["made_by"],
            mark=data["mark"],
            tree=data["tree"],
            until=data["until"],
            marks=dict(data["marks"]),
            extents={name: tuple(told) for name, told in data["extents"].items()},
            conditions=dict(data["conditions"]),
            pages=dict(data["pages"]),
            series=dict(data["series"]),
            pairs=pairs,
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Manifest()
