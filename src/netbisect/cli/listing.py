"""Lists of the commands: as a table, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click

from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table

_WIDE = 160
"""Columns of the table."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(data: object) -> None:
    """Prints JSON values."""
    click.echo(json.dumps(data, indent=2))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], width: int = _WIDE) -> None:
    """Prints the rows below a head."""
    lines = [[words.clean(str(cell)) for cell in row] for row in rows]
    click.echo(table([head, *lines], indent=0, width=width))


def day(at: float | None) -> str:
    """A day, or "" for None."""
    return "" if at is None else words.day(at)
