"""`netbisect bisect run` on real repositories, with real commands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hand_fixtures import Done, Files, MakeRepository, Repository, numbered

from netbisect.bisect.model import Commit
from netbisect.steps import cli
from netbisect.steps.hand import candidates
from netbisect.steps.hand import cli as hand
from netbisect.steps.hand.command import CommandError, number_in

CULPRIT = 37


def begun(repository: Repository, hold: int) -> subprocess.Popen[str]:
    """A search whose benchmark holds still at one of its runs."""
    process = repository.start(HOLD=str(hold))
    held = Path(f"{repository.journal}.held")
    while not (held.exists() and held.read_text().strip()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def orphan(repository: Repository) -> int:
    return int(Path(f"{repository.journal}.held").read_text())


# -------------------------------------------------------------------------------- what is found


def test_the_culprit_is_found_and_told(slower: Repository) -> None:
    """Commit, author, effect, certainty, proof, cost and path; the checkout is not touched."""
    done = slower.command()
    culprit = slower.revisions[CULPRIT]

    assert done.returncode == 0, done.stderr
    assert f"Commit {culprit[:12]} Change 37 made the number fall: -" in done.stdout
    assert "Ann Author <ann@netbisect.invalid>" in done.stdout
    assert "2023-11-16 11:13 UTC" in done.stdout
    assert "Difference at 95.0% confidence" in done.stdout
    assert f"{slower.revisions[0][:12]} Change 0 " in done.stdout
    assert "First the two ends, in turns." in done.stderr
    assert "splits what is left in two halves" in done.stderr
    assert "boot" not in done.stdout + done.stderr
    assert "kernel" not in done.stdout + done.stderr
    assert slower.untouched()

    ran = len(slower.runs())
    again = slower.search("--json")
    found = json.loads(again.stdout)

    assert again.returncode == 0
    assert len(slower.runs()) == ran == found["cost"]["runs"]
    assert (found["result"], found["culprit"]) == ("culprit", culprit)
    assert found["parent"] == slower.revisions[CULPRIT - 1]
    assert -6 < found["effects"][0]["percent"] < -4
    assert found["certainty"] >= 0.99


def test_lower_can_be_better_and_a_metric_be_named(make_repository: MakeRepository) -> None:
    """Times are searched as well as rates, and the effect is told as the number shows it."""
    repository = make_repository(numbered(50, {20: {"level": "1060\n"}}))
    done = repository.search("--direction", "lower", "--metric", r"result: (\S+)", "--json")
    found = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert found["culprit"] == repository.revisions[20]
    assert 5 < found["effects"][0]["percent"] < 7
    assert "made the number rise" in found["sentence"]


def test_nothing_changed_is_an_answer(make_repository: MakeRepository) -> None:
    """The ends do not differ, so nothing between them is run."""
    repository = make_repository(numbered(50))
    done = repository.search()

    assert done.returncode == 1
    assert done.stdout.startswith("Nothing changed between the two ends")
    assert set(repository.runs()) == {repository.revisions[0], repository.revisions[-1]}
    assert repository.untouched()


def test_noise_that_hides_the_ends(make_repository: MakeRepository) -> None:
    """Not to know is another answer than that nothing changed."""
    repository = make_repository(numbered(50, {20: {"level": "990\n"}}))
    done = repository.search(SPREAD="0.08")

    assert done.returncode == 3
    assert done.stdout.startswith("The two ends scatter too much to be told apart")


def test_ends_that_are_the_wrong_way_round(make_repository: MakeRepository) -> None:
    """What was called bad is better: said so, with how much."""
    repository = make_repository(numbered(50, {20: {"level": "1050\n"}}))
    done = repository.search()

    assert done.returncode == 2
    assert "The bad end is better than the good one, +" in done.stdout
    assert "the wrong way round" in done.stdout


def test_a_range_of_one_commit_is_verified(slower: Repository) -> None:
    """Fresh runs of both prove it, beyond those that showed the difference."""
    good, bad = slower.revisions[CULPRIT - 1 : CULPRIT + 1]
    done = slower.search("--good", good, "--bad", bad)

    assert done.returncode == 0, done.stderr
    assert f"Commit {bad[:12]}" in done.stdout
    assert slower.runs().count(good) >= 6


def test_what_cannot_be_tested_is_gone_round(make_repository: MakeRepository) -> None:
    """By exit status 125 at once, by another one when it comes twice, by a set-up that fails."""
    ways: list[Files] = [
        {"unbuildable": None, "broken": "125\n"},
        {"broken": "3\n"},
        {"broken": None, "unbuildable": ""},
    ]
    changes = {number: ways[number % 3] for number in range(6, 36)}
    changes |= {36: {"unbuildable": None, "broken": None}, CULPRIT: {"level": "950\n"}}
    repository = make_repository(numbered(61, changes))
    done = repository.search("--setup", "test ! -e unbuildable", "--json")
    found = json.loads(done.stdout)
    ran = repository.runs()
    seen = set()
    for revision, why in found["skipped"].items():
        number = repository.revisions.index(revision)
        tries = ran.count(revision)
        seen.add((why, tries))
        assert 6 <= number < 36

    assert found["culprit"] == repository.revisions[CULPRIT], done.stderr
    assert seen == {
        ("the command asked to skip it, by exit status 125", 1),
        ("the command ended with exit status 3: it does not run", 2),
        ("--setup ended with exit status 1", 0),
    }


def test_equal_trees_are_one(make_repository: MakeRepository) -> None:
    """What is undone between two of them is not searched, and none is run under two names."""
    changes: dict[int, Files] = {
        n: {"file": "same\n", "level": "800\n" if n == 15 else "1000\n"} for n in range(10, 30)
    }
    changes[CULPRIT] = {"level": "950\n"}
    repository = make_repository(numbered(61, changes))
    done = repository.search()
    trees = {one: repository.git("rev-parse", f"{one}^{{tree}}") for one in repository.runs()}

    assert f"Commit {repository.revisions[CULPRIT][:12]}" in done.stdout
    assert "60 commits after" in done.stderr
    assert "19 of them without a tree of their own" in done.stderr
    assert len(set(trees.values())) == len(trees)
    assert len(repository.facts("bisection")[0]["candidates"]) == 41  # type: ignore[arg-type]


def test_ends_of_one_tree_need_no_run(make_repository: MakeRepository) -> None:
    """All that changed was undone."""
    repository = make_repository([{}, {"level": "900\n"}, {"level": "1000\n"}])
    done = repository.search()

    assert done.returncode == 1
    assert "good and bad have the same tree" in done.stdout
    assert repository.runs() == []


# ------------------------------------------------------------------------------ interruptions


def test_a_kill_loses_one_run_at_most(slower: Repository) -> None:
    """The log goes on where it was; what it holds is not measured again."""
    process = begun(slower, hold=11)
    process.kill()
    process.communicate()
    os.kill(orphan(slower), signal.SIGKILL)
    before = slower.log.read_bytes()
    explained = CliRunner().invoke(
        cli.main, ["bisect", "explain", "--json", "--log", str(slower.log)]
    )
    now = json.loads(explained.stdout)
    told = CliRunner().invoke(cli.main, ["bisect", "explain", "--log", str(slower.log)]).stdout
    # As if the power had failed in the middle of a line.
    slower.log.write_bytes(before + b'{"is":"samp')
    done = slower.search()

    assert done.returncode == 0, done.stderr
    assert now["runs"] == 10
    assert now["next"]["revision"] == slower.runs()[10] == slower.runs()[11]
    assert now["left"]["runs"] > 6
    assert f"Next: a run of {slower.runs()[10][:12]} Change " in told
    assert "Why: " in told
    assert "Left, about: " in told
    assert "Going on with 10 runs" in done.stderr
    assert slower.log.read_bytes().startswith(before)
    assert len(slower.runs()) == 1 + len(slower.facts("sample"))
    assert f"Commit {slower.revisions[CULPRIT][:12]}" in done.stdout
    assert slower.untouched()


def test_an_interruption_leaves_nothing_behind(slower: Repository) -> None:
    """Not the worktree, not what the command had started; a second search waits for its turn."""
    process = begun(slower, hold=3)
    other = slower.search()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()

    assert other.returncode == 2
    assert "a search with this log runs already" in other.stderr
    assert process.returncode == 130
    assert "Interrupted. The same call goes on" in said
    with pytest.raises(ProcessLookupError):
        os.kill(orphan(slower), 0)
    assert slower.untouched()


def test_the_budget_ends_a_search_without_a_name(slower: Repository) -> None:
    """The command that runs is ended, and what was measured is kept."""
    done = slower.search("--budget", "1s", HOLD="4")

    assert done.returncode == 3
    assert "the budget of 1 s is spent" in done.stdout
    assert len(slower.facts("sample")) == 3
    assert slower.untouched()


# ----------------------------------------------------------------------------------- bad input


def wrong(done: Done) -> str:
    """The one sentence of a call that cannot be answered."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    return done.stderr.rpartition("Error: ")[2].strip()


