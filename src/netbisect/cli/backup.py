"""`netbisect backup` and `netbisect restore`."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.steps.backup import backup as into
from netbisect.steps.backup import restore as out_of
from netbisect.steps.service.options import folder_argument


@click.command(epilog="Example: netbisect backup /backup/netbisect-1.tar.gz /var/netbisect")
@click.argument("file", type=click.Path(path_type=Path))
@folder_argument
@click.option("--trial-logs", is_flag=True, help="Include the logs of trials.")
def backup(file: Path, folder: Path, *, trial_logs: bool) -> None:
    """Back up the service in FOLDER to FILE, even while it runs.

    FILE contains a consistent copy of both databases, the settings, the lab file, the files that
    these name in FOLDER, patches and reports. It contains passwords; only its owner can read it.
    """
    into.write(folder, file, trial_logs=trial_logs, say=lambda line: click.echo(line, err=True))
    click.echo(f"{file}: {file.stat().st_size:,} bytes")


@click.command(epilog="Example: netbisect restore /backup/netbisect-1.tar.gz /var/netbisect")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
def restore(file: Path, folder: Path) -> None:
    """Restore the service in FILE to FOLDER, which must be absent or empty.

    A damaged FILE, or one of a newer netbisect, is refused. Never run two masters of one service:
    stop the old one for good before the new one starts.
    """
    settings = out_of.restore(file, folder)
    click.echo(f"{folder} is restored, with its state in {settings.state}")
    click.echo(f"netbisect check {folder}")
