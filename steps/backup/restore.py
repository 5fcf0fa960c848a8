"""Restores a service from an archive of steps/backup/backup.py."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from netbisect.steps.backup.backup import (
    ABOUT,
    BUILDBOT,
    BUILDBOTS,
    DIGESTS,
    FORMAT,
    LEDGER,
    SQLITE,
    About,
)
from netbisect.steps.service import control
from netbisect.steps.service.settings import Settings, load_settings
from netbisect.store.db import snapshots
from netbisect.store.db.database import sqlite_file
from netbisect.workers.build.artifacts import Digesting, whole_tar
from netbisect.workers.config.toml import structure

_FOLDERS = ("folder", "state")
_BLOCK = 1 << 20


def restore(archive: Path, folder: Path) -> Settings:
    """Restores a service to `folder`, which must be absent or empty; all or nothing.

    State and database are restored to the paths in the settings, which must not exist.

    Raises:
        ServiceError: The archive is damaged or of a newer netbisect, or a path exists.
        FileError, StoreError: The settings or a database cannot be used.
    """
    folder = folder.absolute()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise control.ServiceError(f"{folder} is not empty; expected an absent or empty folder")
    made: list[Path] = []
    try:
        beside = folder if folder.exists() else folder.parent
        with tempfile.TemporaryDirectory(prefix=".netbisect-", dir=beside) as name:
            work = Path(name)
            about = _unpack(archive, work)
            if not folder.exists():
                folder.mkdir(mode=0o700)
                made.append(folder)
            return _place(about, work, folder, made)
    except BaseException as error:
        for path in reversed(made):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise control.ServiceError(
                f"{folder} cannot be written: {error.strerror}: {error.filename}"
            ) from error
        raise


def _unpack(archive: Path, work: Path) -> About:
    """Unpacks and verifies all members. Raises ServiceError."""
    try:
        stream = archive.open("rb")
    except OSError as error:
        raise control.ServiceError(f"{archive} cannot be read: {error.strerror}") from error
    with stream:
        try:
            with gzip.GzipFile(fileobj=stream) as unzipped, whole_tar(unzipped) as tar:
                return _members(tar, work)
        except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # of the disk
            raise control.ServiceError(
                f"{archive} is damaged, or no backup of netbisect: {error}"
            ) from error


def _members(tar: tarfile.TarFile, work: Path) -> About:
    digests: dict[str, str] = {}
    about: About | None = None
    for member in tar:
        content = tar.extractfile(member) if member.isreg() else None
        if content is None or not _is_expected(member.name) or DIGESTS in digests:
            raise ValueError(f"unexpected member {member.name!r}")
        if about is None and member.name != ABOUT:
            raise ValueError(f"expected {ABOUT} first, found {member.name!r}")
        path = work / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        reading = Digesting(content)
        with path.open("xb") as target:
            shutil.copyfileobj(reading, target, _BLOCK)
        path.chmod(member.mode & (0o700 if member.name in (LEDGER, BUILDBOT) else 0o777))
        os.utime(path, (member.mtime, member.mtime))
        digests[member.name] = reading.digest.hexdigest()
        if member.name == ABOUT:
            about = _about(json.loads(path.read_bytes()))
    if about is None or DIGESTS not in digests:
        raise ValueError("the end is missing")
    del digests[DIGESTS]
    if json.loads((work / DIGESTS).read_bytes()) != digests:
        raise ValueError("a file differs from its digest")
    return about


def _is_expected(name: str) -> bool:
    """Whether the name of a member is valid and stays within the folder."""
    parts = PurePosixPath(name).parts
    if ".." in parts or name != "/".join(parts):
        return False
    return name in {ABOUT, DIGESTS, LEDGER, BUILDBOT} or (len(parts) > 1 and parts[0] in _FOLDERS)


def _about(data: object) -> About:
    match data:
        case {"format": int(number), "schema": str(schema), "netbisect": str(version)}:
            if number > FORMAT or not snapshots.is_known(schema):
                raise control.ServiceError(
                    f"this version cannot read the backup: it is of netbisect {version}, schema "
                    f"{schema}"
                )
            return structure(data, About, source=ABOUT)
    raise ValueError(f"{ABOUT} has no format")


def _place(about: About, work: Path, folder: Path, made: list[Path]) -> Settings:
    """Moves all files to their places; adds the created paths to `made`."""
    for path in sorted((work / "folder").iterdir()):
        made.append(folder / path.name)
        shutil.move(path, folder / path.name)
    settings = load_settings(folder / control.SETTINGS)
    state = settings.state
    if not state.exists():
        state.mkdir(parents=True, mode=0o700)
        made.append(state)
    if (work / "state").is_dir():
        for path in sorted((work / "state").iterdir()):
            if (state / path.name).exists():
                raise control.ServiceError(f"{state / path.name} exists already")
            made.append(state / path.name)
            shutil.move(path, state / path.name)
    ledger = sqlite_file(settings.database)
    if ledger is None or {about.ledger, about.buildbot} != {SQLITE}:
        raise control.ServiceError(
            "netbisect restore takes SQLite databases; for PostgreSQL, use pg_restore(1) as "
            "docs/operations.md describes"
        )
    for name, target in ((LEDGER, ledger), (BUILDBOT, folder / BUILDBOTS)):
        if target.exists():
            raise control.ServiceError(f"{target} exists already")
        if (work / name).exists():
            made.append(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(work / name, target)
    return settings