WRONG_ENDS = [
    (["--good", "main", "--bad", "main~9"], "they are the other way round"),
    (["--good", "main", "--bad", "HEAD"], "are the same commit"),
    (["--good", "v1.2", "--bad", "main"], "--good v1.2: no commit of that name"),
    (["--good", "main~9", "--bad", "--help"], "--bad --help: no commit of that name"),
    (["--good", "side", "--bad", "main"], "--good side is not an ancestor of --bad main"),
    (["--good", "side", "--bad", "merged"], "not on the line of first parents"),
]


@pytest.mark.parametrize(("ends", "sentence"), WRONG_ENDS)
def test_a_range_that_is_none(
    ends: list[str],
    sentence: str,
    slower: Repository,
) -> None:
    """Exit status 2 and a sentence; no log is begun."""
    slower.git("branch", "merged", "main~9")
    slower.git("checkout", "-q", "-b", "side", "main~20")
    slower.git("commit", "-q", "--allow-empty", "-m", "Beside")
    slower.git("checkout", "-q", "merged")
    slower.git("merge", "-q", "--no-ff", "side")
    slower.git("checkout", "-q", "main")
    said = wrong(slower.search(*ends, "--", "./bench.sh"))

    assert sentence in said
    assert not slower.log.exists()


WRONG_COMMANDS = [
    (["true"], "the command printed nothing"),
    (["sh", "-c", "echo 5 >&2"], "nothing on its standard output, only on standard error: '5'"),
    (["echo", "all well"], "the command printed no number; its last line was 'all well'"),
    (["echo", "nan"], "the command printed nan, a finite number above 0 expected"),
    (["echo", "-inf"], "the command printed -inf, a finite number above 0 expected"),
    (["echo", "1 0"], "the command printed 0, a finite number above 0 expected"),
    (["echo", "-3.5"], "the command printed -3.5, a finite number above 0 expected"),
    (["./absent.sh"], "./absent.sh: No such file or directory; it is looked for in a checkout"),
    (["level"], "the command cannot be run: level: No such file or directory"),
    (["./level"], "the command cannot be run: ./level: Permission denied"),
    (["sh", "-c", "echo oh >&2; exit 4"], "the command ended with exit status 4: oh"),
    (["sh", "-c", "kill -SEGV $$"], "the command was ended by SIGSEGV"),
    (["sh", "-c", "exit 125"], "asked to skip it, by exit status 125"),
    (["sleep", "60"], "the command was ended after 0.2 s, its --timeout"),
]


