"""How long it takes to find what the name of a revision means, in a tree as long as FreeBSD's.

    python -m benchmarks.naming --commits 300000 --json

The tree is made first: a main branch of that many commits, of which the first five sixths have
notes with numbers of Subversion, and a stable and a release branch for every twentieth of it, of
which each has a tag. The time of the clone is not told. Warm-up is the first name that is asked
for, which makes the index; then each kind of name is asked for so many times, in new processes of
git as always. `push` is the first name after 20 new commits, `rewrite` after the newest 1,000
commits of the main branch were replaced by others.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from netbisect.store.history import History
from netbisect.store.revision_file import place
from netbisect.store.revision_names import RevisionError
from netbisect.store.revisions import resolve

REFUSED = {"hash, 4 digits", "B..A, reversed", "unknown"}
"""Kinds whose names mean nothing, or mostly too much."""
_BEGIN, _APART = 738_000_000, 3_000
"""When the first commit was made, and seconds between two."""
_FIRST = 1_000
"""Number of the first commit in Subversion."""
_TEXT = b"\n\nWhat it changes is told in some lines of text, as most commits have it.\n" * 4


class Tree:
    """A repository that was made up."""

    def __init__(self, directory: Path, commits: int) -> None:
        self.directory = directory
        self.commits = commits
        self.noted = commits * 5 // 6
        self.every = commits // 20
        self.stables = [f"stable/{i}" for i in range(1, 20)]
        _git(directory.parent, "init", "--quiet", "--bare", "--initial-branch=main", str(directory))
        self.import_(self._made())
        self.line = _git(directory, "rev-list", "--first-parent", "--reverse", "main").split()

    def import_(self, stream: Iterator[bytes]) -> None:
        """Hands commits to git."""
        command = ["git", "-C", str(self.directory), "fast-import", "--quiet", "--force"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            for part in stream:
                process.stdin.write(part)
        assert process.returncode == 0

    def more(self, count: int, since: int, name: str) -> None:
        """Adds commits to the main branch as it was made, upon its commit of that number."""
        parent = self.line[since - 1].encode()
        self.import_(
            commit("main", since + i, f"{name} {i}", parent if i == 1 else b"")
            for i in range(1, count + 1)
        )

    def _made(self) -> Iterator[bytes]:
        for number in range(1, self.commits + 1):
            yield b"%s" % commit("main", number, f"change {number}", mark=number)
        mark = self.commits
        for i, name in enumerate(self.stables, 1):
            for number in range(self.every // 20):
                mark += 1
                parent = b":%d" % (i * self.every) if number == 0 else b""
                yield commit(name, i * self.every + number, f"MFC {number}", parent, mark)
            release = f"releng/{i}.0"
            yield commit(release, (i + 1) * self.every, "release", b":%d" % mark)
            yield b"tag release/%d.0.0\nfrom refs/heads/releng/%d.0\n" % (i, i)
            yield b"tagger R <r@example.org> 1700000000 +0000\ndata 0\n\n"
        yield b"commit refs/notes/commits\ncommitter C <c@example.org> 1700000000 +0000\ndata 0\n\n"
        for number in range(1, self.noted + 1):
            note = b"svn path=/head/; revision=%d\n" % (_FIRST + number)
            yield b"N inline :%d\ndata %d\n%s\n" % (number, len(note), note)


def commit(branch: str, number: int, subject: str, parent: bytes = b"", mark: int = 0) -> bytes:
    """A commit as `git fast-import` takes it; it changes one of 500 files."""
    message = subject.encode() + _TEXT
    return b"commit refs/heads/%s\n%scommitter C <c@example.org> %d +0000\ndata %d\n%s\n%s%s" % (
        branch.encode(),
        b"mark :%d\n" % mark if mark else b"",
        _BEGIN + _APART * number,
        len(message),
        message,
        b"from %s\n" % parent if parent else b"",
        b"M 644 inline sys/d%d/f%d\ndata 8\n%08d\n" % (number % 25, number % 20, number),
    )


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def kinds(tree: Tree, chance: random.Random) -> Mapping[str, Callable[[], str]]:
    """By kind of name: something that makes one up."""

    def number() -> int:
        return chance.randint(1, tree.noted)

    def revision() -> str:
        return chance.choice(tree.line)

    def stable() -> str:
        return chance.choice(tree.stables)

    def day(low: float = 0.0) -> str:
        at = _BEGIN + _APART * tree.commits * chance.uniform(low, 0.99)
        return time.strftime("%Y-%m-%d", time.gmtime(at))

    return {
        "r311849": lambda: f"r{_FIRST + number()}",
        "main@311849": lambda: f"main@{_FIRST + number()}",
        "hash": revision,
        "hash, 12 digits": lambda: revision()[:12],
        "hash, 4 digits": lambda: revision()[:4],
        "n302145": lambda: f"n{number()}",
        "main-n302145-0a1b2c3d": lambda: _label(tree, number()),
        "branch": stable,
        "tag": lambda: f"release/{chance.randint(1, 19)}.0.0",
        "main~1000": lambda: f"main~{chance.randint(1, tree.commits - 1)}",
        "2026-11-01": lambda: day(0.1),
        "stable/14@2026-11-01": lambda: f"{stable()}@{day(0.95)}",
        "A..B": lambda: f"n{chance.randint(1, number())}..main",
        "B..A, reversed": lambda: f"main..n{number()}",
        "unknown": lambda: f"{chance.getrandbits(160):040x}",
    }


def _label(tree: Tree, number: int) -> str:
    return f"main-n{number}-{tree.line[number - 1][:8]}"


def asked(history: History, name: str, *, refused: bool = False) -> float:
    """Seconds until it is known what a name means, or that it means nothing."""
    began = time.monotonic()
    try:
        resolve(history, name, default_branch="main")
    except RevisionError:
        if not refused:
            raise
    return time.monotonic() - began


@click.command()
@click.option("--commits", default=300_000, show_default=True, type=click.IntRange(2_000))
@click.option("--times", default=50, show_default=True, help="Each kind of name is asked for.")
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(commits: int, times: int, seed: int, *, as_json: bool) -> None:
    """Measures in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), commits, times, random.Random(seed))  # noqa: S311 - names
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print(
                f"{name:24} median {value['median_ms']:5.0f} ms, worst {value['worst_ms']:5.0f} ms"
            )
        else:
            print(f"{name:24} {value:,.1f}")


def measured(folder: Path, commits: int, times: int, chance: random.Random) -> dict[str, object]:
    """All figures: seconds, megabytes, and by kind of name milliseconds."""
    tree = Tree(folder / "tree", commits)
    history = History(folder / "tree.git", str(tree.directory))
    history.update()
    found: dict[str, object] = {"warm_up_s": asked(history, "main")}
    found["index_mb"] = place(history).stat().st_size / 1e6
    for kind, make in kinds(tree, chance).items():
        seconds = [asked(history, make(), refused=kind in REFUSED) for _ in range(times)]
        found[kind] = {
            "median_ms": 1000 * statistics.median(seconds),
            "worst_ms": 1000 * max(seconds),
        }
    tree.more(20, commits, "pushed")
    history.update()
    found["push_s"] = asked(history, "main")
    tree.more(1_000, commits - 1_000, "rewritten")
    history.update()
    found["rewrite_s"] = asked(history, "main")
    return found


if __name__ == "__main__":
    main()
