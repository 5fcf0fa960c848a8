"""`python -m benchmarks.soak.service`: nights of a real service, with faults at realistic rates.

A Buildbot master with its web pages, nine workers, OpenSSH, a mail server, and eight simulated
testbeds, night after night. Some commits land before each night; three of them make something
slower, others do not build or do not boot. What is told: the memory of the master and of its
workers after each night, the size of both databases, which culprits were found, and what else
was said of the testbeds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.soak.answers import nights as nights_of
from benchmarks.soak.answers import questions
from benchmarks.soak.growth import a_night, kib_a_night, resident
from netbisect.bisect.model import Comparison
from netbisect.demo.house import House
from netbisect.demo.lab.faults import Fault
from netbisect.demo.lab.testbeds import TESTBEDS, Bed, copies
from netbisect.demo.mailbox import read
from netbisect.demo.tree.create import Tree, create
from netbisect.demo.tree.story import (
    CULPRIT_AT,
    QUIET_WEEKS,
    Commit,
    boring,
    story,
)
from netbisect.demo.tree.story import (
    replace as replaced,
)
from netbisect.steps import control
from netbisect.steps.casework import open_nights
from netbisect.steps.memory import ledger_of
from netbisect.steps.settings import Settings, load
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Lab, worker_of

COMMITS = 4
"""That land from one night to the next, besides those with a role."""
SCENARIOS = ("inet4-forwarding", "inet4-pf-stateful")
_SLOWED = ("c2558", "c2558", "e5-2650")
"""By culprit, in the order in which they land: the kind of testbeds that it slows down."""
_COMPRESSION = 1500.0
"""Machines boot in a tenth of a second."""
_RATES = {
    Fault.PANICS_UNDER_LOAD: 0.012,
    Fault.HANGS_UNDER_LOAD: 0.006,
    Fault.POWER_LOSS: 0.006,
    Fault.LINK_FLAPS: 0.03,
    Fault.DIES_UNDER_LOAD: 0.009,
    Fault.DISK_FULL: 0.003,
}
"""Chances of a night on a testbed, which are three visits: as in the other soak."""
_WORKER = 0.015
"""That its worker is killed in it."""
_FAULT_SECONDS = 2.0
"""After which somebody mends it."""
_LIMIT = 900.0
"""Seconds for a night."""
_LOOK = 0.2


class SoakError(Exception):
    """The service did not come through; the message says what is wrong."""


@dataclass
class Told:
    """What came of it."""

    nights: int
    testbeds: int
    seconds: float = 0.0
    boots: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    complete: int = 0
    """Nights of a testbed that have their answer."""
    without: dict[str, int] = field(default_factory=dict)
    """Nights of a testbed that have none, by the beginning of the reason."""
    culprits: int = 0
    found: int = 0
    named: dict[str, str] = field(default_factory=dict)
    """By alert: testbed, state, and whether what it tells is so."""
    wrong: list[str] = field(default_factory=list)
    """Alerts that accuse another commit."""
    none: list[str] = field(default_factory=list)
    """Alerts that accuse none, and tell of a change that is none."""
    quarantines: int = 0
    mails: int = 0
    master: list[float] = field(default_factory=list)
    """MiB after each night."""
    workers: list[float] = field(default_factory=list)
    """MiB of all of them together, after each night."""
    ledger: list[int] = field(default_factory=list)
    """Bytes after each night."""
    buildbot: list[int] = field(default_factory=list)
    """Bytes of Buildbot's own database after each night."""
    master_a_night: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """MiB: estimate, and its 95 % interval."""
    workers_a_night: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ledger_a_night: float = 0.0
    """KiB."""
    buildbot_a_night: float = 0.0


def beds(number: int) -> list[Bed]:
    """So many: igb(4) with two scenarios and cxgbe(4) with one in turns."""
    igb = replace(TESTBEDS["c2558"], scenarios=SCENARIOS)
    kinds = zip(copies(igb, number), copies(TESTBEDS["e5-2650"], number), strict=True)
    return [bed for pair in kinds for bed in pair][:number]