@pytest.mark.parametrize(("command", "sentence"), WRONG_COMMANDS, ids=lambda one: str(one)[:20])
def test_a_command_without_a_number(
    command: list[str],
    sentence: str,
    slower: Repository,
) -> None:
    """At an end of the range there is nothing to go round: said which end, and why."""
    said = wrong(slower.search("--timeout", "0.2s", "--", *command))

    assert said.startswith(f"the good end, {slower.revisions[0][:12]}, cannot be measured: ")
    assert sentence in said
    assert slower.untouched()
    assert slower.facts("visit")


def test_a_command_that_prints_without_end(slower: Repository) -> None:
    """It is ended before it fills the disk."""
    endless = "import os, time; os.ftruncate(1, 300 << 20); time.sleep(60)"
    said = wrong(slower.search("--", sys.executable, "-c", endless))

    assert "cannot be measured: the command printed more than 256 MB" in said
    assert slower.untouched()


def test_what_is_mended_goes_on(
    slower: Repository,
) -> None:
    """A command that failed at an end has decided nothing."""
    tool = slower.place.parent / "tool"
    call = ("--good", slower.revisions[CULPRIT - 1], "--bad", slower.revisions[CULPRIT])
    before = wrong(slower.search(*call, "--", str(tool)))
    tool.write_text("#!/bin/sh\nexec ./bench.sh\n")
    tool.chmod(0o755)

    assert f"{tool}: No such file" in before
    assert slower.search(*call, "--", str(tool)).returncode == 0


def test_the_log_of_another_search(
    slower: Repository,
) -> None:
    """Said what differs; the log stays, and --reset keeps it beside the new one."""
    slower.search("--", "true")
    before = slower.log.read_bytes()
    said = wrong(slower.search("--min-effect", "5", "--", "false"))

    assert "the command was 'true' and is 'false'" in said
    assert "--min-effect was 2.0 and is 5.0" in said
    assert slower.log.read_bytes() == before
    assert "exit status 1" in wrong(slower.search("--reset", "--", "false"))
    assert Path(f"{slower.log}.old").read_bytes() == before
    assert slower.facts("search")[0]["command"] == ["false"]


def test_a_file_that_is_no_log(slower: Repository, tmp_path: Path) -> None:
    """It is not written to."""
    path = tmp_path / "notes.txt"
    path.write_text("do not lose this\nor that")
    said = wrong(slower.search("--log", str(path), "--", "true"))

    assert f"{path}, line 1: not a line of JSON" in said
    assert path.read_text() == "do not lose this\nor that"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--worktree", "."], "a new or an empty folder expected"),
        (["--min-effect", "0"], "a number above 0 and below 100 expected"),
        (["--noise", "much"], "a number above 0 and below 100 expected"),
        (["--budget", "90"], "a time such as 90s, 20m, 1h30m or 2d expected"),
        (["--metric", "("], "no regular expression"),
        (["--direction", "down"], "'down' is not one of 'higher', 'lower'"),
    ],
)
def test_options_that_make_no_sense(
    options: list[str],
    sentence: str,
    slower: Repository,
) -> None:
    """Exit status 2, and what would be right."""
    assert sentence in wrong(slower.search(*options))
    assert slower.runs() == []


