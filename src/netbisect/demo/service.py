"""A complete service on this machine: source repository, lab, mail server, master and workers.

All files are in one folder with a marker file; only such a folder is removed. All processes have
the folder in their environment, so that they can be found and stopped after a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import quote

import bcrypt
from buildbot_worker.scripts.create_worker import createWorker
from buildbot_worker.scripts.runner import CreateWorkerOptions

from netbisect.demo.lab import setup
from netbisect.demo.lab.testbeds import SimulatedTestbed
from netbisect.demo.tree.create import SampleTree, create
from netbisect.demo.tree.story import StoryCommit
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.workers.config.lab import Lab
from netbisect.workers.transport.processes import processes_with_environment

_SECONDS = 30.0
"""Timeout of the start of a process."""
_STOP_SECONDS = 2.0
"""Seconds until master and workers are killed."""
_KILL_SECONDS = 30.0
"""Seconds to wait for a killed process."""
_WORKER = (sys.executable, "-c", "from buildbot_worker.scripts.runner import run; run()")
"""Command of a worker."""
_MARK = "netbisect-demo"
_MARK_TEXT = "This folder belongs to the demonstration of netbisect, which may remove it.\n"
_VARIABLE = "NETBISECT_DEMO"
_KILLED = ("lab.pid", "mailbox.pid")
"""Processes without work to finish; stopped last."""

SETTINGS = """# The settings of the demonstration; docs/settings.md explains every key.
branches = ["main"]
lab = "lab/lab.toml"
poll = 60
tick = 1.0

[night]
boots = 2
against_itself = 0

[mail]
to = ["people@lab.invalid"]
sender = "netbisect@lab.invalid"
port = {mail}
user = "netbisect"
password_file = "mail.password"
digest = false

[web]
url = "http://127.0.0.1:{web}/"
port = {web}

[workers]
port = {workers}
command = ["{python}", "-m", "netbisect.workers.cli.main"]
"""


LOGIN = """
[web.login]
kind = "htpasswd"
users_file = "users"

