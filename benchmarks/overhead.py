"""What a visit costs besides its build, its boot and its traffic: seconds, and memory of a worker.

A whole service runs beside a simulated lab whose machines boot in 0.2 s: master, worker, OpenSSH.
Once it measures one testbed, and the times at which things happened are read from its database;
once it measures eight testbeds at the same time from one worker, and the memory of the worker and
of all that it started is added up, shared pages by their share.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from netbisect.demo.house import House
from netbisect.demo.lab.testbeds import TESTBEDS, copies
from netbisect.steps import control
from netbisect.steps.casework import open_nights
from netbisect.steps.memory import ledger_of
from netbisect.steps.settings import load
from netbisect.store.history import History
from netbisect.store.records import Event

GOAL_SECONDS = 1.0
GOAL_MIB = 150.0
TESTBED = "c2558"
SCENARIO = "inet4-forwarding"
BEDS = 8
BOOTS = 8
_MARK = "NETBISECT_OVERHEAD"
"""Environment variable by which the processes of a service are known, whoever is their parent."""
_LIMIT = 240.0
_COMPRESSION = 600.0
_TRAFFIC = (2.0 + 2.0 + 30.64 + 2.0) / _COMPRESSION + 0.02
"""Seconds on the wall: both pkt-gen wait for their link, the sender sends with its ramp, the
receiver waits for a second without packets; `settle` of the lab file."""


@dataclass(frozen=True)
class Visit:
    """Where the time of a visit went, seconds, without boot and traffic."""

    visit: float
    """From the order to the end of the build: Buildbot, process, SSH, kernel to the disk, looks
    at the machines, settings."""
    decision: float
    """From the end of a visit to the order of the next."""

    @property
    def total(self) -> float:
        return self.visit + self.decision


@dataclass(frozen=True)
class Memory:
    """The most that a worker and all that it started took at once, MiB."""

    visits: int
    """At the same time, then."""
    worker: float
    lab: float
    """All commands netbisect-lab together, with the process that they are forked from."""
    ssh: float

    @property
    def total(self) -> float:
        return self.worker + self.lab + self.ssh


# ---------------------------------------------------------------------------------- the service


def night(
    place: Path, beds: int, boots: int, compression: float, look: Callable[[], None]
) -> tuple[list[Event], float]:
    """Builds a service, lets it measure one night on so many testbeds.

    Returns:
        What happened, and the seconds of a processor that a visit by hand takes.
    """
    house = House(place)
    testbeds = copies(TESTBEDS[TESTBED], beds)
    house.build(culprit=False, testbeds=testbeds, compression=compression)
    lab_file = place / "lab" / "lab.toml"
    text = lab_file.read_text()
    scenarios = next(line for line in text.splitlines() if line.startswith("scenarios = "))
    text = text.replace(scenarios, f'scenarios = ["{SCENARIO}"]\nworker = "lab"')
    lab_file.write_text(text)
    settings_file = place / control.SETTINGS
    settings_file.write_text(settings_file.read_text().replace("boots = 3", f"boots = {boots}"))
    settings, lab = load(settings_file)
    try:
        house.start()
        ledger = ledger_of(settings)
        history = History(settings.mirror, lab.source.repository)
        open_nights(ledger, history, settings, lab.testbeds, ["main"])
        end = time.monotonic() + _LIMIT
        while ledger.open_questions():
            if time.monotonic() > end:
                raise SystemExit(f"no end after {_LIMIT:g} s")
            look()
            time.sleep(0.1)
        events = ledger.events_since(0)[0]
        # What the master does after a night would come between.
        control.stop(house.place)
        return events, by_hand(lab_file, testbeds[0].name)
    finally:
        house.stop()


def by_hand(lab_file: Path, testbed: str) -> float:
    """Seconds of a processor, of netbisect-lab and the ssh clients that it waits for."""
    (kernel,) = {path.parent.name for path in (lab_file.parent / "kernels").glob("*/kernel.json")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            *(sys.executable, "-m", "netbisect.workers.start", "--lab", lab_file, "trial"),
            *("--testbed", testbed, "--kernel", kernel, "--logs", lab_file.parent / "logs"),
        ],
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# ------------------------------------------------------------------------------------- seconds


def visits(events: list[Event]) -> list[Visit]:
    """The visits of one testbed that were followed by another one."""
    orders = [number for number, event in enumerate(events) if event.kind == "submitted"]
    found = []
    for first, following in pairwise(orders):
        at = {event.kind: event for event in events[first:following]}
        if not {"boot", "sample", "finished"} <= at.keys():
            continue  # a kernel was built
        ordered, ended = events[first].at, at["finished"].at
        found.append(
            Visit(
                visit=ended - ordered - at["boot"].data["seconds"] - _TRAFFIC,
                decision=events[following].at - ended,
            )
        )
    return found


# -------------------------------------------------------------------------------------- memory


class Scale:
    """Weighs the processes of a service again and again, and keeps the heaviest moment.

    Args:
        mark: In the environment of its processes.
    """

    def __init__(self, mark: str) -> None:
        self._mark = f"{_MARK}={mark}".encode()
        self._before: set[str] = set()
        self.most = Memory(0, 0.0, 0.0, 0.0)

    def look(self) -> None:
        """Once more."""
        weights = {"worker": 0.0, "lab": 0.0, "ssh": 0.0}
        visits = 0
        seen = set()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                ours = self._mark in (folder / "environ").read_bytes()
                kind = _kind(command) if ours else ""
                if kind == "lab":
                    seen.add(folder.name)
                    # A child that has not become ssh yet is its parent's memory once more.
                    kind *= folder.name in self._before
                if kind:
                    weights[kind] += _mebibytes(folder)
                    visits += kind == "lab" and _is_visit(command)
            except OSError:
                continue  # it has ended meanwhile
        self._before = seen
        now = Memory(visits, **weights)
        if now.total > self.most.total:
            self.most = now


def _kind(command: str) -> str:
    """What a process of the service is to its worker; "" when it is none of the worker's."""
    if "buildbot_worker" in command:
        return "worker" if command.rstrip().endswith("/lab") else ""  # the other one builds
    if "netbisect.workers." in command or " netbisect-lab " in command:
        return "lab"
    return "ssh" if command.startswith(("ssh ", "/usr/bin/ssh")) else ""


