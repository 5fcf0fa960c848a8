"""Writes a service to an archive; steps/backup/restore.py reads it.

The archive is a compressed tar file, whose checksum shows damage and a missing end:

    about.json      format, versions and schema of the ledger
    ledger          an SQLite database
    buildbot        Buildbot's SQLite database
    folder/         settings, lab file, and the files in the folder that these name
    state/          patches, reports, and optionally logs of trials
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from netbisect.steps.service import control
from netbisect.steps.service.private_files import BUILDBOTS
from netbisect.steps.service.settings import Settings, load
from netbisect.store.db import snapshots
from netbisect.store.db.database import sqlite_file
from netbisect.workers.config.lab import Lab

FORMAT = 3
"""Number of the format; incremented by incompatible changes."""
ABOUT, LEDGER, BUILDBOT = "about.json", "ledger", "buildbot"
Say = Callable[[str], None]


def write(folder: Path, target: Path, *, trial_logs: bool, say: Say) -> None:
    """Writes a service, which may be running, to an archive that only its owner can read.

    The archive is written atomically. It has no kernels and no clone of the tree, which the service
    creates again. `say` gets messages about omitted files.

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
            _gather(folder.resolve(), settings, lab, work, trial_logs=trial_logs, say=say)
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
    folder: Path, settings: Settings, lab: Lab, work: Path, *, trial_logs: bool, say: Say
) -> None:
    path = sqlite_file(settings.database)
    if path is None or settings.masters.database:
        raise control.ServiceError(
            "netbisect backup copies SQLite databases; for PostgreSQL, use pg_dump(1) as "
            "docs/operations.md describes"
        )
    databases = {path: work / LEDGER}
    if (folder / BUILDBOTS).is_file():
        databases[folder / BUILDBOTS] = work / BUILDBOT
    schema = snapshots.copy(databases)
    version = importlib.metadata.version("netbisect")
    about = {"format": FORMAT, "netbisect": version, "schema": schema}
    (work / ABOUT).write_text(json.dumps(about, indent=1))
    named = list(_named(folder, settings, lab))
    for one in named:
        if not one.is_relative_to(folder):
            say(f"not included, because it is outside of the folder: {one}")
    kept = [settings.patches, settings.reports, *([settings.trial_logs] if trial_logs else [])]
    members = {
        **{one.name: one for one in (work / ABOUT, *databases.values())},
        **_files("folder", folder, [one for one in named if one.is_relative_to(folder)]),
        **_files("state", settings.state, kept),
    }
    with tarfile.open(work / "archive", "w:gz", compresslevel=6, dereference=True) as tar:
        for name, one in members.items():
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                tar.add(one, name)


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
        lab.source.revisions,
        *(overlay.patch for overlay in lab.source.overlays),
        *lab.scenario_directories,
    ]
    # Without resolving links: the targets of links in the folder are copied.
    return (Path(os.path.normpath(path)) for path in named if path is not None)


def _files(name: str, folder: Path, paths: Iterable[Path]) -> dict[str, Path]:
    """Files at and below these paths, by name of their members."""
    found = (one for path in paths for one in ([path] if path.is_file() else path.rglob("*")))
    return {f"{name}/{one.relative_to(folder)}": one for one in sorted(found) if one.is_file()}
