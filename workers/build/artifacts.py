"""Stores finished kernels, each under the hash of its content.

STORE/<key>/kernel.tar.gz   files for the DUT
STORE/<key>/kernel.json     the Kernel fact; its mtime is the time of last use
STORE/<key>/build.log       log of the build
STORE/.new-*                kernels being added or removed

Several processes may use one store. A process locks the archive of a kernel that it uses; locked
kernels are not removed. Locks end with their process.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Kernel

ARCHIVE = "kernel.tar.gz"
FACT = "kernel.json"
LOG = "build.log"
_BLOCK = 1 << 20
_WORK = ".new-"
_ABANDONED = 86400.0
"""Seconds until an unfinished folder of another process counts as abandoned."""
_YOUNG = 60.0
"""Seconds until a new folder must be locked."""


class ArtefactError(ValueError):
    """A missing or damaged artefact."""


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o555 if member.isdir() or member.mode & 0o111 else 0o444
    return member


def pack(directory: Path, archive: Path) -> str:
    """Packs the files of `directory` reproducibly; returns the key.

    The key is the SHA-256 of the uncompressed tar, in hex.
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


@contextlib.contextmanager
def whole_tar(stream: gzip.GzipFile) -> Iterator[tarfile.TarFile]:
    """A tar that is read to the end of its stream, so that trailing bytes count."""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as tar:
        yield tar
    while stream.read(_BLOCK):
        pass


def read_fact(path: Path) -> Kernel:
    """The fact of a stored kernel. Raises ArtefactError."""
    try:
        return serialization.loads_as(path.read_text(), Kernel)
    except (OSError, UnicodeDecodeError, serialization.WireError) as error:
        raise ArtefactError(f"{path}: {error}") from error