def test_outside_of_a_repository(tmp_path: Path) -> None:
    """Said where it was looked for."""
    place = tmp_path / "nowhere"
    place.mkdir()
    done = Repository(place, ["a", "b"]).search()

    assert f"{place} lies in no git repository" in wrong(done)


# ------------------------------------------------------------------------------- small parts


@pytest.mark.parametrize(
    ("text", "metric", "value"),
    [
        ("12\n", "", 12),
        ("5 runs: 1,234,567.5 per second (x86_64)\n", "", 1234567.5),
        ("mean 3.1e-3s\n", "", 0.0031),
        ("a 1\nb 2\nc 3\n", r"^b (\d)", 2),
        ("rate=7 rate=8 time=9", r"(?<=rate=)\d", 8),
        ("1.5 +- 0.1 v1.2.3", r"^\S+", 1.5),
        ("range 10-20", "", 20),
    ],
)
def test_the_number_is_found(text: str, metric: str, value: float) -> None:
    """The last one, whatever stands around it; or where the expression looks."""
    assert number_in(text, metric) == value


def test_no_number_is_made_up() -> None:
    """Letters with digits are names."""
    with pytest.raises(CommandError, match="printed no number"):
        number_in("ipv4 on x86_64", "")


def commit(name: str, lines: int = 0, paths: Sequence[str] = ()) -> Commit:
    return Commit(name, 0, "", "", "", "", 0.0, tuple(paths), lines)


def test_weights_favour_the_paths_that_matter() -> None:
    """And larger changes; they average 1 and leave nobody out."""
    commits = [commit("a", 10, ["src/x.c"]), commit("b", 10, ["doc/x.md"]), commit("c", 1000)]
    given = candidates.weights(commits, ["src/*"])
    by_size = candidates.weights(commits, [])

    assert given[0] > 10 * given[1] > 1
    assert sum(given) == pytest.approx(3)
    assert by_size[0] == by_size[1] < by_size[2] < 2 * by_size[0]


def test_trees_that_come_back() -> None:
    """Only the commits stay that can have made a lasting change."""
    commits = [commit(name) for name in "abcdef"]
    trees = dict(zip("gabcdef", "0123145", strict=True))

    assert [one.revision for one in candidates.same_trees("g", commits, trees)] == ["a", "e", "f"]


# ----------------------------------------------------------------------------- what it needs

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["netbisect", *sys.argv[1:]]
from netbisect.steps.cli import main
main()
"""


def test_it_needs_no_service(slower: Repository) -> None:
    """Without Buildbot and a database it searches; what needs them says what to install."""
    names = {"buildbot", "twisted", "sqlalchemy", "alembic", "matplotlib", "jinja2"}
    python = [sys.executable, "-c", WITHOUT.format(names=names)]
    ends = ["--good", slower.revisions[CULPRIT - 1], "--bad", slower.revisions[CULPRIT]]
    calls = [["bisect", "run", *ends, "--", "./bench.sh"], ["detect"], ["--help"]]
    searched, detect, helped = (
        subprocess.run(
            [*python, *call],
            cwd=slower.place,
            env=slower.everything(),
            capture_output=True,
            text=True,
            check=False,
        )
        for call in calls
    )

    assert searched.returncode == 0, searched.stderr
    assert detect.returncode == 1
    assert "pip install 'netbisect[service]'" in detect.stderr
    assert helped.returncode == 0
    assert "Search any repository with any command" in helped.stdout


def test_the_list_of_commands_is_theirs() -> None:
    """What is said of a command before it is imported is what it says itself."""
    context = click.Context(cli.main)
    listed = CliRunner().invoke(cli.main, ["--help"], terminal_width=200).output
    for name in cli.main.list_commands(context):
        command = cli.main.get_command(context, name)

        assert command is not None
        assert f"{name} " in listed
        assert command.get_short_help_str(150) in listed


def test_every_option_is_documented() -> None:
    """docs/bisect-run.md leaves none out, and names none that is not there."""
    page = (Path(__file__).parents[1] / "docs" / "bisect-run.md").read_text()
    run = hand.bisect.commands["run"]
    options = {name for option in run.params for name in option.opts if name.startswith("--")}
    others = {"--seconds", "--shuffle-sections"}  # of an example's command, and of the linker

    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*(?![-\w])", page)) - others == options
