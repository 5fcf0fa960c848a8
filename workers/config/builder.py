"""`[source]` and `[[builders]]` of the lab file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.model.revision_key import PATCH_MARK
from netbisect.workers.config.validation import (
    HASH,
    IDENT,
    check,
    check_form,
    check_modules,
    check_name,
    check_unique,
    find_named,
)


@dataclass(frozen=True, slots=True)
class Overlay:
    """A patch for a range of revisions that is broken without it."""

    name: str
    """Shown in reports and part of the kernel's name; a changed patch needs a new name."""
    patch: Path
    """Output of `git diff`. Relative to lab.toml."""
    first: str
    """Full hash of the first revision with the patch."""
    last: str
    """Full hash of the last one, a first-parent descendant of the first."""

    def __post_init__(self) -> None:
        check_name(self.name)
        check(
            not PATCH_MARK.match(self.name),
            f"name {self.name!r}: expected another one, for patches given by hand are called so",
        )
        for name in ("first", "last"):
            check_form(self, name, HASH, "the full hash of a commit", optional=False)


@dataclass(frozen=True, slots=True)
class Source:
    """The source tree."""

    repository: str
    """Anything `git clone` accepts."""
    overlays: tuple[Overlay, ...] = ()
    kernel_configs: Path | None = None
    """Folder with additional kernel configurations. Relative to lab.toml."""
    review_url: str = "https://reviews.freebsd.org/{review}?download=true"
    """URL of the diff of a review; `{review}` stands for D5180."""
    revisions: Path | None = None
    """Table of Subversion revision numbers, read by the master only. Relative to lab.toml."""

    def __post_init__(self) -> None:
        check(
            self.review_url.startswith(("http://", "https://")) and "{review}" in self.review_url,
            f"review_url {self.review_url!r}: expected http:// or https://, and {{review}} in it",
        )
        check_unique("overlay", [overlay.name for overlay in self.overlays])

    def overlay(self, name: str) -> Overlay:
        """The overlay of that name, or `FileError`."""
        return find_named(self.overlays, name, "overlay")


@dataclass(frozen=True, slots=True)
class Builder:
    """A build host."""

    name: str
    arch: str
    directory: Path
    """Clone, objects and finished kernels; tens of gigabytes for FreeBSD."""
    worker: str = ""
    """Name of its Buildbot worker; default: the builder's name."""
    make: tuple[str, ...] = ()
    """Command; default: `make`, or the tree's make.py for cross-builds."""
    cross_bindir: Path | None = None
    """Folder of clang and ld.lld on a host other than FreeBSD: `--cross-bindir` of make.py."""
    jobs: int = 1
    options: tuple[str, ...] = ()
    """Additional arguments of make, such as WITHOUT_META_MODE=yes."""
    modules: tuple[str, ...] | None = None
    """Kernel modules to build; empty: all; None: those of the testbeds."""
    build_timeout: int = 7200
    """Seconds per call of make."""

    def __post_init__(self) -> None:
        check_name(self.name)
        check_form(self, "arch", IDENT, "a name such as amd64", optional=False)
        check_form(self, "worker", IDENT, "letters, digits, '.', '_' or '-'")
        check_modules(self.modules or ())
        check(
            self.cross_bindir is None or self.cross_bindir.is_absolute(),
            f"cross_bindir {self.cross_bindir}: expected a path that begins with /",
        )
        check(self.jobs >= 1, f"jobs {self.jobs}: expected 1 or more")
        check(self.build_timeout > 0, f"build_timeout {self.build_timeout}: expected seconds > 0")

    @property
    def make_command(self) -> list[str]:
        """The make command, with the options of a cross-build."""
        if self.cross_bindir is None:
            return [*(self.make or ("make",))]
        own = self.make or ("tools/build/make.py",)
        return [*own, f"--cross-bindir={self.cross_bindir}"]

    @property
    def kernels(self) -> Path:
        """Folder of the artefact store."""
        return self.directory / "kernels"

    @property
    def patches(self) -> Path:
        """Folder of submitted patches."""
        return self.directory / "patches"
