"""`netbisect ministat`: files, options and errors."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from programs import netbisect

from netbisect.reports.render.ministat import ministat
from netbisect.reports.render.ministat_input import read_points

IGUANA = [50, 200, 150, 400, 750, 400, 150]
CHAMELEON = [150, 400, 720, 500, 930]


def run(*arguments: str, stdin: str | bytes = b"") -> Result:
    return netbisect("ministat", *arguments, text=stdin)


@pytest.fixture(autouse=True)
def data_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of ministat's manual page."""
    monkeypatch.chdir(tmp_path)
    for name, values in (("iguana", IGUANA), ("chameleon", CHAMELEON)):
        Path(name).write_text("".join(f"{value}\n" for value in values))


def test_the_example_of_the_manual_page_is_printed() -> None:
    """Standard input is read for a hyphen, or without a file."""
    result = run("-s", "iguana", "chameleon")

    assert result.exit_code == 0
    assert result.stdout == ministat([("iguana", IGUANA), ("chameleon", CHAMELEON)])
    text = "".join(f"{value}\n" for value in CHAMELEON)

    assert run("-A", stdin=text).stdout.startswith("x <stdin>\n")
    table = ministat([("iguana", IGUANA), ("-", CHAMELEON)], plot=False)
    assert run("-A", "iguana", "-", stdin=text).stdout == table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-c", "97"], "'97' is not one of '80', '90', '95'"),
        (["-C", "0"], "0 is not in the range x>=1"),
        (["-d", ""], "Can't use empty delimiter string."),
        (["-w", "-1"], "-1 is not in the range x>=0"),
        (["--variant", "2020"], "'2020' is not one of '2013', '2015', '2017', 'current'"),
        (["iguana"] * 8, "8 datasets: ministat takes 1 to 7"),
        (["-w", "1", "iguana"], "width 1: expected 2 or more"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str], words: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n2\nthree\n", "Invalid data on line 3 in bad\n"),
        ("1\n2\n# 3\n", "Dataset bad must contain at least 3 data points\n"),
        (None, "Cannot open bad: No such file or directory\n"),
        ("1\n2\nnan\n", "Invalid data on line 3 in bad\n"),
        ("1\n2\n1e999\n", "Dataset bad: inf is not a number of at most 1e+100\n"),
    ],
)
def test_an_invalid_or_missing_file_has_status_2(text: str | None, words: str) -> None:
    if text is not None:
        Path("bad").write_text(text)
    result = run("iguana", "bad")

    assert (result.exit_code, result.stderr, result.stdout) == (2, words, "")


@given(st.binary(max_size=200), st.integers(1, 3))
def test_any_bytes_are_read_or_refused(data: bytes, column: int) -> None:
    """Any bytes after three valid lines leave the values of these lines unchanged."""
    start = b"1 2 3\n" * 3
    with contextlib.suppress(ValueError):
        assert read_points(start + data, "f", column=column)[:3] == [column] * 3
    with pytest.raises(ValueError, match=r"^Invalid data on line \d+ in f$"):
        read_points(start + data + b"\nx x x", "f", column=column)
