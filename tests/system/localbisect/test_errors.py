"""`netbisect bisect run`: invalid revisions, commands, options and logs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from localbisect_fixtures import NETBISECT, Done, Repository
from programs import captured

from netbisect.bisect.model.entities import Commit
from netbisect.localbisect import candidates
from netbisect.localbisect.command import parse_value

CULPRIT = 17


def wrong(done: Done) -> str:
    """The error message of an invalid call."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    return done.stderr.rpartition("Error: ")[2].strip()


WRONG_ENDS = [
    (["--good", "main", "--bad", "main~9"], "to find an improvement"),
    (["--good", "main", "--bad", "HEAD"], "are the same commit"),
    (["--good", "v1.2", "--bad", "main"], "--good v1.2: no commit of that name"),
    (["--good", "main~9", "--bad", "--help"], "--bad --help: no commit of that name"),
    (["--good", "side", "--bad", "main"], "--good side is not an ancestor of --bad main"),
    (["--good", "side", "--bad", "merged"], "of --bad merged; the latest one that --good side"),
    (["--good", "other", "--bad", "joined"], "is not a first-parent ancestor of --bad joined."),
]


def test_invalid_ranges_are_rejected(slower: Repository) -> None:
    slower.git("branch", "merged", "main~9")
    slower.git("checkout", "-q", "-b", "side", "main~20")
    slower.git("commit", "-q", "--allow-empty", "-m", "Side")
    slower.git("checkout", "-q", "merged")
    slower.git("merge", "-q", "--no-ff", "side")
    slower.git("checkout", "-q", "--orphan", "other")
    slower.git("commit", "-q", "-m", "Other")
    slower.git("checkout", "-q", "-b", "joined", "main~9")
    slower.git("merge", "-q", "--allow-unrelated-histories", "-s", "ours", "-m", "Join", "other")
    slower.git("checkout", "-q", "main")
    for ends, message in WRONG_ENDS:
        assert message in wrong(slower.search(*ends, "--", "./bench.sh"))
    assert not slower.log.exists()


WRONG_COMMANDS = [
    (["true"], "the command printed nothing"),
    (["sh", "-c", "echo 5 >&2"], "nothing on its standard output, only on standard error: '5'"),
    (["echo", "all well"], "the command printed no number; its last line was 'all well'"),
    (["echo", "nan"], "the command printed nan, expected a number from 1e-30 to 1e+30"),
    (["echo", "1 0"], "the command printed 0, expected a number from 1e-30 to 1e+30"),
    (["echo", "1e308"], "the command printed 1e308, expected a number from 1e-30 to 1e+30"),
    (["echo", "2e-31"], "printed 2e-31, expected a number from 1e-30 to 1e+30"),
    (["echo", "-3.5"], "the command printed -3.5, expected a number from 1e-30 to 1e+30"),
    (["./absent.sh"], "./absent.sh: No such file or directory; relative paths are searched in a"),
    (["./bench.sh | cat"], "without a shell: expected separate words, or sh -c './bench.sh | cat'"),
    (["level"], "the command cannot be run: level: No such file or directory"),
    (["./level"], "cannot be run: ./level: Permission denied; the same call resumes"),
    (["sh", "-c", "mkdir -p d/e; chmod 555 d; printf 'error: a\n*' >&2; exit 4"], "4: error: a"),
    (["sh", "-c", "kill -SEGV $$"], "the command was ended by SIGSEGV"),
    (["sh", "-c", "kill -40 $$"], "the command was ended by signal 40"),
    (["sh", "-c", "exit 125"], "skipped it with exit status 125"),
    (["sleep", "60"], "the command exceeded its --timeout of 0.2 s"),
]


def test_commands_without_a_number_are_rejected(slower: Repository) -> None:
    good, bad = slower.revisions[0][:12], slower.revisions[-1][:12]
    end = rf"the (good end, {good}|bad end, {bad}), cannot be measured: "
    for command, message in WRONG_COMMANDS:
        error_text = wrong(slower.search("--timeout", "0.2s", "--", *command))
        assert re.match(end, error_text)
        assert message in error_text
        slower.log.unlink()
    endless = "import os, time; os.ftruncate(1, 300 << 20); time.sleep(60)"
    error_text = wrong(slower.search("--", sys.executable, "-c", endless))
    assert "cannot be measured: the command printed more than 256 MB" in error_text
    assert slower.is_clean()


FAILS_AT_TIMES = """#!/bin/sh
echo >> "$JOURNAL.tries"
case $(($(wc -l < "$JOURNAL.tries"))) in {when}) printf "cause\\nhint\\n"; exit 1 ;; esac
exec ./bench.sh
"""
"""A command that fails in some of its runs, counted from 1."""


