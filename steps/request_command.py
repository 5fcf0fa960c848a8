"""`netbisect request`: ask the lab, follow what was asked, and change one's mind."""

from __future__ import annotations

import getpass
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from netbisect.reports import requests as telling
from netbisect.reports import schema, words
from netbisect.reports.plaintext import table
from netbisect.steps import request_answer as answers
from netbisect.steps.control import SETTINGS
from netbisect.steps.memory import history_of, ledger_of
from netbisect.steps.options import Sentences, folder_option
from netbisect.steps.request_follow import follow
from netbisect.steps.request_options import asking, boots_options
from netbisect.steps.requests import Desk, Estimate
from netbisect.steps.settings import load
from netbisect.steps.wish import BISECT, COMPARE, SERIES, PatchFile, Wish, WishError
from netbisect.store.history import HistoryError
from netbisect.store.records import RequestState
from netbisect.workers.patches import MOST_BYTES

_LOOK_SECONDS = 1.0


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
        except (WishError, HistoryError) as error:
            _fail(click.ClickException(str(error)))
        except click.ClickException as error:
            _fail(error)


class _Failed(click.ClickException):
    """Ends with the status of an error."""

    exit_code = answers.EXIT[answers.FAILED]


def _fail(error: click.ClickException) -> NoReturn:
    raise _Failed(error.format_message()) from error


def _desk(folder: Path | None) -> Desk:
    """Of the folder behind the subcommand, before it, or of the current one."""
    above = click.get_current_context().parent
    given = above.params.get("folder") if above is not None else None
    settings, lab = load((folder or given or Path()) / SETTINGS)
    return Desk(ledger_of(settings), history_of(settings, lab), settings, lab)


@click.group("request", cls=_Requests)
@folder_option
def request(folder: Path | None) -> None:
    """Ask the lab for a comparison, a search or a series, and follow it.

    A revision goes by any name that `netbisect revision` knows; REV+D5180 is one with a review's
    patch. With --wait the exit status is the answer: 0 no regression, 1 regression, 2
    inconclusive, 3 error.
    """
    del folder  # read by the subcommands


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
    folder: Path | None,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    patches: tuple[str, ...] = (),
    **options: Any,
) -> None:
    desk = _desk(folder)
    desk.history.update()
    wish = Wish(kind=kind, subjects=subjects, patches=_read(patches), **options)
    if dry_run:
        _tell_cost(desk.estimate(wish), as_json=as_json)
        return
    number = desk.ask(wish).id
    if not wait:
        _tell(desk, number, as_json=as_json)
        return
    _wait(desk, number)
    _tell(desk, number, as_json=as_json)
    click.get_current_context().exit(answers.exit_status(desk.ledger.request(number)))


def _tell_cost(found: Estimate, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    rows = [("testbed", "builds", "boots", "made already", "time")]
    for one in found.testbeds:
        builds, boots, shared = len(one.builds), one.boots, one.shared
        rows.append(
            (one.testbed, str(builds), str(boots), str(shared), words.duration(one.seconds))
        )
    click.echo(table(rows, indent=0))
    click.echo(f"and {words.duration(found.build_seconds)} of builders")


def _wait(desk: Desk, number: int) -> None:
    """Until it is over; what changes is said on standard error."""
    said = ""
    while desk.ledger.request(number).state is RequestState.OPEN:
        found = follow(desk.ledger, desk.settings, desk.lab, desk.history, number)
        line = "; ".join(telling.part_line(one) for one in found.parts if one.state == "open")
        shown = line.partition(", about")[0]
        if shown != said:
            click.echo(f"request {number}: {line}", err=True)
            said = shown
        time.sleep(_LOOK_SECONDS)


def _tell(desk: Desk, number: int, *, as_json: bool) -> None:
    found = follow(desk.ledger, desk.settings, desk.lab, desk.history, number)
    click.echo(schema.as_text(found) if as_json else telling.as_text(found))


# ---------------------------------------------------------------------- following and changing

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_who = click.option("--who", default=getpass.getuser, help="Default: your login name.")


@request.command("list", epilog="Example: netbisect request list --mine")
@click.option("--mine", is_flag=True, help="Only those of --who.")
@click.option("--all", "everything", is_flag=True, help="Those that are over, too.")
@_who
@_json
@folder_option
def list_requests(
    folder: Path | None, who: str, *, mine: bool, everything: bool, as_json: bool
) -> None:
    """List what was asked for, the newest first."""
    desk = _desk(folder)
    found = desk.ledger.requests(
        who=who if mine else None, state=None if everything else RequestState.OPEN
    )
    if as_json:
        click.echo(json.dumps([_brief(asdict(one)) for one in found], indent=2))
        return
    if not found:
        click.echo("Nothing is asked for." if not everything else "Nothing was asked for.")
        return
    rows: list[tuple[str, ...]] = [("number", "since", "who", "what", "state")]
    for one in found:
        names = ", ".join(desk.ledger.label(name) for name in one.wish["subjects"])
        state = one.verdict or one.state.value
        row = (str(one.id), words.day(one.opened_at), one.who, f"{one.kind} {names}", state)
        rows.append(tuple(map(words.clean, row)))
    click.echo(table(rows, indent=0, width=120))


def _brief(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != "address"}


@request.command(epilog="Example: netbisect request show 7 --json")
@click.argument("number", type=int)
@click.option("--wait", is_flag=True, help="Wait for the answer: it is the status.")
@_json
@folder_option
def show(number: int, folder: Path | None, *, wait: bool, as_json: bool) -> None:
    """Show how far a request is, or its answer, and all that happened to it."""
    desk = _desk(folder)
    if wait:
        _wait(desk, number)
    _tell(desk, number, as_json=as_json)
    if wait:
        click.get_current_context().exit(answers.exit_status(desk.ledger.request(number)))


@request.command(epilog="Example: netbisect request cancel 7 --why 'wrong patch'")
@click.argument("number", type=int)
@click.option("--why", default="", help="For the log.")
@_who
@folder_option
def cancel(number: int, why: str, who: str, folder: Path | None) -> None:
    """Stop a request; the testbed is left on its known-good kernel."""
    _desk(folder).cancel(number, who=who, why=why)
    click.echo(f"Request {number} is cancelled; `netbisect request resume {number}` goes on.")


@request.command(epilog="Example: netbisect request resume 7")
@click.argument("number", type=int)
@_who
@folder_option
def resume(number: int, who: str, folder: Path | None) -> None:
    """Go on with a request that was cancelled; what was measured counts."""
    _desk(folder).resume(number, who=who)
    click.echo(f"Request {number} goes on.")


@request.command(epilog="Example: netbisect request extend 7 --boots 3")
@click.argument("number", type=int)
@click.option("--boots", type=int, default=0, help="More of each revision.")
@click.option("--hours", type=float, default=0.0, help="More for a search.")
@_who
@folder_option
def extend(number: int, boots: int, hours: float, who: str, folder: Path | None) -> None:
    """Ask for more: boots of each revision, or hours of a search that has run out of them."""
    _desk(folder).extend(number, who=who, boots=boots, hours=hours)
    click.echo(f"Request {number} goes on.")


@request.command(epilog="Example: netbisect request priority 7 high")
@click.argument("number", type=int)
@click.argument("level", metavar="LEVEL")
@_who
@folder_option
def priority(number: int, level: str, who: str, folder: Path | None) -> None:
    """Give a request another priority: low, normal or high."""
    _desk(folder).prioritise(number, level, who=who)
    click.echo(f"Request {number} has priority {level}.")
