"""`netbisect alerts`."""

from __future__ import annotations

import click

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.marks import MarkVerdict
from netbisect.cli.listing import WIDE, json_option, print_json, print_table, without_subcommand
from netbisect.login import login_name
from netbisect.reports.documents import json_schema
from netbisect.reports.model.types import HASH_LENGTH, AlertSummary
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table
from netbisect.steps.policy.alert_actions import ACTIONS, AlertCommand, act
from netbisect.steps.queries.documents import DocumentQueries, alert_summaries
from netbisect.steps.service.ledger_options import ledger_of
from netbisect.steps.service.options import database_options
from netbisect.store.db.database import NotFoundError
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger

_who_option = click.option("--who", metavar="NAME", help="Author (default: your login name).")


@click.group(
    invoke_without_command=True,
    epilog="Example: netbisect alerts --state muted --folder /var/netbisect",
)
@without_subcommand
@ledger_of(database_options)
@click.option("--all", "everything", is_flag=True, help="Include closed and acknowledged alerts.")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice([state.value for state in AlertState]),
    help="Only alerts in this state. May be repeated.",
)
@json_option
def alerts(ledger: Ledger, states: tuple[str, ...], *, everything: bool, as_json: bool) -> None:
    """List open alerts and change their state. The list leaves out acknowledged ones."""
    found = _chosen(ledger, states, everything=everything)
    if as_json:
        print_json(found)
        return
    head = ("alert", "state", "kind", "since", "where", "change", "commit or range")
    empty = "No such alert." if everything or states else "No open alerts."
    print_table(head, map(_row, found), empty)


def _chosen(
    ledger: Ledger, states: tuple[str, ...], *, everything: bool
) -> tuple[AlertSummary, ...]:
    if states or everything:
        every = ledger.alerts.all(candidates=True)
        found = [one for one in every if not states or one.state in states]
    else:
        every = ledger.alerts.all_open()
        found = [one for one in every if one.state is not AlertState.ACKNOWLEDGED]
    return alert_summaries(ledger, found)


def _row(alert: AlertSummary) -> tuple[str, ...]:
    return (
        str(alert.id),
        alert.state.value,
        alert.kind.value,
        words.day(alert.since),
        _where(alert),
        _change(alert),
        alert.culprit[:HASH_LENGTH] or _range(alert.good, alert.bad),
    )


def _where(alert: AlertSummary) -> str:
    more = f" and {alert.others} more series" if alert.others else ""
    return f"{alert.lead} on {alert.testbed}, {alert.branch}{more}"


def _change(alert: AlertSummary) -> str:
    if alert.difference:
        return words.change(alert.difference)
    early = alert.state in (AlertState.CANDIDATE, AlertState.CONFIRMING)
    return "not retested yet" if early else "not confirmed"


def _range(good: str, bad: str) -> str:
    return f"{good[:HASH_LENGTH]}..{bad[:HASH_LENGTH]}"


@alerts.command(epilog="Example: netbisect alerts show 7 --json --folder /var/netbisect")
@click.argument("number", type=int)
@ledger_of(database_options)
@json_option
def show(number: int, ledger: Ledger, *, as_json: bool) -> None:
    """Show an alert: announced numbers and history."""
    found = _known(ledger, number)
    alert = DocumentQueries(ledger).alert(number)
    if as_json:
        click.echo(json_schema.as_text(alert))
        return
    (brief,) = alert_summaries(ledger, [found])
    click.echo(f"Alert {number}: {words.kind(alert.kind)}, {words.state(alert)}")
    facts = {
        "where": _where(brief),
        "change": _change(brief),
        "range": _range(brief.good, brief.bad),
        "commit": brief.culprit,
        "recovered at": alert.recovery,
    }
    click.echo(table([fact for fact in facts.items() if fact[1]], width=WIDE))
    rows = [
        (
            f"{one.scenario} on {one.testbed}, {one.branch}",
            words.change(one.difference),
            words.boots(one.difference),
            _range(one.good, one.bad),
            words.day(one.at),
        )
        for one in alert.series
        if one.difference is not None  # that of a candidate has no retest
    ]
    click.echo("\nAnnounced numbers:")
    head = ("series", "change", "boots", "range", "announced")
    click.echo(table([head, *rows], width=WIDE) if rows else "  None.")
    click.echo("\nHistory:")
    lines = [
        (words.moment(one.at), one.who, one.state.value if one.state else "", words.clean(one.what))
        for one in alert.history
    ]
    click.echo(table(lines, width=WIDE))


@alerts.command(
    short_help="Mark a candidate good, bad or not to be measured.",
    epilog='Example: netbisect alerts mark 7 0a1b2c3d good --why "measured by hand"',
)
@click.argument("number", type=int)
@click.argument("commit")
@click.argument("verdict", type=click.Choice([one.value for one in MarkVerdict]))
@click.option("--why", required=True, help="Reason, shown with the result.")
@_who_option
@ledger_of(database_options)
def mark(number: int, commit: str, verdict: str, why: str, who: str | None, ledger: Ledger) -> None:
    """Mark a candidate good, bad or not to be measured (skip); none withdraws a mark."""
    _known(ledger, number)
    made = ledger.marks.add(number, commit, MarkVerdict(verdict), who=who or login_name(), why=why)
    click.echo(f"{made.revision[:HASH_LENGTH]} is {made}.")


def _known(ledger: Ledger, number: int) -> Alert:
    try:
        return ledger.alerts.get(number)
    except NotFoundError as error:
        raise click.ClickException(
            f"there is no alert {number}; `netbisect alerts --all` lists all"
        ) from error


def _add(name: str, action: AlertCommand) -> None:
    """Makes the subcommand of an action."""

    @alerts.command(name, help=action.help, epilog=f"Example: netbisect alerts {action.example}")
    @ledger_of(database_options)
    @click.argument("number", type=int)
    @click.option("--why", required=True, help="Reason, kept in the history.")
    @_who_option
    def run(ledger: Ledger, number: int, why: str, who: str | None, until: str = "") -> None:
        _known(ledger, number)
        alert = act(ledger, number, name, who=who or login_name(), why=why, until=until)
        if alert.state is action.state:
            click.echo(f"Alert {number} is {words.state(alert.status)}.")
        else:
            click.echo(f"Alert {number} stays {alert.state.value}; the reason is in its history.")

    if action.state is AlertState.MUTED:
        click.option(
            "--until", metavar="YYYY-MM-DD", required=True, help="Day on which it reopens, UTC."
        )(run)


for _name, _action in ACTIONS.items():
    _add(_name, _action)
