"""`netbisect bisect run --duts N`: several commands at once, on machines that differ."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from click.testing import CliRunner
from hand_fixtures import Done, MakeRepository, Repository, numbered

from netbisect.steps import cli

SCRIPT = (
    """./bench.sh | awk -v dut="$NETBISECT_DUT" '/result/ { print $2 * (dut == 2 ? 0.95 : 1) }'"""
)
COMMAND = ("--duts", "2", "--", "sh", "-c", SCRIPT)
CULPRIT = 20


def replay(path: Path) -> Done:
    done = CliRunner().invoke(cli.main, ["bisect", "replay", str(path)])
    return Done(done.exit_code, done.stdout, done.stderr)


def slower(make_repository: MakeRepository) -> Repository:
    return make_repository(numbered(50, {CULPRIT: {"level": "960\n"}}))


def test_machines_that_differ_by_more_than_the_change_find_it_together(
    make_repository: MakeRepository,
) -> None:
    """Machine 2 is 5 % below the other, the change is one of 4 %; the log replays."""
    repository = slower(make_repository)
    done = repository.search("--json", *COMMAND)
    found = json.loads(done.stdout)
    boots = {str(boot["testbed"]) for boot in repository.facts("boot")}

    assert done.returncode == 0, done.stderr
    assert found["culprit"] == repository.revisions[CULPRIT]
    assert -5 < found["effects"][0]["percent"] < -3
    assert boots == {"1", "2"}
    assert set(found["duts"]) == {"1", "2"}
    assert repository.untouched()
    assert replay(repository.log).returncode == 0


def test_nothing_changed_though_the_machines_differ(make_repository: MakeRepository) -> None:
    """The distance of two machines is no change between two revisions."""
    repository = make_repository(numbered(50))
    done = repository.search(*COMMAND)

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("Nothing changed between the two ends")


def test_after_a_kill_what_was_under_way_is_taken_up_again(
    make_repository: MakeRepository,
) -> None:
    """Each machine goes on with its visit; no more than these runs are made again."""
    repository = slower(make_repository)
    process = repository.start(*COMMAND, HOLD="9")
    held = Path(f"{repository.journal}.held")
    while not (held.exists() and held.read_text().strip()):
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    os.kill(int(held.read_text()), signal.SIGKILL)
    before = len(repository.facts("sample"))
    done = repository.search("--json", *COMMAND)
    found = json.loads(done.stdout)

    assert before >= 6
    assert done.returncode == 0, done.stderr
    assert found["culprit"] == repository.revisions[CULPRIT]
    # One of each machine, and one that was under way when the answer was there without it.
    assert len(repository.runs()) <= found["cost"]["runs"] + 3
    assert replay(repository.log).returncode == 0


def test_an_interruption_leaves_nothing_behind(make_repository: MakeRepository) -> None:
    """Neither checkouts nor commands; explain tells what each machine was measuring."""
    repository = slower(make_repository)
    process = repository.start(*COMMAND, HOLD="9")
    held = Path(f"{repository.journal}.held")
    while not (held.exists() and held.read_text().strip()):
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert process.returncode == 130, errors
    assert repository.untouched()
    assert (
        "DUT"
        in CliRunner().invoke(cli.main, ["bisect", "explain", "--log", str(repository.log)]).stdout
    )
