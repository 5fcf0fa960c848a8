"""`netbisect request`: ask the lab, follow what was asked, and change one's mind."""

from __future__ import annotations

import getpass
import json
import time
from pathlib import Path
from typing import Any, NoReturn

import click

from netbisect.reports import api, documents, schema, words
from netbisect.reports import requests as telling
from netbisect.reports.plaintext import table
from netbisect.steps import request_answer as answers
from netbisect.steps.options import Sentences, folder_option
from netbisect.steps.request_counter import Counter
from netbisect.steps.request_options import asking, boots_options
from netbisect.steps.request_place import place_options
from netbisect.steps.request_server import ServerError
from netbisect.steps.wish import BISECT, COMPARE, SERIES, PatchFile, Wish, WishError
from netbisect.store.history import HistoryError
from netbisect.workers.patches import MOST_BYTES

_LOOKS = 60
"""In a row at a server that does not answer, while somebody waits."""


class _Requests(Sentences):
    """Whatever is wrong ends with status 3: 1 and 2 are answers here."""

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
        except (WishError, HistoryError, ServerError) as error:
            _fail(click.ClickException(str(error)))
        except click.ClickException as error:
            _fail(error)


class _Failed(click.ClickException):
    """Ends with the status of an error."""

    exit_code = answers.EXIT[answers.FAILED]


def _fail(error: click.ClickException) -> NoReturn:
    raise _Failed(error.format_message()) from error


@click.group("request", cls=_Requests)
@folder_option
@click.option("--server", metavar="URL", help="As of the subcommands.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="As of the subcommands.",
)
def request(**_: Any) -> None:
    """Ask the lab for a comparison, a search or a series, and follow it.

    A revision goes by any name that `netbisect revision` knows; REV+D5180 is one with a review's
    patch. With --wait the exit status is the answer: 0 no regression, 1 regression, 2
    inconclusive, 3 error.
    """


# ------------------------------------------------------------------------------------- asking


def _read(given: tuple[str, ...]) -> tuple[PatchFile, ...]:
    found = []
    for text in given:
        base, _, name = text.rpartition("=")
        if base and Path(text).is_file():  # a name with that sign in it
            base, name = "", text
        try:
            with Path(name).open("rb") as stream:
                found.append(PatchFile(stream.read(MOST_BYTES + 1), base))
        except OSError as error:
            raise click.ClickException(
                f"--patch {name}: it cannot be read: {error.strerror}"
            ) from error
    return tuple(found)


@request.command(
    epilog="Examples: netbisect request compare main~5 main --boots 10 --testbed c2558; "
    "netbisect request compare main+D5180 main; "
    "netbisect request compare main --patch fix.diff --repeat --wait"
)
@click.argument("revisions", metavar="REV [REV]", nargs=-1)
@boots_options
@asking
def compare(revisions: tuple[str, ...], **options: Any) -> None:
    """Compare two revisions, or a revision with and without a patch.

    D5180 alone is the first revision with that review's patch.
    """
    _ask(COMPARE, revisions, **options)


@request.command(
    epilog="Example: netbisect request series r311848 r311849 r312904 --testbed c2558 --boots 5"
)
@click.argument("revisions", metavar="REV REV...", nargs=-1)
@boots_options
@asking
def series(revisions: tuple[str, ...], **options: Any) -> None:
    """Measure up to seven revisions and patches side by side, each against the first."""
    _ask(SERIES, revisions, **options)


@request.command(
    epilog="Examples: netbisect request bisect 0a1b2c3d..main --testbed c2558; "
    "netbisect request bisect main --testbed c2558 --scenario inet4-pf-stateful"
)
@click.argument("bounds", metavar="A..B", nargs=1)
@click.option("--hours", type=float, help="Of the lab (default: 48, or the settings').")
@asking
def bisect(bounds: str, **options: Any) -> None:
    """Search for the commit that made it slower between A and B.

    With B alone A is the last revision that was measured before the last drop.
    """
    _ask(BISECT, (bounds,), **options)


def _ask(
    kind: str,
    subjects: tuple[str, ...],
    *,
    counter: Counter,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    patches: tuple[str, ...] = (),
    **options: Any,
) -> None:
    wish = Wish(kind=kind, subjects=subjects, patches=_read(patches), **options)
    if dry_run:
        _tell_cost(counter.cost(wish), as_json=as_json)
        return
    found = counter.ask(wish)
    if wait:
        _wait(counter, found.number, as_json=as_json)
    else:
        _tell(found, as_json=as_json)


def _tell_cost(found: api.Cost, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(schema.told(found), indent=2))
        return
    rows = [("testbed", "builds", "boots", "made already", "time")]
    for one in found.testbeds:
        builds, boots, shared = len(one.builds), one.boots, one.shared
        rows.append(
            (one.testbed, str(builds), str(boots), str(shared), words.duration(one.seconds))
        )
    click.echo(table(rows, indent=0))
    click.echo(f"and {words.duration(found.build_seconds)} of builders")


