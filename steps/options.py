"""Options that several commands have, and how they say what people can mend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from netbisect.store.database import StoreError
from netbisect.workers.tomlfile import FileError

Command = TypeVar("Command", bound=Callable[..., Any])

database_option = click.option(
    "--database",
    metavar="ADDRESS",
    default="sqlite:///netbisect.sqlite",
    show_default=True,
    help="SQLAlchemy address of the database.",
)
folder_option = click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where netbisect.toml is (default: the current folder).",
)


def where_options(command: Command) -> Command:
    """Where the ledger is: in a service's folder, or under an address."""
    for option in (
        folder_option,
        click.option(
            "--database", metavar="ADDRESS", help="SQLAlchemy address, instead of the folder's."
        ),
    ):
        command = option(command)
    return command


class Sentences(click.Group):
    """Turns what people can mend into one sentence and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except (FileError, StoreError) as error:
            raise click.ClickException(str(error)) from error
