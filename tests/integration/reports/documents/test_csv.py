"""Samples as CSV: every run is there, and no spreadsheet computes anything of it."""

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
from netbisect.reports.documents.csv import COLUMNS, as_csv


def run(filled: Any, *arguments: str) -> Result:
    command = ["samples", "--csv", "--database", filled.url, *arguments]
    return netbisect(*command)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_run_is_a_row(filled_ledger: Any) -> None:
    """With what it was measured on, and what speaks against it."""
    found = rows(run(filled_ledger).stdout)

    assert [float(one["pps"]) for one in found] == [1e6, 9e5, 1e6, 9e5, 1e6]
    assert [one["valid"] for one in found] == ["1", "1", "1", "1", "0"]
    assert [one["revision"][0] for one in found] == ["a", "c", "a", "c", "b"]
    assert {one["branches"] for one in found} == {"stable/15"}
    assert {one["identity"][:2] for one in found} == {"ia", "ib", "ic"}
    assert found[0]["at"] == "2026-09-18T14:13:20+00:00"
    assert len({one["boot"] for one in found}) == 5
    assert found[-1]["problems"].startswith("'=2+3; =HYPERLINK")


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (("--testbed", "c2558"), 5),
        (("--scenario", "inet4-forwarding", "--branch", "stable/15"), 5),
        (("--since", "2026-09-18"), 5),
        (("--since", "2026-09-19"), 0),
    ],
)
def test_rows_are_limited_by_options(filled_ledger: Any, arguments: tuple[str], count: int) -> None:
    assert len(rows(run(filled_ledger, *arguments).stdout)) == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--testbed", "x"), "there is no testbed 'x' with samples; there is c2558"),
        (("--branch", "x"), "there is no branch 'x' with samples; there is stable/15"),
        (("--since", "yesterday"), "--since yesterday: expected a day such as 2026-03-01"),
    ],
)
def test_unknown_arguments_are_reported(
    filled_ledger: Any, arguments: tuple[str], message: str
) -> None:
    result = run(filled_ledger, *arguments)

    assert result.exit_code > 0
    assert message in result.output


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=12), st.integers(0, 6))
def test_cells_are_no_formulas_and_rows_are_complete(text: str, place: int) -> None:
    """Whatever a host calls itself or complains of."""
    texts = ["x"] * 7
    texts[place] = f"=1{text}" if len(text) % 2 else text
    sample = Sample(
        texts[0], texts[1], texts[2], texts[3], 1.0, 2.0, (), (), (texts[4],), texts[5], 0.0, 1.0
    )
    boot = Boot(texts[1], texts[2], "k", texts[6], 0.0, 1.0)
    text = "".join(as_csv([(sample, boot, texts[6], [texts[0]])]))
    text.encode()
    read = list(csv.reader(io.StringIO(text, newline="")))

    assert [len(row) for row in read] == [len(COLUMNS)] * 2
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in read[1])
