"""`netbisect bisect mark`: what a user says about commits, before and during a search."""

from __future__ import annotations

import contextlib
import json
import signal
import time

from click.testing import CliRunner, Result
from localbisect_fixtures import Repository

from netbisect.cli import main


def mark(repository: Repository, *arguments: str) -> Result:
    with contextlib.chdir(repository.place):
        return CliRunner().invoke(main.main, ["bisect", "mark", *arguments, "--who", "ann"])


def test_a_search_respects_marks_and_names_them(slower: Repository) -> None:
    """And its decisions can be repeated from the log."""
    middle = slower.revisions[len(slower.revisions) // 2]
    marking = mark(slower, middle, "skip", "--why", "it does not link")
    assert marking.output == f"{middle[:12]} is marked skip by ann: it does not link.\n"

    done = slower.search("--json")
    result = json.loads(done.stdout)

    assert middle not in result["measured"]
    assert result["result"] == "culprit"
    assert [(one["revision"], one["verdict"], one["who"]) for one in result["marks"]] == [
        (middle, "skip", "ann")
    ]
    assert "was marked skip by ann: it does not link." in done.stderr
    with contextlib.chdir(slower.place):
        again = CliRunner().invoke(main.main, ["bisect", "replay", str(slower.log)])
        explained = CliRunner().invoke(main.main, ["bisect", "explain"])
    assert again.exit_code == 0, again.output
    assert "was marked skip by ann" in explained.output


def test_a_running_search_reads_marks(slower: Repository) -> None:
    process = slower.start(HOLD="4")
    held = slower.journal.with_name("journal.held")
    while not held.exists():
        time.sleep(0.02)
    good = slower.revisions[1]
    mark(slower, good, "good", "--why", "measured by hand")
    process.send_signal(signal.SIGINT)
    process.communicate()

    done = slower.search()

    assert "was marked good by ann: measured by hand" in done.stdout
    assert done.returncode == 0


def test_a_mark_needs_a_commit_and_a_reason(slower: Repository) -> None:
    assert "no commit of that name" in mark(slower, "nowhere", "good", "--why", "x").output
    assert "Missing option '--why'" in mark(slower, "main", "good").output