def test_search_resumes_once_the_command_is_fixed(slower: Repository) -> None:
    """A revision that was measured fails by chance; one retry is enough for any other."""
    ends = ("--good", slower.revisions[CULPRIT - 1], "--bad", slower.revisions[CULPRIT])
    tool = slower.place.parent / "tool"
    absent = slower.search(*ends, "--", str(tool))
    tool.write_text(FAILS_AT_TIMES.format(when="1|2"))
    tool.chmod(0o755)
    first = slower.search(*ends, "--", str(tool))
    tool.write_text(FAILS_AT_TIMES.format(when="7|8|9"))
    done = slower.search(*ends, "--", str(tool))

    assert f"{tool}: No such file" in wrong(absent)
    assert "       cause\n       hint\nError: the " in first.stderr
    assert "cannot be measured: the command ended with exit status 1: hint;" in wrong(first)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("retrying: the command ended with exit status 1") == 3


def test_full_disk_ends_the_search_without_skipping(slower: Repository) -> None:
    """A limit of the file size acts as a full disk; the last number may be incomplete."""
    call = slower.arguments(["--", "sh", "-c", "trap '' XFSZ; yes 7; exit 0"])
    limited = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", NETBISECT, *call]
    output = captured(limited, cwd=slower.place, env=slower.environment_with())
    space, ends = slower.place.parent / "space", f"{slower.revisions[0]}|{slower.revisions[-1]}"
    build = f"case $NETBISECT_REVISION in {ends}) ;; *) test -e {space} || "
    build += "{ echo 'cc: No space left on device' >&2; exit 1; } ;; esac"
    full = slower.search("--setup", build)
    space.touch()
    done = slower.search("--setup", build)

    assert f"its output cannot be written to {slower.temporary}: File too large" in output.stderr
    assert re.match(r"\w{12} cannot be measured because a disk is full", wrong(full))
    assert slower.facts("dud") == []
    assert done.returncode == 0, done.stderr


def test_number_of_several_is_shown_with_its_line(slower: Repository) -> None:
    """The command has no variables of a hook of git, which name the user's checkout."""
    command = 'printf "rate: 9.5\\nchecksum 8 of ${GIT_INDEX_FILE:-3} parts\\n"; rm file'
    setup = "echo 1 > level", "--", "sh", "-c", command
    done = slower.search("--setup", *setup, GIT_INDEX_FILE=".git/index")

    assert done.stderr.count("was read (--metric selects another): checksum 8 of 3\n") == 1
    assert done.stderr.count("The command changed the tracked file file, and further runs") == 1
    assert "The last number was read" not in slower.search("--reset", "--", "echo", "7").stderr


def test_colours_and_line_ends_of_windows_are_ignored(slower: Repository) -> None:
    """Processes left by a run are killed: a server of another revision would answer the next."""
    left = slower.place.parent / "left"
    os.mkfifo(left)
    reader = os.open(left, os.O_RDONLY | os.O_NONBLOCK)
    command = f"mkdir {left}.once && {{ sleep 60 > {left} & }}; "
    command += "printf '12\\r\\n\\033[1;32m7\\033[0m\\r\\n'"
    done = slower.search("--metric", r"^(\d+)$", "--", "sh", "-c", command)

    assert done.returncode == 1, done.stderr
    assert {sample["pps"] for sample in slower.facts("sample")} == {7}
    assert os.read(reader, 1) == b""  # without a writer; else it would block
    os.close(reader)


def test_log_of_another_search_is_rejected(slower: Repository) -> None:
    """--reset renames the old log; a log without a run, as after a typing error, is replaced."""
    wrong(slower.search("--", "./absent.sh"))
    assert slower.search("--", "sh", "-c", "echo 7").returncode == 1
    assert slower.facts("search")[0]["command"] == ["sh", "-c", "echo 7"]
    before = slower.log.read_bytes()
    error_text = wrong(slower.search("--min-effect", "5", "--", "false"))

    assert "the command was sh -c 'echo 7' and is false" in error_text
    assert "--min-effect was 2.0 and is 5.0" in error_text
    assert slower.log.read_bytes() == before
    assert "exit status 1" in wrong(slower.search("--reset", "--", "false"))
    assert Path(f"{slower.log}.old").read_bytes() == before
    assert slower.facts("search")[0]["command"] == ["false"]


WRONG_OPTIONS = [
    (["--worktree", "."], "expected a new or an empty folder"),
    (["--log", "/dev/null"], "/dev/null is not a file: expected the log of a search"),
    (["--min-effect", "0"], "expected a number above 0 and below 100"),
    (["--noise", "much"], "expected a number above 0 and below 100"),
    (["--budget", "90"], "expected a time such as 90s, 20m, 1h30m or 2d"),
    (["--metric", "("], "invalid regular expression"),
    (["--direction", "down"], "'down' is not one of 'higher', 'lower'"),
]


