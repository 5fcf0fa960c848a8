"""`netbisect alerts`: what is wrong now, why, and what people make of it."""

from __future__ import annotations

import getpass
import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from netbisect.bisect.states import AlertState
from netbisect.reports import words
from netbisect.reports.plaintext import table
from netbisect.steps.alert_news import news
from netbisect.steps.control import SETTINGS
from netbisect.steps.memory import open_ledger
from netbisect.steps.options import Sentences, where_options
from netbisect.steps.settings import load_settings
from netbisect.store.database import AbsentError
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert

_WIDE = 160
"""Columns of a table on a terminal."""
_SHORT = 12
"""Letters of a hash."""
_SETTLED = {AlertState.ACKNOWLEDGED}
"""Stands, and nobody needs to look at it."""


def _ledger(folder: Path | None, database: str | None) -> Ledger:
    above = click.get_current_context().parent
    given = above.params if above is not None and above.command is alerts else {}
    address = database or (None if folder else given.get("database"))
    place = folder or given.get("folder") or Path()
    return open_ledger(address or load_settings(place / SETTINGS).database)


# --------------------------------------------------------------------------------- the list


@click.group(
    cls=Sentences,
    invoke_without_command=True,
    epilog="Example: netbisect alerts --state muted --folder /var/netbisect",
)
@where_options
@click.option("--all", "everything", is_flag=True, help="Those that are over or settled too.")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice([state.value for state in AlertState]),
    help="Only those in this state, such as muted; may be given again for another one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def alerts(
    ctx: click.Context,
    folder: Path | None,
    database: str | None,
    states: tuple[str, ...],
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """List the confirmed changes of level, and say what is to become of them.

    Without a subcommand, the alerts that stand and are not acknowledged.
    """
    if ctx.invoked_subcommand is not None:
        if everything or states or as_json:
            raise click.UsageError(
                "--all, --state and --json here belong to the list, not to "
                f"{ctx.invoked_subcommand!r}; what it takes stands behind it"
            )
        return
    found = _chosen(_ledger(folder, database), states, everything=everything)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    elif not found:
        click.echo("No such alert." if everything or states else "No alert wants attention.")
    else:
        head = ("alert", "state", "kind", "since", "where", "change", "commit or range")
        click.echo(table([head, *map(_row, found)], indent=0, width=_WIDE))


def _chosen(ledger: Ledger, states: tuple[str, ...], *, everything: bool) -> list[Alert]:
    if states:
        return [one for one in ledger.alerts(candidates=True) if one.state.value in states]
    if everything:
        return ledger.alerts(candidates=True)
    return [one for one in ledger.open_alerts() if one.state not in _SETTLED]


def _row(alert: Alert) -> tuple[str, ...]:
    since = alert.opened_at if alert.announced_at is None else alert.announced_at
    return (
        str(alert.id),
        alert.state.value,
        alert.kind.value,
        words.day(since),
        _where(alert),
        _change(alert),
        alert.culprit[:_SHORT] or _range(alert.good, alert.bad),
    )


def _where(alert: Alert) -> str:
    moved = {(one.testbed, one.scenario, one.branch) for one in alert.series if one.moved}
    others = len(moved - {(alert.testbed, alert.lead, alert.branch)})
    more = f" and {others} more series" if others else ""
    return f"{alert.lead} on {alert.testbed}, {alert.branch}{more}"


def _change(alert: Alert) -> str:
    return words.change(alert.effects[0]) if alert.effects else "not measured again yet"


def _range(good: str, bad: str) -> str:
    return f"{good[:_SHORT]}..{bad[:_SHORT]}"


# --------------------------------------------------------------------------------- one alert


@alerts.command(epilog="Example: netbisect alerts show 7 --json --folder /var/netbisect")
@click.argument("number", type=int)
@where_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def show(number: int, folder: Path | None, database: str | None, *, as_json: bool) -> None:
    """Show an alert: its numbers as announced, and its history."""
    ledger = _ledger(folder, database)
    alert = _known(ledger, number)
    history = ledger.alert_changes(number)
    if as_json:
        data = {**asdict(alert), "history": [asdict(one) for one in history]}
        click.echo(json.dumps(data, indent=2))
        return
    click.echo(f"Alert {number}: {words.kind(alert.kind)}, {_now(alert)}")
    facts = [("where", _where(alert)), ("change", _change(alert))]
    facts.append(("range", _range(alert.good, alert.bad)))
    facts += [("commit", alert.culprit)] if alert.culprit else []
    facts += [("recovered at", alert.recovery)] if alert.recovery else []
    click.echo(table(facts, width=_WIDE))
    click.echo("\nThe numbers as they were announced:")
    rows = [("series", "change", "boots", "range", "announced")]
    for one in alert.series:
        numbers = ("seen, not measured again", "")
        if one.effect is not None:
            numbers = (words.change(one.effect), words.boots(one.effect))
        series = f"{one.scenario} on {one.testbed}, {one.branch}"
        rows.append((series, *numbers, _range(one.good, one.bad), words.day(one.at)))
    click.echo(table(rows, width=_WIDE))
    click.echo("\nIts history:")
    lines = [
        (words.moment(one.at), one.who, one.state.value if one.state else "", words.clean(one.what))
        for one in history
    ]
    click.echo(table(lines, width=_WIDE))


