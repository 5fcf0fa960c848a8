"""Restores a service from an archive of steps/backup/backup.py."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from netbisect.steps.backup.backup import ABOUT, BUILDBOT, FORMAT, LEDGER
from netbisect.steps.service import control, private_files
from netbisect.steps.service.private_files import BUILDBOTS
from netbisect.steps.service.settings import Settings, load_settings
from netbisect.store.db import snapshots
from netbisect.store.db.database import sqlite_file
from netbisect.workers.build.artifacts import whole_tar

_FOLDERS = ("folder", "state")


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
            _unpack(archive, work)
            if not folder.exists():
                folder.mkdir(mode=0o700)
                made.append(folder)
            return _place(work, folder, made)
    except BaseException as error:
        for path in reversed(made):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise control.ServiceError(
                f"{folder} cannot be written: {error.strerror}: {error.filename}"
            ) from error
        raise


def _unpack(archive: Path, work: Path) -> None:
    """Unpacks and verifies all members. Raises ServiceError."""
    try:
        stream = archive.open("rb")
    except OSError as error:
        raise control.ServiceError(f"{archive} cannot be read: {error.strerror}") from error
    with stream:
        try:
            with gzip.GzipFile(fileobj=stream) as unzipped, whole_tar(unzipped) as tar:
                _members(tar, work)
        except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # of the disk
            raise control.ServiceError(
                f"{archive} is damaged, or not a backup of netbisect: {error}"
            ) from error


def _members(tar: tarfile.TarFile, work: Path) -> None:
    # Python 3.11.0 to 3.11.3 have no filters, and take no argument of that name.
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    for count, member in enumerate(tar):
        expected = _is_expected(member.name) if count else member.name == ABOUT
        if not member.isreg() or not expected:
            raise ValueError(f"unexpected member {member.name!r}")
        tar.extract(member, work)  # a regular file with a name inside of `work`
        if not count:
            _check_about(json.loads((work / ABOUT).read_bytes()))
    if not (work / ABOUT).exists():
        raise ValueError("it is empty")


def _is_expected(name: str) -> bool:
    """Whether the name of a member is valid and stays within the folder."""
    parts = PurePosixPath(name).parts
    if ".." in parts or name != "/".join(parts):
        return False
    return name in {ABOUT, LEDGER, BUILDBOT} or (len(parts) > 1 and parts[0] in _FOLDERS)


def _check_about(data: object) -> None:
    match data:
        case {"format": int(number), "schema": str(schema), "netbisect": str(version)}:
            if number != FORMAT or not snapshots.is_known(schema):
                raise control.ServiceError(
                    f"this version cannot read the backup: it is from netbisect {version}, schema "
                    f"{schema}"
                )
        case _:
            raise ValueError(f"{ABOUT} has no format")


def _place(work: Path, folder: Path, made: list[Path]) -> Settings:
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
    if ledger is None:
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
    private_files.restrict(folder, settings)
    return settings
