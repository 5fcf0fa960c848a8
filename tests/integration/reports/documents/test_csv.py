"""Samples as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from programs import netbisect

from netbisect.bisect.model.entities import Boot, Sample
from netbisect.reports.documents.csv import COLUMNS, write


def samples(filled: Any, *arguments: str) -> Result:
    return netbisect("samples", "--database", filled.url, *arguments)


def parse(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_selected_run_is_a_row(filled_ledger: Any) -> None:
    """A row has the revision, the branch, the kernel, the boot and the problems of its run."""
    rows = parse(samples(filled_ledger).stdout)

    assert [float(row["pps"]) for row in rows] == [1e6, 9e5, 1e6, 9e5, 1e6]
    assert [row["valid"] for row in rows] == ["1", "1", "1", "1", "0"]
    assert [row["revision"][0] for row in rows] == ["a", "c", "a", "c", "b"]
    assert {row["branches"] for row in rows} == {"stable/15"}
    assert {row["identity"][:2] for row in rows} == {"ia", "ib", "ic"}
    assert rows[0]["at"] == "2026-09-18T14:13:20+00:00"
    assert len({row["boot"] for row in rows}) == 5
    assert rows[-1]["problems"].startswith("'=2+3; =HYPERLINK")
    for arguments, count in (
        (("--testbed", "c2558"), 5),
        (("--scenario", "inet4-forwarding", "--branch", "stable/15"), 5),
        (("--since", "2026-09-18"), 5),
        (("--since", "2026-09-19"), 0),
    ):
        assert len(parse(samples(filled_ledger, *arguments).stdout)) == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--testbed", "x"), "there is no testbed 'x' with samples; found c2558"),
        (("--branch", "x"), "there is no branch 'x' with samples; found stable/15"),
        (("--since", "yesterday"), "does not match the format"),
    ],
)
def test_unknown_arguments_are_reported(
    filled_ledger: Any, arguments: tuple[str], message: str
) -> None:
    result = samples(filled_ledger, *arguments)

    assert result.exit_code > 0
    assert message in result.output


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=12), st.integers(0, 6))
def test_no_cell_is_a_formula_of_a_spreadsheet(text: str, place: int) -> None:
    """Hosts supply the texts; a row stays complete with any of them."""
    texts = ["x"] * 7
    texts[place] = f"=1{text}" if len(text) % 2 else text
    sample = Sample(
        texts[0], texts[1], texts[2], texts[3], 1.0, 2.0, (), (), (texts[4],), texts[5], 0.0, 1.0
    )
    boot = Boot(texts[1], texts[2], "k", texts[6], 0.0, 1.0)
    stream = io.StringIO(newline="")
    write([(sample, boot, texts[6], [texts[0]])], stream)
    text = stream.getvalue()
    text.encode()
    rows = list(csv.reader(io.StringIO(text, newline="")))

    assert [len(row) for row in rows] == [len(COLUMNS)] * 2
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in rows[1])
