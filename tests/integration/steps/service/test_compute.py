"""The compute process."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import runs
from waiting import wait_until

from netbisect.bisect.detection import histories
from netbisect.bisect.model.entities import Level
from netbisect.steps.service import numeric
from netbisect.steps.service.compute import ComputeError, ComputeProcess, RemoteModule

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def process() -> Iterator[ComputeProcess]:
    process = ComputeProcess()
    yield process
    process.close()


def test_results_and_exceptions_of_the_child_reach_the_caller(process: ComputeProcess) -> None:
    levels = [Level(f"{i:040}", "", float(i), (13.0, 13.01, 12.99)) for i in range(10)]
    found = process.call("netbisect.bisect.detection.histories", "estimate_noise", levels)
    assert found == histories.estimate_noise(levels)
    with pytest.raises(ValueError, match="at least 2 boots on each side"):
        process.call("netbisect.bisect.stats.effect", "difference", [13.0], [13.0], "pf")


def test_calls_without_a_child_reject_what_a_child_rejects() -> None:
    """Arguments and results are copies, and values that cannot be pickled are errors."""
    given = [1]
    copied = RemoteModule("operator").iadd(given, [2])
    assert (given, copied) == ([1], [1, 2])
    with pytest.raises(TypeError, match="cannot pickle"):
        RemoteModule("threading").Lock()
    with pytest.raises(TypeError, match="cannot pickle"):
        RemoteModule("builtins").repr(one for one in given)


def test_a_dead_process_is_replaced_once(process: ComputeProcess) -> None:
    first = process.call("os", "getpid")
    os.kill(first, signal.SIGKILL)
    assert process.call("os", "getpid") not in (first, os.getpid())

    with pytest.raises(ComputeError, match="died twice"):
        process.call("os", "_exit", 1)
    assert process.call("os", "getpid") != os.getpid()


def test_calls_that_wait_for_a_killed_process_are_repeated(process: ComputeProcess) -> None:
    stopped = process.call("os", "getpid")
    os.kill(stopped, signal.SIGSTOP)
    pool = process._pool
    assert pool is not None
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(process.call, "os", "getpid") for _ in range(4)]
        wait_until(lambda: len(pool._pending_work_items) == len(calls))
        process.kill()
        [found] = {one.result() for one in calls}
    assert found not in (stopped, os.getpid())


def test_a_stopped_process_is_killed_at_the_limit_and_replaced() -> None:
    process = ComputeProcess(limit=60.0)
    stopped = process.call("os", "getpid")
    process.limit = 0.5
    os.kill(stopped, signal.SIGSTOP)

    with pytest.raises(ComputeError, match=r"os\.getpid did not end within 0\.5 s"):
        process.call("os", "getpid")

    process.limit = 60.0
    assert process.call("os", "getpid") != stopped
    process.close()
    with pytest.raises(ComputeError, match="stopping"):
        process.call("os", "getpid")


def test_matplotlib_needs_no_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a service may have none, as with /nonexistent in passwd(5)."""
    monkeypatch.setenv("HOME", "/proc/none")
    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    process = ComputeProcess(cache=tmp_path / "state" / "matplotlib")
    assert process.call("matplotlib", "get_cachedir") == str(process.cache)
    process.close()


def test_the_process_ends_with_its_parent() -> None:
    code = (
        "from netbisect.steps.service.compute import use_compute_process\n"
        "print(use_compute_process().call('os', 'getpid'), flush=True)\n"
        "input()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    wait_until(lambda: not runs(child))


def test_proxies_match_their_typed_imports() -> None:
    tree = ast.parse(Path(numeric.__file__).read_text())
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    checked = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    proxies = {name: one for name, one in vars(numeric).items() if isinstance(one, RemoteModule)}

    assert {name: proxy._module for name, proxy in proxies.items()} == checked
