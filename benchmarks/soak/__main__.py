"""`python -m benchmarks.soak`: nights of a service with faults at realistic rates.

A Buildbot master with web pages, nine workers, OpenSSH, a mail server and eight simulated testbeds.
Commits land before each night; three of them are culprits, others do not build or boot. The results
are the memory of the master after each night, the sizes of both databases, the culprits found and
the false alerts.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click

from benchmarks.service import ServiceRun
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import NightlyResult
from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.testbeds import TESTBEDS, SimulatedTestbed, copies
from netbisect.demo.service import DemoError, DemoService
from netbisect.demo.tree import story
from netbisect.steps.service import control
from netbisect.store.db.records import JobRecord
from netbisect.workers.config.lab import worker_name

COMMITS = 4
"""Irrelevant commits per night."""
SCENARIOS = ("inet4-forwarding", "inet4-pf-stateful")
_SLOWED = ("c2558", "c2558", "e5-2650")
"""Kind of testbed that each culprit affects, in order."""
_RATES = {
    InjectedFault.PANICS_UNDER_LOAD: 0.012,
    InjectedFault.HANGS_UNDER_LOAD: 0.006,
    InjectedFault.POWER_LOSS: 0.006,
    InjectedFault.LINK_FLAPS: 0.03,
    InjectedFault.DIES_UNDER_LOAD: 0.009,
    InjectedFault.DISK_FULL: 0.003,
}
"""Probabilities of faults per testbed and night."""
_WORKER = 0.015
"""Probability of a killed worker."""
_FAULT_SECONDS = 2.0
"""Seconds until a fault is repaired."""
_LIMIT = 900.0
"""Timeout of a night in seconds."""
_LOOK = 0.2


@dataclass
class SoakReport:
    """The results."""

    nights: int
    testbeds: int
    seconds: float = 0.0
    boots: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    complete: int = 0
    """Completed nights of testbeds."""
    without: dict[str, int] = field(default_factory=dict)
    """Failed nights of testbeds by reason."""
    culprits: int = 0
    found: int = 0
    alerts: list[str] = field(default_factory=list)
    """Testbed, kind, state, culprit and correctness of each alert."""
    wrong: int = 0
    """Alerts with a wrong culprit."""
    master: list[float] = field(default_factory=list)
    """Memory of the master in MiB after each night."""
    ledger: list[int] = field(default_factory=list)
    """Size of the ledger in bytes after each night."""
    buildbot: list[int] = field(default_factory=list)
    """Size of Buildbot's database in bytes after each night."""


def beds(number: int) -> list[SimulatedTestbed]:
    """Testbeds, alternating: igb(4) with two scenarios, cxgbe(4) with one."""
    igb = replace(TESTBEDS["c2558"], scenarios=SCENARIOS)
    kinds = zip(copies(igb, number), copies(TESTBEDS["e5-2650"], number), strict=True)
    return [bed for pair in kinds for bed in pair][:number]


