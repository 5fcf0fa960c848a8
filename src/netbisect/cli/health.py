"""`netbisect health`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.cli.listing import json_option
from netbisect.reports.console import health as console
from netbisect.reports.documents.json_schema import as_text
from netbisect.steps.queries.health import judge, new_epochs
from netbisect.steps.service import stalls
from netbisect.steps.service.ledger_options import open_chosen
from netbisect.steps.service.options import database_options


@click.command(epilog="Example: netbisect health --json --folder /var/netbisect")
@database_options
@json_option
def health(folder: Path | None, database: str | None, *, as_json: bool) -> None:
    """Report the sensitivity of each series and the accuracy of past alerts."""
    ledger, settings = open_chosen(folder, database)
    found = judge(ledger, settings.min_effect if settings else MIN_EFFECT)
    stalled = stalls.read(settings.state).recent if settings else []
    stalled += new_epochs(ledger)
    document = replace(found, warnings=(*stalled, *found.warnings))
    click.echo(as_text(document) if as_json else console.as_text(document))
