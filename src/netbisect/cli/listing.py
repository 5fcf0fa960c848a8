"""Lists of the commands: as a table, or as JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from netbisect.reports.documents.json_schema import as_plain
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table

WIDE = 160
"""Columns of the table."""
Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def without_subcommand(command: Command) -> Command:
    """Runs the function of a group only without a subcommand.

    Before a subcommand, only --folder and --database are accepted.
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            command(**options)
            return
        for one in context.command.params:
            if one.name not in ("folder", "database") and options[one.name or ""]:
                raise click.UsageError(
                    f"{one.opts[0]} here applies to the list, not to {context.invoked_subcommand!r}"
                )

    return run  # type: ignore[return-value]


def print_json(data: object) -> None:
    """Prints JSON values, or data classes."""
    click.echo(json.dumps(as_plain(data), indent=2))


def print_fields(found: Iterable[object], *fields: str) -> None:
    """Prints these fields of objects as JSON."""
    print_json([{field: getattr(one, field) for field in fields} for one in found])


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], empty: str, width: int = WIDE
) -> None:
    """Prints the rows below a head, or the sentence `empty` if there are none."""
    lines = [[words.clean(str(cell)) for cell in row] for row in rows]
    click.echo(table([head, *lines], indent=0, width=width) if lines else empty)


def day(at: float | None) -> str:
    """A day, or "" for None."""
    return "" if at is None else words.day(at)
