"""`netbisect metrics`: the figures of a service, for Prometheus."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from netbisect.steps import control
from netbisect.steps.commands import folder_argument, sentences
from netbisect.steps.memory import ledger_of
from netbisect.steps.metrics import gather
from netbisect.steps.settings import load


@click.command(epilog="Example: netbisect metrics --output /var/lib/node_exporter/netbisect.prom")
@folder_argument
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write them into this file, which appears whole (default: print them).",
)
@sentences
def metrics(folder: Path, output: Path | None) -> None:
    """Print the figures of the service in FOLDER as Prometheus reads them."""
    settings, lab = load(folder / control.SETTINGS)
    told = gather(ledger_of(settings), lab)
    if output is None:
        click.echo(told, nl=False)
        return
    try:
        _write(output, told)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from error


def _write(output: Path, told: str) -> None:
    handle, work = tempfile.mkstemp(prefix=".netbisect-", dir=output.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(told)
        Path(work).chmod(0o644)  # whoever collects it is somebody else
        Path(work).replace(output)
    finally:
        Path(work).unlink(missing_ok=True)