def test_invalid_options_are_rejected(slower: Repository) -> None:
    for options, message in WRONG_OPTIONS:
        assert message in wrong(slower.search(*options))
    assert slower.runs() == []
    # A file that one commit of the range changes is enough.
    done = slower.search("--path", "level", "--path", "file/*", "--", "false")
    assert re.findall(r"--path (\S+) matches no file", done.stderr) == ["file/*"]


def test_folders_that_git_refuses_are_rejected(slower: Repository, tmp_path: Path) -> None:
    """The error message of git is quoted."""
    place = tmp_path / "nowhere"
    place.mkdir()
    assert f"{place} is not in a git repository" in wrong(Repository(place, ["a", "b"]).search())
    # Only root can make a repository of another user.
    refused = wrong(slower.search(GIT_TEST_ASSUME_DIFFERENT_OWNER="1"))
    assert "'. To add an exception for this directory, call: git config --global" in refused
    slower.git("config", "core.repositoryFormatVersion", "99")
    done = slower.search()

    assert "not in a git repository" not in done.stderr
    assert "repo version <= 1, found 99" in wrong(done)


def test_failed_checkout_names_its_folder_and_the_cause(slower: Repository) -> None:
    """As on a full disk, where only the first line of git names a file."""
    slower.git("config", "filter.absent.smudge", "false")
    slower.git("config", "filter.absent.required", "true")
    (slower.place / ".git" / "info" / "attributes").write_text("level filter=absent\n")
    error_text = wrong(slower.search())

    folder = rf"{slower.temporary}/netbisect-\w+/tree"
    cause = "external filter 'false' failed 1; level: smudge filter absent failed"
    assert re.fullmatch(rf"git checkout of \w{{12}} in {folder} failed: {cause}\.", error_text)


@pytest.mark.parametrize(
    ("text", "metric", "value"),
    [
        ("5 runs: 1,234,567.5 per second (x86_64)\n", "", 1234567.5),
        ("mean 3.1e-3s\n", "", 0.0031),
        ("a 1\nb 2\nc 3\n", r"^b (\d)", 2),
        ("rate=7 rate=8 time=9", r"(?<=rate=)\d", 8),
        ("1.5 +- 0.1 v1.2.3", r"^\S+", 1.5),
        ("range 10-20", "", 20),
        ("a,b,949,248", "", 949248),
        ("1700000000,41.5\n", "", 41.5),
        ("1,22,3 s\n", "", 3),
        ("1_234_000 packets", "", 1234000),
        ("7 of 10_2.csv", "", 10),
        ("16 usecs", "", 16e-6),
        ("1.5s 980k", "", 980e3),
        ("[  5] 1.20 Gbits/sec  receiver\n", "", 1.2e9),
        ("IOPS=1.2M, BW=3MiB/s", "", 3 << 20),
        ("rate=1.2Mpps", r"rate=(\S+)", 1.2e6),
        ("rate=980k", r"rate=(\d+)", 980e3),
        ("12 Total, 5 Mails", "", 5),
        ("0.5 ms", "", 0.0005),
        ("1 min 2.5 seconds", "", 62.5),
        ("real\t1m1.5s\nsys\t0m0.1s", r"real\s+(.*)", 61.5),
        ("took 1h1m.", "", 3660),
        ("m:ss 1:02.50", r"ss ([\d.]+)", 62.5),
    ],
)
def test_last_number_or_metric_is_parsed(text: str, metric: str, value: float) -> None:
    assert parse_value(text, metric) == value


@pytest.mark.parametrize(
    ("text", "metric", "found"),
    [
        ("took 1m2,5s\n", "", "1m2,5s"),
        ("1,2345", "", "1,2345"),
        ("rate=12,3.4", r"rate=(\S+)", "12,3.4"),
    ],
)
def test_comma_that_may_be_a_decimal_point_is_rejected(text: str, metric: str, found: str) -> None:
    with pytest.raises(ValueError, match=f"^{found}, expected a decimal point, or --metric for"):
        parse_value(text, metric)


def test_only_the_end_of_a_long_line_is_searched() -> None:
    """The time and the memory for a line as long as the whole output are limited."""
    assert parse_value(f"3\n5{' x' * 60_000}", "") == 3
    assert parse_value(f"7 {'x' * 90_000}", "") == 7


def test_prior_weights_favour_matching_paths_and_large_commits() -> None:
    shapes = (("src/x.c",), 10), (("doc/x.md",), 10), ((), 1000)
    commits = [Commit("a", 0, "", "", "", "", 0.0, paths, lines) for paths, lines in shapes]
    with_paths = candidates.prior_weights(commits, ["src/*"])
    by_size = candidates.prior_weights(commits, [])

    assert with_paths[0] > 10 * with_paths[1] > 1
    assert sum(with_paths) == pytest.approx(3)
    assert by_size[0] == by_size[1] < by_size[2] < 2 * by_size[0]
