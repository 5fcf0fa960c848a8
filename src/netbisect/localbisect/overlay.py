"""Overlays: patches applied to revisions of a range that lack them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from netbisect.errors import UserError
from netbisect.localbisect.repository import Repository, RepositoryError, Worktree
from netbisect.localbisect.search import OverlaySpec, SearchSpec


class OverlayError(UserError):
    """A patch cannot be used."""


def read_overlays(
    given: Sequence[str], repository: Repository, line: Sequence[str], run: Sequence[str]
) -> dict[OverlaySpec, bytes]:
    """Contents of the patches given as FILE or FILE@FIRST..LAST.

    Args:
        given: Values of --overlay.
        repository: Resolves FIRST and LAST.
        line: All revisions from the good to the bad end, oldest first.
        run: The revisions that the search may measure.

    Raises:
        OverlayError: A file cannot be read or is not a patch, or the range is invalid.
        RepositoryError: FIRST or LAST is not a commit.
    """
    found: dict[OverlaySpec, bytes] = {}
    for text in given:
        path, ends = _parse(text)
        try:
            content = path.read_bytes()
            repository.check_patch(content)
        except OSError as error:
            raise OverlayError(f"--overlay {path} cannot be read: {error.strerror}") from error
        except RepositoryError as error:
            raise OverlayError(f"--overlay {path} is not a patch for git: {error}") from error
        if any(path.name == other.name for other in found):
            raise OverlayError(
                f"--overlay {path}: expected patches of different names, found two {path.name}"
            )
        overlay = OverlaySpec(path.name, sha256(content).hexdigest())
        if ends is not None:
            overlay = _restrict(overlay, text, ends, repository, (line, run))
        found[overlay] = content
    return found


def _parse(text: str) -> tuple[Path, tuple[str, str] | None]:
    name, at, range_ = text.rpartition("@")
    first, dots, last = range_.partition("..")
    if at and dots and not Path(text).exists():
        return Path(name), (first, last)
    return Path(text), None


def _restrict(
    overlay: OverlaySpec,
    text: str,
    ends: tuple[str, str],
    repository: Repository,
    lines: tuple[Sequence[str], Sequence[str]],
) -> OverlaySpec:
    option = f"--overlay {text}"
    line, run = lines
    first, last = (
        repository.resolve(name, f"{option}:") if name else default
        for name, default in zip(ends, (line[0], line[-1]), strict=True)
    )
    for name, revision in zip(ends, (first, last), strict=True):
        if revision not in line:
            raise OverlayError(f"{option}: {name} is not between the good and the bad end")
    if line.index(first) > line.index(last):
        raise OverlayError(f"{option}: {ends[0]} comes after {ends[1]}, expected first..last")
    covered = set(line[line.index(first) : line.index(last) + 1])
    inside = [revision for revision in run if revision in covered]
    if not inside:
        raise OverlayError(f"{option}: the range has only repeated trees")
    return replace(overlay, first=inside[0], last=inside[-1])


def apply_overlays(
    worktree: Worktree, patches: Mapping[OverlaySpec, bytes], spec: SearchSpec, revision: str
) -> list[str]:
    """Applies the patches that a checked-out revision needs and lacks; returns their names.

    Raises OverlayError if a patch does not apply.
    """
    applied: list[str] = []
    for overlay, content in patches.items():
        try:
            if spec.is_for(overlay, revision) and worktree.apply(content):
                applied.append(overlay.name)
        except RepositoryError as error:
            raise OverlayError(
                f"--overlay {overlay.name} neither applies nor is already present: {error}; "
                f"{overlay.name}@FIRST..LAST restricts it to a range"
            ) from error
    return applied