def commits(nights: int) -> list[list[story.StoryCommit]]:
    """Commits before each night; in total three culprits, two broken builds and one panic."""
    landing = [
        [story.boring(1000 + COMMITS * night + one) for one in range(COMMITS)]
        for night in range(nights)
    ]
    landing[0] += story.story()[: story.QUIET_WEEKS]
    landing[nights // 4] += story.story()[story.CULPRIT_AT - 5 : story.CULPRIT_AT + 6]
    for night, path, place, cost, more in (
        (nights // 2, "sys/netpfil/pf/pf.c", "pf_state", 241, 841),
        (nights * 3 // 4, "sys/dev/cxgbe/t4_sge.c", "cxgbe", 154, 274),
    ):
        edit = story.replace(path, f"PATH_COST({place}, {cost})", f"PATH_COST({place}, {more})")
        slower = story.StoryCommit("network", f"{path}: Take more care", (edit,), role="culprit")
        landing[night].insert(COMMITS // 2, slower)
    return landing


def resident(process: int) -> float:
    """Memory of a process in MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


@dataclass(kw_only=True)
class Soak(ServiceRun):
    """A service with its lab and its operators."""

    heads: list[int]
    """Number of commits before each night."""
    rng: random.Random
    report: SoakReport
    broken: dict[str, float] = field(default_factory=dict)
    """Machines with a fault, and the time of its repair."""
    struck: Counter[str] = field(default_factory=Counter)

    def pass_night(self, night: int) -> None:
        """Runs a night: lands commits and waits for all results.

        Raises:
            DemoError: time limit exceeded, or the master has died.
        """
        self.tree.land(self.heads[night])
        self.release()
        waiting = [
            (time.monotonic() + self.rng.uniform(0.5, 4.0), name, fault)
            for name in (one.name for one in self.lab.testbeds)
            for fault, probability in {**_RATES, "worker": _WORKER}.items()
            if self.rng.random() < probability
        ]
        self.begin_night()
        end = time.monotonic() + _LIMIT
        while waiting or self.broken or not self.is_idle():
            now = time.monotonic()
            for one in [one for one in waiting if one[0] <= now]:
                waiting.remove(one)
                self._strike(one[1], one[2])
            for machine in [name for name, until in self.broken.items() if until <= now]:
                self._power("mend", machine)
                del self.broken[machine]
            if control.master_pid(self.service.place) is None:
                raise DemoError("the master has died")
            if now > end:
                raise DemoError(f"no end after {_LIMIT:g} s of night {night + 1}")
            time.sleep(_LOOK)

    def _strike(self, testbed: str, fault: str) -> None:
        self.struck[str(fault)] += 1
        if fault == "worker":
            self._kill_worker(testbed)
            return
        machine = f"{testbed}-dut"
        if fault is InjectedFault.DIES_UNDER_LOAD:
            machine = self.lab.testbed(testbed).generator.address
        self._power("break", machine, str(fault))
        self.broken[machine] = time.monotonic() + _FAULT_SECONDS

    def _power(self, *words: str) -> None:
        config = str(self.service.place / "lab" / "ssh" / "config")
        order = ["ssh", "-F", config, "power", " ".join(words)]
        subprocess.run(order, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _kill_worker(self, testbed: str) -> None:
        """Kills a worker and restarts it at once, like an init system."""
        name = worker_name(self.lab.testbed(testbed))
        number = (self.service.processes / f"worker-{name}.pid").read_text()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(number), signal.SIGKILL)
        self.service.start_worker(name, self.service.place / "workers" / name)

    def measure(self) -> None:
        """Records memory and databases after a night."""
        report = self.report
        master = control.master_pid(self.service.place)
        assert master is not None
        report.master.append(resident(master))
        for sizes, name in ((report.ledger, "netbisect.sqlite"), (report.buildbot, "state.sqlite")):
            files = self.service.place.glob(f"{name}*")  # with the write-ahead log
            sizes.append(sum(one.stat().st_size for one in files))

    def judge(self) -> None:
        """Compares the alerts with the culprits."""
        report, ledger, line = self.report, self.ledger, list(self.tree.revisions)
        planted = [one for one, role in self.tree.roles.items() if role == "culprit"]
        report.culprits = len(planted)
        report.faults = dict(self.struck)
        report.boots = sum(event.kind == "boot" for event in ledger.events.since(0)[0])
        nights = [one.result for one in self.rows(JobRecord) if isinstance(one.job, NightlyJob)]
        without = [one for one in nights if not isinstance(one, NightlyResult)]
        report.complete = len(nights) - len(without)
        why = Counter(getattr(one, "why", "it is open")[:60] for one in without)
        report.without = dict(why)
        slowed = dict(zip(planted, _SLOWED, strict=True))
        for alert in ledger.alerts.all():
            here = [one for one, kind in slowed.items() if alert.testbed.startswith(kind)]
            right = alert.culprit in here
            if not alert.culprit:
                job = ledger.jobs.get(alert.comparison or 0).job
                assert isinstance(job, CompareJob)
                ends = sorted((line.index(job.good), line.index(job.bad)))
                right = any(ends[0] < line.index(one) <= ends[1] for one in here)
            text = f"{alert.testbed}, {alert.kind.value}, {alert.state.value}, {alert.culprit}"
            report.alerts.append(f"{text}: {'right' if right else 'wrong'}")
            report.wrong += bool(alert.culprit) and not right
        report.found = len({one.culprit for one in ledger.alerts.all()} & {*planted})


def build(place: Path, nights: int, testbeds: int, boots: int, seed: int) -> Soak:
    """Writes all files of a service in a new folder."""
    service, landing = DemoService(place), commits(nights)
    tree = service.build(
        commits=[one for of_night in landing for one in of_night],
        testbeds=beds(testbeds),
        seed=seed,
    )
    file = place / control.SETTINGS
    text = file.read_text()
    file.write_text(re.sub(r"(?m)^boots = .*", f"boots = {boots}", text))
    heads = [1 + sum(map(len, landing[: night + 1])) for night in range(nights)]
    rng = random.Random(seed)  # noqa: S311 - not cryptography
    return Soak(service, tree, heads=heads, rng=rng, report=SoakReport(nights, testbeds))


def soak(place: Path, nights: int, testbeds: int, boots: int, seed: int) -> SoakReport:
    """Runs all nights."""
    began = time.monotonic()
    one = build(place, nights, testbeds, boots, seed)
    try:
        one.service.start()
        for night in range(nights):
            one.pass_night(night)
            one.measure()
            print(
                f"night {night + 1}: master {one.report.master[-1]:.0f} MiB, "
                f"ledger {one.report.ledger[-1] / 1e6:.1f} MB, "
                f"Buildbot {one.report.buildbot[-1] / 1e6:.1f} MB, "
                f"{time.monotonic() - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )
        one.report.seconds = time.monotonic() - began
        one.judge()
    finally:
        one.service.stop()
    return one.report


@click.command(help=__doc__)
@click.option("--nights", default=60, show_default=True)
@click.option("--testbeds", default=8, show_default=True)
@click.option("--boots", default=3, show_default=True, help="Boots of a night on a testbed.")
@click.option("--seed", default=1, show_default=True, help="Seed of the lab.")
@click.option(
    "--keep", type=click.Path(path_type=Path), help="New folder of the service, kept at the end."
)
def main(nights: int, testbeds: int, boots: int, seed: int, keep: Path | None) -> None:
    """Print JSON; status 1 for a missed or a wrong culprit."""
    load_before = os.getloadavg()[0]
    # A short path, for sockets.
    with tempfile.TemporaryDirectory(prefix="nb-soak-") as folder:
        report = soak(keep or Path(folder) / "service", nights, testbeds, boots, seed)
    click.echo(json.dumps({**asdict(report), "load_before": load_before}, indent=1))
    sys.exit(report.found < report.culprits or report.wrong > 0)


if __name__ == "__main__":
    main()
