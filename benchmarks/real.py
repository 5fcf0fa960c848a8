"""Searches a real repository: a C program built and run on this machine beside busy loops.

    python -m benchmarks.real --searches 20 --without 5

Each search has a new repository of 128 commits. One makes the program 4 to 10 % slower, and 10 % do
not build. A run takes about a tenth of a second. Needs git and cc.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np

NETBISECT = str(Path(sys.executable).with_name("netbisect"))
COMMITS = 128
PROGRAM = """#include <stdio.h>
#include <time.h>
int main(void) {{
    struct timespec a, b;
    volatile unsigned long sum = {number};
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (unsigned long i = 0; i < {turns}UL; i++) sum += i * sum;
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%f\\n", 1 / (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9));
    return 0;
}}
"""
TURNS = 40_000_000


def repository(place: Path, culprit: int, drop: float, broken: set[int]) -> list[str]:
    """Writes a repository; returns its revisions, the good end first."""
    stream = []
    for number in range(COMMITS + 1):
        turns = round(TURNS / (1 - drop * (number >= culprit)))
        text = PROGRAM.format(number=number, turns=turns) + "#error broken\n" * (number in broken)
        stream.append(
            f"commit refs/heads/main\nmark :{number + 1}\ncommitter A <a@b> {number} +0000\n"
            f"data 1\nx\nM 644 inline prog.c\ndata {len(text)}\n{text}\n"
        )
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    git = ["git", "-C", str(place)]
    subprocess.run([*git, "fast-import", "--quiet"], input="".join(stream), text=True, check=True)
    listed = [*git, "rev-list", "--reverse", "main"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Busy loops that come and go."""
    code = (
        "import random,time\nwhile 1:\n e=time.time()+5*random.random()\n while time.time()<e:0\n"
    )
    code += " time.sleep(5*random.random())"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def search(random: np.random.Generator, *, changes: bool) -> tuple[str, float]:
    """Plays one search: how it ended, and its seconds."""
    culprit = int(random.integers(1, COMMITS + 1)) if changes else COMMITS + 1
    inner = np.setdiff1d(np.arange(1, COMMITS), [culprit, culprit - 1])
    broken = set(inner[random.random(len(inner)) < 0.1].tolist())
    with tempfile.TemporaryDirectory() as folder:
        revisions = repository(Path(folder), culprit, float(random.uniform(0.04, 0.1)), broken)
        options = ["--good", revisions[0], "--bad", "main", "--setup", "cc -O1 -o prog prog.c"]
        command = [NETBISECT, "bisect", "run", *options, "--json"]
        done = subprocess.run(
            [*command, "--", "./prog"], cwd=folder, capture_output=True, text=True, check=False
        )
    found = json.loads(done.stdout)
    named = [one["culprit"] for one in found.get("culprits", [])]
    seconds = float(found["cost"]["seconds"])
    if named:
        right = changes and named == [revisions[culprit]]
        return "right" if right else "wrong", seconds
    if found["status"] == 1:
        return "nothing changed" if changes else "right", seconds
    return "no answer", seconds


@click.command(help=__doc__)
@click.option("--searches", type=click.IntRange(0), default=4, show_default=True)
@click.option("--without", type=click.IntRange(0), default=1, help="Searches without a change.")
@click.option("--loops", type=click.IntRange(0), default=2, help="Busy loops.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def main(searches: int, without: int, loops: int, seed: int) -> None:
    """Plays all searches and prints how they ended."""
    endings: Counter[str] = Counter()
    for number in range(searches + without):
        with busy(loops):
            ending, seconds = search(
                np.random.default_rng((seed, number)), changes=number < searches
            )
        endings[ending] += 1
        click.echo(f"{number}: {ending}, {seconds:.0f} s", err=True)
    click.echo(", ".join(f"{count} {ending}" for ending, count in sorted(endings.items())))


if __name__ == "__main__":
    main()
