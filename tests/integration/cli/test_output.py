"""Commands with unwritable output, files that the system refuses, or an absent database."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from localbisect_fixtures import NETBISECT
from programs import captured, netbisect

from netbisect.cli import main

LONG = 300 * "x"


@pytest.mark.parametrize(
    ("arguments", "status"), [(["ministat", "numbers"], 2), (["request", "--help"], 3)]
)
def test_unwritable_output_is_reported_in_one_sentence(
    arguments: list[str], status: int, tmp_path: Path
) -> None:
    numbers = tmp_path / "numbers"
    numbers.write_text("1\n2\n3\n")
    with numbers.open() as unwritable:
        done = subprocess.run(
            [NETBISECT, *arguments],
            cwd=tmp_path,
            stdout=unwritable,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == status
    assert done.stderr == (
        "Error: standard output or a temporary file cannot be written: Bad file descriptor.\n"
    )


def test_a_closed_pipe_ends_a_command_without_a_message(tmp_path: Path) -> None:
    """As SIGPIPE ends other programs; status 1 of some commands is a result."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [NETBISECT, "schema", "alert"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_an_error_that_cannot_be_printed_is_no_result(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [NETBISECT, "bisect", "explain"], cwd=tmp_path, stderr=full, check=False
        )

    assert done.returncode == 2


def test_a_closed_standard_input_is_empty(tmp_path: Path) -> None:
    done = captured(["sh", "-c", f"exec '{NETBISECT}' ministat <&-"], cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr == "Dataset <stdin> must contain at least 3 data points\n"


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


def test_a_removed_current_folder_is_one_sentence(tmp_path: Path) -> None:
    gone = f"mkdir gone && cd gone && rmdir ../gone && exec '{NETBISECT}' status"
    done = captured(["sh", "-c", gone], cwd=tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr == "Error: the current folder: No such file or directory.\n"


def test_letters_that_the_locale_lacks_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n").write_text("1\n2\n3\n")
    command = ["report", "compare", "--set", "a=n", "--set", "b=n", "--title", "T", "-o", "\u65e5"]
    done = CliRunner(charset="latin-1").invoke(main.main, command)

    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("\\u65e5: README.md")