def _wait(counter: Counter, number: int, *, as_json: bool) -> NoReturn:
    """Until it is over; what changes is said on standard error, the answer is the status."""
    said = ""
    found = _look(counter, number)
    while found.state == "open":
        line = "; ".join(telling.part_line(one) for one in found.parts if one.state == "open")
        shown = line.partition(", about")[0]
        if shown != said:
            click.echo(f"request {number}: {line}", err=True)
            said = shown
        time.sleep(counter.look_seconds)
        found = _look(counter, number)
    _tell(found, as_json=as_json)
    click.get_current_context().exit(
        answers.EXIT[answers.FAILED] if found.status is None else found.status
    )


def _look(counter: Counter, number: int) -> documents.Request:
    """A request as it stands; a server that is away for a while does not end the waiting."""
    for left in range(_LOOKS, 0, -1):
        try:
            return counter.show(number)
        except ServerError as error:
            if not error.passing or left == 1:
                raise
            time.sleep(counter.look_seconds)
    raise AssertionError


def _tell(found: documents.Request, *, as_json: bool) -> None:
    click.echo(schema.as_text(found) if as_json else telling.as_text(found))


# ---------------------------------------------------------------------- following and changing

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_who = click.option("--who", default=getpass.getuser, help="Default: your login name.")


@request.command("list", epilog="Example: netbisect request list --mine")
@click.option("--mine", is_flag=True, help="Only those of --who.")
@click.option("--all", "everything", is_flag=True, help="Those that are over, too.")
@_who
@_json
@place_options
def list_requests(
    counter: Counter, who: str, *, mine: bool, everything: bool, as_json: bool
) -> None:
    """List what was asked for, the newest first."""
    found = counter.list(who=who if mine else None, everything=everything)
    if as_json:
        click.echo(json.dumps([schema.told(one) for one in found], indent=2))
        return
    if not found:
        click.echo("Nothing is asked for." if not everything else "Nothing was asked for.")
        return
    rows: list[tuple[str, ...]] = [("number", "since", "who", "what", "state")]
    for one in found:
        what = f"{one.kind} {', '.join(one.labels)}"
        row = (str(one.number), words.day(one.opened_at), one.who, what, one.verdict or one.state)
        rows.append(tuple(map(words.clean, row)))
    click.echo(table(rows, indent=0, width=120))


@request.command(epilog="Example: netbisect request show 7 --json")
@click.argument("number", type=int)
@click.option("--wait", is_flag=True, help="Wait for the answer: it is the status.")
@_json
@place_options
def show(number: int, counter: Counter, *, wait: bool, as_json: bool) -> None:
    """Show how far a request is, or its answer, and all that happened to it."""
    if wait:
        _wait(counter, number, as_json=as_json)
    _tell(counter.show(number), as_json=as_json)


@request.command(epilog="Example: netbisect request cancel 7 --why 'wrong patch'")
@click.argument("number", type=int)
@click.option("--why", default="", help="For the log.")
@_who
@place_options
def cancel(number: int, why: str, who: str, counter: Counter) -> None:
    """Stop a request; the testbed is left on its known-good kernel."""
    counter.change("cancel", number, who, why=why)
    click.echo(f"Request {number} is cancelled; `netbisect request resume {number}` goes on.")


@request.command(epilog="Example: netbisect request resume 7")
@click.argument("number", type=int)
@_who
@place_options
def resume(number: int, who: str, counter: Counter) -> None:
    """Go on with a request that was cancelled; what was measured counts."""
    counter.change("resume", number, who)
    click.echo(f"Request {number} goes on.")


@request.command(epilog="Example: netbisect request extend 7 --boots 3")
@click.argument("number", type=int)
@click.option("--boots", type=int, default=0, help="More of each revision.")
@click.option("--hours", type=float, default=0.0, help="More for a search.")
@_who
@place_options
def extend(number: int, boots: int, hours: float, who: str, counter: Counter) -> None:
    """Ask for more: boots of each revision, or hours of a search that has run out of them."""
    counter.change("extend", number, who, boots=boots, hours=hours)
    click.echo(f"Request {number} goes on.")


@request.command(epilog="Example: netbisect request priority 7 high")
@click.argument("number", type=int)
@click.argument("level", metavar="LEVEL")
@_who
@place_options
def priority(number: int, level: str, who: str, counter: Counter) -> None:
    """Give a request another priority: low, normal or high."""
    counter.change("priority", number, who, priority=level)
    click.echo(f"Request {number} has priority {level}.")


@request.command(epilog="Example: netbisect request audit --after 120")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only what comes after this.")
@click.option("--limit", type=click.IntRange(min=1, max=1000), default=100, show_default=True)
@_json
@place_options
def audit(counter: Counter, after: int, limit: int, *, as_json: bool) -> None:
    """List what people have done and were refused, with who and from where, oldest first."""
    found = counter.audit(after, limit)
    if as_json:
        click.echo(json.dumps(schema.told(found), indent=2))
        return
    rows: list[tuple[str, ...]] = [("", "when", "who", "by", "from", "what", "")]
    for one in found.deeds:
        number = one.request or one.data.get("number")
        what = f"{one.what} {number}" if number else one.what
        said = one.data.get("why") or one.data.get("for") or ""
        row = (str(one.number), words.moment(one.at), one.who, one.via, one.origin, what, said)
        rows.append(tuple(map(words.clean, row)))
    click.echo(table(rows, indent=0, width=160))
