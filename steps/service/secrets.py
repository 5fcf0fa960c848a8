"""Files with passwords, tokens and keys."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from netbisect.workers.config.toml import FileError

_WORKERS = "workers.password_file"
"""Settings key for error messages."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_HASH = re.compile(rb"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_NAME = re.compile(rb"[^\x00-\x20\x7f:<>\"]{1,100}")


def check_private_file(path: Path, key: str) -> None:
    """Checks that only the owner can access a file; `key` is its settings key, for the message.

    Raises FileError if it is missing, or accessible by other users.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise FileError(f"{key}: {path} cannot be read: {error.strerror}") from error
    if mode & _OTHERS:
        raise FileError(
            f"{key}: {path} has mode {mode:04o} and is accessible by other users; "
            f"run `chmod 600 {path}`"
        )


def read_password(path: Path, key: str) -> str:
    """Reads a password from a private file of one line. Raises FileError."""
    check_private_file(path, key)
    try:
        password = path.read_text().strip()
    except OSError as error:
        raise FileError(f"{key}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{key}: {path}: expected a password in UTF-8 on one line") from error
    if not password:
        raise FileError(f"{key}: {path} is empty; expected a password on one line")
    return password


def read_htpasswd(path: Path) -> dict[bytes, bytes]:
    """Reads names and hashes. Raises FileError."""
    try:
        lines = path.read_bytes().splitlines()
        mode = path.stat().st_mode
    except OSError as error:
        raise FileError(f"web.login.users_file: {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FileError(
            f"web.login.users_file: {path} is writable by group or others; run `chmod 600 {path}`"
        )
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, kept = line.partition(b":")
        if not _NAME.fullmatch(name) or not _HASH.fullmatch(kept):
            raise FileError(
                f"web.login.users_file: {path}, line {number}: expected NAME:HASH as "
                "`htpasswd -B` writes it"
            )
        found[name] = kept
    return found


def worker_passwords(path: Path, workers: Sequence[str]) -> dict[str, str]:
    """Reads the passwords from a file with a shared one, or a folder with one file per worker.

    Raises FileError if a file is missing or not private, or two workers have the same password.
    """
    if not path.is_dir():
        shared = read_password(path, _WORKERS)
        return dict.fromkeys(workers, shared)
    missing = [name for name in workers if not (path / name).is_file()]
    if missing:
        raise FileError(
            f"{_WORKERS}: {path} has no file {missing[0]} with the password of that worker"
        )
    found = {name: read_password(path / name, _WORKERS) for name in workers}
    owners: dict[str, str] = {}
    for name, password in found.items():
        if (other := owners.setdefault(password, name)) != name:
            raise FileError(
                f"{_WORKERS}: {path}: {other} and {name} have the same password; "
                "expected a different one for each worker"
            )
    return found


def make_passwords(path: Path, workers: Sequence[str]) -> list[str]:
    """Creates missing passwords if `path` is a folder; returns their workers. Raises FileError."""
    if not path.is_dir():
        return []
    missing = [name for name in workers if not (path / name).exists()]
    try:
        for name in missing:
            _make_password(path, name)
    except OSError as error:
        raise FileError(f"{_WORKERS}: {path / name} cannot be written: {error.strerror}") from error
    return missing


def make_secret(path: Path) -> None:
    """Creates a file with a random secret, unless it exists. Raises FileError."""
    try:
        if not path.exists():
            _make_password(path.parent, path.name)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from error


def _make_password(folder: Path, name: str) -> None:
    """Writes the file atomically; an existing one stays."""
    handle, new = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_urlsafe() + "\n")
        if os.geteuid() == 0:  # run by root for the owner of the folder
            owner = folder.stat()
            os.chown(new, owner.st_uid, owner.st_gid)
        with contextlib.suppress(FileExistsError):
            (folder / name).hardlink_to(new)
    finally:
        Path(new).unlink()
