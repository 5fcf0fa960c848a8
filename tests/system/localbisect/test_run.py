"""`netbisect bisect run` and `mark`: results and interruptions, on real repositories."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from localbisect_fixtures import Done, Files, MakeRepository, Repository, numbered
from programs import captured

from netbisect.localbisect import cli

CULPRIT = 17
SEARCH_ONLY = """
import sys

class MissingModules:
    names = {"buildbot", "twisted", "sqlalchemy", "alembic", "matplotlib", "jinja2"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, MissingModules())
sys.argv[0] = "netbisect"
from netbisect.cli.main import main
main()
"""
"""The command `netbisect` without the dependencies of the service."""


def mark(repository: Repository, *arguments: str) -> Done:
    return repository.invoke("bisect", "mark", *arguments, "--who", "ann")


def test_search_reports_culprit_with_author_effect_and_proof(slower: Repository) -> None:
    """The search needs no dependencies of the service."""
    command = [sys.executable, "-c", SEARCH_ONLY, *slower.arguments(())]
    done = captured(command, cwd=slower.place, env=slower.environment_with())
    culprit = slower.revisions[CULPRIT]

    assert done.returncode == 0, done.stderr
    assert f"Commit {culprit[:12]} Change 17 made the number fall: -" in done.stdout
    assert "Ann Author <ann@netbisect.invalid>" in done.stdout
    assert "2023-11-15 15:13 UTC" in done.stdout
    assert f"{slower.revisions[0][:12]} Change 0 " in done.stdout
    assert "Comparing the two ends first, interleaved." in done.stderr
    line = r"^Next \w{12}: splits what is left in two halves.*; best \w{12}, [\d.]+ %; \d+ runs, "
    assert re.search(line + r"[\w. ]+ so far; about [\w. ]+ left$", done.stderr, re.MULTILINE)
    assert "so far; about" not in done.stderr.partition("The ends differ.")[0]
    assert "interleaved; difference -5" in done.stderr
    assert not re.search("boot|kernel", done.stdout + done.stderr)
    assert slower.is_clean()

    ran = len(slower.runs())
    again = slower.search("--json")
    found = json.loads(again.stdout)

    assert len(slower.runs()) == ran == found["cost"]["runs"]
    assert (found["result"], found["culprit"]) == ("culprit", culprit)
    assert found["parent"] == slower.revisions[CULPRIT - 1]
    assert -6 < found["effects"][0]["percent"] < -4


def test_help_needs_no_service_dependencies(tmp_path: Path) -> None:
    detect, usage = (
        captured([sys.executable, "-c", SEARCH_ONLY, call], cwd=tmp_path)
        for call in ("detect", "--help")
    )

    assert (detect.returncode, usage.returncode) == (1, 0)
    assert "pip install 'netbisect[service]'" in detect.stderr
    assert "Bisect any git repository with any command" in usage.stdout


def test_direction_lower_finds_an_increase(make_repository: MakeRepository) -> None:
    repository = make_repository(numbered(50, {20: {"level": "1060\n"}}))
    swapped = repository.search()
    done = repository.search("--reset", "--direction", "lower", "--metric", r": (\S+)", "--json")
    found = json.loads(done.stdout)

    assert swapped.returncode == 2
    assert "The bad end is better than the good one, +" in swapped.stdout
    assert "use --direction lower and --reset." in " ".join(swapped.stdout.split())
    assert done.returncode == 0, done.stderr
    assert found["culprit"] == repository.revisions[20]
    assert 5 < found["effects"][0]["percent"] < 7
    assert "made the number rise" in found["sentence"]


def test_single_commit_is_verified_with_fresh_runs(slower: Repository) -> None:
    """Repositories cloned by a set-up are removed before the next one; submodules stay empty."""
    (slower.place / "part").mkdir()
    (slower.place / ".gitmodules").write_text('[submodule "part"]\npath = part\nurl = ../part')
    for revision, level in zip(slower.revisions, (1000, 950), strict=False):
        (slower.place / "level").write_text(f"{level}\n")
        slower.git("add", "level", ".gitmodules")
        slower.git("update-index", "--add", "--cacheinfo", f"160000,{revision},part")
        slower.git("commit", "-q", "-m", "Another revision of a submodule")
    slower.git("config", "submodule.part.active", "true")
    slower.git("config", "submodule.recurse", "true")
    good, bad = slower.git("rev-parse", "main~1", "main").split()
    merge = slower.git("commit-tree", "main^{tree}", "-p", good, "-p", bad, "-m", "Merge").strip()
    clone = "test ! -e dependency && git init -q dependency && touch dependency/file"
    done = slower.search("--good", good, "--bad", merge, "--setup", clone, "--", "./bench.sh")
    hint = f"It is a merge; to search its branch, use --good {good[:12]} --bad {bad[:12]} --reset."

    assert done.returncode == 0, done.stderr
    assert hint in " ".join(done.stdout.split())
    assert slower.runs().count(good) >= 6
    assert slower.is_clean()


def test_compiled_modules_of_another_revision_are_removed(make_repository: MakeRepository) -> None:
    """Python uses them if only the size of the source and the second of its change are the same."""
    module: Files = {"x.py": "level = 1000\n", ".gitignore": "__pycache__\n"}
    repository = make_repository([module, {"x.py": "level = 1060\n"}])
    command = f"touch -t 202601010000 x.py; {sys.executable} -c 'import x; print(x.level)'"
    options = ("--direction", "lower", "--", "sh", "-c", command)
    done = repository.search(*options, PYTHONDONTWRITEBYTECODE="")

    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_failing_revisions_are_skipped(make_repository: MakeRepository) -> None:
    """Exit status 125 and a failed set-up skip at once, other statuses after a retry."""
    failures: list[Files] = [
        {"unbuildable": None, "broken": "125\n"},
        {"broken": "3\n"},
        {"broken": None, "unbuildable": ""},
    ]
    changes = {number: failures[number % 3] for number in range(6, 36)}
    changes |= {36: {"unbuildable": None, "broken": None}, 37: {"level": "950\n"}}
    repository = make_repository(numbered(61, changes))
    done = repository.search("--setup", "test ! -e unbuildable", "--json")
    found = json.loads(done.stdout)
    ran = repository.runs()
    seen = set()
    for revision, why in found["skipped"].items():
        number = repository.revisions.index(revision)
        attempts = ran.count(revision)
        seen.add((why, attempts))
        assert 6 <= number < 36

    assert found["culprit"] == repository.revisions[37], done.stderr
    assert seen == {
        ("the command skipped it with exit status 125", 1),
        ("the command ended with exit status 3: it does not run", 2),
        ("--setup ended with exit status 1", 0),
    }


def test_repeated_trees_are_measured_once(make_repository: MakeRepository) -> None:
    changes: dict[int, Files] = {
        n: {"file": "same\n", "level": "800\n" if n == 15 else "1000\n"} for n in range(10, 30)
    }
    changes[37] = {"level": "950\n"}
    repository = make_repository(numbered(61, changes))
    done = repository.search()
    trees = {one: repository.git("rev-parse", f"{one}^{{tree}}") for one in repository.runs()}

    assert f"Commit {repository.revisions[37][:12]}" in done.stdout
    assert re.search("60 commits after .*, 19 of them with repeated trees", done.stderr)
    assert len(set(trees.values())) == len(trees)
    assert len(repository.facts("bisection")[0]["candidates"]) == 41  # type: ignore[arg-type]


def test_ends_with_equal_trees_are_not_measured(slower: Repository) -> None:
    """Nor do signatures matter, if git shows them in its log."""
    program = slower.place.parent / "gpg"
    program.write_text(
        "#!/bin/sh\ncat >/dev/null\nprintf '\\n[GNUPG:] SIG_CREATED x\\n' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\n\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    program.chmod(0o755)
    slower.git("config", "gpg.program", str(program))
    slower.git("config", "log.showSignature", "true")
    (slower.place / "level").write_text("900\n")
    slower.git("commit", "-q", "-a", "-S", "-m", "Signed")
    slower.git("revert", "--no-edit", "-S", "HEAD")
    done = slower.search("--good", "main~2", "--bad", "main")

    assert "[GNUPG:]" in slower.git("log", "-1")
    assert done.returncode == 1, done.stderr
    assert "good and bad have the same tree" in done.stdout
    assert "│" not in done.stdout  # a picture without commits
    assert "The search has ended. Nothing changed: good and bad have the" in slower.explain()
    assert json.loads(slower.explain("--json"))["ended"] == "notreproduced"
    assert slower.runs() == []


def test_killed_search_resumes_from_its_log(slower: Repository) -> None:
    slower.kill_hanging(11)
    before = slower.log.read_bytes()
    now = json.loads(slower.explain("--json"))
    text = slower.explain()
    # An incomplete line, as after a power failure.
    slower.log.write_bytes(before + b'{"is":"samp')
    done = slower.search()

    assert done.returncode == 0, done.stderr
    assert now["next"]["revision"] == slower.runs()[10] == slower.runs()[11]
    assert now["left"]["runs"] > 6
    assert f"Next: a run of {slower.runs()[10][:12]} Change " in text
    assert "Remaining, about: " in text
    assert "Resuming with 10 runs" in done.stderr
    assert slower.log.read_bytes().startswith(before)
    assert len(slower.runs()) == 1 + len(slower.facts("sample"))
    assert f"Commit {slower.revisions[CULPRIT][:12]}" in done.stdout
    assert slower.is_clean()


def test_an_interrupted_trial_of_a_skipped_commit_is_not_resumed(slower: Repository) -> None:
    slower.kill_hanging(13)
    before = slower.runs()
    assert before[-1] not in {slower.revisions[0], slower.revisions[-1]}
    assert mark(slower, before[-1], "skip", "--why", "it corrupts the disk").returncode == 0
    done = slower.search()

    assert done.returncode == 3, done.stderr  # the commit after it, or the skipped one
    assert before[-1] not in slower.runs()[len(before) :]
    slower.replay()


def test_files_in_place_of_a_killed_worktree_are_not_removed(slower: Repository) -> None:
    folder = slower.place.parent / "tree"
    slower.kill_hanging(2, "--worktree", str(folder))
    shutil.rmtree(folder)
    slower.git("worktree", "add", "-q", "-f", "-f", str(folder), "-b", "own")
    own_worktree = slower.search("--worktree", str(folder))
    (folder / ".git").unlink()
    own_files = slower.search("--worktree", str(folder))

    for refused in (own_worktree, own_files):
        assert (refused.returncode, "an empty folder" in refused.stderr) == (2, True)
    assert (folder / "level").exists()
    shutil.rmtree(folder)
    folder.mkdir()
    assert slower.search("--worktree", str(folder)).returncode == 0
    assert slower.is_clean()


def test_incomplete_note_of_a_worktree_removes_nothing(slower: Repository) -> None:
    """A kill or a full disk may leave an empty note."""
    note = slower.log.with_name("bisect.log.worktree")
    note.parent.mkdir()
    note.write_bytes(b"")
    done = slower.search("--", "true")

    assert "the command printed nothing" in done.stderr
    assert (slower.place / "bench.sh").exists()
    assert slower.is_clean()
    note.symlink_to("missing/note")  # it cannot be written
    done = slower.search("--good", "main~30", "--bad", "main", "--", "./bench.sh")

    assert (done.returncode, f"{note}: No such file" in done.stderr) == (2, True), done
    assert list(slower.temporary.iterdir()) == []


def test_interruption_removes_worktree_and_processes(slower: Repository) -> None:
    """A concurrent second search is rejected; one that resumes reads new marks."""
    process = slower.start_hanging(4)
    other = slower.search()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()

    assert other.returncode == 2
    assert "a search with this log is running" in other.stderr
    assert process.returncode == 130
    assert "Interrupted. The same call resumes" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(slower.hanging_process, 0)
    assert slower.is_clean()

    Path(f"{slower.log}.marks").write_text('{"is":"mar')  # as after a power failure
    mark(slower, slower.revisions[1], "good", "--why", "measured by hand")
    done = slower.search()

    assert "was marked good by ann: measured by hand" in done.stdout
    assert done.returncode == 0


def test_interruption_before_the_search_has_status_130(
    slower: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large repository, git needs time to read the range. Modules are imported before."""
    alternates = slower.place / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    os.mkfifo(alternates)  # git waits for its end
    process = slower.start()
    writer = -1
    while writer < 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
        with contextlib.suppress(OSError):  # until git reads
            writer = os.open(alternates, os.O_WRONLY | os.O_NONBLOCK)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    os.close(writer)

    assert (process.returncode, errors) == (130, "Interrupted.\n")
    monkeypatch.setattr(importlib, "import_module", Mock(side_effect=KeyboardInterrupt))
    during_import = slower.invoke("bisect")
    assert (during_import.returncode, during_import.stderr) == (130, "Interrupted.\n")


