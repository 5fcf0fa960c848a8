"""Checks a service's folder, starts its master and stops it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netbisect.steps import certificates
from netbisect.steps.memory import history_of
from netbisect.steps.secret_files import make_passwords, worker_passwords
from netbisect.steps.settings import SETTINGS as SETTINGS  # noqa: PLC0414 - others ask here
from netbisect.steps.settings import Settings, load
from netbisect.steps.shipped import filled
from netbisect.store.database import StoreError, open_database
from netbisect.store.history import HistoryError
from netbisect.store.schema import migrate
from netbisect.workers.lab import Lab
from netbisect.workers.tomlfile import FileError

TAC = "buildbot.tac"
"""By which Buildbot knows a folder of its own."""
_START_SECONDS = 120
"""For a master to come up on a machine that is busy."""
_PID = "twistd.pid"
_RUN = "from buildbot.scripts.runner import run; run()"
_STOP_PATIENCE = 30.0
"""Seconds for an orderly stop; afterwards the master is killed, which loses nothing."""


class ServiceError(Exception):
    """The service cannot do what was asked; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at before a start."""

    what: str
    good: bool
    found: str


def examine(folder: Path) -> Iterator[Check]:
    """All that must be right for a start; the first thing that is wrong is the last one told."""
    try:
        settings, lab = load(folder / SETTINGS)
        yield Check("settings", True, f"{folder / SETTINGS} and {settings.lab}")
        yield Check("password of the workers", True, _passwords(settings, lab))
        if told := certificates.examine(settings.workers):
            yield Check("certificate for workers", True, told)
    except FileError as error:
        yield Check("settings", False, str(error))
        return
    yield from _database(settings)
    yield from _tree(settings, lab)
    if running(folder) is None:
        for name, interface, port in (
            ("web.port", settings.web.interface, settings.web.port),
            ("workers.port", settings.workers.interface, settings.workers.port),
        ):
            yield _port(name, interface, port)


def _passwords(settings: Settings, lab: Lab) -> str:
    """Where those of the workers are, and which of them are new.

    Of several masters all have to know the same, so that they make none.

    Raises:
        FileError: one is not there, or can be read by others.
    """
    path, workers = settings.workers.password_file, [*lab.by_worker]
    made = [] if settings.masters.router else make_passwords(path, workers)
    worker_passwords(path, workers)
    return f"{path}, new for {', '.join(made)}" if made else str(path)


def _database(settings: Settings) -> Iterator[Check]:
    try:
        migrate(open_database(settings.database))
        yield Check("database", True, settings.database)
    except StoreError as error:
        yield Check("database", False, str(error))


def _tree(settings: Settings, lab: Lab) -> Iterator[Check]:
    history = history_of(settings, lab)
    what = "branch"
    try:
        history.update()
        for branch in settings.branches:
            yield Check(what, True, f"{branch} is at {history.head(branch)[:12]}")
        what = "overlay"
        for one in lab.source.overlays:
            commits = len(history.stretch(one.first, one.last))
            yield Check(what, True, f"{one.name} is for {commits:,} commits")
    except HistoryError as error:
        yield Check(what, False, str(error))


def _port(name: str, interface: str, port: int) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((interface, port))
        except OSError as error:
            said = f"{name}: {interface}:{port} cannot be used: {error.strerror}"
            return Check("port", False, said)
    return Check("port", True, f"{name} {port} is free")


def running(folder: Path) -> int | None:
    """Process number of the master in that folder; None when it does not run."""
    try:
        process = int((folder / _PID).read_text())
        os.kill(process, 0)
    except (OSError, ValueError):
        return None
    return process


def start(folder: Path) -> Settings:
    """Starts the master and waits until it answers.

    Raises:
        ServiceError: it runs already, something is wrong with its folder, or it does not start.
    """
    if running(folder) is not None:
        raise ServiceError(f"the master in {folder} runs already")
    for check in examine(folder):
        if not check.good:
            raise ServiceError(check.found)
    settings, _ = load(folder / SETTINGS)
    if not (folder / TAC).is_file():
        (folder / TAC).write_text(filled(TAC))
    _buildbot("upgrade-master", "--quiet", str(folder))  # makes its database where there is none
    (folder / _PID).unlink(missing_ok=True)  # of a master that was killed
    _buildbot("start", f"--start_timeout={_START_SECONDS}", str(folder))
    return settings


def _buildbot(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise ServiceError(
            f"`buildbot {arguments[0]}` failed: {said[-1] if said else 'it said nothing'}"
        )


def stop(folder: Path) -> bool:
    """Stops the master and waits for its end; False when it did not run.

    What it was doing is resumed at the next start: nothing is lost by stopping at any time.
    """
    process = running(folder)
    if process is None:
        return False
    os.kill(process, signal.SIGTERM)
    end = time.monotonic() + _STOP_PATIENCE
    while time.monotonic() < end:
        if running(folder) is None:
            return True
        time.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    (folder / _PID).unlink(missing_ok=True)
    return True
