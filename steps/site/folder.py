"""The folder of a site: written anew beside the old one, then renamed into its place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netbisect.errors import UserError
from netbisect.reports.site.frame import File, Page
from netbisect.workers.transport import locks

Pair = tuple[str, str]
"""Two revisions that are compared on a page of their own."""
_MANIFEST = "site.json"


class SiteError(UserError):
    """The folder cannot be used."""


class SiteRevisionError(UserError):
    """An unknown or ambiguous name of a revision."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a finished site."""

    files: frozenset[str] = frozenset()
    """Names of its files."""
    pairs: tuple[Pair, ...] = ()


def put(folder: Path, files: Iterable[tuple[str, File]]) -> None:
    """Writes files, each with its name."""
    for name, make in files:
        file = make()
        text = file.html() if isinstance(file, Page) else file
        (folder / name).write_bytes(text.encode("utf-8", "replace"))


def finish(folder: Path, pairs: tuple[Pair, ...]) -> None:
    """Marks a new folder as a site: the last file that is written."""
    files = sorted(one.name for one in folder.iterdir())
    (folder / _MANIFEST).write_text(json.dumps({"files": files, "pairs": pairs}))


@contextmanager
def replacing(place: Path) -> Iterator[tuple[Path, Manifest]]:
    """A new folder, and the manifest of the site that it replaces at the end of the block.

    If the block raises an exception, the old site stays.

    Raises:
        SiteError: The place is another folder, cannot be written, or is in use by another process.
    """
    place = place.resolve()
    if not place.name:
        raise SiteError(f"{place} is not a site; expected a new or empty folder")
    new, old = _beside(place, "new"), _beside(place, "old")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            if old.exists() and not place.exists():
                old.rename(place)  # the process was killed between the two renames
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)
            before = _read(place)
            new.mkdir()
            try:
                yield new, before
                if place.exists():
                    _keep(place, new, before)
                    place.rename(old)
                new.rename(place)
            finally:
                shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise SiteError(
            f"{error.filename or place}: cannot be written: {os.strerror(error.errno or 0)}"
        ) from error


def _beside(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.netbisect-{what}")


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    with _beside(place, "lock").open("w") as lock:
        if not locks.take(lock):
            raise SiteError(f"{place} is being written by another process")
        yield


def _read(place: Path) -> Manifest:
    """The manifest of the site in this place; an empty one if the folder is missing or empty."""
    names = sorted(one.name for one in place.iterdir()) if place.exists() else []
    if not names:
        return Manifest()
    try:
        content = json.loads((place / _MANIFEST).read_text())
        pairs = tuple((before, after) for before, after in content["pairs"])
        return Manifest(frozenset(content["files"]), pairs)
    except FileNotFoundError:
        raise SiteError(
            f"{place} has files and is not a site ({names[0]}); expected a new or empty folder"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SiteError(
            f"{place / _MANIFEST} is damaged or of another version: remove {place}, or name "
            "another folder"
        ) from None


def _keep(place: Path, new: Path, before: Manifest) -> None:
    """Copies foreign files of the old site, such as robots.txt, and its permissions."""
    shutil.copymode(place, new)
    for one in place.iterdir():
        target = new / one.name
        if one.name in before.files or target.exists():
            continue
        if one.is_dir() and not one.is_symlink():
            shutil.copytree(one, target, symlinks=True)
        else:
            shutil.copy2(one, target, follow_symlinks=False)
