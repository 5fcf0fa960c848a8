"""Patches that a search puts on top of a broken stretch: how they are given, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from netbisect.steps.hand.repository import Repository, RepositoryError, Worktree
from netbisect.steps.hand.search import Overlay, Search


class OverlayError(Exception):
    """A patch that cannot be used; the text says which and why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch as it was when the search was called."""

    overlay: Overlay
    content: bytes


def read(
    given: Sequence[str], repository: Repository, line: Sequence[str], run: Sequence[str]
) -> list[Patch]:
    """Reads the patches that a user names as FILE or FILE@FIRST..LAST.

    Args:
        given: As the user wrote them.
        repository: Where FIRST and LAST are looked up.
        line: All revisions from the good end to the bad end, both included, oldest first.
        run: Those of them that a search may run.

    Raises:
        OverlayError: A file cannot be read, is no patch, or its stretch is none.
        RepositoryError: FIRST or LAST is no commit.
    """
    found: list[Patch] = []
    for text in given:
        path, ends = _parts(text)
        try:
            content = path.read_bytes()
            repository.check_patch(content)
        except OSError as error:
            raise OverlayError(f"--overlay {path} cannot be read: {error.strerror}") from error
        except RepositoryError as error:
            raise OverlayError(f"--overlay {path} is no patch that git takes: {error}") from error
        if any(path.name == patch.overlay.name for patch in found):
            raise OverlayError(
                f"--overlay {path}: patches of different names expected, found two {path.name}"
            )
        overlay = Overlay(path.name, sha256(content).hexdigest())
        if ends is not None:
            overlay = _limited(overlay, text, ends, repository, (line, run))
        found.append(Patch(overlay, content))
    return found


def _parts(text: str) -> tuple[Path, tuple[str, str] | None]:
    name, at, stretch = text.rpartition("@")
    first, dots, last = stretch.partition("..")
    if at and dots and not Path(text).exists():
        return Path(name), (first, last)
    return Path(text), None


def _limited(
    overlay: Overlay,
    text: str,
    ends: tuple[str, str],
    repository: Repository,
    lines: tuple[Sequence[str], Sequence[str]],
) -> Overlay:
    option = f"--overlay {text}"
    line, run = lines
    first, last = (
        repository.resolve(name, f"{option}:") if name else default
        for name, default in zip(ends, (line[0], line[-1]), strict=True)
    )
    for name, revision in zip(ends, (first, last), strict=True):
        if revision not in line:
            raise OverlayError(f"{option}: {name} is not on the line from the good to the bad end")
    if line.index(first) > line.index(last):
        raise OverlayError(f"{option}: {ends[0]} comes after {ends[1]}, first..last expected")
    stretch = set(line[line.index(first) : line.index(last) + 1])
    inside = [revision for revision in run if revision in stretch]
    if not inside:
        raise OverlayError(f"{option}: the trees of that stretch come back before or after it")
    return replace(overlay, first=inside[0], last=inside[-1])


def put_on(
    worktree: Worktree, patches: Sequence[Patch], asked: Search, revision: str
) -> tuple[str, ...]:
    """Applies to what is checked out the patches that are for it and that it lacks.

    Returns:
        The names of those that were applied.

    Raises:
        OverlayError: One does not apply.
    """
    applied: list[str] = []
    for patch in patches:
        if not asked.is_for(patch.overlay, revision):
            continue
        name = patch.overlay.name
        try:
            if worktree.apply(patch.content):
                applied.append(name)
        except RepositoryError as error:
            raise OverlayError(
                f"--overlay {name} does not apply to it, nor is its change there: {error}; "
                f"{name}@FIRST..LAST keeps it to a stretch"
            ) from error
    return tuple(applied)
