"""Checks a service's folder, starts its master and stops it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import click

from netbisect.errors import UserError
from netbisect.steps.service import private_files, stalls, tls
from netbisect.steps.service.secrets import (
    make_passwords,
    read_htpasswd,
    read_password,
    worker_passwords,
)
from netbisect.steps.service.settings import SETTINGS as SETTINGS  # noqa: PLC0414 - re-exported
from netbisect.steps.service.settings import MailSettings, Settings, WebSettings, load
from netbisect.steps.service.shipped_files import fill_template
from netbisect.steps.service.storage import open_history
from netbisect.store.db.database import StoreError
from netbisect.store.db.schema import has_all_migrations
from netbisect.store.git.history import History, HistoryError, NoCommitError
from netbisect.store.ledger import open_ledger
from netbisect.workers.config.builder import Overlay
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.toml import FileError
from netbisect.workers.transport.processes import has_working_directory

TAC = "buildbot.tac"
"""Marks a folder of Buildbot."""
_MAIL_SECONDS = 5.0
_ROUTER_SECONDS = 5.0
_GREETING = 512
"""Maximum bytes of the greeting of a mail server: RFC 5321, section 4.5.3.1.5."""
_PORT_SECONDS = 1.0
_START_SECONDS = 120
"""Time limit of a start."""
_UPGRADE_SECONDS = 600.0
"""Time limit of the migration of Buildbot's database."""
_FETCH = "fetch"
"""The check that may fail under a supervisor if a mirror exists."""
_FETCH_SECONDS = 600.0
"""Time limit of that fetch: systemd ends a start after half an hour."""
_CONFIG = "kernel_config"
"""The check that a start does not need: other branches can be measured."""
_PID = "twistd.pid"
_TWISTD = "from twisted.scripts import twistd; twistd.run()"
_FREE_BYTES = 16 << 20
"""Disk space that a master needs to start."""
_RUN = "from buildbot.scripts.runner import run; run()"
_STOP_PATIENCE = 30.0
"""Seconds before the master is killed, which loses nothing."""


class ServiceError(UserError):
    """The service cannot be started or stopped."""


@dataclass(frozen=True, slots=True)
class StartCheck:
    """Result of a check before a start; a row of `netbisect check --json`."""

    what: str
    good: bool
    found: str
    needed: bool = True
    """Whether a start needs it; otherwise a failure is a warning."""

    @property
    def failed(self) -> bool:
        return self.needed and not self.good


def check_folder(folder: Path, *, supervised: bool = False) -> Iterator[StartCheck]:
    """Checks a folder; some failures end the checks.

    If `supervised`, a fetch into an existing clone has a shorter time limit.
    """
    if shutil.disk_usage(folder).free < _FREE_BYTES:
        detail = f"the disk of {folder} has less than {_FREE_BYTES >> 20} MiB free"
        yield StartCheck("disk", False, detail)
    try:
        settings, lab = load(folder / SETTINGS)
        _web_secrets(settings.web)
        yield StartCheck("settings", True, f"{folder / SETTINGS} and {settings.lab}")
        yield StartCheck("passwords of the workers", True, _passwords(settings, lab))
        if certificate := tls.check_certificate(settings.workers):
            yield StartCheck("certificate for workers", True, certificate)
    except FileError as error:
        yield StartCheck("settings", False, str(error))
        return
    if latest := stalls.read(settings.state).latest:
        yield StartCheck("last stall", True, latest[-1].sentence)
    yield from _database(settings)
    yield from _buildbots_database(folder / private_files.BUILDBOTS)
    if settings.masters.router:
        yield _router(settings.masters.router)
    yield _privacy(folder, settings)
    yield from _tree(settings, lab, supervised=supervised)
    yield _mail(settings.mail)
    if master_pid(folder) is None:
        for name, interface, port in (
            ("web.port", settings.web.interface, settings.web.port),
            ("workers.port", settings.workers.interface, settings.workers.port),
        ):
            yield _port(name, interface, port)


def _web_secrets(web: WebSettings) -> None:
    """Reads the secrets that the web pages need at a start. Raises FileError."""
    if web.login.users_file is not None:
        read_htpasswd(web.login.users_file)
    for name, path in (
        ("web.login.client_secret_file", web.login.client_secret_file),
        ("web.hook_file", web.hook_file),
    ):
        if path is not None:
            read_password(path, name)


