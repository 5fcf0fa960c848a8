"""`netbisect service` and `netbisect guard`: systemd units, rc.d scripts and the guard of a key."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import click

from netbisect.login import login_name
from netbisect.steps.service.shipped_files import fill_template

_PROGRAMS = {"master": "netbisect", "worker": "buildbot-worker"}
_SUFFIXES = {"systemd": "service", "rcd": "rc"}
_PLAIN = re.compile(r"[\w./+@:-]+\Z", re.ASCII)
"""Words that need no quoting, neither in a unit nor in a nested shell."""
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@click.command(
    epilog="Example: netbisect service systemd master /var/netbisect "
    "> /etc/systemd/system/netbisect.service"
)
@click.argument("manager", type=click.Choice(list(_SUFFIXES)))
@click.argument("part", type=click.Choice(list(_PROGRAMS)))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--user", help="User to run as (default: the current user).")
def service(manager: str, part: str, folder: Path, user: str | None) -> None:
    """Print a systemd unit or an rc.d script for the master or the worker of FOLDER.

    It refers to the programs of this installation.
    """
    folder = folder.resolve()
    words = {
        "user": user or login_name(),
        "folder": folder,
        "program": _program(_PROGRAMS[part]),
        "python": sys.executable,
        "path": f"{Path(sys.executable).parent}:{_SYSTEM}",
    }
    for name, word in words.items():
        if not _PLAIN.match(str(word)):
            raise click.ClickException(
                f"{name} {str(word)!r} needs quoting: expected only letters, digits and ./+@:_-"
            )
    if manager == "systemd" and part == "master":
        words["writes"] = " ".join(_written(folder))
    click.echo(fill_template(f"{part}.{_SUFFIXES[manager]}", **words), nl=False)


def _program(name: str) -> Path:
    """Beside this Python, or wherever the PATH leads to it."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise click.ClickException(f"{name} is not installed here")
    return Path(found)


def _written(folder: Path) -> list[str]:
    """Folders that a master writes to: its own, the state folder, and the maildir of answers."""
    from netbisect.steps.service.control import SETTINGS  # noqa: PLC0415 - hosts of workers have no Buildbot
    from netbisect.steps.service.settings import load_settings  # noqa: PLC0415 - see above

    settings = load_settings(folder / SETTINGS)
    found, state = [str(folder)], settings.state.resolve()
    if not state.is_relative_to(folder):
        found.append(str(state))
    if settings.mail.answers_maildir is not None:
        found.append(f"-{settings.mail.answers_maildir.resolve()}")  # `-`: it may be absent
    return found


@click.command(epilog="Example: netbisect guard > /usr/local/libexec/netbisect-guard")
def guard() -> None:
    """Print the script that restricts an SSH key to the work of netbisect.

    Make it the forced command of a key in authorized_keys; see docs/security.md.
    """
    path = files("netbisect.steps").joinpath("files", "guard.sh")
    click.echo(path.read_text(), nl=False)
