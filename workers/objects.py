"""The objects that a builder keeps between builds, and when they may not be kept.

A mark stands beside the objects of each configuration, and one beside the toolchain. It is written
before make starts and after it ends: a mark that says that make is running, while the builder's
directory is free, is of a build that was killed, whose objects may be cut short.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cached_property
from pathlib import Path

_RUNNING = "running"
_DONE = "done"
_FAILED = "failed"
_LINKED = (".ko", ".kld", ".full", ".debug")


class Mark:
    """What is known of something that make made; read when it is first asked for.

    A build that waits for another one in the same directory must not know what was before that.
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
        """Whether make neither ended well nor failed by itself."""
        return self._known.get("state") == _RUNNING

    @property
    def done(self) -> bool:
        """Whether make ended well the last time."""
        return self._known.get("state") == _DONE

    def says(self, **facts: str) -> bool:
        """Whether what was made was made of exactly this."""
        return all(self._known.get(name) == value for name, value in facts.items())

    def begin(self, **facts: str) -> None:
        """To be called before make starts, with what it makes things of."""
        self._write(_RUNNING, facts)

    def end(self, *, well: bool) -> None:
        """To be called after make has ended by itself."""
        facts = {name: value for name, value in self._known.items() if name != "state"}
        self._write(_DONE if well else _FAILED, facts)

    def _write(self, state: str, facts: dict[str, str]) -> None:
        self._known = {"state": state, **facts}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._known, indent=2) + "\n")
        new.replace(self._path)


class Objects:
    """A directory for MAKEOBJDIRPREFIX."""

    def __init__(self, place: Path, tree: Path, arch: str, conf: str) -> None:
        """Nothing is read but the marks.

        Args:
            place: the directory.
            tree: the work tree that is built.
            arch: TARGET.
            conf: kernel configuration, without overlays.
        """
        self.place = place
        self._tree = str(tree.resolve()).lstrip("/")
        self._arch = arch
        self._conf = conf
        self.toolchain = Mark(place / "netbisect-toolchain.json")
        self.kernel = Mark(place / f"netbisect-kernel-{conf}.json")

    def folders(self, below: str) -> list[Path]:
        """Where this path of the objects of the tree is, in any version of FreeBSD.

        From 12 on it is below `TREE/ARCH.ARCH`; before, below `ARCH.ARCH/TREE` when cross-building
        and `TREE` when not.
        """
        tops = [
            *self.place.glob(f"{self._tree}/{self._arch}.*"),
            *self.place.glob(f"{self._arch}.*/{self._tree}"),
            self.place / self._tree,
        ]
        return [top / below for top in tops if (top / below).exists()]

    @property
    def kernel_folders(self) -> list[Path]:
        """The objects of the configuration; none or one, if no other tree was built here."""
        return self.folders(f"sys/{self._conf}")

    def wipe_kernel(self) -> None:
        """Removes the objects of the configuration."""
        for folder in self.kernel_folders:
            shutil.rmtree(folder)

    def wipe(self) -> None:
        """Removes everything, the toolchain too, as if at once."""
        old = self.place.with_name(f"{self.place.name}.old")
        for _ in range(2):  # what is left of a removal that was killed, then what is there now
            if old.exists():
                shutil.rmtree(old)
            if self.place.exists():
                self.place.replace(old)
        self.toolchain = Mark(self.place / "netbisect-toolchain.json")
        self.kernel = Mark(self.place / f"netbisect-kernel-{self._conf}.json")

    def forget_version(self) -> None:
        """Has the kernel linked anew with the version of the tree as it is now.

        make writes vers.c only when something else was compiled: a commit that changes a manual
        page alone would leave a kernel that says that it is of the commit before.
        """
        for folder in self.kernel_folders:
            for name in ("vers.c", "vers.o"):
                (folder / name).unlink(missing_ok=True)

    def forget_links(self) -> None:
        """Has everything linked anew: make does not know what the linker was told the last time."""
        for folder in self.kernel_folders:
            for path in folder.rglob("*"):
                if path.is_file() and (path.suffix in _LINKED or path.name == "kernel"):
                    path.unlink()

    def own_compiler(self) -> Path | None:
        """The compiler that the tree's toolchain built; none where the host's is used."""
        return next(iter(self.folders("tmp/usr/bin/cc")), None)


def fingerprint(*parts: object) -> str:
    """A hash over texts, in hex."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def fingerprint_of(folder: Path | None) -> str:
    """A hash over the files of a folder but hidden ones, in hex; "" when there is none."""
    if folder is None:
        return ""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            data = path.read_bytes()
            digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()
