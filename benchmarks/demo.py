"""Times the demonstration, on an idle machine or beside busy loops.

    python -m benchmarks.demo runs --runs 10
    python -m benchmarks.demo runs --runs 5 --busy 4
    python -m benchmarks.demo nights --nights 24

`runs` starts `python -m netbisect.demo play` with only HOME and PATH in the environment and reports
the duration and correctness of each run. `nights` keeps one service running and lands some commits
before each night.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.steps.service import control
from netbisect.steps.service.database_thread import open_service_ledger
from netbisect.steps.service.settings import load

LIMIT = 900.0
"""Timeout of a run in seconds."""


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Runs busy loops within the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def play_once(folder: Path) -> tuple[float, bool]:
    """Seconds of a demonstration, and its correctness."""
    command = [sys.executable, "-m", "netbisect.demo", "play", "--place", str(folder / "demo")]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env={name: os.environ[name] for name in ("HOME", "PATH")},
            stdout=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return LIMIT, False
    return time.monotonic() - begun, done.returncode == 0


@click.group()
def main() -> None:
    """Time the demonstration."""


@main.command(epilog="Example: python -m benchmarks.demo runs --runs 5 --busy 4")
@click.option("--runs", default=10, show_default=True, help="Number of demonstrations.")
@click.option("--busy", default=0, show_default=True, help="Busy loops beside them.")
def runs(runs: int, busy: int) -> None:
    """Time whole demonstrations."""
    took, right = [], 0
    with busy_loops(busy):
        for number in range(1, runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                seconds, good = play_once(Path(folder))
            took.append(round(seconds, 1))
            right += good
            click.echo(f"run {number}: {seconds:.1f} s, {'right' if good else 'WRONG'}")
    found = {
        "right": right,
        "seconds": took,
        "median_seconds": statistics.median(took),
    }
    click.echo(json.dumps(found))
    sys.exit(right != runs)


@main.command(epilog="Example: python -m benchmarks.demo nights --nights 24")
@click.option("--nights", default=24, show_default=True, help="Nights of one service.")
def nights(nights: int) -> None:
    """Measure nights of one service, with new commits before each."""
    if {*os.environ} - {"HOME", "PATH", "PWD", "LC_CTYPE"}:
        clean = {name: os.environ[name] for name in ("HOME", "PATH")}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], clean)  # noqa: S606 - itself
    with tempfile.TemporaryDirectory() as folder:
        house = DemoService(Path(folder) / "demo")
        try:
            right = _nights(house, nights)
        finally:
            house.stop()
    sys.exit(not right)


def _nights(house: DemoService, count: int) -> bool:
    tree = house.build()
    house.start()
    settings, lab = load(house.place / control.SETTINGS)
    play = DemoRun(house, tree, settings, lab, open_service_ledger(settings))
    commits = len(tree.revisions)
    for night in range(1, count + 1):
        begun = time.monotonic()
        tree.land(max(1, commits * night // count))
        play.night()
        master = Path(f"/proc/{control.master_pid(house.place)}/status")
        memory = ""
        if master.exists():
            memory = next(line for line in master.read_text().splitlines() if "VmRSS" in line)
        click.echo(f"night {night}: {time.monotonic() - begun:.1f} s {' '.join(memory.split())}")
    return play.verdict()


if __name__ == "__main__":
    main()
