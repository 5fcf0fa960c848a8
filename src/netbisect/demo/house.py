"""A whole service on this machine: tree, lab, mail server, master and workers.

Everything is in one folder. What runs has a file with its process number there, so that it can be
ended whatever has become of whoever started it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from netbisect.demo.lab import setup
from netbisect.demo.lab.testbeds import Bed
from netbisect.demo.tree.create import Tree, create
from netbisect.demo.tree.story import story
from netbisect.steps import control
from netbisect.steps.settings import load
from netbisect.workers.lab import Lab

_NO_PASSWORD = "to-be-filled-in"  # noqa: S105 - what the name says
_PATIENCE = 30.0
"""Seconds for a process to say that it is ready, and to end."""

_LEAN = """from netbisect.workers import lean

lean.spare_websockets()
lean.spare_tls()
"""
SETTINGS = """# The settings of the demonstration; docs/lab.md explains every key.
branches = ["main"]
lab = "lab/lab.toml"
poll = 60
tick = 1.0

[night]
boots = 3
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
command = ["{python}", "-m", "netbisect.workers.start"]
"""


class HouseError(Exception):
    """The demonstration cannot be set up; the message says why."""


class House:
    """The folder of a service on this machine."""

    def __init__(self, place: Path) -> None:
        self.place = place.resolve()
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def mails(self) -> Path:
        """Where the mail server keeps what it is given."""
        return self.place / "mails"

    @property
    def processes(self) -> Path:
        """Where the process numbers are."""
        return self.place / "run"

    # -------------------------------------------------------------------------------- building

    def build(
        self,
        *,
        culprit: bool = True,
        seed: int = 1,
        testbeds: Sequence[str | Bed] = ("c2558", "e5-2650"),
        compression: float = 600.0,
    ) -> Tree:
        """Writes everything; nothing runs yet.

        Args:
            culprit: whether the story of the tree has one.
            seed: of the machines' luck.
            testbeds: of the simulated lab.
            compression: seconds of the lab in a second of the clock on the wall.

        Raises:
            HouseError: the folder is in use.
        """
        with setup.free_ports(3) as (mail, web, workers):
            tree = self.build_lab(
                culprit=culprit, seed=seed, testbeds=testbeds, compression=compression
            )
        text = SETTINGS.format(mail=mail, web=web, workers=workers, python=sys.executable)
        (self.place / control.SETTINGS).write_text(text)
        for name in ("workers.password", "mail.password"):
            password = self.place / name
            password.touch(mode=0o600)
            password.write_text(secrets.token_urlsafe() + "\n")
        return tree

    def build_lab(
        self,
        *,
        culprit: bool = True,
        seed: int = 1,
        testbeds: Sequence[str | Bed],
        compression: float = 600.0,
    ) -> Tree:
        """Writes a tree and a lab alone, for a service elsewhere; as `build` otherwise.

        Raises:
            HouseError: the folder is in use.
        """
        if self.place.exists():
            raise HouseError(f"{self.place} exists; `make down` removes it")
        self.place.mkdir(parents=True)
        tree = create(self.place / "tree.git", story(culprit=culprit))
        setup.prepare(
            self.place / "lab",
            repository=tree.repository,
            testbeds=testbeds,
            compression=compression,
            seed=seed,
        )
        return tree

    # --------------------------------------------------------------------------------- running

    def start(self) -> None:
        """Starts the lab, the mail server, the master and the workers.

        Raises:
            HouseError, ServiceError: something does not start.
        """
        self.start_lab()
        settings, lab = load(self.place / control.SETTINGS)
        mailbox = [sys.executable, "-m", "netbisect.demo.mailbox"]
        self.run("mailbox", [*mailbox, str(settings.mail.port), str(self.mails)])
        workers = self._create_workers(lab, settings.workers.port)
        control.start(self.place)
        for name, folder in workers.items():
            self.start_worker(name, folder)

    def start_worker(self, name: str, folder: Path) -> None:
        """Starts a worker in its folder."""
        start = ["start", "--nodaemon", str(folder)]
        self.run(f"worker-{name}", [*_module("buildbot_worker.scripts.runner"), *start], "")

    def start_lab(self) -> None:
        """Starts the machines.

        Raises:
            HouseError: they do not start.
        """
        self.processes.mkdir(exist_ok=True)
        simulator = str(self.place / "lab" / "simulator.toml")
        self.run("lab", [sys.executable, "-m", "netbisect.demo.lab", simulator])

    def _create_workers(self, lab: Lab, port: int) -> dict[str, Path]:
        password = (self.place / "workers.password").read_text().strip()
        folders = {}
        creating = []
        for name in lab.by_worker:
            folder = self.place / "workers" / name
            folders[name] = folder
            if not folder.exists():
                folder.parent.mkdir(exist_ok=True)
                command = [*_module("buildbot_worker.scripts.runner"), "create-worker", "--quiet"]
                command += [str(folder), f"127.0.0.1:{port}", name, _NO_PASSWORD]
                creating.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        if any(process.wait() != 0 for process in creating):
            raise HouseError("a worker could not be created")
        for folder in folders.values():
            # Everybody on a host can read command lines: the password is put in afterwards.
            tac = folder / control.TAC
            tac.write_text(tac.read_text().replace(_NO_PASSWORD, password))
            _make_lean(tac)
        return folders

    def run(self, name: str, command: Sequence[str], ready: str = "ready") -> None:
        """Starts a process of our own and waits until it says that it is ready.

        Raises:
            HouseError: it ends instead, or says nothing.
        """
        log = self.processes / f"{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children.append(process)
        (self.processes / f"{name}.pid").write_text(str(process.pid))
        end = time.monotonic() + _PATIENCE
        while ready and ready not in log.read_text().splitlines():
            if process.poll() is not None or time.monotonic() > end:
                said = log.read_text().strip().splitlines()
                raise HouseError(f"{name} does not start: {said[-1] if said else 'no word'}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends everything that runs, the master first."""
        control.stop(self.place)
        numbers = {}
        for path in self.processes.glob("*.pid"):
            with contextlib.suppress(ValueError):
                numbers[path] = int(path.read_text())
        for number in numbers.values():
            _signal(number, signal.SIGTERM)
        end = time.monotonic() + _PATIENCE
        while self._any_alive(numbers.values()) and time.monotonic() < end:
            time.sleep(0.05)
        for path, number in numbers.items():
            _signal(number, signal.SIGKILL)
            path.unlink()

    def _any_alive(self, numbers: Iterable[int]) -> bool:
        self._children = [child for child in self._children if child.poll() is None]
        return any(map(_alive, numbers))

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.place, ignore_errors=True)


def _make_lean(tac: Path) -> None:
    """As docs/operations.md has it."""
    text = tac.read_text()
    if _LEAN not in text:
        tac.write_text(f"{_LEAN}{text}")


def _module(name: str) -> list[str]:
    return [sys.executable, "-c", f"from {name} import run; run()"]


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
