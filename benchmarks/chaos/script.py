"""The plan of faults and the journal of steps, shared by all processes of a service.

A line of the journal is a JSON array: `["seen", STEP, FAULT...]` with the possible faults,
`["hit", STEP, FAULT, COST]` with the attempts of a build that it may abort,
`["progress", STAGE, OUTCOME]`, or `["over"]` at the end.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

MASTER, WORKER, TRIAL, LAB, DATABASE, DISK = "master", "worker", "trial", "lab", "database", "disk"
FAULTS = {
    MASTER: "the master is killed",
    WORKER: "the worker of this step is killed",
    TRIAL: "the command netbisect-lab of this step is killed",
    LAB: "all simulated machines are killed in a trial, with the power switch",
    DATABASE: "the connection to the database is lost in a commit",
    DISK: "no file can grow for half a second",
}
SUPERVISED = "run"
_BUILDER, _TRIAL_WORKER = "worker-amd64", "worker-c2558"

_OF_TRIALS = re.compile(r" runs | does | of (bench|recover)-")
"""Steps of a trial worker, such as the removal of a kernel."""
_NAMES = re.compile(r"[0-9a-f]{7,}|\d+(\.\d+)?")
_WITHOUT_ORDER = re.compile(
    r"mail server| commit of [a-z ]+\d*: "
    r"(decided|finished|closed|asked|mail|alert|learned|quarantine|released)\b"
)
"""Steps at which database and disk faults do not abort a build."""


def general(step: str) -> str:
    """The kind of a step, without names and numbers."""
    return _NAMES.sub("N", step)


@dataclass(frozen=True)
class Plan:
    """A plan of faults."""

    faults: tuple[str, ...]
    """Faults to inject; empty to observe only."""
    at: tuple[str, ...] = ()
    """Texts in steps, one per fault; if not empty, each fault hits once, in this order."""
    spared: tuple[tuple[str, str], ...] = ()
    """Kinds of steps and their faults in earlier runs."""
    aborts: int = 2
    """Attempts of a build that hits may abort."""
    most: int = 1 << 30
    """Maximum number of hits in this run."""

    def write(self, place: Path) -> None:
        """Writes the plan to the folder of a service."""
        (place / "plan.json").write_text(json.dumps(asdict(self)))


class Journal:
    """The journal; reads only new lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: dict[str, set[str]] = {}
        """Possible faults by step."""
        self.hits: list[tuple[str, str]] = []
        """Steps and faults."""
        self.aborted = 0
        """Attempts of the current build that hits may have aborted."""
        self.lab_killed = False
        """Whether the lab was killed and has not measured since."""
        self.over = False
        """Whether the final checks have started."""
        self._read = 0

    def catch_up(self) -> None:
        """Reads new lines."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._read)
                new = stream.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, line: list[Any]) -> None:
        match line:
            case ["seen", step, *faults]:
                self.seen.setdefault(step, set()).update(faults)
            case ["hit", step, fault, cost]:
                self.hits.append((step, fault))
                self.aborted += cost
                self.lab_killed |= fault == LAB
            case ["progress", stage, outcome]:
                self.aborted = 0
                self.lab_killed &= outcome != "ok" or stage == "kernel"
            case ["over"]:
                self.over = True


class Script:
    """The plan and the journal of a service."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.plan = Plan(**json.loads((place / "plan.json").read_text()))
        self._done = {(kind, fault) for kind, fault in self.plan.spared}
        self._taken = 0
        self.journal = Journal(place / "journal")
        self.truth = place / "truth"
        self._phase = place / "phase"

    def phase(self) -> str:
        """Open jobs as last observed."""
        return self._phase.read_text() if self._phase.exists() else ""

    @contextmanager
    def _held(self) -> Iterator[TextIO]:
        with self.journal.path.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            self.journal.catch_up()
            yield stream
            stream.flush()

    def progress(self, stage: str, outcome: str) -> None:
        """Records the end of a build."""
        with self._held() as stream:
            stream.write(json.dumps(["progress", stage, outcome]) + "\n")

    def point(self, step: str) -> bool:
        """Records a step; returns True if its commit must fail."""
        with self._held() as stream:
            if self.journal.over:
                return False
            possible = [one for one in FAULTS if self._possible(one, step)]
            if not self.journal.seen.get(step, {""}) >= {*possible}:
                stream.write(json.dumps(["seen", step, *possible]) + "\n")
            fault = self._chosen(step, possible)
            if not fault:
                return False
            stream.write(json.dumps(["hit", step, fault, self._cost(fault, step)]) + "\n")
        return self._hit(fault, step)

    def _chosen(self, step: str, possible: Iterable[str]) -> str:
        """The fault for a step, or ""."""
        hits, plan = self.journal.hits, self.plan
        if len(hits) >= plan.most or any(step == hit for hit, _ in hits):
            return ""
        faults = plan.faults
        if plan.at and plan.faults:
            index = len(hits)
            faults = (plan.faults[index],) if plan.at[index] in step else ()
        self._done.update((general(hit), fault) for hit, fault in hits[self._taken :])
        self._taken = len(hits)
        kind = general(step)
        left = [
            one
            for one in faults
            if one in possible
            and (plan.at or (kind, one) not in self._done)
            and not self._exhausts(one, step)
        ]
        return min(left, key=lambda one: sum(fault == one for _, fault in hits), default="")

    def _exhausts(self, fault: str, step: str) -> bool:
        """Whether another hit could exceed the attempts of a build."""
        if fault == LAB and self.journal.lab_killed:
            return True
        cost = self._cost(fault, step)
        return cost > 0 and self.journal.aborted + cost > self.plan.aborts

    def _cost(self, fault: str, step: str) -> int:
        """Attempts of a build that a hit may abort.

        A kernel is hit only once, because its prefetch may already have lost an attempt.
        """
        if fault in {MASTER, WORKER}:
            return 0
        if fault in {DATABASE, DISK} and _WITHOUT_ORDER.search(step):
            return int(fault == DISK and any(map(self._commands, (_BUILDER, _TRIAL_WORKER))))
        return self.plan.aborts if self._name_of(step) == _BUILDER else 1

    def _possible(self, fault: str, step: str) -> bool:
        if fault == DATABASE:
            return " commit of " in step
        if fault == TRIAL:
            return any(self._commands(self._name_of(step)))
        if fault == LAB:
            return (" runs " in step or " does " in step) and _alive(self._number(LAB))
        if fault == MASTER:
            return _alive(self._number(MASTER))
        if fault == WORKER:
            return _alive(self._number(self._name_of(step)))
        return True

    def _hit(self, fault: str, step: str) -> bool:
        if fault == DATABASE:
            return True
        if fault == TRIAL:
            for command in self._commands(self._name_of(step)):
                _kill(command)
        elif fault == DISK:
            for name in ("master", *self._workers()):
                limit_files(self._number(name), 0)
        elif fault == WORKER:
            _kill(self._number(self._name_of(step)))
        else:
            _kill(self._number(fault))
        return False

    def _workers(self) -> list[str]:
        return [path.stem for path in (self.place / SUPERVISED).glob("worker-*.pid")]

    @staticmethod
    def _name_of(step: str) -> str:
        """The worker of a step."""
        trials = _OF_TRIALS.search(step)
        builds = not trials and ("kernel" in step or "build" in step)
        return _BUILDER if builds else _TRIAL_WORKER

    def _number(self, name: str) -> int:
        try:
            return int((self.place / SUPERVISED / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return 0

    def _commands(self, worker: str) -> list[int]:
        """The current command of a worker."""
        return [*children(self._number(worker))]


def children(process: int) -> Iterator[int]:
    """Running child processes of a process."""
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, path.read_text().split())


def limit_files(process: int, size: int) -> None:
    """Limits the file size of a process."""
    if process > 0:
        try:
            resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        except ProcessLookupError:
            return


def _alive(process: int) -> bool:
    """Whether a process runs; zombies have no command line."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


def _kill(process: int) -> None:
    if process > 0:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return
