"""Writes a service to an archive; steps/backup/restore.py reads it.

The archive is a compressed tar file. The last member has the SHA-256 of all others, so that an
incomplete file is detected:

    about.json      format, versions, kind and schema of the ledger
    ledger          an SQLite database
    buildbot        Buildbot's SQLite database
    folder/         settings, lab file, and the files in the folder that these name
    state/          patches, reports, and optionally logs of trials
    digests.json
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from netbisect.steps.service import control
from netbisect.steps.service.settings import Settings, load
from netbisect.store.db import snapshots
from netbisect.store.db.database import sqlite_file
from netbisect.workers.build.artifacts import Digesting
from netbisect.workers.config.lab import Lab

SQLITE = "sqlite"
"""Kind of database in an archive; older versions wrote dumps of PostgreSQL, too."""
FORMAT = 2
"""Number of the format; incremented by incompatible changes."""
ABOUT, DIGESTS, LEDGER, BUILDBOT = "about.json", "digests.json", "ledger", "buildbot"
BUILDBOTS = "state.sqlite"
"""Buildbot's database, as master.cfg names it."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class About:
    """Description of an archive."""

    format: int
    netbisect: str
    """Version that wrote the archive."""
    ledger: str
    """Kind of the database."""
    schema: str
    """Schema of the ledger."""
    buildbot: str = SQLITE
    """Kind of Buildbot's database."""


@dataclass(slots=True)
class _Writer:
    """Adds files to an archive, with their digests."""

    tar: tarfile.TarFile
    digests: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, path: Path) -> None:
        """Adds a file with its current length; ignores a missing file."""
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            member = self.tar.gettarinfo(arcname=name, fileobj=stream)
            if member.isreg() and name not in self.digests:
                reading = Digesting(stream)
                self.tar.addfile(member, reading)
                self.digests[name] = reading.digest.hexdigest()

    def add_json(self, name: str, content: object) -> None:
        """Adds a JSON file."""
        data = json.dumps(content, indent=1).encode()
        member = tarfile.TarInfo(name)
        member.size = len(data)
        member.mode = 0o600
        self.tar.addfile(member, io.BytesIO(data))
        self.digests[name] = hashlib.sha256(data).hexdigest()


def write(folder: Path, target: Path, *, visits: bool, say: Say) -> None:
    """Writes a service, which may be running, to an archive that only its owner can read.

    The archive has no kernels and no clone of the tree, which the service creates again.

    Args:
        folder: Folder of the service.
        target: The archive, written atomically.
        visits: Whether to include logs of trials.
        say: Gets messages about omitted files.

    Raises:
        FileError, StoreError: The settings or a database cannot be used.
        ServiceError: `target` exists, or cannot be written.
    """
    settings, lab = load(folder / control.SETTINGS)
    if target.exists():
        raise control.ServiceError(f"{target} exists already")
    try:
        with tempfile.TemporaryDirectory(
            prefix=".netbisect-", dir=target.absolute().parent
        ) as name:
            work = Path(name)  # private
            _gather(folder.resolve(), settings, lab, work, visits=visits, say=say)
            archive = work / "archive"
            with archive.open("rb") as stream:
                os.fsync(stream.fileno())
            archive.chmod(0o600)
            archive.rename(target)
    except OSError as error:
        raise control.ServiceError(
            f"{target} cannot be written: {error.strerror}: {error.filename}"
        ) from error


def _gather(
    folder: Path, settings: Settings, lab: Lab, work: Path, *, visits: bool, say: Say
) -> None:
    path = sqlite_file(settings.database)
    if path is None or settings.masters.database:
        raise control.ServiceError(
            "netbisect backup copies SQLite databases; for PostgreSQL, use pg_dump(1) as "
            "docs/operations.md describes"
        )
    ledger = (path, work / LEDGER)
    buildbot = (folder / BUILDBOTS, work / BUILDBOT)
    others = [buildbot] if buildbot[0].is_file() else []
    schema = snapshots.copy(*ledger, others)
    about = About(FORMAT, importlib.metadata.version("netbisect"), SQLITE, schema)
    with tarfile.open(work / "archive", "w:gz", compresslevel=6) as tar:
        writer = _Writer(tar)
        writer.add_json(ABOUT, asdict(about))
        for _, path in (ledger, *others):
            writer.add(path.name, path)
        for path in _named(folder, settings, lab):
            if not path.is_relative_to(folder):
                say(f"not included, because it is outside of the folder: {path}")
                continue
            for one in _files(path):
                writer.add(f"folder/{one.relative_to(folder).as_posix()}", one)
        kept = [settings.patches, settings.reports, *([settings.visits] if visits else [])]
        for path in kept:
            for one in _files(path):
                writer.add(f"state/{path.name}/{one.relative_to(path).as_posix()}", one)
        writer.add_json(DIGESTS, writer.digests)


def _named(folder: Path, settings: Settings, lab: Lab) -> Iterator[Path]:
    """Settings, lab file, and the files and folders that these name."""
    named = [
        folder / control.SETTINGS,
        settings.lab,
        settings.workers.password_file,
        settings.workers.certificate,
        settings.workers.key,
        settings.mail.password_file,
        settings.mail.answers_key_file,
        settings.web.hook_file,
        settings.web.login.users_file,
        settings.web.login.client_secret_file,
        lab.ssh.config,
        lab.source.kernel_configs,
        *(overlay.patch for overlay in lab.source.overlays),
        *lab.scenario_directories,
    ]
    # Without resolving links: the targets of links in the folder are copied.
    return (Path(os.path.normpath(path)) for path in named if path is not None)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(one for one in path.rglob("*") if one.is_file())
    elif path.is_file():
        yield path
