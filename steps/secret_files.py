"""Files with secrets: passwords, tokens, keys. They are read where they are used, and not kept."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from netbisect.workers.tomlfile import FileError

_WORKERS = "workers.password_file"
"""The key of their passwords."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_private(path: Path, key: str) -> None:
    """Goes on when nobody but its owner can do anything with a file.

    Args:
        path: Of the file.
        key: Of the settings that names it.

    Raises:
        FileError: it is not there, or others may read or write it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise FileError(f"{key}: {path} cannot be read: {error.strerror}") from error
    if mode & _OTHERS:
        raise FileError(
            f"{key}: {path} has the mode {mode:04o}, by which others than its owner may use it; "
            f"`chmod 600 {path}` would be right"
        )


def read_password(path: Path, key: str) -> str:
    """The one line of a file that is its owner's alone.

    Raises:
        FileError: there is no such file, nothing is in it, or others may read it.
    """
    check_private(path, key)
    try:
        password = path.read_text().strip()
    except OSError as error:
        raise FileError(f"{key}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{key}: {path}: expected a password in UTF-8 on one line") from error
    if not password:
        raise FileError(f"{key}: {path} is empty; expected a password on one line")
    return password


def worker_passwords(path: Path, workers: Sequence[str]) -> dict[str, str]:
    """By worker: its password.

    Args:
        path: Of a file with the one that all share, or of a folder with a file for each of them,
            which is called as the worker.
        workers: Their names.

    Raises:
        FileError: one is missing, or can be read by others; or two in a folder are the same.
    """
    if not path.is_dir():
        shared = read_password(path, _WORKERS)
        return dict.fromkeys(workers, shared)
    missing = [name for name in workers if not (path / name).is_file()]
    if missing:
        raise FileError(
            f"{_WORKERS}: {path} has no file {missing[0]}; "
            "it is to have the password of that worker"
        )
    found = {name: read_password(path / name, _WORKERS) for name in workers}
    owners: dict[str, str] = {}
    for name, password in found.items():
        if (other := owners.setdefault(password, name)) != name:
            raise FileError(
                f"{_WORKERS}: {path}: {other} and {name} have the same password; "
                "a folder is for workers that have one each"
            )
    return found


def make_passwords(path: Path, workers: Sequence[str]) -> list[str]:
    """Makes a password for each worker that has none yet; the names of these workers.

    Nobody knows a new one but whoever owns the folder: its worker comes when it is told.

    Args:
        path: Of a folder with a file for each worker; of a file that all share nothing is made.
        workers: Their names.

    Raises:
        FileError: one cannot be written.
    """
    if not path.is_dir():
        return []
    missing = [name for name in workers if not (path / name).exists()]
    try:
        for name in missing:
            _make_password(path, name)
    except OSError as error:
        said = f"{_WORKERS}: {path / name} cannot be written: {error.strerror}"
        raise FileError(said) from error
    return missing


def _make_password(folder: Path, name: str) -> None:
    """All of it, or nothing; also where somebody else makes it now."""
    handle, new = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_urlsafe() + "\n")
        if os.geteuid() == 0:  # whoever looks after it: it is to be read by whom it belongs to
            owner = folder.stat()
            os.chown(new, owner.st_uid, owner.st_gid)
        with contextlib.suppress(FileExistsError):
            (folder / name).hardlink_to(new)
    finally:
        Path(new).unlink()
