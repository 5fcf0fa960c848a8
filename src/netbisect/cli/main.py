"""The `netbisect` command; each subcommand is imported when it is used.

An installation without the service still has `netbisect bisect`, and no command waits for the
import of another.
"""

from __future__ import annotations

import importlib
from textwrap import shorten
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from netbisect.errors import UserError


class _Subcommand(NamedTuple):
    """Location and short help of a subcommand, known without its import."""

    module: str
    attribute: str
    help: str
    """The first sentence of the command's own help."""
    extra: str = "service"
    """The optional dependencies of netbisect that the command needs."""


_CLI = "netbisect.cli"
_NAMES_WIDTH = 14
"""Columns of the names of commands in the help."""
_COMMANDS = {
    "alerts": _Subcommand(f"{_CLI}.alerts", "alerts", "List open alerts and change their state."),
    "backup": _Subcommand(
        f"{_CLI}.backup", "backup", "Back up the service in FOLDER to FILE, also while it runs."
    ),
    "bisect": _Subcommand(
        "netbisect.localbisect.cli",
        "bisect",
        "Bisect any git repository with any command that prints a number.",
        "search",
    ),
    "check": _Subcommand(
        f"{_CLI}.master",
        "check",
        "Check settings, database, repository, mail server and ports.",
    ),
    "detect": _Subcommand(
        f"{_CLI}.detect", "detect", "Detect changes of level in a database or in files."
    ),
    "export": _Subcommand(f"{_CLI}.export", "export", "Export documents as JSON."),
    "follow": _Subcommand(f"{_CLI}.status", "follow", "Print events as they happen."),
    "guard": _Subcommand(
        f"{_CLI}.guard",
        "guard",
        "Print the script that restricts an SSH key to the work of netbisect.",
        "worker",
    ),
    "health": _Subcommand(
        f"{_CLI}.health",
        "health",
        "Report the sensitivity of each series and the accuracy of past alerts.",
    ),
    "import": _Subcommand(
        f"{_CLI}.import_measurements", "import_group", "Import measurements made elsewhere."
    ),
    "init": _Subcommand(
        f"{_CLI}.init",
        "init",
        "Create the settings of a new service in FOLDER, which must be absent or empty.",
    ),
    "mail": _Subcommand(
        f"{_CLI}.mails",
        "mail",
        "Execute the command in a reply to an alert, a mail on standard input; for an alias.",
    ),
    "mails": _Subcommand(f"{_CLI}.mails", "mails", "List unsent mails and retry them."),
    "metrics": _Subcommand(
        f"{_CLI}.metrics",
        "metrics",
        "Print the metrics of the service in FOLDER in Prometheus format.",
    ),
    "ministat": _Subcommand(
        f"{_CLI}.ministat",
        "command",
        "Compare columns of numbers; the output equals that of FreeBSD's ministat(1).",
    ),
    "night": _Subcommand(
        f"{_CLI}.master", "night", "Measure the heads of the branches now, as a nightly job would."
    ),
    "profile": _Subcommand(
        f"{_CLI}.profile", "profile", "Profile a kernel, or compare the profiles of two."
    ),
    "report": _Subcommand(f"{_CLI}.report", "report", "Write comparisons for publication."),
    "request": _Subcommand(
        f"{_CLI}.request",
        "request",
        "Request a comparison, a bisection or a series; REV+D5180 adds a patch.",
    ),
    "restore": _Subcommand(
        f"{_CLI}.backup",
        "restore",
        "Restore the service in FILE to FOLDER, which must be absent or empty.",
    ),
    "revision": _Subcommand(f"{_CLI}.revision", "revision", "Show the commit that a name means."),
    "samples": _Subcommand(
        f"{_CLI}.export", "samples", "Export all samples as CSV, with boot and kernel."
    ),
    "schema": _Subcommand(
        f"{_CLI}.export",
        "schema",
        "Print the JSON Schema of a document or the OpenAPI description; list them without NAME.",
    ),
    "service": _Subcommand(
        f"{_CLI}.service",
        "service",
        "Print a systemd unit or an rc.d script for the master or the worker of FOLDER.",
        "worker",
    ),
    "site": _Subcommand(f"{_CLI}.site", "site", "Write the database as a folder of web pages."),
    "start": _Subcommand(
        f"{_CLI}.master", "start", "Start the master; workers are started on their own hosts."
    ),
    "status": _Subcommand(f"{_CLI}.status", "status", "Show the queue and the alerts."),
    "stop": _Subcommand(
        f"{_CLI}.master", "stop", "Stop the master; the next start resumes its work."
    ),
    "testbeds": _Subcommand(
        f"{_CLI}.testbeds", "testbeds", "List testbeds, quarantine one, or release it."
    ),
    "token": _Subcommand(f"{_CLI}.token", "token", "Create, list and revoke API tokens."),
    "vm": _Subcommand(
        f"{_CLI}.vm", "vm", "Prepare, start or stop the virtual machine of a testbed.", "worker"
    ),
}


class _LazyGroup(click.Group):
    """A group that imports only the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        try:
            command: click.Command = getattr(importlib.import_module(place.module), place.attribute)
        except ImportError as error:
            raise click.ClickException(
                f"`netbisect {cmd_name}` needs more than is installed here ({error}): "
                f"pip install 'netbisect[{place.extra}]'"
            ) from error
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise click.ClickException(str(error)) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Like click's, without importing every command for its help."""
        names = [name for name in sorted(_COMMANDS) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=_COMMANDS[name].help) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Only the commands: the text above them names the options."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            room = formatter.width - _NAMES_WIDTH
            formatter.write_dl(
                [
                    (name, shorten(_COMMANDS[name].help, room, placeholder="..."))
                    for name in sorted(_COMMANDS)
                ]
            )


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: netbisect bisect run --good v1.4 --bad main -- ./bench",
)
@click.version_option(package_name="netbisect")
def main() -> None:
    """Finds the commit that made a FreeBSD router slower, and verifies it.

    FOLDER contains netbisect.toml; the default is the current folder.
    """
