"""Commands with unwritable output, files that the system refuses, or an absent database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from localbisect_fixtures import NETBISECT
from programs import captured, netbisect

from netbisect.cli import main

LONG = 300 * "x"


UNWRITABLE = "standard output or a temporary file cannot be written: Bad file descriptor"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("exec {} ministat n 1<n", 2, f"Error: {UNWRITABLE}.\n"),
        ("exec {} request --help 1<n", 3, f"Error: {UNWRITABLE}.\n"),
        ("exec {} bisect explain 2>/dev/full", 2, ""),
        ("exec {} ministat <&-", 2, "Dataset <stdin> must contain at least 3 data points\n"),
        (
            "mkdir gone && cd gone && rmdir ../gone && exec {} status",
            2,
            "Error: the current folder: No such file or directory.\n",
        ),
    ],
)
def test_unusable_streams_and_folders_are_reported_in_one_sentence(
    command: str, status: int, message: str, tmp_path: Path
) -> None:
    """A closed standard input counts as empty; an error that cannot be printed is no result."""
    (tmp_path / "n").write_text("1\n2\n3\n")
    done = captured(["sh", "-c", command.format(f"'{NETBISECT}'")], cwd=tmp_path)

    assert (done.returncode, done.stderr) == (status, message)


def test_a_closed_pipe_ends_a_command_without_a_message(tmp_path: Path) -> None:
    """As SIGPIPE ends other programs; status 1 of some commands is a result."""
    (tmp_path / "n").write_text("1\n2\n3\n")
    for command in (["ministat", "n"], ["init", "s"], ["samples", "--folder", "s"]):
        read, write = os.pipe()
        os.close(read)
        run = [NETBISECT, *command]
        done = subprocess.run(run, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, check=False)
        os.close(write)
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="pathlib takes the file for missing")
@pytest.mark.parametrize(
    "arguments",
    [
        ["bisect", "explain", "--log", LONG],
        ["bisect", "replay", LONG],
        ["detect", "--database", f"sqlite:///{LONG}"],
        ["report", "compare", "--set", "a=n", "--set", "b=n", "--title", "T", "-o", LONG],
        ["report", "flamegraph", "stacks", "-o", LONG],
    ],
)
def test_a_file_that_the_system_refuses_is_reported_in_one_sentence(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without read permission cause the same error, except for root."""
    monkeypatch.chdir(tmp_path)
    Path("n").write_text("1\n2\n3\n")
    Path("stacks").write_text("ether_input;ip_input 12\n")
    done = netbisect(*arguments)

    assert (done.exit_code, done.stderr) == (2, f"Error: {LONG}: File name too long.\n")


@pytest.mark.parametrize(
    "words",
    [
        ["alerts"],
        ["alerts", "show", "1"],
        ["alerts", "ack", "1", "--why", "x"],
        ["export", "status"],
        ["health"],
    ],
)
def test_absent_database_is_refused(tmp_path: Path, words: list[str]) -> None:
    """A wrong address creates no database."""
    address = f"sqlite:///{tmp_path}/nebisect.sqlite"
    result = netbisect(*words, "--database", address)
    assert (result.exit_code, result.output) == (1, f"Error: there is no database {address}\n")
    assert not list(tmp_path.iterdir())


def test_letters_that_the_locale_lacks_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n").write_text("1\n2\n3\n")
    command = ["report", "compare", "--set", "a=n", "--set", "b=n", "--title", "T", "-o", "\u65e5"]
    done = CliRunner(charset="latin-1").invoke(main.main, command)

    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("\\u65e5: README.md")
