"""The `netbisect` command; each subcommand is imported when it is used.

An installation without the service still has `netbisect bisect`, and no command waits for the
import of another.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click
from click.shell_completion import CompletionItem

from netbisect.errors import UserError


class _Subcommand(NamedTuple):
    """Short help and location of a subcommand, known without its import."""

    help: str
    """At most 66 characters."""
    module: str = ""
    """In netbisect.cli, if it is not that of the command's name; or with its package."""
    extra: str = "service"
    """The optional dependencies of netbisect that the command needs."""


_COMMANDS = {
    "alerts": _Subcommand("List open alerts and change their state."),
    "backup": _Subcommand("Back up the service in FOLDER to FILE, even while it runs."),
    "bisect": _Subcommand(
        "Bisect any git repository with any command that prints a number.",
        "netbisect.localbisect.cli",
        extra="search",
    ),
    "check": _Subcommand("Check settings, database, repository, mail server and ports.", "master"),
    "detect": _Subcommand("Detect changes of level in a database or in files."),
    "export": _Subcommand("Export documents as JSON."),
    "follow": _Subcommand("Print events as they happen, with times in UTC.", "status"),
    "guard": _Subcommand("Print the script that restricts an SSH key.", "service", extra="worker"),
    "health": _Subcommand("Report the sensitivity of series and the accuracy of alerts."),
    "import": _Subcommand("Import measurements made elsewhere.", "import_measurements"),
    "init": _Subcommand("Create the settings of a new service in FOLDER."),
    "mail": _Subcommand("Execute the command in a reply to an alert; for a mail alias.", "mails"),
    "mails": _Subcommand("List unsent mails and retry them."),
    "metrics": _Subcommand("Print the metrics of the service in FOLDER in Prometheus format."),
    "ministat": _Subcommand("Compare columns of numbers, as FreeBSD's ministat(1)."),
    "night": _Subcommand(
        "Measure the heads of the branches now, as a nightly job would.", "master"
    ),
    "profile": _Subcommand("Profile a kernel, or compare the profiles of two."),
    "report": _Subcommand("Write comparisons for publication."),
    "request": _Subcommand("Request a comparison, a bisection or a series."),
    "restore": _Subcommand("Restore the service in FILE to FOLDER.", "backup"),
    "revision": _Subcommand("Show the commit that a name refers to."),
    "samples": _Subcommand("Export all samples as CSV, with boot and kernel.", "export"),
    "schema": _Subcommand(
        "Print the JSON Schema of a document, or the OpenAPI description.", "export"
    ),
    "service": _Subcommand(
        "Print a systemd unit or an rc.d script for master or worker.", extra="worker"
    ),
    "site": _Subcommand("Write the database as a folder of web pages."),
    "start": _Subcommand("Start the master; workers are started on their own hosts.", "master"),
    "status": _Subcommand("Show the queue and the alerts."),
    "stop": _Subcommand("Stop the master; the next start resumes its work.", "master"),
    "testbeds": _Subcommand("List testbeds, quarantine one, or release it."),
    "token": _Subcommand("Create, list and revoke API tokens."),
    "vm": _Subcommand("Prepare, start or stop the virtual machine of a testbed.", extra="worker"),
}


_UNWRITABLE = "standard output or a temporary file cannot be written"
_UNNAMED = {errno.ENOENT: "the current folder"} | dict.fromkeys(
    (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC), _UNWRITABLE
)
_ERROR_STATUS = 2
"""Not 1, which some commands return as a result."""


def _discard(stream: TextIO) -> None:
    """Closes a stream that failed: its error at exit would become the exit status."""
    with contextlib.suppress(OSError):
        stream.close()


def _not_installed(command: str, error: ImportError) -> click.ClickException:
    extra = _COMMANDS[command].extra
    return click.ClickException(
        f"`netbisect {command}` needs more than is installed here ({error}): "
        f"pip install 'netbisect[{extra}]'"
    )


class _LazyGroup(click.Group):
    """A group that imports only the command that is called."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack the letters of an author
            sys.stdout.reconfigure(errors="backslashreplace")
        if sys.stdin is None:  # closed by the caller
            sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - for the whole process
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            where = error.filename or _UNNAMED.get(error.errno or 0)
            if where is None:
                raise
            if error.filename is None:
                _discard(sys.stdout)
            try:
                click.echo(f"Error: {where}: {error.strerror}.", err=True)
            except OSError:
                _discard(sys.stderr)
            sys.exit(3 if sys.argv[1:2] == ["request"] else _ERROR_STATUS)  # there, 2 is a result

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        name = place.module or cmd_name
        try:
            module = importlib.import_module(name if "." in name else f"netbisect.cli.{name}")
        except ImportError as error:
            raise _not_installed(cmd_name, error) from error
        commands = (one for one in vars(module).values() if isinstance(one, click.Command))
        return next(one for one in commands if one.name == cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:  # None: closed by the caller
                sys.stdout.flush()  # here, where a closed pipe is handled
        except UserError as error:
            raise click.ClickException(str(error)) from error
        except ImportError as error:
            raise _not_installed(ctx.invoked_subcommand or "", error) from error
        except KeyboardInterrupt:  # the status 1 of click is a result of some commands
            click.echo("Interrupted.", err=True)
            sys.exit(128 + signal.SIGINT)
        except BrokenPipeError:
            _discard(sys.stdout)
            sys.exit(128 + signal.SIGPIPE)  # as other programs, which the signal ends
        return result

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
            formatter.write_dl([(name, one.help) for name, one in sorted(_COMMANDS.items())])


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
