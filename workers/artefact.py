"""Finished kernels on disk, each under the hash of its own bytes.

STORE/<key>/kernel.tar.gz   what is installed on a DUT
STORE/<key>/kernel.json     the Kernel fact
STORE/<key>/build.log       how it was built
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from netbisect.bisect import wire
from netbisect.bisect.model import Kernel

ARCHIVE = "kernel.tar.gz"
FACT = "kernel.json"
LOG = "build.log"
_BLOCK = 1 << 20


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


def key_of(archive: Path) -> str:
    """The key of a packed archive, computed from its content."""
    try:
        with gzip.open(archive, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise ArtefactError(f"{archive}: {error}") from error


class ArtefactStore:
    """The kernels in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def archive(self, key: str) -> Path:
        """Where the archive of that key is, or would be."""
        return self.directory / key / ARCHIVE

    def put(self, directory: Path, fact: Callable[[str, int], Kernel], log: Path) -> Kernel:
        """Packs an installed kernel directory; `fact(key, size)` describes it.

        All or nothing: the folder appears under its key when it is complete.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".new-", dir=self.directory))
        try:
            key = pack(directory, work / ARCHIVE)
            kernel = fact(key, (work / ARCHIVE).stat().st_size)
            (work / FACT).write_text(wire.dumps(kernel) + "\n")
            shutil.copyfile(log, work / LOG)
            work.chmod(0o755)
            place = self.directory / key
            if place.exists():
                # The same bytes again. The newest fact and log replace the old ones.
                for name in (FACT, LOG):
                    (work / name).replace(place / name)
            else:
                work.replace(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return kernel

    def get(self, key: str) -> Path:
        """The archive of that key, its content checked.

        Raises:
            ArtefactError: it is not there, or its content has another key.
        """
        archive = self.archive(key)
        if not archive.is_file():
            raise ArtefactError(f"there is no kernel {key[:12]} in {self.directory}")
        found = key_of(archive)
        if found != key:
            raise ArtefactError(f"{archive}: its content has the key {found[:12]}")
        return archive

    def prune(self, keep: int) -> None:
        """Removes all but the `keep` kernels that were put here last."""
        facts = sorted(
            self.directory.glob(f"*/{FACT}"), key=lambda fact: fact.stat().st_mtime, reverse=True
        )
        for fact in facts[keep:]:
            shutil.rmtree(fact.parent, ignore_errors=True)
