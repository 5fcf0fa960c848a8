"""The commands of the service: what `netbisect` does with a lab and its database."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from netbisect.reports import schema, words
from netbisect.reports import status as telling
from netbisect.steps import control, progress
from netbisect.steps.casework import open_nights
from netbisect.steps.documents import Desk
from netbisect.steps.memory import history_of, ledger_of, open_ledger
from netbisect.steps.options import database_option
from netbisect.steps.settings import load, load_settings
from netbisect.store import netbenches
from netbisect.store.database import StoreError
from netbisect.store.history import HistoryError
from netbisect.store.netbenches_files import NetbenchesError, Parser
from netbisect.store.revision_names import RevisionError
from netbisect.workers import pktgen
from netbisect.workers.tomlfile import FileError

P = ParamSpec("P")
R = TypeVar("R")
_FOLLOW_SECONDS = 0.3

Folder = click.Path(exists=True, file_okay=False, path_type=Path)
folder_argument = click.argument("folder", type=Folder, default=".")


def sentences(command: Callable[P, R]) -> Callable[P, R]:
    """Turns what people can mend into one sentence and exit status 1."""

    @wraps(command)
    def careful(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (
            FileError,
            StoreError,
            HistoryError,
            control.ServiceError,
            NetbenchesError,
            RevisionError,
        ) as error:
            raise click.ClickException(str(error)) from error

    return careful


# -------------------------------------------------------------------------------- the service


@click.command(epilog="Example: netbisect check /var/netbisect")
@folder_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def check(folder: Path, as_json: bool) -> None:
    """Look at settings, database, tree and ports; exit status 0 when a start would succeed."""
    checks = list(control.examine(folder))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in checks], indent=2))
    else:
        for one in checks:
            click.echo(f"{'ok  ' if one.good else 'FAIL'} {one.what:<24} {one.found}")
    sys.exit(0 if all(one.good for one in checks) else 1)


@click.command(epilog="Example: netbisect start /var/netbisect")
@folder_argument
@sentences
def start(folder: Path) -> None:
    """Start the master; workers are started on their own hosts."""
    settings = control.start(folder)
    click.echo(f"The master runs: {settings.web.url}")


@click.command(epilog="Example: netbisect stop /var/netbisect")
@folder_argument
@sentences
def stop(folder: Path) -> None:
    """Stop the master; what it was doing goes on at the next start."""
    click.echo("The master has stopped." if control.stop(folder) else "The master did not run.")


@click.command(epilog="Example: netbisect night --testbed c2558 /var/netbisect")
@folder_argument
@click.option("--branch", help="One branch (default: all that the settings name).")
@click.option("--testbed", "testbed_name", help="One testbed (default: all).")
@sentences
def night(folder: Path, branch: str | None, testbed_name: str | None) -> None:
    """Measure the heads of the branches now, as a night would."""
    settings, lab = load(folder / control.SETTINGS)
    ledger = ledger_of(settings)
    history = history_of(settings, lab)
    testbeds = [lab.testbed(testbed_name)] if testbed_name else lab.testbeds
    branches = [branch] if branch else settings.branches
    for said in open_nights(ledger, history, settings, testbeds, branches):
        click.echo(said)


@click.command(epilog="Example: netbisect status --json /var/netbisect")
@folder_argument
@click.option("--all", "everything", is_flag=True, help="Alerts that are over too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@sentences
def status(folder: Path, *, everything: bool, as_json: bool) -> None:
    """Show what is being asked of the lab, and which confirmed changes stand."""
    settings = load_settings(folder / control.SETTINGS)
    found = Desk.of(ledger_of(settings), settings).status(everything=everything)
    click.echo(schema.as_text(found) if as_json else telling.as_text(found))


@click.command(epilog="Example: netbisect follow --until-idle /var/netbisect")
@folder_argument
@click.option("--from-start", is_flag=True, help="Begin with what has happened already.")
@click.option("--until-idle", is_flag=True, help="End when nothing is asked and no mail waits.")
@sentences
def follow(folder: Path, from_start: bool, until_idle: bool) -> None:
    """Print a line for everything that happens, as it happens."""
    ledger = ledger_of(load_settings(folder / control.SETTINGS))
    marker = 0 if from_start else ledger.last_event()
    while True:
        idle = not ledger.open_questions() and not ledger.waiting_mails()
        events, marker = ledger.events_since(marker)
        for line in progress.lines(ledger, events):
            click.echo(line)
        if until_idle and idle and not events:
            return
        time.sleep(_FOLLOW_SECONDS)


# ------------------------------------------------------------------------------- measurements


@click.group("import")
def import_group() -> None:
    """Take in measurements that were made elsewhere."""


@import_group.command(
    "netbenches", epilog="Example: netbisect import netbenches results/fbsd12-head.iflib"
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@database_option
@sentences
def import_netbenches(path: Path, database: str) -> None:
    """Take in a history file, or a folder of netbenches results.

    Of a folder, `.pps` files and raw `bench.*.receiver` files are read; of the raw ones the
    median of the receiver's seconds is taken, by the netbenches rule.
    """
    summary = netbenches.import_into(
        open_ledger(database), path, parser=Parser(pktgen.sample, pktgen.all_rates)
    )
    click.echo(
        f"{summary.series:,} series; {words.count(summary.boots, 'boot')} and "
        f"{words.count(summary.samples, 'sample')} are new, {summary.known:,} were known"
    )
    for reason in summary.skipped:
        click.echo(f"left out: {reason}", err=True)
