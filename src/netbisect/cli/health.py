"""`netbisect health`."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.cli.listing import json_option
from netbisect.reports.console import health as console
from netbisect.reports.documents.json_schema import as_text
from netbisect.steps.queries.health import judge, new_epochs
from netbisect.steps.service import stalls
from netbisect.steps.service.control import SETTINGS
from netbisect.steps.service.database_thread import open_existing_ledger, open_ledger
from netbisect.steps.service.options import check_one_of, database_options
from netbisect.steps.service.settings import load_settings


@click.command(epilog="Example: netbisect health --json --folder /var/netbisect")
@database_options
@json_option
def health(folder: Path | None, database: str | None, *, as_json: bool) -> None:
    """Report the sensitivity of each series and the accuracy of past alerts."""
    check_one_of(folder, database)
    stalled: list[str] = []
    if database is not None:
        ledger = open_existing_ledger(database)
        found = judge(ledger, MIN_EFFECT)
    else:
        settings = load_settings((folder or Path()) / SETTINGS)
        ledger = open_ledger(settings.database)
        found = judge(ledger, settings.min_effect)
        stalled = [*stalls.read(settings.state).recent]
    stalled += new_epochs(ledger)
    document = console.document(found, stalled)
    click.echo(as_text(document) if as_json else console.as_text(found, stalled))
