"""netbisect: the one command line, whose commands are imported when they are used.

Who installed only the searching and judging has `netbisect bisect`, without Buildbot or a database;
and nobody waits for what the command does not need.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a command is, and what is said of it before it is imported."""

    module: str
    attribute: str
    help: str
    """As `click.Command.get_short_help_str` says it of the command itself."""
    extra: str = "service"
    """Of netbisect, which the command needs."""


_SERVICE = "netbisect.steps.commands"
_COMMANDS = {
    "alerts": _Place(
        "netbisect.steps.alert_commands",
        "alerts",
        "List the confirmed changes of level, and say what is to become of them.",
    ),
    "backup": _Place(
        "netbisect.steps.backup_command",
        "backup",
        "Write the service of FOLDER into FILE; it may be running meanwhile.",
    ),
    "bisect": _Place(
        "netbisect.steps.hand.cli",
        "bisect",
        "Search any repository with any command that prints a number.",
        "search",
    ),
    "check": _Place(
        _SERVICE,
        "check",
        "Look at settings, database, tree and ports; exit status 0 when a start would succeed.",
    ),
    "completion": _Place(
        "netbisect.steps.completion_command",
        "completion",
        "Print what SHELL completes the arguments of netbisect and netbisect-lab by.",
        "worker",
    ),
    "detect": _Place(
        "netbisect.steps.detect_command",
        "detect",
        "List the shifts of level in a database or in history files, each event once.",
    ),
    "export": _Place(
        "netbisect.steps.export_command", "export", "Write what is known as JSON, for programs."
    ),
    "follow": _Place(
        _SERVICE, "follow", "Print a line for everything that happens, as it happens."
    ),
    "guard": _Place(
        "netbisect.steps.guard_command",
        "guard",
        "Print the script by which a key of netbisect can do its work on a machine, and no more.",
        "worker",
    ),
    "health": _Place(
        "netbisect.steps.health_command",
        "health",
        "Judge the watch: what each series can show, and whether what was said was true.",
    ),
    "init": _Place(
        "netbisect.steps.init_command",
        "init",
        "Write the settings of a new service into FOLDER, which must be absent or empty.",
    ),
    "import": _Place(_SERVICE, "import_group", "Take in measurements that were made elsewhere."),
    "metrics": _Place(
        "netbisect.steps.metrics_command",
        "metrics",
        "Print the figures of the service in FOLDER as Prometheus reads them.",
    ),
    "ministat": _Place(
        "netbisect.steps.ministat_command",
        "command",
        "Compare columns of numbers as FreeBSD's ministat(1) does, byte for byte.",
    ),
    "night": _Place(_SERVICE, "night", "Measure the heads of the branches now, as a night would."),
    "profile": _Place(
        "netbisect.steps.profile_command",
        "profile",
        "See in which functions a kernel spends its time, or what became hotter between two.",
    ),
    "report": _Place(
        "netbisect.steps.report_command",
        "report",
        "Write down what was measured, in the forms that people publish.",
    ),
    "request": _Place(
        "netbisect.steps.request_command",
        "request",
        "Ask the lab for a comparison, a search or a series, and follow it.",
    ),
    "restore": _Place(
        "netbisect.steps.backup_command",
        "restore",
        "Make the service in FILE anew in FOLDER, which must be absent or empty.",
    ),
    "revision": _Place(
        "netbisect.steps.revision_command",
        "revision",
        "Say which commit a name means.",
    ),
    "samples": _Place(
        "netbisect.steps.export_command",
        "samples",
        "Write every run of a scenario as a row, valid or not, with its boot and its kernel.",
    ),
    "schema": _Place(
        "netbisect.steps.export_command",
        "schema",
        "Print the JSON Schema of a document; without NAME, which there are.",
    ),
    "service": _Place(
        "netbisect.steps.service_command",
        "service",
        "Print what systemd, or FreeBSD's rc.d, starts the master or the worker of FOLDER by.",
        "worker",
    ),
    "site": _Place(
        "netbisect.steps.site_command",
        "site",
        "Write all that is known as a folder of pages, or bring that up to date.",
    ),
    "start": _Place(_SERVICE, "start", "Start the master; workers are started on their own hosts."),
    "status": _Place(
        _SERVICE,
        "status",
        "Show what is being asked of the lab, and which confirmed changes stand.",
    ),
    "stop": _Place(
        _SERVICE, "stop", "Stop the master; what it was doing goes on at the next start."
    ),
    "testbeds": _Place(
        "netbisect.steps.testbed_commands",
        "testbeds",
        "List the testbeds, put one into quarantine, or release it.",
    ),
    "token": _Place(
        "netbisect.steps.token_command",
        "token",
        "Make tokens for the API, list them, and take them back.",
    ),
    "vm": _Place(
        "netbisect.steps.vm_command",
        "vm",
        "Prepare the virtual machine of a testbed, switch it on or off.",
        "worker",
    ),
}


class _Lazy(click.Group):
    """A group that imports a command when it is called, not when the others are."""

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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click does it, but without the import of every command for a word of help."""
        names = [name for name in sorted(_COMMANDS) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=_COMMANDS[name].help) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].help) for name in sorted(_COMMANDS)])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="netbisect")
def main() -> None:
    """Finds the commit that made a FreeBSD router slower, and proves it.

    FOLDER is where netbisect.toml is; the current one when it is left out.
    """
