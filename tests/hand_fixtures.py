"""Small repositories whose tree has a noisy benchmark in it, and the real command to search them.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from netbisect.steps import cli

NETBISECT = str(Path(sys.executable).with_name("netbisect"))

BENCH = """#!/bin/sh
# Prints the tree's level, with noise as SPREAD says; the luck of a run is its number.
echo "$NETBISECT_REVISION $(cat level)" >> "$JOURNAL"
mkdir -p "$JOURNAL.runs"; n=1
until mkdir "$JOURNAL.runs/$n" 2>/dev/null; do n=$((n + 1)); done
if [ "$n" -eq "${HOLD:-0}" ]; then echo $$ > "$JOURNAL.held"; exec sleep 60; fi
if [ -e broken ]; then echo "it does not run" >&2; exit "$(cat broken)"; fi
awk -v n="$n" -v spread="${SPREAD:-0.005}" -v level="$(cat level)" 'BEGIN {
    srand(n * 7919 + 13); for (i = 0; i < 12; i++) luck += rand() - 0.5
    printf "warmed up for 3 s\\nresult: %.2f per second\\n", level * (1 + spread * luck)
}'
"""


class Done(NamedTuple):
    """What a call ended with."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Repository:
    """A repository on disk, with what its benchmark wrote down."""

    place: Path
    revisions: list[str]
    """Oldest first."""

    @property
    def log(self) -> Path:
        return self.place / ".git" / "netbisect" / "bisect.log"

    @property
    def journal(self) -> Path:
        return self.place.parent / "journal"

    @property
    def temporary(self) -> Path:
        return self.place.parent / "temporary"

    def runs(self) -> list[str]:
        """Revisions in the order in which the benchmark ran on them."""
        if not self.journal.exists():
            return []
        return [line.split()[0] for line in self.journal.read_text().splitlines()]

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.place, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def everything(self, **more: str) -> dict[str, str]:
        self.temporary.mkdir(exist_ok=True)
        own = {"JOURNAL": str(self.journal), "TMPDIR": str(self.temporary)}
        return {**os.environ, **own, **more}

    def arguments(self, options: Sequence[str]) -> list[str]:
        """Of a search from the first to the last commit, unless the options say otherwise."""
        ends = [] if "--good" in options else ["--good", self.revisions[0], "--bad", "main"]
        command = [] if "--" in options else ["--", "./bench.sh"]
        return ["bisect", "run", *ends, *options, *command]

    def search(self, *options: str, **environment: str) -> Done:
        """`netbisect bisect run` in this process, which saves the second that its start takes."""
        before, tempfile.tempdir = tempfile.tempdir, None
        try:
            with contextlib.chdir(self.place):
                done = CliRunner().invoke(
                    cli.main, self.arguments(options), env=self.everything(**environment)
                )
        finally:
            tempfile.tempdir = before
        assert "Traceback" not in done.output
        return Done(done.exit_code, done.stdout, done.stderr)

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        """The same as a user calls it."""
        return subprocess.Popen(
            [NETBISECT, *self.arguments(options)],
            cwd=self.place,
            env=self.everything(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *options: str, **environment: str) -> Done:
        """The same, to its end."""
        process = self.start(*options, **environment)
        said = process.communicate()
        return Done(process.returncode, *said)

    def facts(self, noun: str) -> list[dict[str, object]]:
        """What the log holds of one noun."""
        entries = (json.loads(line) for line in self.log.read_text().splitlines())
        return [entry for entry in entries if entry["is"] == noun]

    def untouched(self) -> bool:
        """Whether nothing but the log is left of a search."""
        return (
            self.git("status", "--porcelain") == ""
            and self.git("symbolic-ref", "HEAD") == "refs/heads/main"
            and len(self.git("worktree", "list").splitlines()) == 1
            and list(self.temporary.iterdir()) == []
            and sorted(path.name for path in self.log.parent.iterdir()) in ([], ["bisect.log"])
        )


Files = dict[str, str | None]
"""By name; None takes one away."""
MakeRepository = Callable[[Sequence[Files]], Repository]


def _import(commits: Sequence[Files]) -> bytes:
    """The commits as `git fast-import` reads them; each says what changes in the one before."""
    stream = []
    for number, files in enumerate(commits):
        subject = f"Change {number}"
        stream.append(
            f"commit refs/heads/main\nmark :{number + 1}\n"
            f"committer Ann Author <ann@netbisect.invalid> {1700000000 + 3600 * number} +0000\n"
            f"data {len(subject)}\n{subject}\n"
        )
        for name, content in files.items():
            if content is None:
                stream.append(f"D {name}\n")
                continue
            mode = 755 if name.endswith(".sh") else 644
            stream.append(f"M 100{mode} inline {name}\ndata {len(content)}\n{content}\n")
    return "".join(stream).encode()


@pytest.fixture
def make_repository(tmp_path: Path) -> MakeRepository:
    """Makes a repository of commits, the first of which has the benchmark too."""

    def make(commits: Sequence[Files]) -> Repository:
        place = tmp_path / "repository"
        subprocess.run(["git", "init", "-q", "-b", "main", place], check=True)
        first: Files = {"bench.sh": BENCH, "level": "1000\n", **commits[0]}
        subprocess.run(
            ["git", "fast-import", "--quiet"],
            cwd=place,
            input=_import([first, *commits[1:]]),
            check=True,
        )
        repository = Repository(place, [])
        repository.git("reset", "-q", "--hard")
        repository.revisions = repository.git("rev-list", "--reverse", "main").splitlines()
        return repository

    return make


def numbered(count: int, changes: dict[int, Files] | None = None) -> list[Files]:
    """Commits that differ in a file that does not matter, and in what `changes` says."""
    return [{"file": f"{n}\n", **(changes or {}).get(n, {})} for n in range(count)]


@pytest.fixture
def slower(make_repository: MakeRepository) -> Repository:
    """Sixty commits, the 37th of which costs 5 %."""
    return make_repository(numbered(61, {37: {"level": "950\n"}}))
