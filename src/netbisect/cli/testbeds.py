"""`netbisect testbeds`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from netbisect.cli.listing import (
    day,
    json_option,
    print_fields,
    print_json,
    print_table,
    without_subcommand,
)
from netbisect.login import login_name
from netbisect.reports.render import words
from netbisect.steps.scheduler.quarantine import quarantine_testbed
from netbisect.steps.service.options import folder_option, settings_file
from netbisect.steps.service.settings import Settings, load
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.db.records import Quarantine
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

_by_option = click.option("--by", default=login_name, help="Author (default: your login name).")


def _open(folder: Path | None) -> tuple[Settings, Lab, Ledger]:
    settings, lab = load(settings_file(folder))
    return settings, lab, open_service_ledger(settings)


@click.group(
    invoke_without_command=True,
    epilog="Example: netbisect testbeds --json --folder /var/netbisect",
)
@folder_option
@json_option
@without_subcommand
def testbeds(folder: Path | None, *, as_json: bool) -> None:
    """List testbeds, quarantine one, or release it.

    Without a subcommand, lists the testbeds of the lab file with their states and queued jobs.
    """
    _, lab, ledger = _open(folder)
    rows = _rows(lab, ledger)
    if as_json:
        print_json(rows)
        return
    names = ("testbed", "state", "since", "jobs", "why", "owner")
    days = ({**row, "since": day(row["since"])} for row in rows)
    print_table(names, ([row[name] for name in names] for row in days), "No testbeds.")


def _rows(lab: Lab, ledger: Ledger) -> list[dict[str, Any]]:
    held = ledger.quarantines.current()
    record = [one.job.testbed for one in ledger.jobs.all_open()]
    rows = []
    for testbed in lab.testbeds:
        one = held.get(testbed.name)
        rows.append(
            {
                "testbed": testbed.name,
                "state": _state_name(one),
                "since": one.since if one else None,
                "fault": one.fault if one else "",
                "why": _why(one) if one else "",
                "by": one.by if one else "",
                "jobs": record.count(testbed.name),
                "owner": testbed.owner,
                "quarantines": len(ledger.quarantines.of_testbed(testbed.name)),
            }
        )
    return rows


def _state_name(held: Quarantine | None) -> str:
    if held is None:
        return "in use"
    return "in quarantine" if held.wanted_at is None else "being checked"


def _why(held: Quarantine) -> str:
    return f"{held.why}; not released: {held.refused}" if held.refused else held.why


@testbeds.command(
    short_help="Quarantine a testbed, and abort its current trial.",
    epilog="Example: netbisect testbeds quarantine c2558 --why 'new fans' --folder /var/netbisect",
)
@click.argument("name")
@click.option("--why", required=True, help="Reason, one sentence; mailed to the owner.")
@_by_option
@folder_option
def quarantine(name: str, why: str, by: str, folder: Path | None) -> None:
    """Quarantine a testbed: abort its current trial and start no other until it is released."""
    settings, lab, ledger = _open(folder)
    if not why.strip():
        raise click.UsageError("--why is empty; expected a sentence")
    before = ledger.quarantines.current().get(lab.testbed(name).name)
    held = quarantine_testbed(ledger, settings, lab, name, why=why, by=by)
    if before is not None:
        raise click.ClickException(
            f"{name} is in quarantine already, since {words.day(held.since)}: {held.why}"
        )
    click.echo(f"{name} is in quarantine.")


@testbeds.command(
    epilog="Example: netbisect testbeds release c2558 --note 'new cable' --folder /var/netbisect"
)
@click.argument("name")
@click.option("--note", default="", help="Description of the repair.")
@_by_option
@folder_option
def release(name: str, note: str, by: str, folder: Path | None) -> None:
    """Release a testbed from quarantine after a check.

    The master first returns it to its known-good kernel and checks its machines and links. A
    testbed that is no longer in the lab file is released at once.
    """
    _, lab, ledger = _open(folder)
    removed = name in ledger.quarantines.current().keys() - {one.name for one in lab.testbeds}
    held = ledger.quarantines.ask_release(
        name if removed else lab.testbed(name).name, by=by, note=note
    )
    if removed:
        ledger.quarantines.release(held.id)
        click.echo(f"{name} is not in the lab file and is released without a check.")
        return
    click.echo(
        f"{name} returns to its known-good kernel and is released if its checks pass; see "
        "`netbisect testbeds`."
    )


@testbeds.command(epilog="Example: netbisect testbeds history c2558 --folder /var/netbisect")
@click.argument("name")
@folder_option
@json_option
def history(name: str, folder: Path | None, *, as_json: bool) -> None:
    """Show all quarantines of a testbed, with reasons and authors."""
    _, lab, ledger = _open(folder)
    found = ledger.quarantines.of_testbed(lab.testbed(name).name)
    if as_json:
        fields = ("since", "fault", "why", "by", "released_at", "released_by", "note", "refused")
        print_fields(found, *fields)
        return
    head = ("from", "to", "why", "quarantined by", "released by", "note")
    rows = [
        (day(one.since), day(one.released_at), _why(one), one.by, one.released_by, one.note)
        for one in found
    ]
    print_table(head, rows, f"{name} was never in quarantine.")
