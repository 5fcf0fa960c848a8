"""`netbisect health`: what the watch can see, and whether what it says looks like the truth."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.bisect.screen import MIN_EFFECT
from netbisect.reports import health as telling
from netbisect.reports.schema import as_text
from netbisect.steps.control import SETTINGS
from netbisect.steps.health import judge
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import load_settings
from netbisect.store.database import StoreError
from netbisect.workers.tomlfile import FileError


@click.command(epilog="Example: netbisect health --json --folder /var/netbisect")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where netbisect.toml is (default: the current folder).",
)
@click.option("--database", metavar="ADDRESS", help="SQLAlchemy address, instead of the folder's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def health(folder: Path | None, database: str | None, *, as_json: bool) -> None:
    """Judge the watch: what each series can show, and whether what was said was true."""
    if folder is not None and database is not None:
        raise click.UsageError("--folder or --database: one of the two would be right")
    try:
        if database is not None:
            found = judge(open_ledger(database), MIN_EFFECT)
        else:
            settings = load_settings((folder or Path()) / SETTINGS)
            found = judge(open_ledger(settings.database), settings.min_effect)
    except (FileError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(as_text(telling.document(found)) if as_json else telling.as_text(found))
