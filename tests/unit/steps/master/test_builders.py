"""Workers and builders of a lab."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab_fixtures import RunningLab
from service_fixtures import SETTINGS

from netbisect.demo.lab.testbeds import TESTBEDS, copies
from netbisect.steps.master import builders
from netbisect.steps.master.heartbeat import Heartbeat
from netbisect.steps.service import watchdog
from netbisect.steps.service.settings import load_settings


def test_worker_runs_one_build_per_host(running_lab: RunningLab, tmp_path: Path) -> None:
    """A build host has a lock for one kernel at a time."""
    one = running_lab.lab.testbed("c2558")
    testbeds = tuple(
        replace(one, name=bed.name, worker="lab") for bed in copies(TESTBEDS["c2558"], 8)
    )
    lab = replace(running_lab.lab, testbeds=testbeds)
    (tmp_path / "netbisect.toml").write_text(SETTINGS)
    (tmp_path / "workers.password").write_text("secret\n")
    (tmp_path / "workers.password").chmod(0o600)
    settings = load_settings(tmp_path / "netbisect.toml")
    found = {one.name: one.max_builds for one in builders.workers(settings, lab)}
    assert found == {"amd64": 1, "lab": 8}
    configs = {one.name: one for one in builders.builders(settings, lab)}
    (lock,) = configs["kernel-amd64"].locks
    assert (lock.lockid.name, lock.lockid.maxCount) == ("kernel", 1)

    # The heartbeat may see a trial whose limit Buildbot has not rendered yet.
    trial = next(one for one in configs["bench-c2558-1"].factory.steps if "trial" in one.args)
    build: Any = SimpleNamespace(currentStep=trial.buildStep(), builder=SimpleNamespace(name="b"))
    heartbeat, bench = Heartbeat(settings=settings), SimpleNamespace(building=[build])
    botmaster = SimpleNamespace(builders={"b": bench})
    heartbeat.parent = SimpleNamespace(master=SimpleNamespace(botmaster=botmaster))
    heartbeat._steps = {}
    heartbeat._watch_steps()
    assert watchdog.overdue(watchdog._waits, 0.0, 1.0) is None
    build.currentStep.maxTime = 60.0
    heartbeat._watch_steps()
    assert [one.seconds for one in heartbeat._steps.values()] == [60.0]
    bench.building.clear()
    heartbeat._watch_steps()
    assert not heartbeat._steps


def chosen(connected: str, free: str, avoided: str) -> str | None:
    """The chosen worker for a kernel; each letter names a worker."""
    workers = [SimpleNamespace(worker=SimpleNamespace(workername=name)) for name in connected]
    builder: Any = SimpleNamespace(workers=workers)
    candidates = [one for name in free for one in builder.workers if one.worker.workername == name]
    properties = SimpleNamespace(getProperty=lambda *_: list(avoided))
    found = builders.choose_worker(builder, candidates, SimpleNamespace(properties=properties))
    return found and found.worker.workername


@pytest.mark.parametrize(
    ("known", "free", "avoided", "expected"),
    [
        ("ab", "ab", "a", "b"),
        ("ab", "a", "a", None),
        ("a", "a", "a", "a"),
        ("ab", "ba", "", "b"),
        ("ab", "", "", None),
    ],
)
def test_kernel_avoids_workers_that_failed_to_build_it(
    known: str, free: str, avoided: str, expected: str | None
) -> None:
    """The kernel waits for a busy worker, and retries the only worker."""
    assert chosen(known, free, avoided) == expected