def _known(ledger: Ledger, number: int) -> Alert:
    try:
        return ledger.alert(number)
    except AbsentError as error:
        raise click.ClickException(
            f"there is no alert {number}; `netbisect alerts --all` lists those there are"
        ) from error


def _now(alert: Alert) -> str:
    return words.state(alert.state, until=alert.muted_until, into=alert.merged_into)


# ---------------------------------------------------------------------------- what people do


@dataclass(frozen=True, slots=True)
class _Verb:
    """A subcommand that changes an alert."""

    state: AlertState
    help: str
    example: str


_VERBS = {
    "ack": _Verb(
        AlertState.ACKNOWLEDGED,
        "Accept a change: the level after it is the baseline from now on.",
        'ack 7 --why "the price of the fix for SA-26:03"',
    ),
    "mute": _Verb(
        AlertState.MUTED,
        "Say nothing of it until a date, which opens it again.",
        'mute 7 --until 2026-12-31 --why "in review"',
    ),
    "reopen": _Verb(
        AlertState.REOPENED,
        "Open an alert again that is over, muted or acknowledged.",
        'reopen 7 --why "it is still there on c2558"',
    ),
    "invalid": _Verb(
        AlertState.INVALID,
        "There was no such change: the measurement was wrong.",
        'invalid 7 --why "the generator sent too little"',
    ),
    "infra": _Verb(
        AlertState.INFRA,
        "The lab changed, not the code.",
        'infra 7 --why "new firmware on the switch"',
    ),
    "fixed": _Verb(
        AlertState.FIXED,
        "The level is back, or will be with what is measured from now on.",
        'fixed 7 --why "fixed by 0123456789ab"',
    ),
    "withdraw": _Verb(
        AlertState.WITHDRAWN,
        "Take an alert back: measured again, the change was not there.",
        'withdraw 7 --why "ten more boots show nothing"',
    ),
}


def _do(
    number: int,
    state: AlertState,
    *,
    why: str,
    who: str | None,
    until: float | None,
    ledger: Ledger,
) -> None:
    _known(ledger, number)
    if until is not None and why.strip():
        why = f"{why} (until {words.day(until)})"
    who = who or _login()
    alert = ledger.change_alert(
        number, who=who, what=why, state=state, until=until, tell=news(who, why)
    )
    if alert.state is state:
        click.echo(f"Alert {number} is {_now(alert)}.")
    else:
        click.echo(f"Alert {number} stays {alert.state.value}; the reason is in its history.")


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise click.UsageError("nobody is logged in here by name; say --who NAME") from error


def _date(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """The beginning of a day, UTC; it must be to come."""
    if value is None:
        return None
    try:
        at = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no date; 2026-12-31 would be one") from error
    now = time.time()
    if at <= now:
        raise click.BadParameter(
            f"{value} is past, it is {words.day(now)} (UTC); a day to come would be right"
        )
    return at


def _add(name: str, verb: _Verb) -> None:
    """Makes the subcommand of a verb."""

    def run(
        number: int,
        folder: Path | None,
        database: str | None,
        why: str,
        who: str | None,
        until: float | None = None,
    ) -> None:
        ledger = _ledger(folder, database)
        _do(number, verb.state, why=why, who=who, until=until, ledger=ledger)

    options = [
        click.argument("number", type=int),
        click.option("--why", required=True, help="The reason, for all who ask later."),
        click.option("--who", metavar="NAME", help="The author (default: your login name)."),
    ]
    if verb.state is AlertState.MUTED:
        options.append(
            click.option(
                "--until",
                metavar="YYYY-MM-DD",
                required=True,
                callback=_date,
                help="The day with which muting ends, UTC.",
            )
        )
    for option in reversed(options):
        run = option(run)
    alerts.command(name, help=verb.help, epilog=f"Example: netbisect alerts {verb.example}")(
        where_options(run)
    )


for _name, _verb in _VERBS.items():
    _add(_name, _verb)
