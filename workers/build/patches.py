"""Submitted patches: validated, and stored by content.

A kernel with a patch has a configuration such as `GENERIC+D5180-1a2b3c4d`, with eight digits of
the patch's SHA-256: an updated review is another configuration.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 10 << 20
"""Size limit; only vendor imports are larger."""
BY_HAND = "patch"
"""Name of a patch from a file."""

_HUNK = re.compile(rb"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")
_NAMES = re.compile(rb"(?:---|\+\+\+|rename (?:from|to)|copy (?:from|to)) (.+)")
_BOTH = re.compile(rb"diff --git (\S+) (\S+)\Z")
_MODE = re.compile(rb"(?:(?:old|new|new file|deleted file) mode|index \S+) (\d{6})\Z")
_NO_FILES = {b"120000": "a symbolic link", b"160000": "a submodule"}
_PAGE = (b"<!doctype", b"<html", b"<head", b"<?xml")
_NOWHERE = "/dev/null"
_DEEPEST = 3
"""`stable/14/` in Subversion's paths, and one more."""
_DIGITS = 8


class PatchError(ValueError):
    """An unusable patch."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A valid patch."""

    name: str
    """Review, such as D5180, or `patch`."""
    data: bytes
    paths: tuple[str, ...]
    """Paths in the patch."""

    @property
    def mark(self) -> str:
        """The mark in names of configurations."""
        return f"{self.name}-{hashlib.sha256(self.data).hexdigest()[:_DIGITS]}"


def read(name: str, data: bytes) -> Patch:
    """Parses a patch.

    Args:
        name: Review, or `BY_HAND`.
        data: Diff of git or Subversion; Windows line ends are converted.

    Raises:
        PatchError: not a diff, or paths outside the tree.
    """
    if len(data) > MOST_BYTES:
        raise PatchError(f"{name}: expected a diff of at most {MOST_BYTES >> 20} MiB")
    start = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(_PAGE):
        raise PatchError(
            f"{name}: expected a diff, found a page of HTML: there is no such review, or only "
            "those who log in may see it"
        )
    if b"\0" in data:
        raise PatchError(f"{name}: expected a diff, found binary data")
    if data.count(b"\n") == data.count(b"\r\n"):
        data = data.replace(b"\r\n", b"\n")
    if not data.endswith(b"\n"):
        data += b"\n"
    paths: dict[str, None] = {}
    for line in _outside_hunks(data.split(b"\n")):
        mode = _MODE.match(line)
        if mode and mode[1] in _NO_FILES:
            raise PatchError(f"{name}: expected changes to files, found {_NO_FILES[mode[1]]}")
        paths.update((_path(name, path), None) for path in _named(line))
    paths.pop(_NOWHERE, None)
    if not paths:
        raise PatchError(f"{name}: expected a diff, found no name of a file in it")
    return Patch(name, data, tuple(paths))


def read_file(path: Path) -> Patch:
    """Reads a patch from a file.

    Raises:
        PatchError: as `read`, or unreadable file.
    """
    try:
        with path.open("rb") as stream:
            return read(BY_HAND, stream.read(MOST_BYTES + 1))
    except OSError as error:
        raise PatchError(f"{path} cannot be read: {error.strerror}") from error
    except PatchError as error:
        raise PatchError(str(error).replace(BY_HAND, str(path), 1)) from error


def _outside_hunks(lines: list[bytes]) -> Iterator[bytes]:
    """Lines outside hunks; a removed `-- x` would look like a file name."""
    old = new = 0
    for line in lines:
        if old > 0 or new > 0:
            sign = line[:1]
            if sign != b"\\":
                old -= sign != b"+"
                new -= sign != b"-"
            continue
        hunk = _HUNK.match(line)
        if hunk:
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
        else:
            yield line


def _named(line: bytes) -> Iterator[bytes]:
    names = _NAMES.match(line)
    if names:
        yield names[1].partition(b"\t")[0]  # Subversion's revision, diff's time
    both = _BOTH.match(line)
    if both:
        yield from both.groups()


def _path(name: str, path: bytes) -> str:
    text = path.decode(errors="replace").strip()
    if text == _NOWHERE:
        return text
    parts = text.split("/")
    if text.startswith(("/", '"')) or {"..", "."} & set(parts) or ".git" in text.lower().split("/"):
        # The text of a server is not repeated: it may be no server of reviews.
        found = repr(text) if name == BY_HAND else "one that is not"
        raise PatchError(f"{name}: expected names of files inside the tree, found {found}")
    return text


def level_of(patch: Patch, tops: Collection[str]) -> int:
    """Number of leading path components to strip (`patch -p`).

    git writes `a/sys/...`, Subversion `sys/...`, `head/sys/...` or `stable/14/sys/...`; `tops` are
    the names at the top of the tree.
    """
    parts = [path.split("/") for path in patch.paths]
    known = [
        sum(len(one) > level and one[level] in tops for one in parts)
        for level in range(_DEEPEST + 1)
    ]
    if any(known):
        return known.index(max(known))  # not all of them: a patch may add to the top
    return int(all(one[0] in ("a", "b") for one in parts))


class PatchStore:
    """Patches in a folder, one file per mark."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def put(self, patch: Patch) -> str:
        """Stores a patch; returns its mark.

        Raises:
            PatchError: another patch has the same mark.
            OSError: not written.
        """
        place = self._place(patch.mark)
        self.directory.mkdir(parents=True, exist_ok=True)
        if place.exists() and self._sound(place, patch.mark):
            if place.read_bytes() != patch.data:
                raise PatchError(f"another patch is stored as {patch.mark} in {self.directory}")
            return patch.mark
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.directory) as folder:
            work = Path(folder) / "patch"
            work.write_bytes(patch.data)
            work.replace(place)
        return patch.mark

    def get(self, mark: str) -> Path:
        """Path of a verified patch.

        Raises:
            PatchError: missing or damaged.
        """
        place = self._place(mark)
        if not place.is_file():
            raise PatchError(f"there is no patch {mark} in {self.directory}")
        if not self._sound(place, mark):
            raise PatchError(f"{place}: its content is not the patch {mark}")
        return place

    def load(self, mark: str) -> Patch:
        """Loads a stored patch.

        Raises:
            PatchError: as `get` and `read`.
        """
        return read(mark.rpartition("-")[0], self.get(mark).read_bytes())

    def _place(self, mark: str) -> Path:
        return self.directory / f"{mark}.patch"

    @staticmethod
    def _sound(place: Path, mark: str) -> bool:
        found = hashlib.sha256(place.read_bytes()).hexdigest()
        return found.startswith(mark.rpartition("-")[2])
