"""`netbisect request`: comparisons, bisections and series on request."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import click

from netbisect.cli.listing import day, json_option, print_json, print_table
from netbisect.errors import UserError
from netbisect.reports.documents import api, json_schema
from netbisect.reports.documents.openapi import MOST_LISTED
from netbisect.reports.model import types
from netbisect.reports.pages import requests
from netbisect.reports.render import words
from netbisect.steps.policy.request_spec import BISECT, COMPARE, PRIORITIES, SERIES
from netbisect.steps.queries import request_answer
from netbisect.steps.requests.api import REFUSALS
from netbisect.steps.requests.client_options import RequestClient, client_options
from netbisect.steps.requests.http_client import ServerError
from netbisect.steps.requests.service import cost_text
from netbisect.steps.service.options import folder_option
from netbisect.workers.build.patches import MOST_BYTES
from netbisect.workers.config.tunables import SYSCTL_MARK

Command = TypeVar("Command", bound=Callable[..., Any])

_SETTINGS = "NAME=VALUE[,...]"
_POLL_ATTEMPTS = 60
"""Consecutive failures of the server that --wait tolerates."""
_INTERRUPTED = 130
"""Exit status of --wait after Ctrl-C."""


class _FailedError(click.ClickException):
    exit_code = request_answer.EXIT[request_answer.FAILED]


@contextmanager
def _failing() -> Iterator[None]:
    """Gives errors the exit status 3: 1 and 2 are results."""
    try:
        yield
    except click.ClickException as error:
        raise _FailedError(error.format_message()) from error
    except (UserError, ServerError, *REFUSALS) as error:
        raise _FailedError(str(error)) from error


class _RequestGroup(click.Group):
    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _failing():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _failing():
            return super().invoke(ctx)


@click.group("request", cls=_RequestGroup, epilog="Example: netbisect request show 7 --wait")
@folder_option
def request(**_: Any) -> None:
    """Request a comparison, a bisection or a series; REV+D5180 adds a patch."""


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _several(name: str, target: str, metavar: str, text: str) -> Any:
    return click.option(name, target, metavar=metavar, multiple=True, help=f"{text} Repeatable.")


_who = click.option("--who", help="Requester (default: your login name); not with --server.")
_wait_option = click.option(
    "--wait", is_flag=True, help="Wait for the result, which is the exit status."
)
_request_options = _options(
    _several("--testbed", "testbeds", "NAME", "Testbed (default: the only one)."),
    _several(
        "--scenario",
        "scenarios",
        "NAME",
        "Scenario, the leading one first, or `all` (default: the testbed's first).",
    ),
    _several("--tunable", "tunables", _SETTINGS, "Also measure with these loader tunables."),
    _several("--sysctl", "sysctls", _SETTINGS, "Also measure with these sysctls."),
    click.option("--branch", default="", help="Branch (default: the first of the settings)."),
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
    _who,
    click.option("--mail", "address", default="", help="Mail the result to this address."),
    click.option("--dry-run", is_flag=True, help="Only print the cost."),
    _wait_option,
    json_option,
    client_options,
)
"""Options of all requests."""
_boot_options = _options(
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
    click.option("--repeat", is_flag=True, help="Compare twice, each time with new boots."),
    click.option("--fresh", is_flag=True, help="Do not reuse boots of other jobs."),
)
"""Options of comparisons and series."""


def _read(given: tuple[str, ...]) -> tuple[api.PatchBody, ...]:
    found = []
    for text in given:
        base, _, name = text.rpartition("=")
        if base and Path(text).is_file():  # a file name that contains `=`
            base, name = "", text
        with Path(name).open("rb") as stream:
            diff = base64.b64encode(stream.read(MOST_BYTES + 1)).decode()
        found.append(api.PatchBody(base64=diff, base=base))
    return tuple(found)


@request.command(
    epilog="Examples: netbisect request compare main~5 main --boots 10 --testbed c2558; "
    "netbisect request compare main main+D5180; "
    "netbisect request compare main --patch fix.diff --repeat --wait"
)
@click.argument("revisions", metavar="REV [REV]", nargs=-1)
@_boot_options
@_request_options
def compare(revisions: tuple[str, ...], **options: Any) -> None:
    """Compare two revisions, or a revision with and without a patch.

    The first is the base; D5180 alone means it with the patch of that review.
    """
    _submit(COMPARE, revisions, **options)


@request.command(
    short_help="Measure revisions and patches, each compared with the first.",
    epilog="Example: netbisect request series r311848 r311849 r312904 --testbed c2558 --boots 5",
)
@click.argument("revisions", metavar="REV...", nargs=-1)
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
    kind: Literal["compare", "bisect", "series"],
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
    marked = (SYSCTL_MARK + one.replace(",", f",{SYSCTL_MARK}") for one in sysctls)
    body = api.AskBody(
        kind=kind,
        subjects=subjects,
        patches=_read(patches),
        tunables=(*tunables, *marked),
        dry_run=dry_run,
        **options,
    )
    if dry_run:
        cost = client.ask(body, api.CostEstimate)
        if as_json:
            print_json(cost)
        else:
            click.echo(cost_text(cost))
        return
    found = client.ask(body, types.RequestDocument)
    if wait:
        _wait(client, found.number, as_json=as_json)
    else:
        _print(found, as_json=as_json)


def _wait(client: RequestClient, number: int, *, as_json: bool) -> NoReturn:
    """Prints progress to standard error until the request ends; exits with its status.

    Ctrl-C exits with 130: the status 1 of click would mean a regression.
    """
    try:
        found = _ended(client, number)
    except KeyboardInterrupt:
        again = f"netbisect request show {number} --wait"
        click.echo(f"\nInterrupted. Request {number} continues: `{again}`.", err=True)
        click.get_current_context().exit(_INTERRUPTED)
    _print(found, as_json=as_json)
    click.get_current_context().exit(
        request_answer.EXIT[request_answer.FAILED] if found.status is None else found.status
    )


def _ended(client: RequestClient, number: int) -> types.RequestDocument:
    """The request at its end; prints progress to standard error before.

    Retries while the server is unreachable.
    """
    last, failures = "", 0
    while True:
        try:
            found = client.get(f"requests/{number}", types.RequestDocument)
        except ServerError as error:
            failures += 1
            if not error.temporary or failures == _POLL_ATTEMPTS:
                raise
        else:
            if found.state != "open":
                return found
            failures = 0
            line = "; ".join(requests.part_line(one) for one in found.parts if one.state == "open")
            shown = line.partition(", about")[0]
            if shown != last:
                click.echo(f"request {number}: {line}", err=True)
                last = shown
        time.sleep(client.poll_seconds)


def _print(found: types.RequestDocument, *, as_json: bool) -> None:
    click.echo(json_schema.as_text(found) if as_json else requests.as_text(found))


@request.command("list", epilog="Example: netbisect request list --mine")
@click.option("--mine", is_flag=True, help="Only requests of --who.")
@click.option("--all", "everything", is_flag=True, help="Include closed requests.")
@_who
@json_option
@client_options
def list_requests(client: RequestClient, *, mine: bool, everything: bool, as_json: bool) -> None:
    """List the latest 1000 requests, newest first."""
    query = {"limit": str(MOST_LISTED)}
    query |= {"who": client.get("caller", api.Caller).who} if mine else {}
    query |= {} if everything else {"state": "open"}
    found = client.get("requests", api.RequestList, query).requests
    if as_json:
        print_json(found)
        return
    rows = []
    for one in found:
        what = f"{one.kind} {requests.revisions(one.kind, one.labels)}"
        rows.append((one.number, day(one.opened_at), one.who, what, one.verdict or one.state))
    empty = "No requests." if everything else "No open requests."
    print_table(("number", "since", "who", "what", "state"), rows, empty, 120)


@request.command(epilog="Example: netbisect request show 7 --json")
@click.argument("number", type=int)
@_wait_option
@json_option
@client_options
def show(number: int, client: RequestClient, *, wait: bool, as_json: bool) -> None:
    """Show the progress or the result of a request, and its history."""
    if wait:
        _wait(client, number, as_json=as_json)
    _print(client.get(f"requests/{number}", types.RequestDocument), as_json=as_json)


@request.command(epilog="Example: netbisect request cancel 7 --why 'wrong patch'")
@click.argument("number", type=int)
@click.option("--why", default="", help="Reason, for the audit log.")
@_who
@client_options
def cancel(number: int, why: str, client: RequestClient) -> None:
    """Cancel a request; the testbed returns to its known-good kernel."""
    client.change("cancel", number, api.CancelBody(why))
    click.echo(f"Request {number} is cancelled; `netbisect request resume {number}` resumes it.")


@request.command(epilog="Example: netbisect request resume 7")
@click.argument("number", type=int)
@_who
@client_options
def resume(number: int, client: RequestClient) -> None:
    """Resume a cancelled request; its measurements are kept."""
    client.change("resume", number, api.ResumeBody())
    click.echo(f"Request {number} resumes.")


@request.command(
    short_help="Extend a request by boots, or by hours of a bisection.",
    epilog="Example: netbisect request extend 7 --boots 3",
)
@click.argument("number", type=int)
@click.option("--boots", type=int, default=0, help="More boots per revision.")
@click.option("--hours", type=float, default=0.0, help="More hours for a bisection.")
@_who
@client_options
def extend(number: int, boots: int, hours: float, client: RequestClient) -> None:
    """Extend a request by boots per revision, or by hours of a bisection."""
    client.change("extend", number, api.ExtendBody(boots, hours))
    click.echo(f"Request {number} is extended.")


@request.command(epilog="Example: netbisect request priority 7 high")
@click.argument("number", type=int)
@click.argument("level", type=click.Choice([*PRIORITIES]))
@_who
@client_options
def priority(number: int, level: Literal["low", "normal", "high"], client: RequestClient) -> None:
    """Set the priority of a request."""
    client.change("priority", number, api.PriorityBody(level))
    click.echo(f"Request {number} has priority {level}.")


@request.command(epilog="Example: netbisect request audit --after 120")
@click.option(
    "--after", type=click.IntRange(min=0), default=0, help="Only entries after this number."
)
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=100, show_default=True)
@json_option
@client_options
def audit(client: RequestClient, after: int, limit: int, *, as_json: bool) -> None:
    """List the audit log, oldest entries first."""
    found = client.get("audit", api.Audit, {"after": str(after), "limit": str(limit)})
    if as_json:
        print_json(found)
        return
    rows = []
    for one in found.entries:
        number = one.request or one.data.get("number")
        what = f"{one.what} {number}" if number else one.what
        detail = one.data.get("why") or one.data.get("for") or ""
        rows.append((one.number, words.moment(one.at), one.who, one.via, one.origin, what, detail))
    print_table(("", "when", "who", "by", "from", "what", ""), rows, "No entries.")
