"""Two processes with one ledger on PostgreSQL submit each trial once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from netbisect.bisect.model.jobs import NightlyJob
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("postgresql"),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True),
]
NIGHTS, BOOTS = 4, 4

_MASTER = """
import sys
from netbisect.store.db.database import StoreError, open_database
from netbisect.store.ledger import Ledger
from netbisect.store.db.records import ActionStage, Outcome
url, name = sys.argv[1:]
ledger = Ledger(open_database(url))
given = 0
jobs = ledger.jobs.all_open()
while any(len(ledger.actions.of_job(job.id)) < job.job.boots for job in jobs):
    for job in jobs:
        for trial in ledger.actions.all_open(job.id):
            ledger.actions.finish(trial.id, Outcome.OK)
        if len(ledger.actions.of_job(job.id)) >= job.job.boots:
            continue
        try:
            trial = ledger.actions.intend(job.id, ActionStage.TRIAL, "b", job.job.testbed,
                                  config="G", arch="amd64", why=name)
        except StoreError:
            continue  # the other process was first
        given += 1
        if ledger.actions.submitted(trial.id, hash((name, given)) % 10**6).why == name:
            print(trial.id, flush=True)
"""


def test_two_processes_never_submit_a_trial_twice(url: str) -> None:
    ledger = Ledger(open_database(url))
    for number in range(NIGHTS):
        night = NightlyJob("main", f"testbed{number}", "b", ("inet4-forwarding",), BOOTS)
        ledger.jobs.add(night, key=f"night {number}")
    commands = [[sys.executable, "-c", _MASTER, url, name] for name in ("one", "two")]
    running = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in commands]
    printed = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    ordered = [int(trial) for lines in printed for trial in lines.split()]

    assert Counter(ordered) == Counter(set(ordered))
    for job in ledger.jobs.all_open():
        trials = ledger.actions.of_job(job.id)
        assert [trial.seq for trial in trials] == list(range(1, len(trials) + 1))
        assert BOOTS <= len(trials) <= BOOTS + 1  # both processes may have added the last trial
        assert len([trial for trial in trials if trial.outcome is None]) <= 1
    ledger.engine.dispose()