def commits(nights: int) -> list[list[Commit]]:
    """What lands before each night: three culprits, two that do not build, one that panics."""
    landing = [
        [boring(1000 + COMMITS * night + one) for one in range(COMMITS)] for night in range(nights)
    ]
    landing[0] += story()[:QUIET_WEEKS]
    landing[nights // 4] += story()[CULPRIT_AT - 5 : CULPRIT_AT + 6]
    for night, path, cost, more in (
        (nights // 2, "sys/netpfil/pf/pf.c", "PATH_COST(pf_state, 241)", 441),
        (nights * 3 // 4, "sys/dev/cxgbe/t4_sge.c", "PATH_COST(cxgbe, 154)", 274),
    ):
        dearer = f"{cost.rpartition(' ')[0]} {more})"
        edit = replaced(path, cost, dearer)
        slower = Commit("network", f"{path}: Take more care", (edit,), role="culprit")
        landing[night].insert(COMMITS // 2, slower)
    return landing


@dataclass
class Soak:
    """A service with its lab, and the people who look after it."""

    house: House
    tree: Tree
    heads: list[int]
    """How many commits have landed before each night."""
    settings: Settings
    lab: Lab
    ledger: Ledger
    luck: random.Random
    told: Told
    broken: dict[str, float] = field(default_factory=dict)
    """Machines with a fault, and when it is mended."""
    struck: Counter[str] = field(default_factory=Counter)

    # ------------------------------------------------------------------------------- one night

    def pass_night(self, night: int) -> None:
        """Commits land, and all that is asked then is answered.

        Raises:
            SoakError: there is no end, or something has died.
        """
        self.tree.land(self.heads[night])
        for held in self.ledger.quarantined().values():
            self.ledger.ask_release(held.testbed, by="owner", note="it runs again")
        waiting = [
            (time.monotonic() + self.luck.uniform(0.5, 4.0), name, fault)
            for name in (one.name for one in self.lab.testbeds)
            for fault, chance in {**_RATES, "worker": _WORKER}.items()
            if self.luck.random() < chance
        ]
        history = History(self.settings.mirror, self.lab.source.repository)
        open_nights(self.ledger, history, self.settings, self.lab.testbeds, ["main"])
        end = time.monotonic() + _LIMIT
        while waiting or self.broken or not self._idle():
            now = time.monotonic()
            for one in [one for one in waiting if one[0] <= now]:
                waiting.remove(one)
                self._strike(one[1], one[2])
            for machine in [name for name, until in self.broken.items() if until <= now]:
                self._power("mend", machine)
                del self.broken[machine]
            if control.running(self.house.place) is None:
                raise SoakError("the master has died")
            if now > end:
                raise SoakError(f"no end after {_LIMIT:g} s of night {night + 1}")
            time.sleep(_LOOK)

    def _strike(self, testbed: str, fault: str) -> None:
        self.struck[str(fault)] += 1
        if fault == "worker":
            self._kill_worker(testbed)
            return
        machine = f"{testbed}-dut"
        if fault is Fault.DIES_UNDER_LOAD:
            machine = self.lab.testbed(testbed).generator.address
        self._power("break", machine, str(fault))
        self.broken[machine] = time.monotonic() + _FAULT_SECONDS

    def _power(self, *words: str) -> None:
        config = str(self.house.place / "lab" / "ssh" / "config")
        order = ["ssh", "-F", config, "power", " ".join(words)]
        subprocess.run(order, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _kill_worker(self, testbed: str) -> None:
        """As an init system does it, it is started again at once."""
        name = worker_of(self.lab.testbed(testbed))
        number = self._number(f"worker-{name}")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)
        self.house.start_worker(name, self.house.place / "workers" / name)

    def _number(self, name: str) -> int:
        return int((self.house.processes / f"{name}.pid").read_text())

    def _idle(self) -> bool:
        """No question, no mail and no order is open."""
        if self.ledger.open_questions() or self.ledger.waiting_mails():
            return False
        open_orders = "SELECT count(*) FROM buildsets WHERE complete = 0"
        [(number,)] = self._query("state.sqlite", open_orders)
        return number == 0

    def _query(self, database: str, query: str) -> list[tuple[int, ...]]:
        path = (self.house.place / database).as_uri()
        with contextlib.closing(sqlite3.connect(f"{path}?mode=ro", uri=True, timeout=30)) as one:
            return one.execute(query).fetchall()

    # ---------------------------------------------------------------------------- what is told

    def measure(self) -> None:
        """Memory and databases, after a night."""
        told = self.told
        master = control.running(self.house.place)
        assert master is not None
        told.master.append(resident(master))
        workers = [path.stem for path in self.house.processes.glob("worker-*.pid")]
        told.workers.append(sum(resident(self._number(name)) for name in workers))
        for sizes, name in ((told.ledger, "netbisect.sqlite"), (told.buildbot, "state.sqlite")):
            files = self.house.place.glob(f"{name}*")  # with what is not yet in its place
            sizes.append(sum(one.stat().st_size for one in files))

    def judge(self) -> None:
        """What was found, and what was said of what is not so."""
        told, ledger, line = self.told, self.ledger, list(self.tree.revisions)
        planted = [one for one, role in self.tree.roles.items() if role == "culprit"]
        told.culprits = len(planted)
        told.faults = dict(self.struck)
        [(told.boots,)] = self._query("netbisect.sqlite", "SELECT count(*) FROM boots")
        asked = questions(ledger)
        told.asked = dict(Counter(type(one.question).__name__.lower() for one in asked))
        told.complete, told.without = nights_of(asked)
        slowed = dict(zip(planted, _SLOWED, strict=True))
        for alert in ledger.alerts():
            here = [one for one, kind in slowed.items() if alert.testbed.startswith(kind)]
            right = alert.culprit in here
            if not alert.culprit:
                question = ledger.question(alert.comparison or 0).question
                assert isinstance(question, Comparison)
                ends = sorted((line.index(question.good), line.index(question.bad)))
                right = any(ends[0] < line.index(one) <= ends[1] for one in here)
            said = f"{alert.testbed}, {alert.kind.value}, {alert.state.value}, {alert.culprit}"
            told.named[str(alert.id)] = f"{said}: {'right' if right else 'wrong'}"
            if not right:
                (told.wrong if alert.culprit else told.none).append(said)
        told.found = len({one.culprit for one in ledger.alerts()} & {*planted})
        told.quarantines = sum(len(ledger.quarantines(one.name)) for one in self.lab.testbeds)
        told.mails = len(read(self.house.mails))
        told.master_a_night, told.workers_a_night = a_night(told.master), a_night(told.workers)
        told.ledger_a_night = kib_a_night(told.ledger)
        told.buildbot_a_night = kib_a_night(told.buildbot)


def begin(place: Path, nights: int, testbeds: int, boots: int, seed: int) -> Soak:
    """Builds and starts a service in a folder, which must be absent."""
    house = House(place)
    house.build(testbeds=beds(testbeds), compression=_COMPRESSION, seed=seed)
    shutil.rmtree(place / "tree.git")
    landing = commits(nights)
    tree = create(place / "tree.git", [one for of_night in landing for one in of_night])
    heads = [1 + sum(map(len, landing[: night + 1])) for night in range(nights)]
    file = place / control.SETTINGS
    text = file.read_text().replace("tick = 1.0", "tick = 0.3")
    file.write_text(text.replace("boots = 3", f"boots = {boots}"))
    house.start()
    settings, lab = load(file)
    told = Told(nights, testbeds)
    luck = random.Random(seed)  # noqa: S311 - it plays a lab
    return Soak(house, tree, heads, settings, lab, ledger_of(settings), luck, told)


def soak(place: Path, nights: int, testbeds: int, boots: int, seed: int) -> Told:
    """All nights in that folder."""
    began = time.monotonic()
    one = begin(place, nights, testbeds, boots, seed)
    try:
        for night in range(nights):
            one.pass_night(night)
            one.measure()
            print(
                f"night {night + 1}: master {one.told.master[-1]:.0f} MiB, "
                f"workers {one.told.workers[-1]:.0f} MiB, ledger {one.told.ledger[-1] / 1e6:.1f} "
                f"MB, Buildbot {one.told.buildbot[-1] / 1e6:.1f} MB, "
                f"{time.monotonic() - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        one.told.seconds = time.monotonic() - began
        one.judge()
    finally:
        one.house.stop()
    return one.told


def as_text(told: Told) -> str:
    """A few lines."""
    kept = told.nights * told.testbeds
    return "\n".join(
        [
            f"{told.nights} nights of {told.testbeds} testbeds in {told.seconds:.0f} s",
            f"  boots              {told.boots}",
            f"  faults             {told.faults}",
            f"  questions          {told.asked}",
            f"  nights complete    {told.complete} of {kept}",
            *(f"    without an answer {number:4}  {why}" for why, number in told.without.items()),
            f"  culprits found     {told.found} of {told.culprits}",
            *(f"    alert {number}: {said}" for number, said in told.named.items()),
            f"  false accusations  {len(told.wrong)}",
            f"  of no change       {len(told.none)}",
            f"  quarantines        {told.quarantines}",
            f"  mails              {told.mails}",
            f"  master             {told.master[0]:.0f} to {told.master[-1]:.0f} MiB",
            "    MiB a night      {:+.3f} ({:+.3f} to {:+.3f})".format(*told.master_a_night),
            f"  workers            {told.workers[0]:.0f} to {told.workers[-1]:.0f} MiB",
            "    MiB a night      {:+.3f} ({:+.3f} to {:+.3f})".format(*told.workers_a_night),
            f"  ledger             {told.ledger[-1] / 1e6:.1f} MB",
            f"    KiB a night      {told.ledger_a_night:.0f}",
            f"  Buildbot           {told.buildbot[-1] / 1e6:.1f} MB",
            f"    KiB a night      {told.buildbot_a_night:.0f}",
        ]
    )


def main() -> int:
    """The command line; 1 when a culprit was not found, or another commit was accused."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.service", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--testbeds", type=int, default=8)
    parser.add_argument("--boots", type=int, default=3, help="of a night on a testbed")
    parser.add_argument("--seed", type=int, default=1, help="of the lab's luck")
    parser.add_argument("--keep", type=Path, help="absent folder of the service, left for a look")
    asked = parser.parse_args()
    load_before = os.getloadavg()[0]
    # Short: sockets are in it.
    with tempfile.TemporaryDirectory(prefix="nb-soak-") as folder:
        place = asked.keep or Path(folder) / "house"
        told = soak(place, asked.nights, asked.testbeds, asked.boots, asked.seed)
    if asked.json:
        print(json.dumps({**asdict(told), "load_before": load_before}, indent=1))
    else:
        print(as_text(told))
    return int(told.found < told.culprits or bool(told.wrong))


if __name__ == "__main__":
    sys.exit(main())
