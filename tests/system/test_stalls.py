"""Stalls and faults of the parts of a service are reported, and the service continues."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from programs import captured, netbisect
from waiting import wait_until

from benchmarks.chaos import script
from netbisect.bisect.model.results import NightlyResult
from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.demo.tree.story import story
from netbisect.steps.service import control, stalls
from netbisect.steps.service.watchdog import EXIT_STATUS, STACKS
from netbisect.store.db.records import ActionStage, JobRecord, JobState

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("service")]
ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300.0
TESTBED = "c2558"


class Supervised:
    """A service whose master is supervised by the test, in place of systemd."""

    def __init__(self, place: Path) -> None:
        self.service = DemoService(place)
        testbed = replace(TESTBEDS[TESTBED], scenarios=("inet4-forwarding",))
        tree = self.service.build(commits=story(culprit=False), seed=3, testbeds=[testbed])
        settings = self.service.place / control.SETTINGS
        text = settings.read_text()
        self.usual = f"{text}patience_minutes = 0\n"
        settings.write_text(self.usual.replace("tick = 1.0", "tick = 1.0\nstall_minutes = 0.15"))
        self.run = DemoRun(self.service, tree)
        self.settings, self.lab, self.ledger = self.run.settings, self.run.lab, self.run.ledger
        self.landed = 0
        self.master: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts lab, mailbox, master and workers."""
        self.service.start_lab()
        mailbox = [sys.executable, "-m", "netbisect.demo.mailbox", str(self.settings.mail.port)]
        self.service.run("mailbox", [*mailbox, str(self.service.mails)])
        workers = self.service._create_workers(self.lab, self.settings.workers.port)
        self.start_master()
        for name, folder in workers.items():
            self.service.start_worker(name, folder)

    def start_master(self) -> None:
        place = self.service.place
        program = Path(sys.executable).with_name("netbisect")
        master = self.master = subprocess.Popen([program, "start", "--foreground", place])
        wait_until(lambda: control.master_pid(place) == master.pid)

    def stop(self) -> None:
        if self.master is not None:
            self.master.terminate()
            assert self.master.wait(60) == 0
        self.service.stop()

    def night(self) -> JobRecord:
        """Starts a nightly job of the next commit."""
        self.landed += 1
        self.run.tree.land(self.landed)
        self.run.begin_night()
        return self.ledger.jobs.all_open()[-1]

    def has_trial(self, night: JobRecord) -> bool:
        decisions = self.ledger.actions.all_open(night.id)
        return any(one.stage is ActionStage.TRIAL and one.buildset is not None for one in decisions)

    def closed(self, night: JobRecord) -> bool:
        return self.ledger.jobs.get(night.id).state is JobState.CLOSED

    def count(self, ended: str) -> int:
        return stalls.read(self.settings.state).counts[ended]

    def worker(self) -> int:
        [name] = [
            one
            for one in self.lab.hosts_by_worker
            if self.lab.testbed(TESTBED) in self.lab.hosts_by_worker[one]
        ]
        return int((self.service.processes / f"worker-{name}.pid").read_text())

    def compute_process(self) -> int | None:
        assert self.master is not None
        listed = captured(["pgrep", "-P", str(self.master.pid), "-f", "spawn_main"])  # fmt: skip
        return int(listed.stdout.split()[0]) if listed.stdout else None


def fetch(page: str) -> str:
    """A page of the service, or an empty text while the compute process starts."""
    try:
        with urllib.request.urlopen(page, timeout=60) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return ""


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    supervised = Supervised(tmp_path / "service")
    try:
        yield supervised
    finally:
        supervised.stop()


def test_stalled_processes_are_ended_and_the_service_continues(supervised: Supervised) -> None:
    """A worker, the compute process and a call of the ledger stall one after the other."""
    supervised.start()
    night = supervised.night()

    wait_until(lambda: supervised.has_trial(night))
    worker = supervised.worker()
    os.kill(worker, signal.SIGSTOP)
    try:
        wait_until(lambda: supervised.count(stalls.WORKER))
        wait_until(lambda: supervised.ledger.mails.last(f"worker:{TESTBED}:") is not None)
    finally:
        os.kill(worker, signal.SIGCONT)

    wait_until(supervised.compute_process)
    compute = supervised.compute_process()
    assert compute is not None
    os.kill(compute, signal.SIGSTOP)
    wait_until(lambda: supervised.count(stalls.COMPUTE))
    wait_until(lambda: supervised.closed(night), every=0.5)
    assert isinstance(supervised.ledger.jobs.get(night.id).result, NightlyResult)
    assert supervised.compute_process() != compute

    night = supervised.night()
    assert supervised.master is not None
    with contextlib.closing(
        sqlite3.connect(supervised.settings.state / "netbisect.sqlite")
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        assert supervised.master.wait(LIMIT) == EXIT_STATUS
    assert supervised.count(stalls.MASTER) == 1
    assert control.master_pid(supervised.service.place) is None

    reports = []
    for name, *arguments in (
        ("health", "--folder", supervised.service.place),
        ("check", supervised.service.place),
        ("metrics", supervised.service.place),
    ):
        done = netbisect(name, *arguments)
        assert done.exit_code == 0, done.output
        reports.append(" ".join(done.output.split()))
    sentence = r"waited \d+ s for the ledger \(.*?\); the master ended"
    assert re.search(sentence, reports[0])
    assert re.search(sentence, reports[1])
    assert 'netbisect_stalls_total{ended="master"} 1' in reports[2]
    assert re.search(sentence, (supervised.service.place / STACKS).read_text())

    # A page may take longer on a busy machine.
    (supervised.service.place / control.SETTINGS).write_text(supervised.usual)
    supervised.start_master()
    wait_until(lambda: supervised.closed(night), every=0.5)
    page = f"{supervised.settings.web.url}plugins/netbisect/health.html"
    wait_until(lambda: "Stalls of the service" in fetch(page), every=1.0)
    assert f"s for a response of worker {TESTBED}" in fetch(page)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_night_survives_each_fault(tmp_path: Path) -> None:
    """Faults of master, worker, trial, database and disk violate no invariant."""
    command = [sys.executable, "-m", "benchmarks.chaos", "--short"]
    done = captured([*command, "--keep", str(tmp_path)], cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert {fault for _, fault in report["hits"]} >= {*script.FAULTS} - {script.LAB}