def _is_visit(command: str) -> bool:
    """Whether it is a visit as the worker started it, which is one, however many processes."""
    return " trial " in command and ".preloaded " not in command


def _mebibytes(process: Path) -> float:
    """Its proportional set size: shared pages by their share."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


# --------------------------------------------------------------------------------------- telling


def measure(place: Path, boots: int) -> tuple[list[Visit], float, Memory]:
    """Both nights; machines of the second take seconds to boot, so that their visits overlap."""
    mark = secrets.token_hex(8)
    os.environ |= {_MARK: mark, "TMPDIR": str(place)}
    events, processor = night(place / "one", 1, boots, _COMPRESSION, lambda: None)
    scale = Scale(mark)
    night(place / "eight", BEDS, 1, _COMPRESSION / 20, scale.look)
    return visits(events), processor, scale.most


def as_text(found: list[Visit], processor: float, memory: Memory) -> str:
    """Medians; the goals beside them."""
    visit = statistics.median(one.visit for one in found)
    decision = statistics.median(one.decision for one in found)
    total = statistics.median(one.total for one in found)
    goal = f"(goal {GOAL_SECONDS:g} s; slowest {max(one.total for one in found):.2f} s)"
    return "\n".join(
        [
            f"overhead of a visit, median of {len(found)}:",
            f"  order to end              {visit:6.2f} s",
            f"  end to the next order     {decision:6.2f} s",
            f"  all of it                 {total:6.2f} s  {goal}",
            f"  processor, netbisect-lab  {processor:6.2f} s",
            f"memory of one worker with {memory.visits} visits at once:",
            f"  worker                    {memory.worker:6.0f} MiB",
            f"  netbisect-lab             {memory.lab:6.0f} MiB",
            f"  ssh                       {memory.ssh:6.0f} MiB",
            f"  all of it                 {memory.total:6.0f} MiB  (goal {GOAL_MIB:g} MiB)",
        ]
    )


def _stop(*_: object) -> NoReturn:
    # As an exception: the service that was started is stopped on the way out.
    raise SystemExit(128 + signal.SIGTERM)


def main() -> int:
    """The command line; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--boots", type=int, default=BOOTS, help="visits of the first night")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        found, processor, memory = measure(Path(folder), asked.boots)
    total = statistics.median(one.total for one in found)
    if asked.json:
        told = {
            "visits": [{**asdict(one), "total": one.total} for one in found],
            "seconds": total,
            "processor_seconds": processor,
            "memory": {**asdict(memory), "total": memory.total},
            "goals": {"seconds": GOAL_SECONDS, "mebibytes": GOAL_MIB},
            "load_before": load_before,
        }
        print(json.dumps(told, indent=1))
    else:
        print(as_text(found, processor, memory))
        print(f"load of this machine before: {load_before:.1f} on {os.cpu_count()} processors")
    return int(total > GOAL_SECONDS or memory.total > GOAL_MIB)


if __name__ == "__main__":
    sys.exit(main())