def key_of(archive: Path) -> str:
    """Computes the key of an archive."""
    try:
        with gzip.open(archive, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise ArtefactError(f"{archive}: {error}") from error


def check_key(archive: Path, key: str) -> None:
    """Raises ArtefactError if the content of an archive has another key."""
    found = key_of(archive)
    if found != key:
        raise ArtefactError(f"{archive}: its content has the key {found[:12]}, expected {key[:12]}")


@dataclass(frozen=True, slots=True)
class Pruned:
    """Result of `prune`."""

    removed: tuple[str, ...]
    """Keys of removed kernels, least recently used first."""
    size: int
    """Size of the remaining kernels in bytes."""
    refused: str = ""
    """Why a kernel could not be removed: a sentence, or ""."""


class ArtefactStore:
    """The kernels in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def archive(self, key: str) -> Path:
        """Path of the archive with that key."""
        return self.directory / key / ARCHIVE

    def put(self, directory: Path, fact: Callable[[str, int], Kernel], log: Path) -> Kernel:
        """Stores an installed kernel directory atomically; `fact(key, size)` describes it."""
        with self._work() as work:
            key = pack(directory, work / ARCHIVE)
            kernel = fact(key, (work / ARCHIVE).stat().st_size)
            (work / FACT).write_text(serialization.dumps(kernel) + "\n")
            shutil.copyfile(log, work / LOG)
            self._publish(work, key)
        return kernel

    def adopt(self, folder: Path, key: str) -> None:
        """Moves a received kernel from `folder` (on the same disk) into the store.

        Raises:
            ArtefactError: the content has another key, or the fact is missing or damaged.
            OSError: the folder cannot be moved.
        """
        try:
            check_key(folder / ARCHIVE, key)
            read_fact(folder / FACT)
            self.directory.mkdir(parents=True, exist_ok=True)
            self._publish(folder, key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _work(self) -> Iterator[Path]:
        """A locked temporary folder, removed afterwards."""
        self.directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=self.directory))
        try:
            with _open_folder(work) as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                work.chmod(0o755)
                yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _publish(self, work: Path, key: str) -> None:
        place = self.directory / key
        with contextlib.suppress(ArtefactError):  # it cannot be read
            if not self.discard_damaged(key):
                # The same bytes again. The newest fact and log replace the old ones.
                for name in (LOG, FACT):
                    if (work / name).exists():
                        (work / name).replace(place / name)
                return
        shutil.rmtree(place, ignore_errors=True)  # never whole, or damaged since
        work.replace(place)

    def discard_damaged(self, key: str) -> str:
        """Removes the fact of a damaged kernel, which then counts as missing.

        Returns what is missing or damaged, "" if the kernel is intact.

        Raises:
            ArtefactError: the kernel cannot be read at the moment.
        """
        fact = self.directory / key / FACT
        try:
            read_fact(fact)
            check_key(self.archive(key), key)
        except ArtefactError as error:
            cause = error.__cause__
            damage = gzip.BadGzipFile, FileNotFoundError
            if isinstance(cause, OSError) and not isinstance(cause, damage):
                raise
            fact.unlink(missing_ok=True)
            return str(error)
        return ""

    def use(self, key: str) -> None:
        """Marks the kernel as used."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.directory / key / FACT)

    @contextlib.contextmanager
    def lease(self, key: str) -> Iterator[Path]:
        """Path of an archive that is not removed inside the block.

        Raises:
            ArtefactError: unknown key.
        """
        archive = self.archive(key)
        with contextlib.ExitStack() as stack:
            try:
                fcntl.flock(stack.enter_context(archive.open("rb")), fcntl.LOCK_SH)
                archive.stat()  # it may have gone before it was locked
            except OSError:
                raise ArtefactError(f"there is no kernel {key[:12]} in {self.directory}") from None
            self.use(key)
            yield archive

    def prune(self, budget: int, needed: Collection[str] = ()) -> Pruned:
        """Removes least recently used kernels until the rest fits into `budget` bytes.

        Leased kernels and those in `needed` stay. Remains of killed processes are removed too.
        """
        self._sweep()
        facts = sorted(self.directory.glob(f"[!.]*/{FACT}"), key=_newest)
        sizes = {fact: _size(fact.parent) for fact in facts}
        total = sum(sizes.values())
        removed, refused = [], ""
        for fact in facts:
            if total <= budget:
                break
            if fact.parent.name in needed:
                continue
            try:
                self._remove(fact.parent)
            except (FileNotFoundError, BlockingIOError):  # gone or leased
                continue
            except OSError as error:
                refused = f"{fact.parent} cannot be removed to make room: {error.strerror}"
            else:
                removed.append(fact.parent.name)
                total -= sizes[fact]
        return Pruned(tuple(removed), total, refused)

    def _remove(self, folder: Path) -> None:
        """Removes one kernel; raises OSError, such as BlockingIOError if it is leased."""
        # NFSv4 refuses an exclusive lock of a file that is open for reading only.
        with (folder / ARCHIVE).open("r+b") as stream, self._work() as work:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # From one moment to the next it is no longer there, also for a kill in between.
            folder.rename(work / folder.name)

    def _sweep(self) -> None:
        """Removes folders of processes that have ended."""
        for work in self.directory.glob(f"{_WORK}*"):
            with contextlib.suppress(OSError), _open_folder(work) as held:
                if time.time() - os.fstat(held).st_mtime >= _YOUNG:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(work, ignore_errors=True)
        for folder in self.directory.iterdir() if self.directory.is_dir() else ():
            # Buildbot fills these, and locks nothing.
            whole = (folder / FACT).exists() and not folder.name.startswith(".")
            if not whole and time.time() - _newest(folder) > _ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of a folder, for locks."""
    held = os.open(folder, os.O_RDONLY)
    try:
        yield held
    finally:
        os.close(held)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it went meanwhile
            total += path.stat().st_size
    return total


def _newest(path: Path) -> float:
    """Time of the last change of a file or folder; now if it is changing."""
    try:
        return max(one.stat().st_mtime for one in (path, *path.rglob("*")))
    except OSError:
        return time.time()
