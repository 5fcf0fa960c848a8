"""Object directories that a builder keeps between builds.

A mark for each configuration and for the toolchain is written before and after make. If it says
`running` while the directory is unlocked, the build was killed and its objects may be damaged.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from functools import cached_property
from pathlib import Path

_RUNNING, _DONE, _FAILED = "running", "done", "failed"
_LINKED = (".ko", ".kld", ".full", ".debug")


class Mark:
    """State of a make target, read on first use.

    It is read late because a waiting build must not see the state before the other build.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _known(self) -> dict[str, str]:
        try:
            known = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    @property
    def interrupted(self) -> bool:
        """Whether make was killed."""
        return self._known.get("state") == _RUNNING

    @property
    def done(self) -> bool:
        """Whether the last make succeeded."""
        return self._known.get("state") == _DONE

    def says(self, **facts: str) -> bool:
        """Whether the target was made from exactly this."""
        return all(self._known.get(name) == value for name, value in facts.items())

    def begin(self, **facts: str) -> None:
        """Records the start of make, with its inputs."""
        self._write(_RUNNING, facts)

    def end(self, *, well: bool) -> None:
        """Records the end of make."""
        facts = {name: value for name, value in self._known.items() if name != "state"}
        self._write(_DONE if well else _FAILED, facts)

    def _write(self, state: str, facts: dict[str, str]) -> None:
        self._known = {"state": state, **facts}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._known, indent=2) + "\n")
        new.replace(self._path)


class Objects:
    """A MAKEOBJDIRPREFIX."""

    def __init__(self, place: Path, tree: Path, arch: str, conf: str) -> None:
        """Describes the object directory at `place` of a work tree, TARGET and KERNCONF."""
        self.place = place
        self._tree = str(tree.resolve()).lstrip("/")
        self._arch = arch
        self._conf = conf
        self._read_marks()

    def _read_marks(self) -> None:
        self.toolchain = Mark(self.place / "netbisect-toolchain.json")
        self.kernel = Mark(self.place / f"netbisect-kernel-{self._conf}.json")

    def folders(self, below: str) -> list[Path]:
        """Path of an object folder in all versions of FreeBSD.

        Since 12 it is below `TREE/ARCH.ARCH`; before, below `ARCH.ARCH/TREE` for cross-
        builds, else `TREE`.
        """
        tops = [
            *self.place.glob(f"{self._tree}/{self._arch}.*"),
            *self.place.glob(f"{self._arch}.*/{self._tree}"),
            self.place / self._tree,
        ]
        return [top / below for top in tops if (top / below).exists()]

    @property
    def kernel_folders(self) -> list[Path]:
        """Object folders of the configuration; one at most, unless another tree was built here."""
        return self.folders(f"sys/{self._conf}")

    @property
    def from_future(self) -> bool:
        """Whether the clock was set back, so that make takes old objects for newer than sources."""
        marks = self.place.glob("netbisect-*.json")
        return any(mark.stat().st_mtime > time.time() for mark in marks)

    def wipe_kernel(self) -> None:
        """Removes the objects of the configuration."""
        for folder in self.kernel_folders:
            shutil.rmtree(folder)

    def wipe(self) -> None:
        """Removes everything, with the toolchain, atomically."""
        old = self.place.with_name(f"{self.place.name}.old")
        for _ in range(2):  # what is left of a removal that was killed, then what is there now
            if old.exists():
                shutil.rmtree(old)
            if self.place.exists():
                self.place.replace(old)
        self._read_marks()

    def forget_version(self) -> None:
        """Forces a new vers.c.

        make only updates it after a compilation, so a commit without code would keep the
        old revision.
        """
        for folder in self.kernel_folders:
            for name in ("vers.c", "vers.o"):
                (folder / name).unlink(missing_ok=True)

    def forget_links(self) -> None:
        """Forces linking; make does not track linker flags."""
        for folder in self.kernel_folders:
            for path in folder.rglob("*"):
                if path.is_file() and (path.suffix in _LINKED or path.name == "kernel"):
                    path.unlink()

    def own_compiler(self) -> Path | None:
        """The toolchain's compiler, or None if the host's is used."""
        return next(iter(self.folders("tmp/usr/bin/cc")), None)


def fingerprint(*parts: object) -> str:
    """Hash of texts, in hex."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def fingerprint_of(folder: Path | None) -> str:
    """Hash of the files of a folder except hidden ones; "" if it does not exist."""
    if folder is None:
        return ""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            data = path.read_bytes()
            digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()