[[web.people]]
who = ["demo"]
rights = ["admin"]
"""


class DemoError(Exception):
    """The demonstration cannot be set up."""


class DemoService:
    """A service with a simulated lab in a folder on this machine."""

    def __init__(self, place: Path) -> None:
        self.place = place.resolve()
        self.report_wait: Callable[[str], object] = lambda _: None
        """Called with descriptions of waits."""
        self.password = ""
        """Password of the user `demo`, after `add_login`."""
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def mails(self) -> Path:
        """Folder of received mails."""
        return self.place / "mails"

    @property
    def processes(self) -> Path:
        """Folder of PID files."""
        return self.place / "run"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all processes."""
        return {_VARIABLE: quote(str(self.place))}

    def claim(self) -> None:
        """Keeps the folder, if it exists, to this process until its end.

        Raises:
            DemoError: Another process has claimed it.
        """
        try:
            descriptor = os.open(self.place, os.O_RDONLY)  # never closed: that would end the claim
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DemoError(
                f"another demonstration is being played in {self.place}: "
                "wait for its end, or choose another folder with --place"
            ) from None
        except OSError:  # NFS locks no folders
            os.close(descriptor)

    def build(
        self,
        *,
        commits: Sequence[StoryCommit] | None = None,
        seed: int = 1,
        testbeds: Sequence[str | SimulatedTestbed] = ("c2558", "e5-2650"),
        compression: float = 600.0,
    ) -> SampleTree:
        """Writes all files; starts nothing.

        Args:
            commits: Commits after the initial one (default: those of `story`).
            seed: Random seed of the lab.
            testbeds: Testbeds, or their names in `TESTBEDS`.
            compression: Lab seconds per real second.

        Raises:
            DemoError: The folder exists.
        """
        with setup.free_ports(3) as (mail, web, workers):
            tree = self.build_lab(
                commits=commits, seed=seed, testbeds=testbeds, compression=compression
            )
        text = SETTINGS.format(mail=mail, web=web, workers=workers, python=sys.executable)
        (self.place / control.SETTINGS).write_text(text)
        for name in ("workers.password", "mail.password"):
            password = self.place / name
            password.touch(mode=0o600)
            password.write_text(secrets.token_urlsafe() + "\n")
        return tree

    def add_login(self) -> None:
        """Adds the user `demo` with a new password, for the forms; before the start."""
        self.password = secrets.token_urlsafe(9)
        users = self.place / "users"
        users.touch(mode=0o600)
        hashed = bcrypt.hashpw(self.password.encode(), bcrypt.gensalt(rounds=10))
        users.write_text(f"demo:{hashed.decode()}\n")
        with (self.place / control.SETTINGS).open("a") as stream:
            stream.write(LOGIN)

    def build_lab(
        self,
        *,
        commits: Sequence[StoryCommit] | None = None,
        seed: int = 1,
        testbeds: Sequence[str | SimulatedTestbed],
        compression: float = 600.0,
    ) -> SampleTree:
        """Writes only the source repository and the lab; see `build`.

        Raises:
            DemoError: The folder exists.
        """
        if self.place.exists():
            raise DemoError(f"{self.place} exists; `make down` removes it")
        self.place.mkdir(mode=0o700, parents=True)
        self.claim()
        (self.place / _MARK).write_text(_MARK_TEXT)
        tree = create(self.place / "upstream" / "src.git", commits)
        setup.prepare(
            self.place / "lab",
            repository=tree.repository,
            testbeds=testbeds,
            compression=compression,
            seed=seed,
        )
        return tree

    def start(self) -> None:
        """Starts the lab, the mail server, the master and the workers.

        Raises:
            DemoError, ServiceError: A process does not start.
        """
        settings, lab = load(self.place / control.SETTINGS)
        machines = self._begin_lab()
        mailbox = [sys.executable, "-m", "netbisect.demo.mailbox"]
        mails = self._begin("mailbox", [*mailbox, str(settings.mail.port), str(self.mails)])
        self.report_wait("the folders of the workers")
        workers = self._create_workers(lab, settings.workers.port)
        self.report_wait("the simulated lab to start")
        self._wait_until_ready("lab", machines)
        self.report_wait("the mail server to start")
        self._wait_until_ready("mailbox", mails)
        self.report_wait("the master to start")
        control.start(self.place, self.environment)
        for name, folder in workers.items():
            self.start_worker(name, folder)

    def start_worker(self, name: str, folder: Path) -> None:
        """Starts a worker."""
        start = ["start", "--nodaemon", str(folder)]
        self._begin(f"worker-{name}", [*_WORKER, *start])

    def start_lab(self) -> None:
        """Starts the machines.

        Raises:
            DemoError: They do not start.
        """
        self._wait_until_ready("lab", self._begin_lab())

    def run(self, name: str, command: Sequence[str]) -> None:
        """Starts a process and waits until it prints `ready`.

        Raises:
            DemoError: It exits or stays silent.
        """
        self._wait_until_ready(name, self._begin(name, command))

    def _begin_lab(self) -> subprocess.Popen[bytes]:
        simulator = str(self.place / "lab" / "simulator.json")
        return self._begin("lab", [sys.executable, "-m", "netbisect.demo.lab", simulator])

    def _create_workers(self, lab: Lab, port: int) -> dict[str, Path]:
        password = (self.place / "workers.password").read_text().strip()
        folders = {name: self.place / "workers" / name for name in lab.hosts_by_worker}
        for name, folder in folders.items():
            if not folder.exists():
                info = folder / "info"
                info.mkdir(parents=True)
                for file in ("admin", "host"):  # createWorker() would leave them open
                    (info / file).touch()
                options = CreateWorkerOptions()
                master = f"127.0.0.1:{port}"
                options.parseOptions(["--quiet", "--", str(folder), master, name, password])
                if createWorker(options) != 0:
                    raise DemoError(f"the worker {name} could not be created")
        return folders

    def _begin(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Starts a process with a log and a PID file."""
        self.processes.mkdir(exist_ok=True)
        with (self.processes / f"{name}.log").open("wb") as stream:
            process = self._popen(command, stream)
        self._children.append(process)
        (self.processes / f"{name}.pid").write_text(str(process.pid))
        return process

    def _wait_until_ready(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Waits until a process prints `ready`.

        Raises:
            DemoError: It exits or stays silent.
        """
        log = self.processes / f"{name}.log"
        end = time.monotonic() + _SECONDS
        while "ready" not in log.read_text().splitlines():
            if process.poll() is not None or time.monotonic() > end:
                lines = log.read_text().strip().splitlines()
                raise DemoError(f"{name} does not start: {lines[-1] if lines else 'no output'}")
            time.sleep(0.02)

    def _popen(self, command: Sequence[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.place,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output and subprocess.STDOUT,
            start_new_session=True,
        )

    def stop(self) -> int:
        """Stops all processes: master and workers by SIGTERM first, then all by SIGKILL.

        Returns:
            Number of processes that ran.

        Raises:
            DemoError: A process cannot be killed.
        """
        files = [self.place / "twistd.pid", *self.processes.glob("*.pid")]
        terminated = _process_numbers(path for path in files if path.name not in _KILLED)
        running = self._running()
        number = len(running)
        for process in terminated & running:
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + _STOP_SECONDS
        while terminated & running and time.monotonic() < end:
            time.sleep(0.05)
            running = self._running()
        self._kill(running)
        for child in self._children:  # without its environment while it exits
            child.wait(_KILL_SECONDS)
        self._children = []
        if self.bears_mark:
            for path in files:
                path.unlink(missing_ok=True)
        return number

    def _kill(self, running: set[int]) -> None:
        end = time.monotonic() + _KILL_SECONDS
        while running:  # they may have started others
            for process in running:
                _signal(process, signal.SIGKILL)
            time.sleep(0.02)
            running = self._running()
            if time.monotonic() > end:
                raise DemoError(f"these processes cannot be killed: {sorted(running)}")

    def _running(self) -> set[int]:
        self._children = [child for child in self._children if child.poll() is None]
        [(variable, value)] = self.environment.items()
        master = control.master_pid(self.place)  # without the variable if a user has restarted it
        return set(processes_with_environment(variable, value)) | ({master} if master else set())

    @property
    def bears_mark(self) -> bool:
        """Whether the folder belongs to a demonstration."""
        return (self.place / _MARK).is_file()

    def remove_old(self) -> int:
        """Stops an earlier demonstration and removes its folder.

        Returns:
            Number of processes that ran.

        Raises:
            DemoError: The folder does not belong to a demonstration.
        """
        empty = self.place.is_dir() and not any(self.place.iterdir())
        if self.place.exists() and not (self.bears_mark or empty):
            raise DemoError(
                f"{self.place} was not made by the demonstration (it has no file {_MARK}), "
                "and is unchanged: choose another folder with --place, or remove it"
            )
        number = self.stop()
        # The mark last, so that an interrupted removal can be repeated.
        for path in (one for one in self.place.glob("*") if one.name != _MARK):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.place, ignore_errors=True)
        return number


def _process_numbers(files: Iterable[Path]) -> set[int]:
    found = set()
    for path in files:
        with contextlib.suppress(OSError, ValueError):
            found.add(int(path.read_text()))
    return found


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