def _passwords(settings: Settings, lab: Lab) -> str:
    """Checks the passwords of the workers; creates missing ones, except for several masters."""
    path, workers = settings.workers.password_file, [*lab.hosts_by_worker]
    made = [] if settings.masters.router else make_passwords(path, workers)
    worker_passwords(path, workers)
    return f"{path}, new for {', '.join(made)}" if made else str(path)


def _database(settings: Settings) -> Iterator[StartCheck]:
    try:
        open_ledger(settings.database).engine.dispose()
        yield StartCheck("database", True, settings.database)
    except StoreError as error:
        yield StartCheck("database", False, str(error))


def _buildbots_database(path: Path) -> Iterator[StartCheck]:
    """A failure if the file exists, and is not an SQLite database."""
    if path.is_file():
        try:
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.Error as error:
            detail = (
                f"{path} cannot be read: {error}; if it is damaged, move it away: a start creates "
                "a new one, and no measurement is lost"
            )
            yield StartCheck("database", False, detail)


def _router(url: str) -> StartCheck:
    """Whether the router accepts connections; a master waits for it indefinitely."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), _ROUTER_SECONDS):
            return StartCheck("router", True, url)
    except OSError as error:
        return StartCheck("router", False, f"{url} does not answer: {error.strerror or error}")


def _privacy(folder: Path, settings: Settings) -> StartCheck:
    try:
        found = private_files.exposed_paths(folder, settings)
    except StoreError as error:
        return StartCheck("modes of files", False, str(error))
    if not found:
        return StartCheck("modes of files", True, f"{folder} is private")
    names = " ".join(map(str, found))
    detail = f"accessible by other users; a start fixes it, or `chmod go= {names}`"
    return StartCheck("modes of files", False, detail)


def _mail(settings: MailSettings) -> StartCheck:
    place = settings.server, settings.port
    address = f"{settings.server}:{settings.port}"
    try:
        if settings.password_file is not None:
            read_password(settings.password_file, "mail.password_file")
        with socket.create_connection(place, _MAIL_SECONDS) as server:
            greeting = server.recv(_GREETING)
    except FileError as error:
        return StartCheck("mail server", False, f"{error}; mails wait", needed=False)
    except OSError as error:
        detail = f"{address} does not answer: {error.strerror or error}; mails wait until it does"
        return StartCheck("mail server", False, detail, needed=False)
    good = greeting.startswith(b"220")
    shown = greeting.partition(b"\n")[0].decode("ascii", "backslashreplace").strip()
    return StartCheck("mail server", good, f"{address} says {shown!r}", needed=False)


_progress = partial(click.echo, err=True)


def _tree(settings: Settings, lab: Lab, *, supervised: bool) -> Iterator[StartCheck]:
    history = open_history(settings, lab, _progress)
    what = _FETCH if history.is_clone() else "branch"
    try:
        history.update(_FETCH_SECONDS if supervised and what == _FETCH else None)
        what = "branch"
        for branch in settings.branches:
            yield StartCheck(what, True, f"{branch} is at {history.head(branch)[:12]}")
        yield from kernel_configs(settings.branches, lab, history)
        what = "overlay"
        for one in lab.source.overlays:
            yield _overlay(one, history)
    except HistoryError as error:
        yield StartCheck(what, False, str(error))


def _overlay(one: Overlay, history: History) -> StartCheck:
    try:
        commits = len(history.stretch(one.first, one.last))
    except NoCommitError as error:
        return StartCheck("overlay", False, f"{one.name} is not applied: {error}", needed=False)
    return StartCheck("overlay", True, f"{one.name} is for {commits:,} commits")


def kernel_configs(branches: Iterable[str], lab: Lab, history: History) -> Iterator[StartCheck]:
    """Whether each branch has the kernel configurations of the testbeds. Raises HistoryError."""
    folder = lab.source.kernel_configs
    own = {one.name for one in folder.iterdir()} if folder else set()
    for branch in branches:
        for bed in lab.testbeds:
            place = f"sys/{bed.arch}/conf"
            there = history.files_in(branch, place)
            try:
                name = bed.config_on(branch)
            except FileError as error:
                yield StartCheck(_CONFIG, False, str(error))
                continue
            if not there:
                yield StartCheck(_CONFIG, True, f"{branch} has no {place} to look for {name} in")
                continue
            good = name in own or name in there
            found = f"{place}/{name} {'is' if good else 'is not'} on {branch}, for {bed.name}"
            if not good:
                found += f"; expected one of {', '.join(sorted({*own, *there}))}"
            yield StartCheck(_CONFIG, good, found)


def _port(name: str, interface: str, port: int) -> StartCheck:
    # The last thread of a killed master releases its ports a moment after the first.
    end = time.monotonic() + _PORT_SECONDS
    while True:
        family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((interface, port))
            except OSError as error:
                if time.monotonic() > end:
                    detail = f"{name}: {interface}:{port} is unavailable: {error.strerror}"
                    return StartCheck("port", False, detail)
            else:
                return StartCheck("port", True, f"{name} {port} is free")
        time.sleep(0.05)


def master_pid(folder: Path) -> int | None:
    """Process ID of the running master in a folder, or None."""
    try:
        process = int((folder / _PID).read_text())
        os.kill(process, 0)
    except (OSError, ValueError):
        return None
    # After a reboot another process may have this ID.
    return process if has_working_directory(process, folder) else None


def start(folder: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Starts the master, with more environment variables, and waits for it. Raises ServiceError."""
    settings = prepare_start(folder, environment)
    _buildbot(folder, environment or {}, "start", f"--start_timeout={_START_SECONDS}")
    return settings


