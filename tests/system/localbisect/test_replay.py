"""`netbisect bisect replay`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from localbisect_fixtures import Repository
from programs import netbisect

Entries = list[dict[str, Any]]


def replay(path: Path, *options: str) -> Result:
    return netbisect("bisect", "replay", path, *options)


@pytest.fixture
def log(slower: Repository, tmp_path: Path) -> Path:
    """The log of a finished search, without its repository."""
    done = slower.search()
    assert done.returncode == 0, done.stderr
    path = tmp_path / "copy.log"
    shutil.copy(slower.log, path)
    shutil.rmtree(slower.place)
    return path


def tampered(path: Path, change: Callable[[Entries], int]) -> tuple[Path, int]:
    """A modified copy of a log, and the line of its first difference."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    line = change(entries)
    copy = path.with_name("tampered.log")
    copy.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return copy, line


def places(entries: Entries, kind: str) -> list[int]:
    return [place for place, entry in enumerate(entries) if entry["is"] == kind]


def another_trial(entries: Entries) -> int:
    """The first trial of the search has another revision."""
    search = places(entries, "bisection")[0]
    trial = next(place for place in places(entries, "visit") if place > search)
    entries[trial]["revision"] = entries[search]["candidates"][2]["revision"]
    return trial + 1


def another_number(entries: Entries) -> int:
    """A run of an end is slightly faster."""
    entries[places(entries, "sample")[0]]["pps"] *= 1.0003
    return places(entries, "confirmed")[0] + 1


def another_end(entries: Entries) -> int:
    """The culprit is another commit."""
    end = places(entries, "culprit")[0]
    entries[end]["revision"] = entries[end]["parent"]
    return end + 1


def another_fact(entries: Entries) -> int:
    """A run has another revision than its trial."""
    kernels, boots = places(entries, "kernel"), places(entries, "boot")
    assert entries[kernels[0]]["revision"] == entries[boots[0]]["revision"]
    entries[boots[0]]["revision"] = entries[kernels[1]]["revision"]
    return boots[0] + 1


def another_run(entries: Entries) -> int:
    """A trial has an additional run."""
    sample = places(entries, "sample")[-1]
    entries.insert(sample + 1, {**entries[sample], "id": "another"})
    return sample + 2


@pytest.mark.long
def test_replay_repeats_all_decisions_and_finds_modifications(log: Path) -> None:
    done = replay(log)
    data = json.loads(replay(log, "--json").stdout)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    decided = [entry for entry in entries if entry["is"] in ("visit", "confirmed", "culprit")]
    record = [entry for entry in entries if entry["is"] in ("comparison", "bisection")]

    assert done.exit_code == 0, done.output
    assert f"All {len(decided) + len(record)} decisions are the same." in done.output
    assert "splits what is left in two halves" in done.output
    assert data["same"] is True
    assert len(data["lines"]) == len(decided) + len(record)

    log.write_bytes(log.read_bytes() + b'{"is":"vis')  # an incomplete line
    assert replay(log).exit_code == 0
    log.write_bytes(log.read_bytes().rpartition(b"\n")[0] + b"\n")

    path, line = tampered(log, another_trial)
    data = json.loads(replay(path, "--json").stdout)
    assert (data["same"], data["first_difference"]) == (False, line)
    for change in (another_trial, another_number, another_end, another_fact, another_run):
        path, line = tampered(log, change)
        done = replay(path)

        assert done.exit_code == 1
        assert f"The first difference is in {path}, line {line}:" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "`netbisect bisect run` starts a search"),
        ("", "is empty; expected the log of a search"),
        ("hello\n", "line 1: invalid JSON"),
        ("950\n", "line 1: expected a JSON object"),
        ('{"is":"search","format":9}\n', "line 1: unknown format, expected 1"),
        ('{"is":"search","format":1,"good":"a"}\n', "line 1: required field missing"),
        ('{"is":"nightdone","boots":3}\n', "line 1: expected one search, in the first line"),
    ],
)
def test_missing_and_invalid_logs_are_rejected(
    text: str | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.log"
    if text is not None:
        path.write_text(text)
    done = replay(path)

    assert done.exit_code == 2
    assert f"{path}" in done.stderr
    assert sentence in done.stderr
