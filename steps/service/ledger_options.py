"""Options that select a database, and the ledger that they open."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from netbisect.steps.service.options import Command, settings_file
from netbisect.steps.service.settings import Settings, load_settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.ledger import Ledger, open_existing_ledger


def ledger_of(options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Adds `folder_option` or `database_options`, and passes the `ledger` that they select."""

    def add(command: Command) -> Command:
        @options
        @functools.wraps(command)
        def run(folder: Path | None, database: str | None = None, **given: Any) -> Any:
            return command(ledger=open_chosen(folder, database)[0], **given)

        return cast("Command", run)

    return add


def open_chosen(folder: Path | None, database: str | None = None) -> tuple[Ledger, Settings | None]:
    """Opens the database of a folder, or that of --database, which has no settings.

    Raises UsageError if both are given, FileError and StoreError.
    """
    path = settings_file(folder, database)
    if database is not None:
        return open_existing_ledger(database), None
    settings = load_settings(path)
    return open_service_ledger(settings), settings
