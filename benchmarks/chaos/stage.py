"""A service with injected faults, its supervisor and its story.

All files are in one folder, which can be restored from a copy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.chaos import script
from benchmarks.chaos.script import Journal, Plan
from benchmarks.service import ServiceRun
from netbisect.bisect.model import serialization
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import Unfinished
from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.service import DemoError, DemoService
from netbisect.demo.tree.story import QUIET_WEEKS, StoryCommit, conversion, story
from netbisect.steps.service import control
from netbisect.store.db.records import JobRecord, OutboxMail

TESTBED = "c2558"
SCENARIO = "inet4-forwarding"
_MORE = 150
"""Additional nanoseconds per packet."""
_LIMIT = 300.0
"""Timeout after the last hit."""
_FULL_SECONDS = 0.5
"""Seconds of a full disk."""
_STOP_SECONDS = 10.0
"""Seconds until a process is killed."""
_LOOK = 0.05
_REST = 1.0
"""Idle seconds after which a story has ended: a tick of the service."""


def commits() -> list[StoryCommit]:
    """A short story: a quiet week, then three commits, one of them slower.

    The drop is large enough to be confirmed by the boots that are not aborted.
    """
    quiet = story(culprit=False)[: QUIET_WEEKS + 1]
    return [*quiet[:-1], conversion(slower=True, more=_MORE), quiet[-1]]


class Stage:
    """A service in a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.service = DemoService(place)
        self.journal = Journal(place / "journal")
        self.restarts = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._temporary = Path()

    @contextlib.contextmanager
    def supervised(self) -> Iterator[None]:
        """Stops all processes at the end of the block."""
        # A short path for sockets, which also identifies remaining processes of ssh(1).
        with tempfile.TemporaryDirectory(prefix="nb-chaos-", ignore_cleanup_errors=True) as folder:
            self._temporary = Path(folder)
            try:
                yield
            finally:
                self.stop()

    def build(self) -> None:
        """Writes all files; starts nothing."""
        testbed = replace(TESTBEDS[TESTBED], scenarios=(SCENARIO,))
        tree = self.service.build(commits=commits(), testbeds=[testbed], seed=3)
        # A long timeout, so that other load of the machine causes no faults.
        lab_file = self.place / "lab" / "lab.toml"
        text = lab_file.read_text()
        lab_file.write_text(text.replace("boot_timeout = 15.0", "boot_timeout = 60.0"))
        self.run = ServiceRun(self.service, tree)
        self.ledger = self.run.ledger
        workers = self.service._create_workers(self.run.lab, self.run.settings.workers.port)
        self._names = ["lab", "mailbox", "master", *(f"worker-{name}" for name in workers)]
        self.service.processes.mkdir(exist_ok=True)
        control.prepare_start(self.place)

    def _kept(self, name: str) -> Path:
        return self.place.with_name(f"{self.place.name}.{name}")

    def save(self, name: str) -> None:
        """Copies the folder under that name; nothing may run."""
        self.ledger.engine.dispose()
        ignored = shutil.ignore_patterns("*.socket")  # of a process that has ended
        shutil.copytree(self.place, self._kept(name), symlinks=True, ignore=ignored)

    def restore(self, name: str) -> None:
        """Restores the copy of that name."""
        self.ledger.engine.dispose()
        shutil.rmtree(self.place)
        shutil.copytree(self._kept(name), self.place, symlinks=True)

    def start(self, plan: Plan) -> None:
        """Starts all processes with a plan."""
        plan.write(self.place)
        self.journal.path.unlink(missing_ok=True)
        self.journal = Journal(self.journal.path)
        (self.place / "phase").write_text("night")
        self.restarts = 0
        self._supervise()

    def _supervise(self) -> None:
        """Restarts dead processes, like an init system."""
        environment = {**os.environ, **self.service.environment, "TMPDIR": str(self._temporary)}
        for name in self._names:
            old = self._processes.get(name)
            if old is not None and old.poll() is None:
                continue
            if name == "master":
                (self.place / "twistd.pid").unlink(missing_ok=True)
            with (self.service.processes / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.chaos.process", name, str(self.place)],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            number = str(self._processes[name].pid)
            (self.service.processes / f"{name}.pid").write_text(number)
            self.restarts += old is not None

    def watch(self, until: str = "") -> None:
        """Waits until there are no jobs, mails or builds, and all testbeds are recovered.

        Args:
            until: A phase; returns at its start instead.

        Raises:
            DemoError: time limit exceeded.
        """
        end = time.monotonic() + _LIMIT
        full: float | None = None
        idle_since: float | None = None
        hits = 0
        while True:
            self._supervise()
            new = self.hits()[hits:]
            if new:
                end = time.monotonic() + _LIMIT
            if any(fault == script.DISK for _, fault in new):
                full = time.monotonic() + _FULL_SECONDS
            hits += len(new)
            if full is not None and time.monotonic() > full:
                for number, _ in self._marked():  # processes started meanwhile inherited the limit
                    script.limit_files(number, -1)
                full = None
            idle = False
            with contextlib.suppress(sqlite3.OperationalError):  # busy
                idle = self._idle() and full is None and not new
            idle_since = (idle_since or time.monotonic()) if idle else None
            at_rest = idle_since is not None and time.monotonic() > idle_since + _REST
            if until and self.phase() == until:
                return
            if at_rest:
                with self.journal.path.open("a") as stream:
                    stream.write('["over"]\n')
                return
            if time.monotonic() > end:
                raise DemoError(f"no end after {_LIMIT:g} s: {self._waits()}")
            time.sleep(_LOOK)

    def phase(self) -> str:
        """Open jobs."""
        return (self.place / "phase").read_text()

    def _idle(self) -> bool:
        self.run.release()
        if record := self.ledger.jobs.all_open():
            phase = serialization.tag_of(record[0].job)
            if self.phase() != phase:
                (self.place / "phase").write_text(phase)
            return False
        nights = [one for one in self.run.rows(JobRecord) if isinstance(one.job, NightlyJob)]
        if nights and isinstance(nights[-1].result, Unfinished):
            self.run.begin_night()
        return not self.ledger.quarantines.current() and self.run.is_idle() and self.is_recovered()

    def _waits(self) -> str:
        record = [f"job {one.id} ({one.key})" for one in self.ledger.jobs.all_open()]
        decisions = [one.external_id for one in self.ledger.actions.all_open()]
        return (
            f"{', '.join(record) or 'no job'}; {', '.join(decisions) or 'no decision'}; "
            f"{len(self.ledger.mails.waiting())} mails; {self.run.open_buildsets()} orders"
        )

    def posted(self) -> dict[str, str]:
        """Keys of all mails by Message-ID."""
        return {mail.message_id: mail.key for mail in self.run.rows(OutboxMail)}

    def hits(self) -> list[tuple[str, str]]:
        """Steps and faults."""
        self.journal.catch_up()
        return self.journal.hits

    def is_recovered(self) -> bool:
        """Whether the testbed was recovered after its last boot."""
        last = self.ledger.facts.last_boots().get(TESTBED)
        if last is None:
            return True
        names = self.run.buildbot("SELECT external_idstring FROM buildsets WHERE complete = 1")
        return (f"nb:recover:{TESTBED}:{last}",) in names

    def running_kernel(self) -> str:
        """The final kernel of the DUT."""
        return subprocess.run(
            [
                *("ssh", "-F", str(self.place / "lab" / "ssh" / "config"), f"{TESTBED}-dut"),
                "sysctl -n kern.bootfile",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()

    def stop(self) -> None:
        """Stops all processes, the master first."""
        for name in sorted(self._processes, key=lambda name: name != "master"):
            process = self._processes.pop(name)
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def strays(self) -> list[str]:
        """Running processes, after a few seconds of grace."""
        end = time.monotonic() + 5.0
        while (found := [one for _, one in self._marked()]) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def _marked(self) -> Iterator[tuple[int, str]]:
        [(variable, value)] = self.service.environment.items()
        mark = f"{variable}={value}\0".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                ours = mark in (folder / "environ").read_bytes()
                # ssh writes its title over its environment.
                if command and (ours or command.startswith(f"ssh: {self._temporary}/")):
                    yield int(folder.name), command
