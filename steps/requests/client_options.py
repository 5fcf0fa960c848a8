"""Command-line options that choose the local service or a server."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from netbisect.steps.requests.clients import HttpClient, LocalClient, RequestClient
from netbisect.steps.requests.http_client import ApiConnection
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.control import SETTINGS
from netbisect.steps.service.database_thread import open_history, open_service_ledger
from netbisect.steps.service.options import folder_option
from netbisect.steps.service.secrets import read_password
from netbisect.steps.service.settings import load

Command = TypeVar("Command", bound=Callable[..., Any])


def client_options(command: Command) -> Command:
    """Adds --folder, --server and --token-file, and passes `client` to the command."""
    for option in (
        click.option(
            "--token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="NETBISECT_TOKEN_FILE",
            help="File with the token from `netbisect token create`; with --server.",
        ),
        click.option(
            "--server",
            metavar="URL",
            envvar="NETBISECT_SERVER",
            help="URL of the web pages of a server, instead of the local service.",
        ),
        folder_option,
    ):
        command = option(command)

    @functools.wraps(command)
    def wrapper(
        *, folder: Path | None, server: str | None, token_file: Path | None, **options: Any
    ) -> Any:
        return command(client=_client(folder, server, token_file), **options)

    return wrapper  # type: ignore[return-value] # click passes other arguments


def _client(folder: Path | None, server: str | None, token_file: Path | None) -> RequestClient:
    """The options may stand before or after the subcommand."""
    above = click.get_current_context().parent
    given = above.params if above is not None else {}
    folder, server = folder or given.get("folder"), server or given.get("server")
    token_file = token_file or given.get("token_file")
    if server is not None and folder is not None:
        raise click.UsageError("--folder and --server exclude each other")
    if server is not None:
        if token_file is None:
            raise click.UsageError("--server needs --token-file")
        return HttpClient(ApiConnection(server, read_password(token_file, "--token-file")))
    settings, lab = load((folder or Path()) / SETTINGS)
    return LocalClient(
        RequestService(open_service_ledger(settings), open_history(settings, lab), settings, lab)
    )
