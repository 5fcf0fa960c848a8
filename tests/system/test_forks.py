"""Commands that start processes beside NumPy, with OpenBLAS's own choice of threads and with four.

A fork beside a thread that computes with OpenBLAS can wait for ever. These commands compute and
start processes in one thread, so that no fork meets a calculation.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from localbisect_fixtures import NETBISECT, Repository

from benchmarks.site.ledger import Plan, fill

LIMIT = 300
"""Seconds after which a command that hangs fails the test; it takes less than ten."""
THREADS = [{}, {"OPENBLAS_NUM_THREADS": "4"}]


def environment(threads: dict[str, str]) -> dict[str, str]:
    return {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **threads}


@pytest.mark.slow
@pytest.mark.parametrize("threads", THREADS, ids=["default", "four"])
def test_a_search_by_hand_ends(slower: Repository, threads: dict[str, str]) -> None:
    """It computes before each of its runs, and each run is a process."""
    own = {"JOURNAL": str(slower.journal), "TMPDIR": str(slower.place.parent)}
    done = subprocess.run(
        [NETBISECT, *slower.arguments(())],
        cwd=slower.place,
        env={**environment(threads), **own},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    culprit = slower.revisions[17][:12]
    assert f"Commit {culprit} Change 17 made the number fall" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("threads", THREADS, ids=["default", "four"])
def test_a_site_is_written_by_several_processes(tmp_path: Path, threads: dict[str, str]) -> None:
    database = f"sqlite:///{tmp_path / 'netbisect.sqlite'}"
    fill(database, Plan(testbeds=2, scenarios=3, nights=30, boots=3, drops=3))
    done = subprocess.run(
        [NETBISECT, "site", str(tmp_path / "site"), "--database", database],
        env=environment(threads),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
