"""A service with injected faults, its supervisor and its story.

All files are in one folder, which can be restored from a copy.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos import script
from benchmarks.chaos.script import Journal, Plan
from netbisect.bisect.model import serialization
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import Unfinished
from netbisect.demo.service import DemoService
from netbisect.demo.tree.create import SampleTree, create
from netbisect.demo.tree.story import QUIET_WEEKS, StoryCommit, conversion, story
from netbisect.steps.scheduler.followups import open_nights
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_service_ledger
from netbisect.steps.service.settings import Settings, load
from netbisect.steps.service.shipped_files import fill_template
from netbisect.store.db.database import NotFoundError
from netbisect.store.db.records import JobRecord
from netbisect.store.git.history import History
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

TESTBED = "c2558"
SCENARIO = "inet4-forwarding"
MARK = "NETBISECT_CHAOS"
"""Environment variable that marks the processes of a service."""
_MORE = 150
"""Additional nanoseconds per packet."""
_COMPRESSION = 1500.0
"""Compression of time; machines boot in a tenth of a second."""
_LIMIT = 300.0
"""Timeout after the last hit."""
_FULL_SECONDS = 0.5
"""Seconds of a full disk."""
_LOOK = 0.05
_REST = 1.0
"""Idle seconds after which a story has ended: three ticks of the service."""


class StageError(Exception):
    """The service failed."""


def commits() -> list[StoryCommit]:
    """A short story: a quiet week, and then three commits of which one makes the kernel slower.

    By so much that it shows whatever luck the boots have that the hits leave.
    """
    quiet = story(culprit=False)[: QUIET_WEEKS + 1]
    return [*quiet[:-1], conversion(slower=True, more=_MORE), quiet[-1]]


@dataclass
class Stage:
    """A service in a folder."""

    place: Path
    tree: SampleTree = field(init=False)
    settings: Settings = field(init=False)
    lab: Lab = field(init=False)
    ledger: Ledger = field(init=False)
    temporary: Path = field(init=False)
    """Temporary folder of its processes."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Process IDs by name."""
    restarts: int = 0

    def __post_init__(self) -> None:
        self.house = DemoService(self.place)
        self.mark = secrets.token_hex(8)
        self.journal = Journal(self.place / "journal")

    @contextlib.contextmanager
    def nursery(self) -> Iterator[None]:
        """Runs the fork server within the block."""
        # Short: sockets are in it, by whose paths an ssh(1) is known that outlives its command.
        self.temporary = Path(tempfile.mkdtemp(prefix="nb-chaos-"))
        self.place.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary)}
        command = [sys.executable, "-m", "benchmarks.chaos.nursery"]
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            self._nursery = process
            try:
                self._answer()
                yield
            finally:
                self.stop()
                assert process.stdin is not None
                process.stdin.close()
                shutil.rmtree(self.temporary, ignore_errors=True)

    def _answer(self) -> str:
        assert self._nursery.stdout is not None
        said = self._nursery.stdout.readline().strip()
        if not said:
            raise StageError("the process from which all others are forked has ended")
        return said

    def build(self) -> None:
        """Writes all files; starts nothing."""
        self.house.build(testbeds=[TESTBED], compression=_COMPRESSION, seed=3)
        shutil.rmtree(self.place / "upstream" / "src.git")
        self.tree = create(self.place / "upstream" / "src.git", commits())
        lab_file = self.place / "lab" / "lab.toml"
        lines = [
            f'scenarios = ["{SCENARIO}"]' if line.startswith("scenarios = ") else line
            for line in lab_file.read_text().splitlines()
        ]
        # On a machine with other work to do nothing but the faults shall be in its way.
        text = "\n".join(lines).replace("boot_timeout = 15.0", "boot_timeout = 60.0")
        lab_file.write_text(f"{text}\n")
        settings_file = self.place / control.SETTINGS
        text = settings_file.read_text()
        settings_file.write_text(text.replace("boots = 3", "boots = 2"))
        self.settings, self.lab = load(settings_file)
        self.house._create_workers(self.lab, self.settings.workers.port)
        (self.place / script.SUPERVISED).mkdir(exist_ok=True)
        (self.place / control.TAC).write_text(fill_template(control.TAC))
        control._buildbot(self.place, {}, "upgrade-master", "--quiet")
        if wrong := [one.found for one in control.check_folder(self.place) if one.failed]:
            raise StageError(wrong[0])
        self.ledger = open_service_ledger(self.settings)

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
        self.numbers = {}
        self._supervise()
        self.restarts = 0

    def _orders(self) -> dict[str, list[str]]:
        """The processes: kind and arguments by name."""
        mail = self.settings.mail.port
        # Beside the folder of a worker that Buildbot's janitor has within the master.
        workers = sorted(tac.parent for tac in (self.place / "workers").glob(f"*/{control.TAC}"))
        here = str(self.place)
        return {
            "lab": ["lab", str(self.place / "lab" / "simulator.toml"), here],
            "mailbox": ["mailbox", str(mail), str(self.house.mails), here],
            "master": ["master", here, here],
            **{f"worker-{one.name}": ["worker", str(one)] for one in workers},
        }

    def _supervise(self) -> None:
        """Restarts dead processes, like an init system."""
        for name, (kind, *arguments) in self._orders().items():
            number = self.numbers.get(name)
            if number is not None and _alive(number):
                continue
            if kind == "master":
                (self.place / "twistd.pid").unlink(missing_ok=True)
            log = str(self.place / script.SUPERVISED / f"{name}.log")
            order = {"kind": kind, "arguments": arguments, "log": log}
            assert self._nursery.stdin is not None
            self._nursery.stdin.write(json.dumps(order) + "\n")
            self._nursery.stdin.flush()
            self.numbers[name] = int(self._answer())
            place = self.place / script.SUPERVISED / f"{name}.pid"
            place.write_text(str(self.numbers[name]))
            self.restarts += number is not None

    def night(self) -> None:
        """Starts a nightly job for the head."""
        history = History(self.settings.mirror, self.lab.source.repository)
        open_nights(self.ledger, history, self.settings, self.lab.testbeds, self.settings.branches)

    def watch(self, until: str = "") -> None:
        """Waits until there are no jobs, mails or builds, and all testbeds are recovered.

        Args:
            until: A phase; it ends at its beginning instead.

        Raises:
            StageError: there is no end.
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
                for number, _ in self._marked():  # what was begun meanwhile has no room either
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
                raise StageError(f"no end after {_LIMIT:g} s: {self._waits()}")
            time.sleep(_LOOK)

    def phase(self) -> str:
        """Open jobs."""
        return (self.place / "phase").read_text()

    def _idle(self) -> bool:
        record = self.ledger.jobs.all_open()
        self._mend(record)
        if record:
            phase = serialization.tag_of(record[0].job)
            if self.phase() != phase:
                (self.place / "phase").write_text(phase)
            return False
        return (
            not self.ledger.quarantines.current()
            and not self.ledger.mails.waiting()
            and not self.orders_open()
            and self.home_record()
        )

    def _mend(self, record: list[JobRecord]) -> None:
        """Releases testbeds from quarantine, like their owners, and starts the next night."""
        for held in self.ledger.quarantines.current().values():
            if held.wanted_at is None:
                self.ledger.quarantines.ask_release(
                    held.testbed, by="owner", note="the lab runs again"
                )
        nights = [] if record else [one for one in self.jobs() if isinstance(one.job, NightlyJob)]
        if nights and isinstance(nights[-1].finding, Unfinished):
            self.night()

    def jobs(self) -> list[JobRecord]:
        """All jobs in order."""
        found: list[JobRecord] = []
        with contextlib.suppress(NotFoundError):
            while True:
                found.append(self.ledger.jobs.get(len(found) + 1))
        return found

    def _waits(self) -> str:
        record = [f"question {one.id} ({one.key})" for one in self.ledger.jobs.all_open()]
        decisions = [one.external_id for one in self.ledger.actions.all_open()]
        return (
            f"{', '.join(record) or 'no question'}; {', '.join(decisions) or 'no decision'}; "
            f"{len(self.ledger.mails.waiting())} mails; {self.orders_open()} orders"
        )

    def posted(self) -> dict[str, str]:
        """Keys of all mails by Message-ID."""
        found: dict[str, str] = {}
        with contextlib.suppress(NotFoundError):
            while True:
                mail = self.ledger.mails.get(len(found) + 1)
                found[mail.message_id] = mail.key
        return found

    def hits(self) -> list[tuple[str, str]]:
        """Steps and faults."""
        self.journal.catch_up()
        return self.journal.hits

    def buildbot(self, query: str) -> list[tuple[object, ...]]:
        """Reads the database of Buildbot."""
        path = (self.place / "state.sqlite").as_uri()
        with contextlib.closing(sqlite3.connect(f"{path}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    def orders_open(self) -> int:
        """Open build requests."""
        [(number,)] = self.buildbot("SELECT count(*) FROM buildsets WHERE complete = 0")
        assert isinstance(number, int)
        return number

    def home_record(self) -> bool:
        """Whether the testbed was recovered after its last boot."""
        last = self.ledger.facts.last_boots().get(TESTBED)
        if last is None:
            return True
        names = self.buildbot("SELECT external_idstring FROM buildsets WHERE complete = 1")
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
        """Stops all processes."""
        for name in sorted(self.numbers, key=lambda name: name != "master"):
            _end(self.numbers[name])
        self.numbers = {}

    def strays(self) -> list[str]:
        """Running processes, after a few seconds of grace."""
        end = time.monotonic() + 5.0
        while (found := [one for _, one in self._marked()]) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def _marked(self) -> Iterator[tuple[int, str]]:
        mark = f"{MARK}={self.mark}".encode()
        nursery = str(self._nursery.pid)
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or folder.name == nursery:
                continue
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                ours = mark in (folder / "environ").read_bytes()
                # ssh writes its title over its environment.
                if command and (ours or command.startswith(f"ssh: {self.temporary}/")):
                    yield int(folder.name), command


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _end(process: int) -> None:
    """Stops a process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
        end = time.monotonic() + 10.0
        while _alive(process):
            if time.monotonic() > end:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.02)
