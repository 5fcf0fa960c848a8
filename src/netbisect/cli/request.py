"""`netbisect request`: comparisons, bisections and series on request."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from netbisect.errors import UserError
from netbisect.reports.documents import api, json_schema, types
from netbisect.reports.pages import requests
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table
from netbisect.steps.policy.request_spec import (
    BISECT,
    COMPARE,
    PRIORITIES,
    SERIES,
    InvalidRequestError,
    PatchFile,
    RequestSpec,
)
from netbisect.steps.queries import request_answer
from netbisect.steps.requests.client_options import client_options
from netbisect.steps.requests.clients import RequestClient
from netbisect.steps.requests.http_client import ServerError
from netbisect.steps.requests.service import search_cost_lines
from netbisect.steps.service.options import folder_option
from netbisect.workers.build.patches import MOST_BYTES
from netbisect.workers.config.tunables import SYSCTL_MARK

Command = TypeVar("Command", bound=Callable[..., Any])

_POLL_ATTEMPTS = 60
"""Consecutive failures of the server that --wait tolerates."""


class _RequestGroup(click.Group):
    """Errors have exit status 3: 1 and 2 are results."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Reads the command line."""
        try:
            return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            _fail(error)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except (UserError, InvalidRequestError, ServerError) as error:
            _fail(click.ClickException(str(error)))
        except click.ClickException as error:
            _fail(error)


class _Failed(click.ClickException):
    """Ends with the status of an error."""

    exit_code = request_answer.EXIT[request_answer.FAILED]


def _fail(error: click.ClickException) -> NoReturn:
    raise _Failed(error.format_message()) from error


@click.group("request", cls=_RequestGroup, epilog="Example: netbisect request show 7 --wait")
@folder_option
@click.option("--server", metavar="URL", help="As for the subcommands.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="As for the subcommands.",
)
def request(**_: Any) -> None:
    """Request a comparison, a bisection or a series; REV+D5180 adds a patch."""


def _request_options(command: Command) -> Command:
    """Options of all requests."""
    for option in reversed(
        [
            click.option(
                "--testbed",
                "testbeds",
                metavar="NAME",
                multiple=True,
                help="Testbed (default: the only one). Repeatable.",
            ),
            click.option(
                "--scenario",
                "scenarios",
                metavar="NAME",
                multiple=True,
                help="Scenario, the leading one first, or `all` (default: the testbed's first). "
                "May be repeated.",
            ),
            click.option(
                "--tunable",
                "tunables",
                metavar="NAME=VALUE[,...]",
                multiple=True,
                help="Also measure with these loader tunables. Repeatable.",
            ),
            click.option(
                "--sysctl",
                "sysctls",
                metavar="NAME=VALUE[,...]",
                multiple=True,
                help="Also measure with these sysctls. Repeatable.",
            ),
            click.option(
                "--branch", default="", help="Branch (default: the first of the settings)."
            ),
            click.option(
                "--margin",
                "margin_percent",
                type=float,
                metavar="PERCENT",
                help="Smallest relevant drop (default: min_effect_percent of the settings).",
            ),
            click.option(
                "--priority",
                type=click.Choice([*PRIORITIES]),
                default="normal",
                show_default=True,
                help="Nightly jobs are between low and normal.",
            ),
            click.option(
                "--who", default=getpass.getuser, help="Requester (default: your login name)."
            ),
            click.option("--mail", "address", default="", help="Mail the result to this address."),
            click.option("--dry-run", is_flag=True, help="Only print the cost."),
            click.option(
                "--wait", is_flag=True, help="Wait for the result, which is the exit status."
            ),
            click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
            client_options,
        ]
    ):
        command = option(command)
    return command


def _boot_options(command: Command) -> Command:
    """Options of comparisons and series."""
    for option in reversed(
        [
            click.option(
                "--patch",
                "patches",
                metavar="[REV=]FILE",
                multiple=True,
                help="Also measure REV, or the first revision, with this diff.",
            ),
            click.option(
                "--boots",
                type=int,
                metavar="N",
                help="Boots per revision (default: that of the settings, or 5).",
            ),
            click.option(
                "--repeat", is_flag=True, help="Run twice, with boots of its own for each run."
            ),
            click.option("--fresh", is_flag=True, help="Do not reuse boots of other jobs."),
        ]
    ):
        command = option(command)
    return command


