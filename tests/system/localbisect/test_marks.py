"""`netbisect bisect mark`: marks of commits before and during a search."""

from __future__ import annotations

import json
import signal

from localbisect_fixtures import Done, Repository


def mark(repository: Repository, *arguments: str) -> Done:
    return repository.invoke("bisect", "mark", *arguments, "--who", "ann")


def test_a_search_respects_marks_and_names_them(slower: Repository) -> None:
    """Replay repeats the decisions of a search with marks."""
    middle = slower.revisions[len(slower.revisions) // 2]
    marking = mark(slower, middle, "skip", "--why", "it does not link")
    assert marking.stdout == f"{middle[:12]} is marked skip by ann: it does not link.\n"

    done = slower.search("--json")
    result = json.loads(done.stdout)

    assert middle not in result["measured"]
    assert result["result"] == "culprit"
    assert [(one["revision"], one["verdict"], one["who"]) for one in result["marks"]] == [
        (middle, "skip", "ann")
    ]
    assert "was marked skip by ann: it does not link." in done.stderr
    slower.replay()
    assert "was marked skip by ann" in slower.explain()


def test_a_running_search_reads_marks(slower: Repository) -> None:
    process = slower.start_hanging(4)
    good = slower.revisions[1]
    mark(slower, good, "good", "--why", "measured by hand")
    process.send_signal(signal.SIGINT)
    process.communicate()

    done = slower.search()

    assert "was marked good by ann: measured by hand" in done.stdout
    assert done.returncode == 0


def test_a_mark_needs_a_commit_and_a_reason(slower: Repository) -> None:
    assert "no commit of that name" in mark(slower, "unknown", "good", "--why", "x").stderr
    assert "Missing option '--why'" in mark(slower, "main", "good").stderr
    assert "--why is empty" in mark(slower, "main", "good", "--why", " ").stderr
