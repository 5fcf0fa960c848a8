"""`netbisect import netbenches`."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.reports.render import words
from netbisect.steps.service.database_thread import open_ledger
from netbisect.steps.service.options import database_option
from netbisect.store.netbenches import importer
from netbisect.store.netbenches.files import Parser
from netbisect.workers.measure import pktgen


@click.group("import", epilog="Example: netbisect import netbenches results/fbsd12-head.iflib")
def import_group() -> None:
    """Import measurements made elsewhere."""


@import_group.command(
    "netbenches", epilog="Example: netbisect import netbenches results/fbsd12-head.iflib"
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@database_option
def import_netbenches(path: Path, database: str) -> None:
    """Import a history file or a folder of netbenches results.

    Of a folder, `.pps` files and raw `bench.*.receiver` files are read. The rate of a raw file is
    the median of the receiver's seconds, by the netbenches rule.
    """
    summary = importer.import_into(
        open_ledger(database), path, parser=Parser(pktgen.median_rate, pktgen.all_rates)
    )
    click.echo(
        f"{summary.series:,} series; {words.count(summary.boots, 'boot')} and "
        f"{words.count(summary.samples, 'sample')} are new, {summary.known:,} were known"
    )
    for reason in summary.skipped:
        click.echo(f"left out: {reason}", err=True)
