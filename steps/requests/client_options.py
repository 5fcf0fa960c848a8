"""Clients of `netbisect request`, chosen by options: the local database, or a server's API."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from netbisect.login import login_name
from netbisect.reports.documents import api
from netbisect.steps.requests.api import read, write
from netbisect.steps.requests.http_client import HttpClient
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.options import folder_option, settings_file
from netbisect.steps.service.rights import Right, User
from netbisect.steps.service.secrets import read_password
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_history, open_service_ledger

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class LocalClient:
    """As HttpClient, on the local database. Raises InvalidRequestError and StoreError."""

    service: RequestService
    user: User
    poll_seconds = 1.0

    def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        found = read(self.service, self.user, path.split("/"), query or {})
        assert isinstance(found, kind)
        return found

    def ask(self, body: api.AskBody, kind: type[T]) -> T:
        self.service.history.update()
        found = write(self.service, self.user, "ask", None, body)
        assert isinstance(found, kind)
        return found

    def change(self, verb: str, number: int, body: Any) -> None:
        getattr(self.service, verb)(self.user, number, body)


RequestClient: TypeAlias = LocalClient | HttpClient


def client_options(command: Command) -> Command:
    """Adds --folder, --server and --token-file, and passes `client` for the user `who`."""

    @folder_option
    @click.option(
        "--server",
        metavar="URL",
        envvar="NETBISECT_SERVER",
        help="URL of the web pages of a server, instead of the local service.",
    )
    @click.option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar="NETBISECT_TOKEN_FILE",
        help="File with the token from `netbisect token create`; with --server.",
    )
    @functools.wraps(command)
    def wrapper(
        *, folder: Path | None, server: str | None, token_file: Path | None, **options: Any
    ) -> Any:
        who = options.pop("who", None)
        return command(client=_client(folder, server, token_file, who), **options)

    return wrapper  # type: ignore[return-value] # click passes other arguments


def _client(
    folder: Path | None, server: str | None, token_file: Path | None, who: str | None
) -> RequestClient:
    if server is not None:
        for name, value in {"--folder": folder, "--who": who}.items():
            if value is not None:
                raise click.UsageError(f"{name} and --server are mutually exclusive")
        if token_file is None:
            raise click.UsageError("--server needs --token-file")
        return HttpClient(server, read_password(token_file, "--token-file"))
    settings, lab = load(settings_file(folder))
    ledger, history = open_service_ledger(settings), open_history(settings, lab)
    user = User(who or login_name(), frozenset(Right), "command", "")
    return LocalClient(RequestService(ledger, settings, lab, history), user)