def in_the_background() -> None:
    """Ignores signals like nohup(1)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.long
def test_background_search_is_interrupted_only_by_sigterm(slower: Repository) -> None:
    process = slower.start_hanging(3, signals=in_the_background)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    os.kill(slower.hanging_process, signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    slower.log.unlink()
    Path(f"{slower.journal}.held").unlink()

    process = slower.start_hanging(len(slower.runs()) + 3, signals=in_the_background)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert slower.is_clean()


def test_spent_budget_is_inconclusive(slower: Repository) -> None:
    """The time of a run that it cuts off counts."""
    done = slower.search("--budget", "1.5s", HOLD="1")

    assert done.returncode == 3
    assert "the budget of 1.5 s is spent" in done.stdout
    assert [one["why"] for one in slower.facts("dud")] == ["the command was cut off by the budget"]
    assert slower.is_clean()


def test_documentation_lists_exactly_the_options() -> None:
    page = (Path(__file__).parents[3] / "docs" / "bisect-run.md").read_text()
    run = cli.bisect.commands["run"]
    options = {name for option in run.params for name in option.opts if name.startswith("--")}
    others = {"--benchmark-json", "--init", "--seconds", "--shuffle-sections", "--why"}

    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*(?![-\w])", page)) - others == options


def test_a_search_respects_marks_and_names_them(slower: Repository) -> None:
    """A mark needs a commit and a reason. Replay repeats the decisions of a search with marks."""
    assert "no commit of that name" in mark(slower, "unknown", "good", "--why", "x").stderr
    assert "Missing option '--why'" in mark(slower, "main", "good").stderr
    assert "--why is empty" in mark(slower, "main", "good", "--why", " ").stderr
    middle = slower.revisions[len(slower.revisions) // 2]
    marking = mark(slower, middle, "skip", "--why", "it does not link")
    assert marking.stdout == f"{middle[:12]} is marked skip by ann: it does not link.\n"

    done = slower.search("--json")
    result = json.loads(done.stdout)

    assert middle not in result["measured"]
    assert result["result"] == "culprit"
    [made] = result["marks"]
    assert (made["revision"], made["verdict"], made["who"]) == (middle, "skip", "ann")
    assert "was marked skip by ann: it does not link." in done.stderr
    slower.replay()
    assert "was marked skip by ann" in slower.explain()
