"""Where a command asks: the service of this host, or a server."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from netbisect.steps.control import SETTINGS
from netbisect.steps.memory import history_of, ledger_of
from netbisect.steps.options import folder_option
from netbisect.steps.request_counter import Counter, Here, There
from netbisect.steps.request_server import Server
from netbisect.steps.requests import Desk
from netbisect.steps.secret_files import read_password
from netbisect.steps.settings import load

Command = TypeVar("Command", bound=Callable[..., Any])


def place_options(command: Command) -> Command:
    """Where to ask: the service of a folder of this host, or a server."""
    for option in (
        click.option(
            "--token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="NETBISECT_TOKEN_FILE",
            help="With --server: a line with the token of `netbisect token create`.",
        ),
        click.option(
            "--server",
            metavar="URL",
            envvar="NETBISECT_SERVER",
            help="Ask there instead of on this host: the address of the web pages.",
        ),
        folder_option,
    ):
        command = option(command)

    @functools.wraps(command)
    def placed(
        *, folder: Path | None, server: str | None, token_file: Path | None, **options: Any
    ) -> Any:
        return command(counter=_counter(folder, server, token_file), **options)

    return placed  # type: ignore[return-value] # what click calls has other arguments


def _counter(folder: Path | None, server: str | None, token_file: Path | None) -> Counter:
    """Behind the subcommand, before it, or that of the current folder."""
    above = click.get_current_context().parent
    given = above.params if above is not None else {}
    folder, server = folder or given.get("folder"), server or given.get("server")
    token_file = token_file or given.get("token_file")
    if server is not None and folder is not None:
        raise click.UsageError("--folder is of this host, and --server of another: one of them")
    if server is not None:
        if token_file is None:
            raise click.UsageError("--server needs --token-file")
        return There(Server(server, read_password(token_file, "--token-file")))
    settings, lab = load((folder or Path()) / SETTINGS)
    return Here(Desk(ledger_of(settings), history_of(settings, lab), settings, lab))