def _read(given: tuple[str, ...]) -> tuple[PatchFile, ...]:
    found = []
    for text in given:
        base, _, name = text.rpartition("=")
        if base and Path(text).is_file():  # a file name that contains `=`
            base, name = "", text
        try:
            with Path(name).open("rb") as stream:
                found.append(PatchFile(stream.read(MOST_BYTES + 1), base))
        except OSError as error:
            raise click.ClickException(
                f"--patch {name}: cannot be read: {error.strerror}"
            ) from error
    return tuple(found)


@request.command(
    epilog="Examples: netbisect request compare main~5 main --boots 10 --testbed c2558; "
    "netbisect request compare main+D5180 main; "
    "netbisect request compare main --patch fix.diff --repeat --wait"
)
@click.argument("revisions", metavar="REV [REV]", nargs=-1)
@_boot_options
@_request_options
def compare(revisions: tuple[str, ...], **options: Any) -> None:
    """Compare two revisions, or a revision with and without a patch.

    D5180 alone means the first revision with the patch of that review.
    """
    _submit(COMPARE, revisions, **options)


@request.command(
    epilog="Example: netbisect request series r311848 r311849 r312904 --testbed c2558 --boots 5"
)
@click.argument("revisions", metavar="REV REV...", nargs=-1)
@_boot_options
@_request_options
def series(revisions: tuple[str, ...], **options: Any) -> None:
    """Measure up to seven revisions and patches, each compared with the first.

    --tunable and --sysctl compare settings, also of a single revision.
    """
    _submit(SERIES, revisions, **options)


@request.command(
    epilog="Examples: netbisect request bisect 0a1b2c3d..main --testbed c2558; "
    "netbisect request bisect main --testbed c2558 --scenario inet4-pf-stateful"
)
@click.argument("bounds", metavar="A..B", nargs=1)
@click.option(
    "--hours", type=float, help="Lab time in hours (default: that of the settings, or 48)."
)
@_request_options
def bisect(bounds: str, **options: Any) -> None:
    """Find the commit between A and B that caused a regression.

    B alone starts at the last revision measured before the last drop.
    """
    _submit(BISECT, (bounds,), **options)


def _submit(
    kind: str,
    subjects: tuple[str, ...],
    *,
    client: RequestClient,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    patches: tuple[str, ...] = (),
    tunables: tuple[str, ...] = (),
    sysctls: tuple[str, ...] = (),
    **options: Any,
) -> None:
    spec = RequestSpec(
        kind=kind,
        subjects=subjects,
        patches=_read(patches),
        tunables=(*tunables, *map(_as_sysctls, sysctls)),
        **options,
    )
    if dry_run:
        _print_cost(client.cost(spec), as_json=as_json)
        return
    found = client.ask(spec)
    if wait:
        _wait(client, found.number, as_json=as_json)
    else:
        _print(found, as_json=as_json)


def _as_sysctls(text: str) -> str:
    return ",".join(f"{SYSCTL_MARK}{part}" for part in text.split(","))


def _print_cost(found: api.CostEstimate, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(json_schema.as_plain(found), indent=2))
        return
    rows = [("testbed", "builds", "boots", "reused", "time")]
    for one in found.testbeds:
        builds, boots, shared = len(one.builds), one.boots, one.shared
        rows.append(
            (one.testbed, str(builds), str(boots), str(shared), words.duration(one.seconds))
        )
    click.echo(table(rows, indent=0))
    click.echo(f"and {words.duration(found.build_seconds)} of builders")
    for line in search_cost_lines(found):
        click.echo(line)


def _wait(client: RequestClient, number: int, *, as_json: bool) -> NoReturn:
    """Prints progress to standard error until the request ends; exits with its status."""
    last = ""
    found = _look(client, number)
    while found.state == "open":
        line = "; ".join(requests.part_line(one) for one in found.parts if one.state == "open")
        shown = line.partition(", about")[0]
        if shown != last:
            click.echo(f"request {number}: {line}", err=True)
            last = shown
        time.sleep(client.poll_seconds)
        found = _look(client, number)
    _print(found, as_json=as_json)
    click.get_current_context().exit(
        request_answer.EXIT[request_answer.FAILED] if found.status is None else found.status
    )


def _look(client: RequestClient, number: int) -> types.RequestDocument:
    """The current request; retries while the server is unreachable."""
    for left in range(_POLL_ATTEMPTS, 0, -1):
        try:
            return client.show(number)
        except ServerError as error:
            if not error.temporary or left == 1:
                raise
            time.sleep(client.poll_seconds)
    raise AssertionError


