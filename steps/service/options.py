"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

folder_argument = click.argument("folder", type=_FOLDER, default=".")
folder_option = click.option(
    "--folder", type=_FOLDER, help="Folder of netbisect.toml (default: the current folder)."
)
database_option = click.option(
    "--database",
    metavar="ADDRESS",
    default="sqlite:///netbisect.sqlite",
    show_default=True,
    help="SQLAlchemy address of the database.",
)
_address_option = click.option(
    "--database", metavar="ADDRESS", help="SQLAlchemy address, instead of the folder's database."
)


def database_options(command: Command) -> Command:
    """Adds --folder and --database."""
    return folder_option(_address_option(command))


def check_one_of(folder: Path | None, database: str | None) -> None:
    """Refuses --folder together with --database.

    Raises:
        click.UsageError: Both are given.
    """
    if folder is not None and database is not None:
        raise click.UsageError("--folder and --database exclude each other")


def chosen_folder(folder: Path | None) -> Path:
    """--folder of the subcommand, or of its group, or the current folder."""
    parent = click.get_current_context().parent
    given = None if parent is None else parent.params.get("folder")
    return folder or given or Path()
