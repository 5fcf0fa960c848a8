"""What the benchmark of the overhead reads from a service, and how workers are shared."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import overhead
from netbisect.demo.lab.testbeds import TESTBEDS, copies
from netbisect.steps import builders as wiring
from netbisect.steps.settings import load_settings
from netbisect.store.records import Event

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab


def event(kind: str, at: float, **data: Any) -> Event:
    return Event(1, at, kind, 1, data)


def test_the_overhead_is_what_boot_and_traffic_leave() -> None:
    """A build of a kernel is no visit, and the last visit is followed by no order."""
    events = [
        event("submitted", 0.0),
        event("kernel", 5.0),
        event("finished", 5.5),
        event("submitted", 6.0),
        event("boot", 10.0, seconds=2.0),
        event("sample", 10.1),
        event("finished", 10.2),
        event("submitted", 10.5),
        event("boot", 12.0, seconds=1.0),
        event("sample", 12.0),
        event("finished", 12.5),
    ]
    (visit,) = overhead.visits(events)
    assert visit.decision == pytest.approx(0.3)
    assert visit.visit == pytest.approx(4.2 - 2.0 - overhead._TRAFFIC)
    assert visit.total == pytest.approx(visit.visit + 0.3)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("python -c from buildbot_worker.scripts.runner ... start --nodaemon /x/lab ", "worker"),
        ("python -c from buildbot_worker.scripts.runner ... start --nodaemon /x/amd64 ", ""),
        ("python -m netbisect.workers.start --lab lab.toml trial ", "lab"),
        ("python -P -m netbisect.workers.preloaded /x/lab/netbisect-lab.socket 7 ", "lab"),
        ("/bin/sh -c read -r status netbisect-lab 7 --lab lab.toml trial ", "lab"),
        ("ssh -T c2558 ", "ssh"),
        ("python -m netbisect.demo.lab simulator.toml ", ""),
    ],
)
def test_processes_are_known_by_their_command(command: str, kind: str) -> None:
    assert overhead._kind(command) == kind


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc/PID/smaps_rollup is Linux's"
)
def test_only_the_services_own_processes_are_weighed() -> None:
    mark = secrets.token_hex(8)
    program = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, "netbisect.workers.cli", "trial", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    mine = {**os.environ, overhead._MARK: mark}
    with (
        subprocess.Popen(command, env=mine, **pipes) as one,  # type: ignore[call-overload]
        subprocess.Popen(command, **pipes) as other,  # type: ignore[call-overload]
    ):
        one.stdout.readline()
        other.stdout.readline()
        scale = overhead.Scale(mark)
        scale.look()
        assert scale.most.total == 0
        scale.look()  # what is there for a moment alone is no process of its own
        one.stdin.close()
        other.stdin.close()
    assert scale.most.visits == 1
    assert 1 < scale.most.lab < 50
    assert (scale.most.worker, scale.most.ssh) == (0, 0)


def test_a_worker_does_as_much_at_a_time_as_it_has_hosts(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    """Each testbed has its lock, and a build host builds one kernel at a time all the same."""
    one = running_lab.lab.testbed("c2558")
    beds = tuple(replace(one, name=bed.name, worker="lab") for bed in copies(TESTBEDS["c2558"], 8))
    lab = replace(running_lab.lab, testbeds=beds)
    (tmp_path / "netbisect.toml").write_text(
        'branches = ["main"]\n[mail]\nto = ["a@lab.invalid"]\nsender = "b@lab.invalid"\n'
    )
    (tmp_path / "workers.password").write_text("secret\n")
    (tmp_path / "workers.password").chmod(0o600)
    settings = load_settings(tmp_path / "netbisect.toml")
    found = {one.name: one.max_builds for one in wiring.workers(settings, lab)}
    assert found == {"amd64": 1, "lab": 8}
    configs = {one.name: one for one in wiring.builders(settings, lab)}
    (lock,) = configs["kernel-amd64"].locks
    assert (lock.lockid.name, lock.lockid.maxCount) == ("kernel", 1)
