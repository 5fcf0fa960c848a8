"""Which steps are hit, by what, and which have been: a file that all processes of a service share.

A line of the journal is a JSON array: `["seen", STEP]`, `["hit", STEP, FAULT]` or `["progress"]`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

MASTER, WORKER, VISIT, LAB, DATABASE, DISK = (
    "master",
    "worker",
    "visit",
    "lab",
    "database",
    "disk",
)
FAULTS = {
    MASTER: "the master is killed",
    WORKER: "the worker of this step is killed",
    VISIT: "a command netbisect-lab is killed",
    LAB: "all simulated machines are killed in a visit, with the power switch",
    DATABASE: "the connection to the database is lost in a commit",
    DISK: "no file grows for a second; then there is room again",
}
GIVEN_UP = {VISIT, LAB, DATABASE, DISK}
"""What the service tries again only so often: hits are counted between two ends of orders."""
SUPERVISED = "run"


_NAMES = re.compile(r"[0-9a-f]{7,}|\d+(\.\d+)?")


def general(step: str) -> str:
    """Without names and numbers, which are others each time: the kind of a step."""
    return _NAMES.sub("N", step)


@dataclass(frozen=True)
class Plan:
    """What is to be done to a service."""

    faults: tuple[str, ...]
    """Each step is hit by one of them; none: steps are only seen."""
    at: tuple[str, ...] = ()
    """Where it is not empty, each fault hits once, one after the other: the next step with that
    in its name."""
    spared: tuple[tuple[str, str], ...] = ()
    """Steps and faults that have hit them in earlier runs."""
    kinds: bool = False
    """Whether a step is spared where one of its kind has been hit, of another number or name."""
    patience: int = 1
    """Hits of those in `GIVEN_UP` between two ends of orders."""
    most: int = 1 << 30
    """Hits in this run."""

    def write(self, place: Path) -> None:
        """Makes it the plan of the service in that folder."""
        (place / "plan.json").write_text(json.dumps(asdict(self)))


class Script:
    """The plan and the journal of a service."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.plan = Plan(**json.loads((place / "plan.json").read_text()))
        self._spared = self._named(self.plan.spared)
        self.journal = place / "journal"
        self.truth = place / "truth"
        self._phase = place / "phase"

    def phase(self) -> str:
        """What is being asked, as whoever watches has seen it."""
        return self._phase.read_text() if self._phase.exists() else ""

    @contextmanager
    def _held(self) -> Iterator[tuple[list[list[str]], TextIO]]:
        with self.journal.open("a+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            yield [json.loads(line) for line in stream], stream
            stream.flush()

    def progress(self) -> None:
        """An order has its end."""
        with self._held() as (_, stream):
            stream.write('["progress"]\n')

    def point(self, step: str) -> bool:
        """A step is about to be made, or was; True when its commit is to fail."""
        with self._held() as (known, stream):
            if ["seen", step] not in known:
                stream.write(json.dumps(["seen", step]) + "\n")
            fault = self._chosen(step, known)
            if not fault:
                return False
            stream.write(json.dumps(["hit", step, fault]) + "\n")
        return self._hit(fault, step)

    def _chosen(self, step: str, known: list[list[str]]) -> str:
        """By what a step is hit; "" for nothing."""
        hits = [line for line in known if line[0] == "hit"]
        plan = self.plan
        if not plan.faults or len(hits) >= plan.most or any(step == line[1] for line in hits):
            return ""
        if plan.at:
            turn = len(hits)
            faults = [plan.faults[turn]] if plan.at[turn] in step else []
        else:
            done = self._spared | self._named(line[1:] for line in hits)
            faults = [one for one in plan.faults if not self._named([(step, one)]) <= done]
        start = known[::-1].index(["progress"]) if ["progress"] in known else len(known)
        since = known[len(known) - start :]
        tired = sum(line[0] == "hit" and line[2] in GIVEN_UP for line in since) >= plan.patience
        left = [
            one for one in faults if not (tired and one in GIVEN_UP) and self._possible(one, step)
        ]
        return min(left, key=lambda one: sum(line[2] == one for line in hits), default="")

    def _named(self, hits: Iterable[Sequence[str]]) -> set[tuple[str, str]]:
        return {(general(step) if self.plan.kinds else step, fault) for step, fault in hits}

    def _possible(self, fault: str, step: str) -> bool:
        if fault == DATABASE:
            return " commit of " in step
        if fault == VISIT:
            return bool(self._visits())
        if fault == LAB:
            return (" runs " in step or " does " in step) and _alive(self._number(LAB))
        if fault == MASTER:
            return _alive(self._number(MASTER))
        if fault == WORKER:
            return _alive(self._worker_of(step))
        return True

    def _hit(self, fault: str, step: str) -> bool:
        if fault == DATABASE:
            return True
        if fault == VISIT:
            for visit in self._visits():
                _kill(visit)
        elif fault == DISK:
            for name in ("master", *self._workers()):
                limit_files(self._number(name), 0)
        elif fault == WORKER:
            _kill(self._worker_of(step))
        else:
            _kill(self._number(fault))
        return False

    def _workers(self) -> list[str]:
        return [path.stem for path in (self.place / SUPERVISED).glob("worker-*.pid")]

    def _worker_of(self, step: str) -> int:
        builds = "kernel" in step or "build" in step
        return self._number("worker-amd64" if builds else "worker-c2558")

    def _number(self, name: str) -> int:
        try:
            return int((self.place / SUPERVISED / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return 0

    def _visits(self) -> list[int]:
        """The commands of workers that run now, as workers see them."""
        workers = {self._number(name) for name in self._workers()}
        return [number for number, parent in children() if parent in workers]


def children() -> Iterator[tuple[int, int]]:
    """All processes with their parents."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            yield int(folder.name), int(parent)


def limit_files(process: int, size: int) -> None:
    """From now on no file of a process grows beyond that."""
    if process > 0:
        try:
            resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        except ProcessLookupError:
            return


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return process > 0


def _kill(process: int) -> None:
    if process > 0:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return
