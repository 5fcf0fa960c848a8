"""`netbisect ministat`: its files, its options, and what it refuses."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from netbisect.cli import main
from netbisect.cli import ministat as ministat_command
from netbisect.reports.render.ministat import Variant, ministat
from netbisect.reports.render.ministat_input import read_points

IGUANA = [50, 200, 150, 400, 750, 400, 150]
CHAMELEON = [150, 400, 720, 500, 930]
ROWS = """\
x   7            50           750           200           300     238.04761
+   5           150           930           500           540     299.08193
"""
NAMES = "x iguana\n+ chameleon\n"
HEAD = "    N           Min           Max        Median           Avg        Stddev\n"
SAME = "No difference proven at 95.0% confidence\n"


def run(*arguments: str, stdin: str | bytes = b"") -> Result:
    return CliRunner().invoke(main.main, ["ministat", *arguments], input=stdin)


@pytest.fixture(autouse=True)
def lizards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of ministat's manual page."""
    monkeypatch.chdir(tmp_path)
    for name, values in (("iguana", IGUANA), ("chameleon", CHAMELEON)):
        Path(name).write_text("".join(f"{value}\n" for value in values))


def points(data: bytes, **options: object) -> list[float]:
    return read_points(data, "f", **options)  # type: ignore[arg-type]  # of the caller's choice


def test_example_of_the_manual() -> None:
    result = run("-s", "iguana", "chameleon")

    assert result.exit_code == 0
    assert result.stdout == ministat([("iguana", IGUANA), ("chameleon", CHAMELEON)])


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["-A"], NAMES + HEAD + ROWS + SAME),
        (["-n"], NAMES + HEAD + ROWS),
        (["-Aq"], ROWS + SAME),
        (["-nq"], ROWS),
        (["-qnAs", "-w60", "-c", "99"], ROWS),
    ],
)
def test_parts_can_be_omitted(options: list[str], shown: str) -> None:
    assert run(*options, "iguana", "chameleon").stdout == shown


def test_width_is_that_of_the_plot() -> None:
    lines = run("-w", "60", "iguana").stdout.splitlines()

    assert lines[1] == f"+{'-' * 60}+"


def test_variant_selects_the_version() -> None:
    shown = {
        one.value: run("-A", "-c80", "--variant", one.value, "iguana", "chameleon").stdout
        for one in Variant
    }

    assert {year: "70.7384%" in text for year, text in shown.items()} == {
        "2013": True,
        "2015": True,
        "2017": False,
        "current": False,
    }


def test_standard_input_for_hyphen_or_no_file() -> None:
    text = "".join(f"{value}\n" for value in CHAMELEON)

    assert run("-A", stdin=text).stdout.startswith("x <stdin>\n")
    assert run("-A", "iguana", "-", stdin=text).stdout == ("x iguana\n+ -\n" + HEAD + ROWS + SAME)
    assert run("-A", "--variant", "2013", "-", stdin=text).stdout.startswith("x <stdin>\n")


def test_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a number at its beginning counts, as in C."""
    monkeypatch.setattr(ministat_command.sys.stdout, "isatty", lambda: True, raising=False)
    widths = {}
    for columns in ("100", "100 wide", "wide"):
        monkeypatch.setenv("COLUMNS", columns)
        widths[columns] = ministat_command._terminal_width()

    assert widths == {"100": 100, "100 wide": 100, "wide": 0}


def test_names_of_any_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    try:
        (tmp_path / name).write_text("1\n2\n3\n")
    except OSError:
        pytest.skip("this file system wants names in UTF-8")

    assert run("-A", name).stdout_bytes.startswith(b"x caf\xe9\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-c", "97"], "No support for confidence level 97; there is 80, 90, 95"),
        (["-c", "high"], "Not a floating point number: 'high'"),
        (["-C", "0"], "Column number should be positive, not 0."),
        (["-C", "x"], "'x' is not a valid integer"),
        (["-d", ""], "Can't use empty delimiter string."),
        (["-w", "-1"], "Unable to move beyond left margin"),
        (["-w", "x"], "'x' is not a valid integer"),
        (["--variant", "2020"], "'2020' is not one of '2013', '2015', '2017', 'current'"),
        (["iguana"] * 8, "Too many datasets: 8, of at most 7."),
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
        ("", "Dataset bad must contain at least 3 data points\n"),
        ("1\n2\nnan\n", "Dataset bad: nan is not a number of at most 1e+100\n"),
        ("1\n2\n0x1p99999\n", "Dataset bad: inf is not a number of at most 1e+100\n"),
    ],
)
def test_invalid_file_has_status_2(text: str, words: str) -> None:
    Path("bad").write_text(text)
    result = run("iguana", "bad")

    assert (result.exit_code, result.stderr, result.stdout) == (2, words, "")


def test_status_of_a_missing_file() -> None:
    statuses = {}
    for one in Variant:
        result = run("--variant", one.value, "iguana", "nowhere")
        statuses[one.value] = result.exit_code

        assert result.stderr == "Cannot open nowhere: No such file or directory\n"
    assert statuses == {"2013": 1, "2015": 1, "2017": 2, "current": 2}


def test_comments_and_short_lines_are_skipped() -> None:
    data = b"# head\n\n1 10\n2\n3 30 # said\n4 #40\n#5 50\n 6\t60\n"

    assert points(data, column=2) == [10, 30, 60]


def test_trailing_comment_is_ignored() -> None:
    assert points(b"1 # one\n2 #two\n3\t#\n") == [1, 2, 3]


def test_delimiters_are_single_characters() -> None:
    assert points(b"1;,2\n3,,4\n;5;6\n7;8", column=2, delimiters=",;") == [2, 4, 6, 8]


def test_numbers_of_c_are_accepted() -> None:
    data = b"0x1f\n+5.\n.5e1\n-0X.8p1\n1E3"

    assert points(data) == [31, 5, 5, -1, 1000]


@pytest.mark.parametrize("word", ["1_000", "1e", "0x", "--1", "1,5", "one", "٣", "1d5", "nan("])
def test_other_numbers_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="Invalid data on line 4 in f"):
        points(f"1\n2\n3\n{word}\n".encode())


def test_carriage_returns_since_2015() -> None:
    data = b"1\r\n2\r\n3\r\n"

    assert points(data) == points(data, variant=Variant.V2015) == [1, 2, 3]
    with pytest.raises(ValueError, match="Invalid data on line 1 in f"):
        points(data, variant=Variant.V2013)


def test_long_line_counts_as_several() -> None:
    assert points(b"7 " * 600 + b"\n8\n9\n") == [7, 7, 8, 9]


def test_zero_byte_ends_a_line() -> None:
    assert points(b"1\0x\n2\n3\n") == [1, 2, 3]


@given(st.binary(max_size=200), st.integers(1, 3), st.sampled_from(Variant))
def test_any_bytes_are_read_or_refused(data: bytes, column: int, variant: Variant) -> None:
    """Bytes after three lines that are right cannot take those away."""
    start = b"1 2 3\n" * 3
    with contextlib.suppress(ValueError):
        assert points(start + data, column=column, variant=variant)[:3] == [column] * 3
    with pytest.raises(ValueError, match=r"^Invalid data on line \d+ in f$"):
        points(start + data + b"\nx x x", column=column, variant=variant)


@given(st.lists(st.floats(-1e100, 1e100), min_size=3))
def test_written_values_are_read(values: list[float]) -> None:
    assert points("".join(f"{value!r}\n" for value in values).encode()) == values
