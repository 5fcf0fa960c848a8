"""`netbisect service`: what systemd or FreeBSD's rc.d start a master or a worker by."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import sys
from pathlib import Path

import click

from netbisect.steps.shipped import filled

_PROGRAMS = {"master": "netbisect", "worker": "buildbot-worker"}
_SUFFIXES = {"systemd": "service", "rcd": "rc"}
_PLAIN = re.compile(r"[\w./+@:-]+\Z", re.ASCII)
"""What needs no quoting, neither for systemd nor for a shell within a shell."""
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@click.command(
    epilog="Example: netbisect service systemd master /var/netbisect "
    "> /etc/systemd/system/netbisect.service"
)
@click.argument("manager", type=click.Choice(list(_SUFFIXES)))
@click.argument("part", type=click.Choice(list(_PROGRAMS)))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--user", help="Who it runs as (default: whoever asks).")
def service(manager: str, part: str, folder: Path, user: str | None) -> None:
    """Print what systemd, or FreeBSD's rc.d, starts the master or the worker of FOLDER by.

    It names the programs of the installation that prints it.
    """
    folder = folder.resolve()
    words = {
        "user": user or getpass.getuser(),
        "folder": folder,
        "program": _program(_PROGRAMS[part]),
        "python": sys.executable,
        "path": f"{Path(sys.executable).parent}:{_SYSTEM}",
    }
    for name, word in words.items():
        if not _PLAIN.match(str(word)):
            raise click.ClickException(
                f"{name} {str(word)!r} cannot stand in such a file: letters, digits and "
                "./+@:_- would be right"
            )
    if manager == "systemd" and part == "master":
        words["writes"] = " ".join(map(str, _written(folder)))
    click.echo(filled(f"{part}.{_SUFFIXES[manager]}", **words), nl=False)


def _program(name: str) -> Path:
    """Beside this Python, or wherever the PATH leads to it.

    Raises:
        ClickException: it is not installed.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise click.ClickException(f"{name} is not installed here")
    return Path(found)


def _written(folder: Path) -> list[Path]:
    """Where a master writes: in its folder, and where its settings say that its state is.

    Raises:
        ClickException: there are no settings, or they cannot be used.
    """
    from netbisect.steps.control import SETTINGS  # noqa: PLC0415 - hosts of workers have no Buildbot
    from netbisect.steps.settings import load_settings  # noqa: PLC0415 - see above
    from netbisect.workers.tomlfile import FileError  # noqa: PLC0415 - see above

    try:
        state = load_settings(folder / SETTINGS).state.resolve()
    except FileError as error:
        raise click.ClickException(str(error)) from error
    return [folder] if state.is_relative_to(folder) else [folder, state]
