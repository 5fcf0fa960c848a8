"""Times the demonstration, on an idle machine or beside busy loops.

    python -m benchmarks.demo --runs 10
    python -m benchmarks.demo --runs 5 --busy 4

Starts `python -m netbisect.demo play` with only HOME and PATH in the environment and reports the
duration and correctness of each run.
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


@click.command(epilog="Example: python -m benchmarks.demo --runs 5 --busy 4")
@click.option("--runs", default=10, show_default=True, help="Number of demonstrations.")
@click.option("--busy", default=0, show_default=True, help="Busy loops beside them.")
def main(runs: int, busy: int) -> None:
    """Time whole demonstrations."""
    took, right = [], 0
    with busy_loops(busy):
        for number in range(1, runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                seconds, good = play_once(Path(folder))
            took.append(round(seconds, 1))
            right += good
            click.echo(f"run {number}: {seconds:.1f} s, {'right' if good else 'WRONG'}")
    found = {"right": right, "seconds": took, "median_seconds": statistics.median(took)}
    click.echo(json.dumps(found))
    sys.exit(right != runs)


if __name__ == "__main__":
    main()