def _print(found: types.RequestDocument, *, as_json: bool) -> None:
    click.echo(json_schema.as_text(found) if as_json else requests.as_text(found))


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_who = click.option("--who", default=getpass.getuser, help="Requester (default: your login name).")


@request.command("list", epilog="Example: netbisect request list --mine")
@click.option("--mine", is_flag=True, help="Only requests of --who.")
@click.option("--all", "everything", is_flag=True, help="Include closed requests.")
@_who
@_json
@client_options
def list_requests(
    client: RequestClient, who: str, *, mine: bool, everything: bool, as_json: bool
) -> None:
    """List requests, newest first."""
    found = client.list(who=who if mine else None, everything=everything)
    if as_json:
        click.echo(json.dumps([json_schema.as_plain(one) for one in found], indent=2))
        return
    if not found:
        click.echo("No requests." if everything else "No open requests.")
        return
    rows: list[tuple[str, ...]] = [("number", "since", "who", "what", "state")]
    for one in found:
        what = f"{one.kind} {', '.join(one.labels)}"
        row = (str(one.number), words.day(one.opened_at), one.who, what, one.verdict or one.state)
        rows.append(tuple(map(words.clean, row)))
    click.echo(table(rows, indent=0, width=120))


@request.command(epilog="Example: netbisect request show 7 --json")
@click.argument("number", type=int)
@click.option("--wait", is_flag=True, help="Wait for the result, which is the exit status.")
@_json
@client_options
def show(number: int, client: RequestClient, *, wait: bool, as_json: bool) -> None:
    """Show the progress or the result of a request, and its history."""
    if wait:
        _wait(client, number, as_json=as_json)
    _print(client.show(number), as_json=as_json)


@request.command(epilog="Example: netbisect request cancel 7 --why 'wrong patch'")
@click.argument("number", type=int)
@click.option("--why", default="", help="Reason, for the audit log.")
@_who
@client_options
def cancel(number: int, why: str, who: str, client: RequestClient) -> None:
    """Cancel a request; the testbed returns to its known-good kernel."""
    client.change("cancel", number, who, why=why)
    click.echo(f"Request {number} is cancelled; `netbisect request resume {number}` resumes it.")


@request.command(epilog="Example: netbisect request resume 7")
@click.argument("number", type=int)
@_who
@client_options
def resume(number: int, who: str, client: RequestClient) -> None:
    """Resume a cancelled request; its measurements are kept."""
    client.change("resume", number, who)
    click.echo(f"Request {number} resumes.")


@request.command(epilog="Example: netbisect request extend 7 --boots 3")
@click.argument("number", type=int)
@click.option("--boots", type=int, default=0, help="More boots per revision.")
@click.option("--hours", type=float, default=0.0, help="More hours for a bisection.")
@_who
@client_options
def extend(number: int, boots: int, hours: float, who: str, client: RequestClient) -> None:
    """Extend a request by boots per revision, or by hours of a bisection."""
    client.change("extend", number, who, boots=boots, hours=hours)
    click.echo(f"Request {number} resumes.")


@request.command(epilog="Example: netbisect request priority 7 high")
@click.argument("number", type=int)
@click.argument("level", metavar="LEVEL")
@_who
@client_options
def priority(number: int, level: str, who: str, client: RequestClient) -> None:
    """Set the priority of a request: low, normal or high."""
    client.change("priority", number, who, priority=level)
    click.echo(f"Request {number} has priority {level}.")


@request.command(epilog="Example: netbisect request audit --after 120")
@click.option(
    "--after", type=click.IntRange(min=0), default=0, help="Only entries after this number."
)
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=100, show_default=True)
@_json
@client_options
def audit(client: RequestClient, after: int, limit: int, *, as_json: bool) -> None:
    """List the audit log, oldest entries first."""
    found = client.audit(after, limit)
    if as_json:
        click.echo(json.dumps(json_schema.as_plain(found), indent=2))
        return
    rows: list[tuple[str, ...]] = [("", "when", "who", "by", "from", "what", "")]
    for one in found.deeds:
        number = one.request or one.data.get("number")
        what = f"{one.what} {number}" if number else one.what
        detail = one.data.get("why") or one.data.get("for") or ""
        row = (str(one.number), words.moment(one.at), one.who, one.via, one.origin, what, detail)
        rows.append(tuple(map(words.clean, row)))
    click.echo(table(rows, indent=0, width=160))
