"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from netbisect.steps.service.settings import SETTINGS, load_settings

Command = TypeVar("Command", bound=Callable[..., Any])


def inherited(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Callback of an option that may also stand before the subcommand."""
    if value is None and context.parent is not None:
        return context.parent.params.get(parameter.name or "")
    return value


def _database_here() -> str:
    """Database of the service in the current folder; without a service, a file."""
    settings = Path(SETTINGS)
    return load_settings(settings).database if settings.exists() else _DATABASE


_DATABASE = "sqlite:///netbisect.sqlite"
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

folder_argument = click.argument("folder", type=_FOLDER, default=".")
folder_option = click.option(
    "--folder",
    type=_FOLDER,
    callback=inherited,
    help="Folder of netbisect.toml (default: the current folder).",
)
database_option = click.option(
    "--database",
    metavar="ADDRESS",
    default=_database_here,
    help=f"SQLAlchemy address (default: of the service in the current folder, or {_DATABASE}).",
)
_address_option = click.option(
    "--database",
    metavar="ADDRESS",
    callback=inherited,
    help="SQLAlchemy address, instead of the folder's database.",
)


def database_options(command: Command) -> Command:
    """Adds --folder and --database."""
    return folder_option(_address_option(command))


def settings_file(folder: Path | None, database: str | None = None) -> Path:
    """The settings in the folder of --folder, or in the current one; not with --database."""
    if folder is not None and database is not None:
        raise click.UsageError("--folder and --database are mutually exclusive")
    return (folder or Path()) / SETTINGS
