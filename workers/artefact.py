"""Finished kernels on disk, each under the hash of its own bytes.

STORE/<key>/kernel.tar.gz   what is installed on a DUT
STORE/<key>/kernel.json     the Kernel fact; its time is when the kernel was last used
STORE/<key>/build.log       how it was built
STORE/.new-*                kernels that are being put, and kernels that are being removed

Several processes may use one store. Whoever boots a kernel holds a lock on its archive, and whoever
makes room leaves alone what is locked. A lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from netbisect.bisect import wire
from netbisect.bisect.model import Kernel

ARCHIVE = "kernel.tar.gz"
FACT = "kernel.json"
LOG = "build.log"
_BLOCK = 1 << 20
_WORK = ".new-"
_ABANDONED = 86400.0
"""Seconds after which a folder that somebody else was filling is taken for given up."""
_YOUNG = 60.0
"""Seconds in which a new folder may not yet be locked."""


class ArtefactError(ValueError):
    """An artefact that is absent or not what its name says."""


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o555 if member.isdir() or member.mode & 0o111 else 0o444
    return member


def pack(directory: Path, archive: Path) -> str:
    """Writes the files of `directory` as a tar that depends on nothing but them; returns its key.

    The key is the SHA-256 of the archive before compression, in hex.
    """
    with tempfile.TemporaryFile() as plain:
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(directory.rglob("*")):
                name = path.relative_to(directory).as_posix()
                tar.add(path, arcname=name, recursive=False, filter=_plain)
        plain.seek(0)
        digest = hashlib.sha256()
        with (
            archive.open("wb") as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0, filename="") as packed,
        ):
            while block := plain.read(_BLOCK):
                digest.update(block)
                packed.write(block)
            packed.flush()
    return digest.hexdigest()


class Readable(Protocol):
    """What bytes come from."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at its end."""


class Digesting(io.RawIOBase):
    """Reads a stream, and keeps the SHA-256 of what was read."""

    def __init__(self, stream: Readable) -> None:
        super().__init__()
        self._stream = stream
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """As of any stream."""
        block = self._stream.read(size)
        self.digest.update(block)
        return block


@contextlib.contextmanager
def whole_tar(stream: Digesting | gzip.GzipFile) -> Iterator[tarfile.TarFile]:
    """The tar in a stream, which is read to its end: what follows the last member counts, too."""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as tar:
        yield tar
    while stream.read(_BLOCK):
        pass


@contextlib.contextmanager
def unpacked(archive: Path, key: str) -> Iterator[tarfile.TarFile]:
    """The tar in a packed archive, to be read from its beginning to its end.

    Raises:
        ArtefactError: at the end of the block, or in it: its content has another key.
    """
    try:
        with gzip.open(archive, "rb") as stream:
            digested = Digesting(stream)
            with whole_tar(digested) as tar:
                yield tar
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise ArtefactError(f"{archive}: {error}") from error
    found = digested.digest.hexdigest()
    if found != key:
        raise ArtefactError(f"{archive}: its content has the key {found[:12]}")


