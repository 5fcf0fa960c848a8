"""`netbisect metrics`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from netbisect.steps.queries.metrics import gather
from netbisect.steps.service import control, stalls
from netbisect.steps.service.options import folder_argument
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_service_ledger


@click.command(epilog="Example: netbisect metrics --output /var/lib/node_exporter/netbisect.prom")
@folder_argument
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write them to this file atomically (default: standard output).",
)
def metrics(folder: Path, output: Path | None) -> None:
    """Print the metrics of the service in FOLDER in Prometheus format."""
    settings, lab = load(folder / control.SETTINGS)
    text = gather(open_service_ledger(settings), lab, stalls.read(settings.state))
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".netbisect-", dir=output.parent) as beside:
            work = Path(beside, output.name)
            work.write_text(text)
            work.chmod(0o644)  # read by another user
            work.replace(output)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from error
