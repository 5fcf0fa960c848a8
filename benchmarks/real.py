"""Searches a real repository on this machine with `netbisect bisect run`.

    python -m benchmarks.real --trials 20 --busy 2 --seed 1

A repository has 128 commits of a C program that prints its rate. One commit makes it 4 to 10 %
slower, none in a quarter of the searches; 10 % do not compile. Needs cc.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from git import Actor, Repo

COMMITS = 128
LIMIT = 3600.0
"""Timeout of a search in seconds."""
PROGRAM = """#include <stdio.h>
#include <time.h>
{functions}
int main(void) {{
    struct timespec a, b;
    volatile unsigned s = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < {iterations}; i++) s = s * 1664525u + 1013904223u + i;
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%f\\n", 1e3 / (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec)));
}}
"""
STATUS = {0: "named", 1: "nothing changed", 3: "inconclusive"}


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


def make(folder: Path, rng: random.Random, drop: float) -> str:
    """Creates a repository; returns the hash of its culprit, empty without a drop."""
    repository = Repo.init(folder, initial_branch="main")
    place = rng.randrange(2, COMMITS) if drop else COMMITS + 1
    author, culprit = Actor("A", "a@example.org"), ""
    for number in range(COMMITS + 1):
        iterations = round(6e6 * (1 + drop * (number >= place)))
        functions = "\n".join(
            f"int f{i}(int x) {{ return x * {i + 3} + {(number * 7 + i) % 13}; }}"
            for i in range(number % 7 + 3)
        )
        fixed = number in (0, place - 1, place, COMMITS)
        if rng.random() < 0.1 and not fixed:
            functions += "\n#error broken"
        (folder / "rate.c").write_text(PROGRAM.format(functions=functions, iterations=iterations))
        repository.index.add(["rate.c"])
        commit = repository.index.commit(f"Change {number}", author=author, committer=author)
        if number == 0:
            repository.create_tag("good")
        culprit = commit.hexsha if number == place else culprit
    return culprit


def search(folder: Path) -> tuple[str, str]:
    """Runs one search; returns its result and its report."""
    command = [str(Path(sys.executable).with_name("netbisect")), "bisect", "run"]
    command += ["--good", "good", "--bad", "main", "--setup", "cc -O2 -o rate rate.c", "./rate"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return STATUS.get(done.returncode, "error"), done.stdout + done.stderr * (done.returncode == 2)


def play(seed: int, number: int) -> str:
    """Runs a search; returns `right`, `WRONG`, `inconclusive` or `error`."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311 - not cryptography
    drop = rng.uniform(0.04, 0.10) if number % 4 else 0.0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        culprit = make(Path(name), rng, drop)
        result, report = search(Path(name))
    if result == "named":
        found = "right" if culprit and culprit[:12] in report.partition("\n")[0] else "WRONG"
    elif result == "nothing changed":
        found = "WRONG" if culprit else "right"
    else:
        found = result
    line = next((one for one in report.splitlines() if one.strip()), "")
    click.echo(
        f"{number}: -{drop:.1%}, {result}: {found}; {time.monotonic() - begun:.0f} s; {line}"
    )
    return found


@click.command(help=__doc__)
@click.option("--trials", type=click.IntRange(1), default=20, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="Number of the first search.")
@click.option("--busy", type=click.IntRange(0), default=2, show_default=True, help="Busy loops.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def main(trials: int, first: int, busy: int, seed: int) -> None:
    """Runs the searches one after the other and counts their results."""
    with busy_loops(busy):
        found = Counter(play(seed, first + number) for number in range(trials))
    click.echo(", ".join(f"{count} {result}" for result, count in sorted(found.items())))
    sys.exit(bool(found["WRONG"] or found["error"]))


if __name__ == "__main__":
    main()
