"""`python -m benchmarks.soak`: nights of a lab one after the other, with faults at realistic rates.

The service's own conductor, casework and ledger, on a simulated clock and without Buildbot. Every
night some commits have landed; three of them, each on a testbed of its own, make it slower. What
is told: the memory of the process after each night, the size of the database, which culprits were
found, and what else was said of the testbeds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.soak.answers import nights as nights_of
from benchmarks.soak.answers import questions
from benchmarks.soak.drive import Clock, Service
from benchmarks.soak.growth import a_night, kib_a_night, resident
from benchmarks.soak.world import FORWARDING, SCENARIOS, STATEFUL, Culprit, World, plant
from netbisect.bisect.model import Comparison
from netbisect.steps.casework import open_nights
from netbisect.steps.memory import history_of, ledger_of
from netbisect.steps.settings import load
from netbisect.store.database import AbsentError
from netbisect.store.history import History
from netbisect.store.ledger import Ledger

_DAY = 86_400.0
_START = 1_735_862_400.0

LAB = """
[source]
repository = "{folder}/source.git"
[[builders]]
name = "one"
arch = "amd64"
directory = "build"
[[builders]]
name = "two"
arch = "amd64"
directory = "build"
"""
TESTBED = """
[[testbeds]]
name = "{name}"
owner = "owner@netbisect.invalid"
arch = "amd64"
kernel_config = "GENERIC"
line_rate_pps = 14_880_000
scenarios = {scenarios}
dut = {{ address = "d", ingress = {{ interface = "a" }}, egress = {{ interface = "b" }} }}
generator = {{ address = "g", port = {{ interface = "a" }} }}
receiver = {{ address = "g", port = {{ interface = "b" }} }}
"""
SETTINGS = """
branches = ["main"]
[night]
boots = 3
[mail]
to = ["people@netbisect.invalid"]
sender = "netbisect@netbisect.invalid"
"""


@dataclass
class Told:
    """What came of it."""

    nights: int
    testbeds: int
    seconds: float = 0.0
    visits: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    complete: int = 0
    """Nights of a testbed that have their answer."""
    without: dict[str, int] = field(default_factory=dict)
    """Nights of a testbed that have none, by the beginning of the reason."""
    culprits: int = 0
    found: int = 0
    wrong: list[str] = field(default_factory=list)
    """Alerts that accuse another commit, or a testbed that is as it was."""
    withdrawn: int = 0
    quarantines: int = 0
    mails: int = 0
    memory: list[float] = field(default_factory=list)
    """MiB after each night."""
    objects: list[int] = field(default_factory=list)
    """That Python keeps track of, after each night."""
    slope: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """MiB a night after the first third: estimate, and its 95 % interval."""
    database: list[int] = field(default_factory=list)
    """Bytes after each night."""
    growth: float = 0.0
    """KiB a night."""


def culprits(nights: int, testbeds: int) -> list[Culprit]:
    """Three, spread over the nights and the testbeds."""
    return [
        Culprit(nights // 4, _name(1 % testbeds), (FORWARDING,), 0.05),
        Culprit(nights // 2, _name(4 % testbeds), (STATEFUL,), 0.08),
        Culprit(nights * 3 // 4, _name(6 % testbeds), SCENARIOS, 0.06),
    ]


def _name(number: int) -> str:
    return f"bed-{number + 1}"


def begin(folder: Path, nights: int, testbeds: int, planted: list[Culprit], seed: int) -> Service:
    """A service in that folder, in the world and the time of its lab."""
    names = [_name(number) for number in range(testbeds)]
    tree = plant(folder / "source.git", nights)
    scenarios = json.dumps(SCENARIOS)
    beds = "".join(TESTBED.format(name=name, scenarios=scenarios) for name in names)
    (folder / "lab.toml").write_text(LAB.format(folder=folder) + beds)
    (folder / "netbisect.toml").write_text(SETTINGS)
    settings, lab = load(folder / "netbisect.toml")
    ledger, clock = ledger_of(settings), Clock(_START)
    ledger.clock = clock
    time.time = clock  # what asks for the time is in the simulated one
    return Service(settings, lab, ledger, World(tree, names, planted, seed), clock)


def pass_night(service: Service, history: History, night: int) -> None:
    """Commits land, and all that is asked then is answered."""
    settings, ledger = service.settings, service.ledger
    service.clock.at = max(service.clock.at, _START + night * _DAY)
    service.world.tree.land(night)
    for held in ledger.quarantined().values():
        ledger.ask_release(held.testbed, by="owner", note="it has room again")
    open_nights(ledger, history, settings, service.lab.testbeds, settings.branches)
    service.run()


def soak(folder: Path, nights: int, testbeds: int, seed: int) -> Told:
    """All nights in that folder."""
    planted = culprits(nights, testbeds)
    service = begin(folder, nights, testbeds, planted, seed)
    history = history_of(service.settings, service.lab)
    told = Told(nights, testbeds, culprits=len(planted))
    began = time.monotonic()
    for night in range(nights):
        pass_night(service, history, night)
        gc.collect()
        told.memory.append(resident())
        told.objects.append(len(gc.get_objects()))
        with service.ledger.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        told.database.append((folder / "netbisect.sqlite").stat().st_size)
        if os.isatty(2) or night % 10 == 9:
            print(
                f"night {night + 1}: {told.memory[-1]:.0f} MiB, "
                f"{told.database[-1] / 1e6:.1f} MB, {time.monotonic() - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    told.seconds = time.monotonic() - began
    _judge(told, service.ledger, service.world)
    told.slope, told.growth = a_night(told.memory), kib_a_night(told.database)
    return told


def _judge(told: Told, ledger: Ledger, world: World) -> None:
    told.visits, told.faults = world.visits, dict(world.struck)
    asked = questions(ledger)
    told.asked = dict(Counter(type(one.question).__name__.lower() for one in asked))
    told.complete, told.without = nights_of(asked)
    right = {(one.testbed, world.tree.revisions[one.place]) for one in world.culprits}
    found = set()
    for alert in ledger.alerts(candidates=True):
        if alert.announced_at is None:
            told.withdrawn += 1
        elif (alert.testbed, alert.culprit) in right:
            found.add((alert.testbed, alert.culprit))
        elif alert.culprit is not None or not _holds(alert.comparison, ledger, world):
            told.wrong.append(f"{alert.testbed}: {alert.state.value}, {alert.culprit}")
    told.found = len(found)
    told.quarantines = sum(len(ledger.quarantines(name)) for name in world.testbeds)
    try:
        while True:
            ledger.mail(told.mails + 1)
            told.mails += 1
    except AbsentError:
        pass


def _holds(number: int | None, ledger: Ledger, world: World) -> bool:
    """Whether the two ends of a comparison really differ by a planted commit."""
    assert number is not None
    question = ledger.question(number).question
    assert isinstance(question, Comparison)
    first, last = world.number[question.good], world.number[question.bad]
    return any(
        one.testbed == question.testbed and min(first, last) < one.place <= max(first, last)
        for one in world.culprits
    )


def as_text(told: Told) -> str:
    """A few lines."""
    slope, low, high = told.slope
    beds = told.nights * told.testbeds
    return "\n".join(
        [
            f"{told.nights} nights of {told.testbeds} testbeds in {told.seconds:.0f} s",
            f"  visits             {told.visits}, with {sum(told.faults.values())} faults",
            f"  questions          {told.asked}",
            f"  faults             {told.faults}",
            f"  nights complete    {told.complete} of {beds}",
            *(f"    without an answer {number:4}  {why}" for why, number in told.without.items()),
            f"  culprits found     {told.found} of {told.culprits}",
            f"  false accusations  {len(told.wrong)} {told.wrong or ''}",
            f"  withdrawn unseen   {told.withdrawn}",
            f"  quarantines        {told.quarantines}",
            f"  mails              {told.mails}",
            f"  memory             {told.memory[0]:.0f} to {told.memory[-1]:.0f} MiB",
            f"    MiB a night      {slope:+.3f} ({low:+.3f} to {high:+.3f})",
            f"  objects            {told.objects[0]:,} to {told.objects[-1]:,}",
            f"  database           {told.database[-1] / 1e6:.1f} MB",
            f"    KiB a night      {told.growth:.0f}",
        ]
    )


def main() -> int:
    """The command line; 1 when a culprit was not found, or something else was accused."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--testbeds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="of the lab's luck")
    parser.add_argument("--keep", type=Path, help="empty folder of the service, left for a look")
    asked = parser.parse_args()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        told = soak(asked.keep or Path(folder), asked.nights, asked.testbeds, asked.seed)
    if asked.json:
        print(json.dumps({**asdict(told), "load_before": load_before}, indent=1))
    else:
        print(as_text(told))
    return int(told.found < told.culprits or bool(told.wrong))


if __name__ == "__main__":
    sys.exit(main())
