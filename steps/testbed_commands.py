"""`netbisect testbeds`: which of them work, which are in quarantine, and why."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import click

from netbisect.reports import words
from netbisect.reports.plaintext import table
from netbisect.steps.control import SETTINGS
from netbisect.steps.memory import ledger_of
from netbisect.steps.options import Sentences, folder_option
from netbisect.steps.settings import Settings, load
from netbisect.steps.ward import confine
from netbisect.store.ledger import Ledger
from netbisect.store.records import Quarantine
from netbisect.workers.lab import Lab

_WIDE = 160
"""Columns of a table on a terminal."""


_by_option = click.option(
    "--by", default=getpass.getuser, help="Who says so (default: your login name)."
)


def _open(folder: Path | None) -> tuple[Settings, Lab, Ledger]:
    """Of the folder that is given behind the subcommand, before it, or of the current one."""
    above = click.get_current_context().parent
    given = above.params.get("folder") if above is not None else None
    settings, lab = load((folder or given or Path()) / SETTINGS)
    return settings, lab, ledger_of(settings)


@click.group(
    cls=Sentences,
    invoke_without_command=True,
    epilog="Example: netbisect testbeds --json --folder /var/netbisect",
)
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def testbeds(ctx: click.Context, folder: Path | None, *, as_json: bool) -> None:
    """List the testbeds, put one into quarantine, or release it.

    Without a subcommand: the testbeds of the lab file, whether they get orders, and what is asked
    of them.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(
                f"--json here belongs to the list, not to {ctx.invoked_subcommand!r}"
            )
        return
    _, lab, ledger = _open(folder)
    rows = _state(lab, ledger)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    head = ("testbed", "state", "since", "asked", "why", "owner")
    lines = [
        (
            row["testbed"],
            row["state"],
            words.day(row["since"]) if row["since"] is not None else "",
            str(row["questions"]),
            words.clean(row["why"]),
            row["owner"],
        )
        for row in rows
    ]
    click.echo(table([head, *lines], indent=0, width=_WIDE))


def _state(lab: Lab, ledger: Ledger) -> list[dict[str, Any]]:
    """What is known of each testbed of the lab file."""
    held = ledger.quarantined()
    asked = [one.question.testbed for one in ledger.open_questions()]
    rows = []
    for testbed in lab.testbeds:
        one = held.get(testbed.name)
        rows.append(
            {
                "testbed": testbed.name,
                "state": _word(one),
                "since": one.since if one else None,
                "fault": one.fault if one else "",
                "why": _why(one) if one else "",
                "by": one.by if one else "",
                "questions": asked.count(testbed.name),
                "owner": testbed.owner,
                "quarantines": len(ledger.quarantines(testbed.name)),
            }
        )
    return rows


def _word(held: Quarantine | None) -> str:
    if held is None:
        return "in use"
    return "in quarantine" if held.wanted_at is None else "being looked at"


def _why(held: Quarantine) -> str:
    return f"{held.why}; not released: {held.refused}" if held.refused else held.why


@testbeds.command(
    epilog="Example: netbisect testbeds quarantine c2558 --why 'new fans' --folder /var/netbisect"
)
@click.argument("name")
@click.option("--why", required=True, help="In a sentence; the owner is told.")
@_by_option
@folder_option
def quarantine(name: str, why: str, by: str, folder: Path | None) -> None:
    """Give a testbed no orders until it is released; what it does now is ended first."""
    settings, lab, ledger = _open(folder)
    if not why.strip():
        raise click.UsageError("--why is empty; expected a sentence")
    before = ledger.quarantined().get(lab.testbed(name).name)
    held = confine(ledger, settings, lab, name, why=why, by=by)
    if before is not None:
        raise click.ClickException(
            f"{name} is in quarantine already, since {words.day(held.since)}: {held.why}"
        )
    click.echo(f"{name} is in quarantine.")


@testbeds.command(
    epilog="Example: netbisect testbeds release c2558 --note 'new cable' --folder /var/netbisect"
)
@click.argument("name")
@click.option("--note", default="", help="What was done about it.")
@_by_option
@folder_option
def release(name: str, note: str, by: str, folder: Path | None) -> None:
    """Let a testbed have orders again, once it was looked at and is well.

    The master brings it back to its known-good kernel and looks at its machines and links first.
    """
    _, lab, ledger = _open(folder)
    ledger.ask_release(lab.testbed(name).name, by=by, note=note)
    click.echo(
        f"{name} is brought back to its known-good kernel and looked at; if it is well, it is "
        "released. `netbisect testbeds` says what became of it."
    )


@testbeds.command(epilog="Example: netbisect testbeds history c2558 --folder /var/netbisect")
@click.argument("name")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def history(name: str, folder: Path | None, *, as_json: bool) -> None:
    """Show every quarantine of a testbed: who put it there and why, who released it."""
    _, lab, ledger = _open(folder)
    found = ledger.quarantines(lab.testbed(name).name)
    if as_json:
        fields = ("since", "fault", "why", "by", "released_at", "released_by", "note", "refused")
        rows = [{field: getattr(one, field) for field in fields} for one in found]
        click.echo(json.dumps(rows, indent=2))
        return
    if not found:
        click.echo(f"{name} was never in quarantine.")
        return
    head = ("from", "to", "why", "put there by", "released by", "note")
    lines = [
        (
            words.day(one.since),
            "" if one.released_at is None else words.day(one.released_at),
            words.clean(_why(one)),
            words.clean(one.by),
            words.clean(one.released_by),
            words.clean(one.note),
        )
        for one in found
    ]
    click.echo(table([head, *lines], indent=0, width=_WIDE))
