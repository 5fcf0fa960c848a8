"""`netbisect status` and `netbisect follow`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from netbisect.cli.listing import json_option
from netbisect.errors import UserError
from netbisect.reports.console import status as console
from netbisect.reports.documents import json_schema
from netbisect.reports.render import words
from netbisect.steps.master import progress
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.service.control import SETTINGS, master_pid
from netbisect.steps.service.options import folder_argument
from netbisect.steps.service.settings import load, load_settings
from netbisect.steps.service.storage import open_service_ledger

_POLL_SECONDS = 0.3


@click.command(epilog="Example: netbisect status --json /var/netbisect")
@folder_argument
@click.option("--all", "everything", is_flag=True, help="Include closed alerts.")
@json_option
def status(folder: Path, *, everything: bool, as_json: bool) -> None:
    """Show the queue and the alerts."""
    settings, lab = load(folder / SETTINGS)
    queries = DocumentQueries.of(open_service_ledger(settings), settings, lab)
    found = queries.status(everything=everything)
    click.echo(json_schema.as_text(found) if as_json else console.as_text(found))
    if master_pid(folder) is None:
        click.echo(f"The master is not running: netbisect start {folder}", err=True)


@click.command(epilog="Example: netbisect follow --until-idle /var/netbisect")
@folder_argument
@click.option("--from-start", is_flag=True, help="Begin with the first event.")
@click.option(
    "--until-idle", is_flag=True, help="Exit when the queue is empty, and no mail is being sent."
)
def follow(folder: Path, from_start: bool, until_idle: bool) -> None:
    """Print events as they happen, with times in UTC."""
    ledger = open_service_ledger(load_settings(folder / SETTINGS))
    marker = 0 if from_start else ledger.events.last()
    while True:
        waiting = ledger.mails.waiting()
        idle = not ledger.jobs.all_open() and all(one.last_error for one in waiting)
        running = master_pid(folder)
        events, marker = ledger.events.since(marker)
        for line in progress.lines(ledger, events):
            click.echo(line)
        if until_idle and not events:
            if idle:
                break
            if running is None:
                raise UserError(f"the master is not running: netbisect start {folder}")
        time.sleep(_POLL_SECONDS)
    if waiting:
        mails = words.count(len(waiting), "mail")
        why = words.clean(waiting[-1].last_error)
        click.echo(f"{mails} not sent yet ({why}); netbisect mails lists them")
