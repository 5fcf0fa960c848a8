"""`netbisect backup` and `netbisect restore`."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.steps import backup as into
from netbisect.steps import restore as out_of
from netbisect.steps.commands import folder_argument, sentences


@click.command(epilog="Example: netbisect backup /backup/netbisect-1.tar.gz /var/netbisect")
@click.argument("file", type=click.Path(path_type=Path))
@folder_argument
@click.option("--visits", is_flag=True, help="With the logs of visits.")
@sentences
def backup(file: Path, folder: Path, *, visits: bool) -> None:
    """Write the service of FOLDER into FILE; it may be running meanwhile.

    FILE gets both databases as they are at one instant, the settings, the lab file and what
    they name in FOLDER, patches and reports. It has passwords in it, and only its owner may
    read it.
    """
    into.write(folder, file, visits=visits, say=lambda line: click.echo(line, err=True))
    click.echo(f"{file}: {file.stat().st_size:,} bytes")


@click.command(epilog="Example: netbisect restore /backup/netbisect-1.tar.gz /var/netbisect")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@sentences
def restore(file: Path, folder: Path) -> None:
    """Make the service in FILE anew in FOLDER, which must be absent or empty.

    A damaged FILE, or one of a newer netbisect, is refused, and leaves nothing behind. Never let
    two masters of one service run: stop the old one for good before the new one starts.
    """
    settings = out_of.restore(file, folder)
    click.echo(f"{folder} is restored, with its state in {settings.state}")
    click.echo(f"netbisect check {folder}")
