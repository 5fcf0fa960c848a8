"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from netbisect.steps.service.settings import SETTINGS, Settings, load_settings

if TYPE_CHECKING:
    from netbisect.store.ledger import Ledger

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


def ledger_of(options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Adds `folder_option` or `database_options`, and passes the `ledger` that they select."""

    def add(command: Command) -> Command:
        @options
        @functools.wraps(command)
        def run(folder: Path | None, database: str | None = None, **given: Any) -> Any:
            return command(ledger=open_chosen(folder, database)[0], **given)

        return cast("Command", run)

    return add


def settings_file(folder: Path | None, database: str | None = None) -> Path:
    """The settings in the folder of --folder, or in the current one; not with --database."""
    if folder is not None and database is not None:
        raise click.UsageError("--folder and --database are mutually exclusive")
    return (folder or Path()) / SETTINGS


def open_chosen(folder: Path | None, database: str | None = None) -> tuple[Ledger, Settings | None]:
    """Opens the database of a folder, or that of --database, which has no settings.

    Raises UsageError if both are given, FileError and StoreError.
    """
    from netbisect.steps.service import database_thread  # noqa: PLC0415 - an extra

    path = settings_file(folder, database)
    if database is not None:
        return database_thread.open_existing_ledger(database), None
    settings = load_settings(path)
    return database_thread.open_service_ledger(settings), settings
