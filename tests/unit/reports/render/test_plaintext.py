"""Tables of plain text."""

from __future__ import annotations

from netbisect.reports.render.plaintext import table

LABEL = "n49-3b2e656972ce"


def test_wrapped_table_keeps_its_words() -> None:
    """Users copy hashes from tables."""
    row = ("c2558", "inet4 forwarding", LABEL, "-21.6 % (-22.4 to -20.8)", "4+4", "slower")
    lines = table([row]).splitlines()

    assert len(lines) == 2
    assert max(map(len, lines)) <= 76
    assert LABEL in lines[0]
    assert {word for cell in row for word in cell.split()} == set(" ".join(lines).split())


def test_words_longer_than_a_line_are_split() -> None:
    lines = table([("x" * 60, "y" * 60)]).splitlines()

    assert max(map(len, lines)) <= 76
    assert "".join(lines).count("x") == 60