def key_of(archive: Path) -> str:
    """The key of a packed archive, computed from its content."""
    try:
        with gzip.open(archive, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise ArtefactError(f"{archive}: {error}") from error


@dataclass(frozen=True, slots=True)
class Pruned:
    """What came of making room."""

    removed: tuple[str, ...]
    """Keys of the kernels that went, least recently used first."""
    size: int
    """Bytes of all that stayed."""


class ArtefactStore:
    """The kernels in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def archive(self, key: str) -> Path:
        """Where the archive of that key is, or would be."""
        return self.directory / key / ARCHIVE

    # -------------------------------------------------------------------------------- coming

    def put(self, directory: Path, fact: Callable[[str, int], Kernel], log: Path) -> Kernel:
        """Packs an installed kernel directory; `fact(key, size)` describes it.

        All or nothing: the folder appears under its key when it is complete.
        """
        with self._work() as work:
            key = pack(directory, work / ARCHIVE)
            kernel = fact(key, (work / ARCHIVE).stat().st_size)
            (work / FACT).write_text(wire.dumps(kernel) + "\n")
            shutil.copyfile(log, work / LOG)
            self._appear(work, key)
        return kernel

    def adopt(self, folder: Path, key: str) -> None:
        """Moves in a kernel that arrived in `folder`, on the same disk; the folder is gone then.

        Raises:
            ArtefactError: its content has another key, or it has no fact; the store is as it was.
            OSError: it cannot be moved.
        """
        try:
            found = key_of(folder / ARCHIVE)
            if found != key:
                raise ArtefactError(
                    f"what was uploaded has the key {found[:12]}, expected {key[:12]}"
                )
            if not (folder / FACT).is_file():
                raise ArtefactError(f"there is no {FACT} with the kernel {key[:12]}")
            self.directory.mkdir(parents=True, exist_ok=True)
            self._appear(folder, key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _work(self) -> Iterator[Path]:
        """A folder to fill, locked as long as it is being filled; nothing of it stays behind."""
        self.directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=self.directory))
        try:
            held = os.open(work, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX)
                work.chmod(0o755)
                yield work
            finally:
                os.close(held)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _appear(self, work: Path, key: str) -> None:
        place = self.directory / key
        if (place / ARCHIVE).exists() and (place / FACT).exists():
            # The same bytes again. The newest fact and log replace the old ones.
            names = [name for name in (LOG, FACT) if (work / name).exists()]
            for name in names:
                (work / name).replace(place / name)
        else:
            shutil.rmtree(place, ignore_errors=True)  # what never became whole
            work.replace(place)

    # --------------------------------------------------------------------------------- using

    def use(self, key: str) -> None:
        """Notes that this kernel is used now: those that were used longest ago go first."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.directory / key / FACT)

    @contextlib.contextmanager
    def lease(self, key: str) -> Iterator[Path]:
        """The archive of that key, which stays for as long as the block; it counts as used now.

        Its content is not looked at: `unpacked` does that for whoever reads it.

        Raises:
            ArtefactError: it is not there.
        """
        try:
            stream = self.archive(key).open("rb")
        except OSError:
            raise ArtefactError(f"there is no kernel {key[:12]} in {self.directory}") from None
        with stream:
            fcntl.flock(stream, fcntl.LOCK_SH)
            if not self.archive(key).is_file():  # it went before it was locked
                raise ArtefactError(f"there is no kernel {key[:12]} in {self.directory}")
            self.use(key)
            yield self.archive(key)

    # ---------------------------------------------------------------------------- making room

    def size(self) -> int:
        """Bytes that the kernels here take, archives, facts and logs."""
        return sum(_size(fact.parent) for fact in self.directory.glob(f"[!.]*/{FACT}"))

    def prune(self, budget: int, needed: Collection[str] = ()) -> Pruned:
        """Removes kernels, least recently used first, until `budget` bytes hold the rest.

        Those in `needed` stay, and those that are on lease, even if they need more than that.
        What killed processes left half done goes too.
        """
        self._sweep()
        facts = sorted(self.directory.glob(f"[!.]*/{FACT}"), key=_used)
        sizes = {fact: _size(fact.parent) for fact in facts}
        total = sum(sizes.values())
        removed = []
        for fact in facts:
            if total <= budget:
                break
            if fact.parent.name not in needed and self._remove(fact):
                removed.append(fact.parent.name)
                total -= sizes[fact]
        return Pruned(tuple(removed), total)

    def _remove(self, fact: Path) -> bool:
        """Removes one kernel; False when somebody uses it, or it is gone."""
        try:
            stream = (fact.parent / ARCHIVE).open("rb")
        except OSError:
            return False
        with stream, self._work() as work:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # From one moment to the next it is no longer there, also for a kill in between.
                fact.parent.rename(work / fact.parent.name)
            except OSError:
                return False
        return True

    def _sweep(self) -> None:
        """Removes what was being put or removed by a process that is no more."""
        for work in self.directory.glob(f"{_WORK}*"):
            with contextlib.suppress(OSError):
                held = os.open(work, os.O_RDONLY)
                try:
                    if time.time() - os.fstat(held).st_mtime < _YOUNG:
                        continue
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(work, ignore_errors=True)
                finally:
                    os.close(held)
        for folder in self.directory.iterdir() if self.directory.is_dir() else ():
            # Buildbot fills these, and locks nothing.
            if not (folder / FACT).exists() or folder.name.startswith("."):
                with contextlib.suppress(OSError):
                    if time.time() - _newest(folder) > _ABANDONED:
                        shutil.rmtree(folder, ignore_errors=True)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it went meanwhile
            total += path.stat().st_size
    return total


def _used(fact: Path) -> float:
    try:
        return fact.stat().st_mtime
    except OSError:
        return 0.0


def _newest(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