def prepare_start(
    folder: Path, environment: Mapping[str, str] | None = None, *, supervised: bool = False
) -> Settings:
    """Checks a folder and creates Buildbot's files in it.

    With a supervisor, which restarts the master, the tree's server may be down. Raises ServiceError
    if the master runs already, or a check failed.
    """
    if master_pid(folder) is not None:
        raise ServiceError(f"the master in {folder} is already running")
    settings, _ = load(folder / SETTINGS)
    private_files.restrict(folder, settings)
    for check in check_folder(folder, supervised=supervised):
        if not check.good and (check.what == _CONFIG or not check.needed):
            _progress(check.found)
        elif check.failed and not (supervised and check.what == _FETCH):
            raise ServiceError(check.found)
    if not (folder / TAC).is_file():
        (folder / TAC).write_text(fill_template(TAC))
    (folder / _PID).unlink(missing_ok=True)  # of a master that was killed
    if not _is_upgraded(folder, settings):
        _buildbot(folder, environment or {}, "upgrade-master", "--quiet", limit=_UPGRADE_SECONDS)
    return settings


def _is_upgraded(folder: Path, settings: Settings) -> bool:
    """Whether Buildbot's database has the schema of the installed Buildbot, or is a new file.

    The master creates a new one: `buildbot upgrade-master` and importing Buildbot take seconds.
    """
    url, state = settings.masters.database, folder / private_files.BUILDBOTS
    if not url and not state.is_file():
        return True
    package = find_spec("buildbot")
    assert package is not None
    (place,) = package.submodule_search_locations or [""]
    return has_all_migrations(url or f"sqlite:///{state}", Path(place) / "db" / "migrations")


def become_master(folder: Path) -> NoReturn:
    """Replaces this process by the master, after `prepare_start`."""
    os.chdir(folder)
    options = ["--nodaemon", "--no_save", f"--python={TAC}"]
    os.execv(sys.executable, [sys.executable, "-c", _TWISTD, *options])  # noqa: S606 - no shell


def _buildbot(
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    limit: float = 2 * _START_SECONDS,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, *arguments, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
        umask=private_files.UMASK,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its child is not a daemon yet
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ServiceError(
                f"`buildbot {arguments[0]}` did not finish within {limit:g} s and was killed; "
                "check the load of this host and Buildbot's database, then start again"
            ) from None
        raise
    if process.returncode != 0:
        lines = output.strip().splitlines() or ["no output"]
        raise ServiceError(f"`buildbot {arguments[0]}` failed: {lines[-1]}")


def stop(folder: Path) -> bool:
    """Stops the master and waits for its end; returns whether it was running."""
    process = master_pid(folder)
    if process is None:
        return False
    os.kill(process, signal.SIGTERM)
    end = time.monotonic() + _STOP_PATIENCE
    while time.monotonic() < end:
        if master_pid(folder) is None:
            return True
        time.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    (folder / _PID).unlink(missing_ok=True)
    return True
