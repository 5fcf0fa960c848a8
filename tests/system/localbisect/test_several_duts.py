"""`netbisect bisect run --duts N`: several devices with different levels."""

from __future__ import annotations

import json
import signal

import pytest
from localbisect_fixtures import MakeRepository, Repository, numbered

SCRIPT = (
    """./bench.sh | awk -v dut="$NETBISECT_DUT" '/result/ { print $2 * (dut == 2 ? 0.95 : 1) }'"""
)
COMMAND = ("--duts", "2", "--", "sh", "-c", SCRIPT)
CULPRIT = 9


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(numbered(20, {CULPRIT: {"level": "960\n"}}))


def test_different_devices_are_not_a_change(make_repository: MakeRepository) -> None:
    """Only the ends are measured; the reason has the sign of the number."""
    repository = make_repository(numbered(20))
    done = repository.search("--direction", "lower", *COMMAND)

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("No relevant change between the two ends")
    assert "leave no room for a rise of 2 %" in " ".join(done.stdout.split())
    assert set(repository.runs()) == {repository.revisions[0], repository.revisions[-1]}
    assert repository.is_clean()


@pytest.mark.long
def test_a_killed_search_on_different_devices_finds_the_culprit(repository: Repository) -> None:
    """Device 2 is 5 % slower, and the change is 4 %; the search resumes after the kill."""
    repository.kill_hanging(9, *COMMAND)
    before = len(repository.facts("sample"))
    done = repository.search("--json", *COMMAND)
    found = json.loads(done.stdout)
    boots = {str(boot["testbed"]) for boot in repository.facts("boot")}

    assert before >= 6
    assert found["culprit"] == repository.revisions[CULPRIT]
    assert -5 < found["effects"][0]["percent"] < -3
    assert boots == set(found["duts"]) == {"1", "2"}
    assert repository.is_clean()
    # Not in the log: a run of each device at the kill, and one at the end of the search.
    assert len(repository.runs()) <= len(repository.facts("sample")) + 3
    repository.replay()


def test_interruption_removes_worktrees_and_processes(repository: Repository) -> None:
    process = repository.start_hanging(9, *COMMAND)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert process.returncode == 130, errors
    assert repository.is_clean()
    assert "DUT" in repository.explain()
